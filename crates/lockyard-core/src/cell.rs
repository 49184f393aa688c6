//! What guards see of a hold: its deadline, and whether it is lost.

use std::num::TryFromIntError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::Moment;

/// Whether a hold is still held, as far as the holder knows.
///
/// There will be no fourth state, so a `match` needs no other arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldState {
    /// Its lease runs, and the last renewal or check was answered.
    Held,
    /// Its lease runs, but the last renewal or check had no good answer; the watchdog goes on trying.
    Unsure,
    /// Its lease ran out, or it was released by force, or it vanished from the server. Lost stays lost.
    Lost,
}

/// A number that grows with each hold of one lock, whoever holds it.
///
/// A resource that refuses any number smaller than the greatest it has seen is safe from a holder that was paused
/// beyond its lease.
///
/// It converts into the integers that stores have: [`u64`], and [`i64`] as in SQL's `BIGINT`.
/// Every token that a server gives fits into both, for Redis counts in `i64`.
///
/// # Examples
///
/// ```
/// # use lockyard_core::FencingToken;
/// /// What a database driver takes for `token <= $1`.
/// fn parameter(token: FencingToken) -> Result<i64, std::num::TryFromIntError> {
///     token.try_into()
/// }
/// ```
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

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl TryFrom<FencingToken> for i64 {
    type Error = TryFromIntError;

    /// Fails for a number above [`i64::MAX`], which no server gives.
    fn try_from(token: FencingToken) -> Result<Self, TryFromIntError> {
        token.0.try_into()
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
    /// Whether anybody knows its owner.
    named: AtomicBool,
    lost: Notify,
    pub(crate) since: Moment,
    pub(crate) token: Option<FencingToken>,
}

impl Cell {
    pub(crate) fn new(since: Moment, deadline: Moment, token: Option<FencingToken>) -> Self {
        Self {
            deadline: AtomicU64::new(deadline.as_nanos()),
            unsure: AtomicBool::new(false),
            named: AtomicBool::new(false),
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
        let moved = self
            .deadline
            .fetch_update(SeqCst, SeqCst, |old| match old > now.as_nanos() {
                true => Some(old.max(deadline.as_nanos())),
                false => None,
            });
        moved.is_ok() || !self.expire(now)
    }

    pub(crate) fn set_unsure(&self, unsure: bool) {
        self.unsure.store(unsure, SeqCst);
    }

    pub(crate) fn set_named(&self) {
        self.named.store(true, SeqCst);
    }

    pub(crate) fn is_named(&self) -> bool {
        self.named.load(SeqCst)
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
    fn a_token_becomes_the_integers_that_stores_have() {
        let greatest = FencingToken(i64::MAX as u64);
        assert_eq!(u64::from(greatest), greatest.get());
        assert_eq!(i64::try_from(greatest), Ok(i64::MAX));
        assert!(i64::try_from(FencingToken(greatest.0 + 1)).is_err());
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
