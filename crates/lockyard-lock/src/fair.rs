//! The handle of a lock that is strictly fair.

use std::sync::Arc;
use std::time::Duration;

use lockyard_core::__private::Runtime;
use lockyard_core::{Error, Lease, Owner};

use crate::guard::LockGuard;
use crate::info::LockInfo;
use crate::lock::Lock;

/// A [`Lock`] that is granted strictly in order of arrival, over all processes and tasks.
///
/// Everything else is as with `Lock`, and a `Lock` and a `FairLock` of one name are the same lock: only who waits
/// differs.
/// The waiting tasks of a client that use a `Lock` may pass it on among themselves for a few milliseconds; each task
/// that uses a `FairLock` has a place in the queue for itself, so strict fairness costs a message for each hand-over.
///
/// # Examples
///
/// ```no_run
/// # use lockyard_lock::FairLock;
/// # async fn example(window: FairLock, serve: impl Future<Output = ()>) -> Result<(), lockyard_core::Error> {
/// // let window = client.fair_lock("tickets");
/// let guard = window.acquire().await?; // whoever came first is served first
/// guard.run(serve).await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FairLock {
    lock: Lock,
}

impl FairLock {
    #[doc(hidden)]
    #[must_use]
    pub fn new(runtime: &Arc<Runtime>, name: &str) -> Self {
        Self {
            lock: Lock::strict(runtime, name),
        }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// The same lock, acquired with another lease; see [`Lock::with_lease`].
    #[must_use]
    pub fn with_lease(self, lease: Lease) -> Self {
        Self {
            lock: self.lock.with_lease(lease),
        }
    }

    /// The same lock, renewed for at most this long; see [`Lock::with_max_hold`].
    #[must_use]
    pub fn with_max_hold(self, longest: Duration) -> Self {
        Self {
            lock: self.lock.with_max_hold(longest),
        }
    }

    /// The same lock, acquired by this owner, whatever scope the call is made in; see [`Lock::with_owner`].
    #[must_use]
    pub fn with_owner(self, owner: &Owner) -> Self {
        Self {
            lock: self.lock.with_owner(owner),
        }
    }

    /// The same lock, with a fencing token for each new hold; see [`Lock::fenced`].
    #[must_use]
    pub fn fenced(self) -> Self {
        Self {
            lock: self.lock.fenced(),
        }
    }

    /// Acquires the lock, and waits as long as it takes.
    ///
    /// # Redis
    ///
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`]: whoever stands behind in the queue is not held up.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`].
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.lock.acquire().await
    }

    /// Acquires the lock if nobody else holds it or waits for it; see [`Lock::try_acquire`].
    ///
    /// # Redis
    ///
    /// As [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::try_acquire`].
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`].
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.lock.try_acquire().await
    }

    /// Acquires the lock, and waits for at most this long; see [`Lock::try_acquire_for`].
    ///
    /// # Redis
    ///
    /// As [`Lock::try_acquire_for`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::try_acquire_for`].
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire_for`].
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.lock.try_acquire_for(wait).await
    }

    /// Enters what the owner holds now, and never waits; see [`Lock::reenter`].
    ///
    /// # Redis
    ///
    /// As [`Lock::reenter`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::reenter`].
    ///
    /// # Errors
    ///
    /// As [`Lock::reenter`].
    pub async fn reenter(&self, owner: &Owner) -> Result<Option<LockGuard>, Error> {
        self.lock.reenter(owner).await
    }

    /// Whether anybody holds the lock now; see [`Lock::is_locked`].
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`].
    pub async fn is_locked(&self) -> Result<bool, Error> {
        self.lock.is_locked().await
    }

    /// How often an owner holds the lock, over all processes; see [`Lock::hold_count`].
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`].
    pub async fn hold_count(&self, owner: &Owner) -> Result<u64, Error> {
        self.lock.hold_count(owner).await
    }

    /// Who holds the lock, and who waits for it; see [`Lock::inspect`].
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`].
    pub async fn inspect(&self) -> Result<LockInfo, Error> {
        self.lock.inspect().await
    }

    /// Takes the lock away from whoever holds it; see [`Lock::force_release`].
    ///
    /// # Errors
    ///
    /// As [`Lock::force_release`].
    pub async fn force_release(&self) -> Result<bool, Error> {
        self.lock.force_release().await
    }
}
