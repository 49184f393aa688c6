//! The real core and the real scripts in one thread, on virtual time, under a network that does its worst.
//!
//! One seed decides everything: what tasks do, how long each command, reply and message takes, what is lost, doubled or
//! late, who is paused or dies. A seed that fails does so again, step for step, on every machine.
//!
//! - `plan`: what a run is made of, and how it is made smaller.
//! - `world`: the server, its clock and the network; `link`: a client's way through it.
//! - `tasks`: what users do; `faults`: what befalls them.
//! - `laws`: what is watched after each step.

#![expect(
    clippy::unwrap_used,
    reason = "a simulation is a test: what must not fail fails it"
)]

mod checks;
mod door;
mod faults;
mod freeze;
mod law;
mod laws;
mod lines;
mod link;
mod mutants;
mod network;
mod plan;
mod run;
mod server;
mod shrink;
mod survivors;
mod tasks;
mod trace;
mod trouble;
mod view;
mod watched;
mod world;

pub use crate::faults::Fault;
pub use crate::law::{Breach, Law};
pub use crate::lines::lines;
pub use crate::mutants::{Mutant, mutants};
pub use crate::plan::Plan;
pub use crate::run::{Outcome, run};
pub use crate::shrink::shrink;
pub use crate::survivors::{SURVIVORS, survivor, without_number};
pub use crate::trace::Line;

/// The examples of the README, compiled; here, for this crate is not published and sees all that they use.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
