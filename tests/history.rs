//! What happened in a run of many processes, and whether it is what Lockyard promises.
//!
//! Each process notes what its tasks asked, got and believed, by a clock that all processes of a machine share; the
//! test looks at the server all along. [`judge`] holds both against the promises:
//!
//! 1. Seen from the server, no two owners ever hold a lock at once, unless all of them read; and nobody gets permits of
//!    a semaphore beyond the limit that is in force then.
//! 2. Nor do they by what the holders believe: a guard that is not lost claims the lock until its local deadline.
//! 3. Whoever claims a lock stands on the server all the while, so nobody learns of a loss too late; and no hold is lost
//!    before its deadline.
//! 4. Fencing tokens grow from holder to holder, and lost stays lost.
//! 5. Nobody is let in before somebody who stood in front in the queue, and stays there.
//! 6. A semaphore counts as held what is held.
//! 7. Every attempt ends, and what it left on the server is gone a bounded time later.
//!
//! Where somebody takes holds away on the server ([`Upheaval`]), 2 and 3 may break, but only for a bounded time.

mod claim;
mod finding;
mod judge;
mod permits;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use claim::Claim;
pub(crate) use judge::{claims, judge};

/// Nanoseconds by the clock that all processes of a machine share.
pub(crate) type Nanos = u64;

/// All that is known of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// What the processes noted; each one's events are in order.
    pub(crate) events: Vec<Event>,
    /// When processes were killed.
    pub(crate) killed: BTreeMap<u32, Nanos>,
    /// What was seen on the server, in order.
    pub(crate) samples: Vec<Sample>,
    /// When holds were taken away on the server.
    pub(crate) upheavals: Vec<Upheaval>,
    /// How many permits there were, in the order in which that was changed.
    pub(crate) limits: Vec<Limit>,
    /// The keys that were there when all should have been gone.
    pub(crate) left_behind: Vec<String>,
    /// How long after its end an attempt may still be seen to hold on the server: a release that was lost is made good
    /// by the end of the lease.
    pub(crate) grace: Duration,
}

/// Something that a task of a process noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) at: Nanos,
    pub(crate) process: u32,
    /// A number of its own for each attempt to acquire; nested ones have theirs.
    pub(crate) attempt: u64,
    pub(crate) what: What,
}

/// What was noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum What {
    /// The process has a client of this name; the attempt is 0.
    Connected { client: String },
    /// A task is about to ask for a lock.
    Asked {
        lock: String,
        owner: Option<String>,
        share: Share,
    },
    /// It has a guard. It was there before `at`, and looked at after it.
    Acquired {
        owner: String,
        token: Option<u64>,
        until: Nanos,
    },
    /// After `at`, the guard was not lost, and was not to be before `until`.
    Believed { until: Nanos },
    /// Before `at`, the guard was seen to be lost.
    Lost,
    /// The guard is about to be released or dropped.
    Leaving,
    /// The attempt is over.
    Over(Outcome),
}

/// How much of it an attempt wants, and whom it leaves beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Share {
    /// All, and nobody else.
    All,
    /// To read, beside others who do.
    Read,
    /// So many permits of a semaphore.
    Permits(u32),
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// The guard's release succeeded.
    Released,
    /// Somebody else holds.
    Refused,
    /// The future or the guard was dropped.
    Dropped,
    /// An error that faults of the line or the loss of the lease explain.
    Failed(String),
    /// Any other error.
    Broken(String),
}

/// One lock on the server, as seen at one moment between `from` and `until`.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
    pub(crate) lock: String,
    /// The holds whose lease was not over.
    pub(crate) holders: Vec<Holder>,
    /// The lock's keys that had no TTL.
    pub(crate) forever: Vec<String>,
    /// How many permits too many, or too few, the semaphore counts as held.
    pub(crate) miscounted: i64,
    /// The hold ids of those who waited, in order.
    pub(crate) queue: Vec<String>,
}

/// A hold as it stands on the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    pub(crate) owner: String,
    /// `<client>.<seq>`.
    pub(crate) id: String,
    pub(crate) token: Option<u64>,
    pub(crate) share: Share,
}

/// Holds were taken away on the server: by force, by deleting keys, or by starting it empty.
#[derive(Clone, Debug)]
pub(crate) struct Upheaval {
    pub(crate) from: Nanos,
    /// When the last holder must know.
    pub(crate) until: Nanos,
}

/// A semaphore has so many permits from some moment between `from` and `until` on.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) lock: String,
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
    pub(crate) permits: u32,
}

impl History {
    /// Whether an upheaval explains what happened in this time.
    fn excuses(&self, from: Nanos, until: Nanos) -> bool {
        let around = |upheaval: &Upheaval| upheaval.from <= from && until <= upheaval.until;
        self.upheavals.iter().any(around)
    }
}

impl Holder {
    /// Reads a field of a lock's hash, `<owner>/<client>.<seq>` → `count:deadline:since[:token]`; or `r` for a reader, or
    /// `p` and a number for permits.
    pub(crate) fn parse(hold: &str, value: &str) -> Option<Self> {
        let (owner, id) = hold.split_once('/')?;
        let token = value.split(':').nth(3);
        let share = match value.strip_prefix('p') {
            Some(permits) => Share::Permits(permits.parse().ok()?),
            None if value == "r" => Share::Read,
            None => Share::All,
        };
        Some(Self {
            owner: owner.to_owned(),
            id: id.to_owned(),
            token: token.and_then(|token| token.parse().ok()),
            share,
        })
    }

    /// The hold id.
    fn hold(&self) -> String {
        format!("{}/{}", self.owner, self.id)
    }

    /// The client through which the owner holds.
    fn client(&self) -> &str {
        self.id.split('.').next().unwrap_or_default()
    }
}
