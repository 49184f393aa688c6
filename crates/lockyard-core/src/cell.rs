//! What guards see of a hold: its deadline, and whether it is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::Moment;
use crate::breakages::broken;

/// Whether a hold is still held, as far as the holder knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldState {
    /// Its lease runs, and the last renewal or check was answered.
    Held,
    /// Its lease runs, but the last renewal or check had no good answer; the watchdog goes on trying.
    Unsure,
    /// It ran out, was released by force, or vanished. Lost stays lost.
    Lost,
}

/// A number that grows with each hold of one lock, whoever holds it.
///
/// A resource that refuses a smaller number than the last it saw is safe from a holder that was paused beyond its
/// lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    #[doc(hidden)]
    #[must_use]
    pub fn from_raw(number: u64) -> Self {
        Self(number)
    }

    /// The number to send along with a write.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for FencingToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A hold as its guards see it, without a lock and without I/O.
#[derive(Debug)]
pub(crate) struct Cell {
    /// The deadline in ns; 0 once lost. Whoever sees it pass sets 0, so nothing can extend it afterwards.
    deadline: AtomicU64,
    unsure: AtomicBool,
    lost: Notify,
    pub(crate) since: Moment,
    pub(crate) token: Option<FencingToken>,
}

impl Cell {
    pub(crate) fn new(since: Moment, deadline: Moment, token: Option<FencingToken>) -> Self {
        Self {
            deadline: AtomicU64::new(deadline.as_nanos()),
            unsure: AtomicBool::new(false),
            lost: Notify::new(),
            since,
            token,
        }
    }

    pub(crate) fn state(&self, now: Moment) -> HoldState {
        match self.expire(now) {
            true => HoldState::Lost,
            false if self.unsure.load(SeqCst) => HoldState::Unsure,
            false => HoldState::Held,
        }
    }

    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(SeqCst))
    }

    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        self.deadline().since(now)
    }

    /// Moves the deadline later; `false` if the hold is lost.
    pub(crate) fn extend(&self, now: Moment, deadline: Moment) -> bool {
        let moved = self.deadline.fetch_update(SeqCst, SeqCst, |old| {
            match old > now.as_nanos() || broken("lost is found again") {
                true => Some(old.max(deadline.as_nanos())),
                false => None,
            }
        });
        moved.is_ok() || !self.expire(now)
    }

    pub(crate) fn set_unsure(&self, unsure: bool) {
        self.unsure.store(unsure, SeqCst);
    }

    /// Declares the hold lost; `false` if it was before.
    pub(crate) fn lose(&self) -> bool {
        let news = self.deadline.swap(0, SeqCst) != 0;
        self.lost.notify_waiters();
        news
    }

    /// Waits until the hold is lost.
    pub(crate) async fn lost(&self) {
        let lost = self.lost.notified();
        tokio::pin!(lost);
        lost.as_mut().enable();
        if self.deadline.load(SeqCst) != 0 {
            lost.await;
        }
    }

    /// Whether the deadline has passed; from then on it is lost.
    fn expire(&self, now: Moment) -> bool {
        let passed = self.deadline.fetch_update(SeqCst, SeqCst, |old| {
            (old != 0 && old <= now.as_nanos()).then_some(0)
        });
        if passed.is_ok() {
            self.lost.notify_waiters();
        }
        self.deadline.load(SeqCst) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    #[test]
    fn lost_stays_lost() {
        let cell = Cell::new(at(1), at(100), None);
        assert!(cell.extend(at(50), at(200)));
        assert_eq!(cell.state(at(199)), HoldState::Held);
        assert_eq!(cell.state(at(200)), HoldState::Lost);
        assert!(!cell.extend(at(150), at(300)));
        assert_eq!(cell.state(at(150)), HoldState::Lost);
    }

    #[test]
    fn a_deadline_is_never_shortened() {
        let cell = Cell::new(at(1), at(100), None);
        assert!(cell.extend(at(50), at(60)));
        assert_eq!(cell.deadline(), at(100));
    }

    #[test]
    fn an_extension_that_comes_too_late_finds_it_lost() {
        let cell = Cell::new(at(1), at(100), None);
        assert!(!cell.extend(at(100), at(200)));
        assert_eq!(cell.state(at(1)), HoldState::Lost);
    }
}
