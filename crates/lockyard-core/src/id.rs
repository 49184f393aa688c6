//! One hold id of this client: what it asked for, and how far it has come.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::backend::{Lane, Moment};
use crate::cell::Cell;
use crate::error::Error;
use crate::lease::{Lease, margin};
use crate::metrics::Measured;
use crate::named::Named;
use crate::owner::Owner;
use crate::script::Family;

/// What a primitive's handle is made of: its scripts and its keys, built once.
#[derive(Clone)]
pub struct Spec {
    /// The scripts.
    pub family: &'static Family,
    /// The name that the user gave.
    pub name: String,
    /// The main key and its parts, as the scripts expect them.
    pub keys: Vec<Bytes>,
    /// What metrics call it.
    pub label: Option<Arc<str>>,
}

impl Spec {
    /// For a script that takes some of the keys.
    #[must_use]
    pub fn named(&self, keys: &[usize]) -> Arc<Named> {
        Arc::new(Named {
            kind: self.family.kind,
            name: self.name.clone(),
            keys: keys.iter().map(|at| self.keys[*at].clone()).collect(),
            label: self.label.clone(),
        })
    }
}

impl Measured for Spec {
    fn kind(&self) -> &'static str {
        self.family.kind
    }

    fn label(&self) -> Option<&Arc<str>> {
        self.label.as_ref()
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Which sort of hold, as the entries of the queue say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It shuts all others out.
    Exclusive,
    /// The same, with a fencing token.
    Fenced,
    /// It goes together with others of its like.
    Shared,
    /// The same, told the token of the last that was fenced.
    SharedFenced,
    /// Some of so many permits.
    Of(u32),
}

impl Kind {
    /// To read what this kind writes, or to write what it reads.
    #[must_use]
    pub fn counterpart(self) -> Self {
        match self {
            Self::Exclusive => Self::Shared,
            Self::Fenced => Self::SharedFenced,
            Self::Shared => Self::Exclusive,
            Self::SharedFenced => Self::Fenced,
            Self::Of(_) => self,
        }
    }

    pub(crate) fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::SharedFenced)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("-"),
            Self::Fenced => f.write_str("f"),
            Self::Shared => f.write_str("r"),
            Self::SharedFenced => f.write_str("s"),
            Self::Of(limit) => limit.fmt(f),
        }
    }
}

/// What an acquire asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Which sort of hold.
    pub kind: Kind,
    /// How many permits; one for all that is not counted.
    pub weight: u32,
    /// For how long, and who extends it.
    pub lease: Lease,
    /// After what time the watchdog stops renewing.
    pub max_hold: Option<Duration>,
    /// How the client's tasks may pass the hold on among themselves.
    pub passing: Passing,
}

/// To which tasks of a client a hold may be passed on without the server's knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// To none.
    Never,
    /// To those that share a place in the queue.
    InRoom,
    /// To the one at the head of the queue.
    InLine,
}

/// A hold id with all that the runtime knows of it.
pub(crate) struct Id {
    pub(crate) spec: Arc<Spec>,
    /// The named owner; without one the owner is the id's own.
    pub(crate) owner: Option<Owner>,
    pub(crate) terms: Terms,
    /// `hold|kind|weight|lease|grant`, as it stands in the queue.
    pub(crate) entry: Bytes,
    /// When its acquire was sent.
    pub(crate) sent: Moment,
    pub(crate) phase: Phase,
    /// Whether a renewal or look is under way.
    pub(crate) flying: bool,
    /// Whether it is to look once more when that is answered.
    pub(crate) again: bool,
    /// The server µs of the grant that made the hold, if one did.
    pub(crate) granted: Option<u64>,
}

pub(crate) enum Phase {
    /// Its acquire has not been answered.
    Asked(Waiter),
    /// It stands in the queue under a ticket.
    Queued(Waiter, u64),
    /// It holds.
    Held(Held),
    /// It held; guards are left.
    Lost(Held),
    /// Its task has been passed the hold of another id, and is about to take it.
    Passed(u64),
    /// Its waiting ended without a hold, and whoever waited is about to abandon it.
    Ended,
    /// Its release is under way, or due.
    Leaving(Leaving),
}

/// Whoever awaits the outcome of an acquire.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// The task that asked.
    Task(oneshot::Sender<Outcome>),
    /// The first of those who share the place.
    Room,
}

/// How waiting ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It holds.
    Granted,
    /// It has the hold of another id.
    Passed,
    /// Its place is gone; the ticket is still good.
    Gone,
    /// Its owner holds through another id of this client.
    OwnerHolds,
    /// It cannot be had.
    Failed(Error),
}

pub(crate) struct Held {
    pub(crate) cell: Arc<Cell>,
    /// One for each guard, in order of arrival.
    pub(crate) shares: Vec<Share>,
}

/// A guard's part of a hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) number: u64,
    pub(crate) lease: Lease,
    /// When the fixed lease is over, or the renewing.
    pub(crate) ends: Moment,
}

pub(crate) struct Leaving {
    /// When trying on is no longer worth while.
    pub(crate) until: Moment,
    pub(crate) tries: u32,
    pub(crate) lane: Lane,
}

impl Id {
    /// An id that is about to be asked for at a moment, and what tells of its outcome.
    pub(crate) fn new(
        spec: &Arc<Spec>,
        owner: Option<Owner>,
        terms: Terms,
        entry: &Bytes,
        sent: Moment,
    ) -> (Self, oneshot::Receiver<Outcome>) {
        let (tell, told) = oneshot::channel();
        let id = Self {
            spec: spec.clone(),
            owner,
            terms,
            entry: entry.clone(),
            sent,
            phase: Phase::Asked(Waiter::Task(tell)),
            flying: false,
            again: false,
            granted: None,
        };
        (id, told)
    }

    /// Ends the waiting, if it waits.
    pub(crate) fn take_waiter(&mut self) -> Option<Waiter> {
        match mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Asked(waiter) | Phase::Queued(waiter, _) => Some(waiter),
            phase => {
                self.phase = phase;
                None
            }
        }
    }

    /// Whether it waits under an owner that another process may use as well.
    pub(crate) fn waits_for_a_traveller(&self) -> bool {
        matches!(self.phase, Phase::Queued(..))
            && self.owner.as_ref().is_some_and(Owner::has_travelled)
    }

    /// The lease of a hold that somebody else's script wrote.
    pub(crate) fn first_lease(&self, waiter_timeout: Duration) -> Duration {
        self.terms.lease.duration().min(waiter_timeout)
    }
}

impl Share {
    pub(crate) fn new(number: u64, terms: Terms, since: Moment) -> Self {
        let ends = match (terms.lease, terms.max_hold) {
            (Lease::Fixed(lease), _) => since.after(lease),
            (Lease::Renewed(_), Some(longest)) => since.after(longest),
            (Lease::Renewed(_), None) => Moment::NEVER,
        };
        Self {
            number,
            lease: terms.lease,
            ends,
        }
    }

    /// The lease that it wants from now.
    fn wants(&self, now: Moment) -> Duration {
        match self.lease {
            Lease::Renewed(lease) if now < self.ends => lease,
            Lease::Renewed(_) => Duration::ZERO,
            Lease::Fixed(_) => self.ends.since(now),
        }
    }

    /// Whether the hold as it stands gives all that this share asks for.
    pub(crate) fn is_served_by(&self, held: &Held, now: Moment) -> bool {
        let served = |other: &Self| match (self.lease, other.lease) {
            (Lease::Renewed(mine), Lease::Renewed(other)) => mine <= other,
            _ => false,
        };
        match self.lease {
            // A lease that others asked for has come to pass only when a renewal is answered.
            Lease::Renewed(lease) => {
                held.cell.remaining(now) >= lease / 3
                    && held
                        .shares
                        .iter()
                        .any(|other| now < other.ends && served(other))
            }
            Lease::Fixed(lease) => self.ends <= held.cell.deadline().after(margin(lease)),
        }
    }
}

impl Held {
    /// The lease to ask for in the next renewal; zero only checks.
    pub(crate) fn wants(&self, now: Moment) -> Duration {
        self.shares
            .iter()
            .map(|share| share.wants(now))
            .max()
            .unwrap_or_default()
    }

    /// How often it is renewed or checked.
    pub(crate) fn period(&self) -> Duration {
        self.shares
            .iter()
            .map(|share| share.lease.duration())
            .min()
            .unwrap_or_default()
            / 3
    }
}

/// The number in the hold id at the beginning of an entry, if the id is this client's.
pub(crate) fn seq_of(entry: &[u8], client: &str) -> Option<u64> {
    let hold = std::str::from_utf8(entry).ok()?.split('|').next()?;
    let (_, local) = hold.split_once('/')?;
    let (whose, seq) = local.split_once('.')?;
    (whose == client).then(|| seq.parse().ok()).flatten()
}
