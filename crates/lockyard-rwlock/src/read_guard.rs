//! The guard of a reader.

use std::future::Future;
use std::time::Duration;

use lockyard_core::__private::{Hold, Wait};
use lockyard_core::{Error, FencingToken, HoldState, Owner};

use crate::write_guard::RwLockWriteGuard;

/// A hold of a [`RwLock`](crate::RwLock) to read; dropped, it is released in the background.
///
/// It can be kept, sent and shared like any value.
/// Bind it to a name: `let _ = lock.read().await?;` and `lock.try_read().await?;` drop the guard at once.
#[derive(Debug)]
#[must_use = "if unused the lock is released at once"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard {
    hold: Hold,
}

impl RwLockReadGuard {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { hold }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.hold.name()
    }

    /// The owner that holds; a service to which it is sent can [`reenter_read`](crate::RwLock::reenter_read).
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.hold.owner()
    }

    /// Whether it is still held, as far as can be known without I/O.
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

    /// The fencing token of the last write before this hold began, if the handle is
    /// [`fenced`](crate::RwLock::fenced); `None` if there was no fenced write within a day.
    #[must_use]
    pub fn last_token(&self) -> Option<FencingToken> {
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
    /// What the future has in flight by then may still arrive.
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
    /// [`Error::NotFixed`] if the watchdog renews the lease, [`Error::InvalidLease`], [`Error::LeaseLost`], or why the
    /// server did not do it.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        self.hold.extend(lease).await
    }

    /// Acquires the lock to write as well, if nobody but this owner reads; on the terms of the owner's outermost guard.
    ///
    /// `None` is an answer, not an error: somebody else reads, and the owner goes on reading.
    /// No other writer comes in between, not even one that waits.
    /// Once the write guard is released the owner still reads, until this guard is released too.
    ///
    /// # Redis
    ///
    /// One round trip; O(readers).
    ///
    /// # Cancel safety
    ///
    /// As [`RwLock::read`](crate::RwLock::read); this guard is not touched.
    ///
    /// # Errors
    ///
    /// As [`RwLock::try_write`](crate::RwLock::try_write), and [`Error::LeaseLost`] if this hold is lost.
    pub async fn try_upgrade(&self) -> Result<Option<RwLockWriteGuard>, Error> {
        let hold = self.hold.counterpart(Wait::Upgrade).await?;
        if hold.is_none() && self.is_lost() {
            return Err(self.hold.lease_lost());
        }
        Ok(hold.map(RwLockWriteGuard::new))
    }

    /// Releases the hold, or this guard's part of it, and tells whether it was held until now.
    ///
    /// # Redis
    ///
    /// One round trip, two if many calls of this client are under way; nothing while other guards of the owner are
    /// left.
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
    /// [`Error::Refused`], [`Error::WrongType`], [`Error::UnexpectedReply`]: then the release is tried once more in the
    /// background, and the lease ends what is left.
    pub async fn release(self) -> Result<(), Error> {
        self.hold.release().await
    }
}
