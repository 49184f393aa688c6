//! `lockyard run` from outside: the program, a real server, real commands.

#![expect(clippy::unwrap_used, reason = "what must not fail in a test fails it")]

mod support;

/// What it returns, and what the command is given.
#[path = "run/outcome.rs"]
mod outcome;

/// Several runs at one lock, side by side and one in the other.
#[path = "run/together.rs"]
mod together;

/// Signals, from processes and from a terminal.
#[path = "run/signals.rs"]
mod signals;

/// What becomes of the command when the hold is lost or lockyard is killed.
#[path = "run/loss.rs"]
mod loss;

/// Permits of a semaphore instead of a lock.
#[path = "run/permits.rs"]
mod permits;
