//! `lockyard run`: a command under a lock, or under permits of a semaphore, for which the same holds.
//!
//! 1. The command runs only while the lock is held, as far as this program can see to it: it is started after the lock
//!    was acquired, and when the hold is lost it is ended.
//! 2. The lock is released only after the command has ended.
//! 3. If this program is killed, or stands still beyond the lease, a second one that watches it ends the command
//!    ([`watch`]).
//! 4. Each signal reaches the command once, except what a process sends to a whole process group in the foreground
//!    ([`signals`]).

mod guard;
mod hold;
mod job;
mod options;
mod permits;
mod signals;
mod watch;

pub(crate) use hold::run;
pub(crate) use options::{FAILED, HELP, Options};
pub(crate) use watch::watch;
