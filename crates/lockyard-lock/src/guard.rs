//! The guard.

use std::future::Future;
use std::time::Duration;

use lockyard_core::__private::Hold;
use lockyard_core::{Error, FencingToken, HoldState, Owner};

/// A hold of a [`Lock`](crate::Lock); dropped, it is released in the background.
///
/// It can be kept, sent and shared like any value.
/// Bind it to a name: `let _ = lock.acquire().await?;` and `lock.try_acquire().await?;` drop the guard, and so release
/// the lock, at once; write `let _guard`.
///
/// A nested guard raises the count of its owner's hold, and the lock is released with the last guard.
#[derive(Debug)]
#[must_use = "if unused the lock is released at once"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    hold: Hold,
}

impl LockGuard {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { hold }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.hold.name()
    }

    /// The owner that holds; a service to which it is sent can [`reenter`](crate::Lock::reenter).
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.hold.owner()
    }

    /// Whether the lock is still held, as far as can be known without I/O.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.hold.state()
    }

    /// Whether the hold is lost; once lost, it stays lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.state() == HoldState::Lost
    }

    /// What is left of the lease by a clock that counts suspended time, less a margin for the drift of clocks; zero
    /// once lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// The fencing token, if the lock was acquired [`fenced`](crate::Lock::fenced); a re-entry has the token of the
    /// hold that it enters.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        self.hold.token()
    }

    /// Waits until the hold is lost, which may be never.
    ///
    /// # Cancel safety
    ///
    /// It leaves nothing behind, and can be called again.
    pub async fn lost(&self) {
        self.hold.lost().await;
    }

    /// Runs a future, and stops polling it when the hold is lost.
    ///
    /// What the future has in flight by then may still arrive; only a store that checks the [fencing
    /// token](Self::token) can refuse it.
    ///
    /// # Cancel safety
    ///
    /// That of the future; the hold is not touched.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`]; the future is then dropped.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        self.hold.run(future).await
    }

    /// Extends a fixed lease so that it lasts `lease` from now; a shorter value changes nothing.
    ///
    /// # Redis
    ///
    /// One round trip; sent again until it is answered or the operation timeout is over.
    ///
    /// # Cancel safety
    ///
    /// The lease may or may not have been extended; the watchdog's next check sees to it that it is.
    ///
    /// # Errors
    ///
    /// [`Error::NotFixed`] if the watchdog renews the lease, [`Error::InvalidLease`], [`Error::LeaseLost`],
    /// [`Error::Unreachable`], [`Error::Refused`]; [`Error::WrongType`] if a key of the lock now holds other data;
    /// [`Error::UnexpectedReply`] if the script answered what this version does not know.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        self.hold.extend(lease).await
    }

    /// Releases the hold, or this guard's part of it, and tells whether it was held until now.
    ///
    /// # Redis
    ///
    /// One round trip, two if [many calls of this client are under way](crate::Lock#what-a-call-costs); nothing while
    /// other guards of the owner are left.
    ///
    /// # Cancel safety
    ///
    /// The release goes on in the background.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if the hold was lost before.
    /// [`Error::OutcomeUnknown`] if there was no good answer within the operation timeout: then the release goes on in
    /// the background until the lease is over.
    /// [`Error::Refused`] with what the server said, [`Error::WrongType`] if a key of the lock now holds other data,
    /// [`Error::UnexpectedReply`] if the script answered what this version does not know: then the release is tried once
    /// more in the background, and the lease ends what is left.
    pub async fn release(self) -> Result<(), Error> {
        self.hold.release().await
    }
}
