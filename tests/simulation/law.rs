//! What must hold, by name.

use std::fmt;

/// A promise that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Redis never has live holds of two owners on one lock.
    OneHolder,
    /// Whoever believes to hold, by its own clock, holds.
    Belief,
    /// Two owners never believe at once, by their own clocks, that they hold one lock.
    OneBeliever,
    /// A free lock is not left free while somebody who lives waits for it.
    NoIdleLock,
    /// Nobody is overtaken by somebody who came later.
    Order,
    /// Each new hold's token is greater than that of the one before.
    Tokens,
    /// Nobody is granted a lock who cannot hear of it.
    Dead,
    /// A hold that nobody wants goes soon.
    NoPhantom,
    /// A hold that is renewed stays.
    Kept,
    /// An owner enters at once what it holds, and nobody re-enters what it does not hold.
    ReEntry,
    /// A guard that was lost stays lost.
    Lost,
    /// Every key runs out by itself.
    Ttl,
    /// When all are gone, so is everything.
    NothingLeft,
    /// Every future ends.
    NoHang,
    /// Nobody is told something that cannot be.
    Answers,
}

/// What a run has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// What is broken.
    pub law: Law,
    /// How.
    pub how: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.law, self.how)
    }
}
