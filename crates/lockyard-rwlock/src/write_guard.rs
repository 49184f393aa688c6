//! The guard of a writer.

use std::future::Future;
use std::time::Duration;

use lockyard_core::__private::{Hold, Wait};
use lockyard_core::{Error, FencingToken, HoldState, Owner};

use crate::read_guard::RwLockReadGuard;

/// A hold of a [`RwLock`](crate::RwLock) to write; dropped, it is released in the background.
///
/// It can be kept, sent and shared like any value.
/// Bind it to a name: `let _ = lock.write().await?;` and `lock.try_write().await?;` drop the guard at once.
#[derive(Debug)]
#[must_use = "if unused the lock is released at once"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard {
    hold: Hold,
}

impl RwLockWriteGuard {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { hold }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.hold.name()
    }

    /// The owner that holds; a service to which it is sent can [`reenter_write`](crate::RwLock::reenter_write)
    /// or [`reenter_read`](crate::RwLock::reenter_read).
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

    /// The fencing token, if the lock was acquired [`fenced`](crate::RwLock::fenced); a re-entry has the token of the
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

    /// Goes on as a reader, and lets in the readers that wait in front of the next writer.
    ///
    /// The read hold begins before the write hold ends, so no writer comes in between.
    /// Other write guards of the owner keep others out until they are released.
    ///
    /// # Redis
    ///
    /// Two round trips.
    ///
    /// # Cancel safety
    ///
    /// Both holds are released in the background.
    ///
    /// # Errors
    ///
    /// As [`RwLock::try_read`](crate::RwLock::try_read), and [`Error::LeaseLost`] if the hold is lost; then nothing is
    /// held.
    /// If only the end of the write hold is not confirmed, it goes on in the background, and there is no error.
    pub async fn downgrade(self) -> Result<RwLockReadGuard, Error> {
        let Some(hold) = self.hold.counterpart(Wait::Reenter).await? else {
            return Err(self.hold.lease_lost());
        };
        // Whatever comes of it, the owner reads; and the release logs how it ended.
        let _ = self.hold.release().await;
        Ok(RwLockReadGuard::new(hold))
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
