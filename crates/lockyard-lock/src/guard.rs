//! The guard.

use std::future::Future;
use std::time::Duration;

use lockyard_core::__private::Hold;
use lockyard_core::{Error, FencingToken, HoldState, Owner};

/// A hold of a [`Lock`](crate::Lock); dropped, it is released in the background.
///
/// It can be kept, sent and shared like any value.
/// Mind that `let _ = lock.acquire().await?` drops the guard at once; write `let _guard`.
///
/// A nested guard counts up the hold of its owner, and the lock is released with the last of them.
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

    /// The owner that holds; sent to another service, that one can [`reenter`](crate::Lock::reenter).
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.hold.owner()
    }

    /// Whether it is still held, as far as can be known without I/O.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.hold.state()
    }

    /// Whether the hold is lost; once lost it stays so.
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

    /// The fencing token, if the lock was acquired [`fenced`](crate::Lock::fenced); a re-entry has the hold's.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        self.hold.token()
    }

    /// Waits until the hold is lost, which may be never.
    ///
    /// # Cancel safety
    ///
    /// It leaves nothing behind and may be called again.
    pub async fn lost(&self) {
        self.hold.lost().await;
    }

    /// Runs a future, and stops polling it when the hold is lost.
    ///
    /// What the future has in flight then may still arrive; only a [fencing token](Self::token) can refuse it.
    ///
    /// # Cancel safety
    ///
    /// As the future's own; the hold is not touched.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`]; the future is dropped then.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        self.hold.run(future).await
    }

    /// Gives a fixed lease so much from now on, if that is more than what is left.
    ///
    /// # Redis
    ///
    /// One round trip; sent again until it is answered or the operation timeout is over.
    ///
    /// # Cancel safety
    ///
    /// It may have been extended or not; the watchdog's next check sees to it that it is.
    ///
    /// # Errors
    ///
    /// [`Error::NotFixed`] if the watchdog renews the lease, [`Error::InvalidLease`], [`Error::LeaseLost`],
    /// [`Error::Unreachable`], [`Error::Refused`].
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        self.hold.extend(lease).await
    }

    /// Releases the hold, or this guard's part of it, and tells whether it was held until now.
    ///
    /// # Redis
    ///
    /// One round trip; none while other guards of the owner are left.
    ///
    /// # Cancel safety
    ///
    /// The release goes on in the background.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if the hold was lost before; [`Error::OutcomeUnknown`] if there was no answer within the
    /// operation timeout, and [`Error::Refused`] with what the server said: then the release goes on in the background
    /// until the lease is over.
    pub async fn release(self) -> Result<(), Error> {
        self.hold.release().await
    }
}
