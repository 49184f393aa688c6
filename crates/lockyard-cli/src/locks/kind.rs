//! The kinds of things that have a name.

use clap::ValueEnum;
use serde::Serialize;

/// What a name is the name of; the same name in two kinds means two things.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A lock, fair or not
    Lock,
    /// A read-write lock
    Rw,
    /// A semaphore
    Semaphore,
    /// A latch
    Latch,
    /// A rate limiter
    Rate,
}

/// What can be taken away from whoever holds it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Lockable {
    /// A lock, fair or not
    Lock,
    /// A read-write lock, from readers as well
    Rw,
}

impl Kind {
    /// As keys, options and JSON say it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Rw => "rw",
            Self::Semaphore => "semaphore",
            Self::Latch => "latch",
            Self::Rate => "rate",
        }
    }
}

impl From<Lockable> for Kind {
    fn from(lockable: Lockable) -> Self {
        match lockable {
            Lockable::Lock => Self::Lock,
            Lockable::Rw => Self::Rw,
        }
    }
}
