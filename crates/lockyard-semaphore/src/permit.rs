//! The guard.

use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockyard_core::__private::{Arg, Handle, Hold, Script, exchange};
use lockyard_core::{Error, HoldState};

use crate::limit::{self, Change};

static EXCHANGE: LazyLock<Script> =
    LazyLock::new(|| Script::new(lockyard_lua::semaphore::EXCHANGE));

/// One or more permits of a [`Semaphore`](crate::Semaphore); dropped, they are released in the background.
///
/// It can be kept, sent and shared like any value.
/// Bind it to a name: `let _ = semaphore.acquire().await?;` and `semaphore.try_acquire().await?;` drop it at once.
#[derive(Debug)]
#[must_use = "if unused the permits are released at once"]
#[clippy::has_significant_drop]
pub struct SemaphorePermit {
    handle: Handle,
    hold: Hold,
    permits: u32,
}

impl SemaphorePermit {
    pub(crate) fn new(handle: &Handle, hold: Hold, permits: u32) -> Self {
        Self {
            handle: handle.clone(),
            hold,
            permits,
        }
    }

    /// The semaphore's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.hold.name()
    }

    /// How many permits it has.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Whether they are still held, as far as can be known without I/O.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.hold.state()
    }

    /// Whether they are lost; once lost, they stay lost.
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

    /// Waits until they are lost, which may be never.
    ///
    /// # Cancel safety
    ///
    /// It leaves nothing behind, and can be called again.
    pub async fn lost(&self) {
        self.hold.lost().await;
    }

    /// Runs a future, and stops polling it when the permits are lost.
    ///
    /// What the future has in flight by then may still arrive.
    ///
    /// # Cancel safety
    ///
    /// That of the future; the permits are not touched.
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

    /// Splits off so many permits; the other part, which comes second, keeps the rest.
    ///
    /// # Redis
    ///
    /// One round trip.
    ///
    /// # Cancel safety
    ///
    /// All permits are released, at the latest when the command can no longer arrive.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPermits`] unless both parts have permits; [`Error::LeaseLost`], or why the server did not do it.
    /// After an error all permits are released in the background.
    pub async fn split(self, permits: u32) -> Result<(Self, Self), Error> {
        let rest = self.permits.saturating_sub(permits);
        if permits == 0 || rest == 0 {
            return Err(Error::InvalidPermits {
                name: self.name().to_owned(),
                permits: permits.into(),
                most: self.permits.saturating_sub(1).into(),
            });
        }
        let handle = &self.handle.clone();
        let mut holds = replace(handle, vec![self.hold], &[permits, rest]).await?;
        match (holds.pop(), holds.pop()) {
            (Some(second), Some(first)) => Ok((
                Self::new(handle, first, permits),
                Self::new(handle, second, rest),
            )),
            _ => Err(handle.unexpected()),
        }
    }

    /// Makes one of two of the same client; its lease is the shorter of theirs, and a fixed one is shorter than a
    /// renewed one.
    ///
    /// # Redis
    ///
    /// One round trip.
    ///
    /// # Cancel safety
    ///
    /// As [`split`](Self::split).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if they are of two semaphores, or were acquired through two clients; else as
    /// [`split`](Self::split).
    pub async fn merge(self, other: Self) -> Result<Self, Error> {
        let (handle, mine, others) = (self.handle.clone(), self.permits, other.permits);
        let Some(permits) = mine.checked_add(others) else {
            return Err(Error::InvalidPermits {
                name: handle.name().to_owned(),
                permits: u64::from(mine) + u64::from(others),
                most: u32::MAX.into(),
            });
        };
        let refused = |reason| Error::InvalidOption {
            option: "permits to merge",
            reason,
        };
        if handle.spec()?.keys != other.handle.spec()?.keys {
            return Err(refused("they are of two semaphores"));
        }
        // Only its own client knows until when a hold lasts.
        if !Arc::ptr_eq(handle.runtime(), other.handle.runtime()) {
            return Err(refused("they are of two clients"));
        }
        let mut holds = replace(&handle, vec![self.hold, other.hold], &[permits]).await?;
        match holds.pop() {
            Some(hold) => Ok(Self::new(&handle, hold, permits)),
            None => Err(handle.unexpected()),
        }
    }

    /// Takes the permits out of the semaphore for good: the limit is lowered by as many, and stored.
    ///
    /// [`Semaphore::add_permits`](crate::Semaphore::add_permits) puts them back.
    ///
    /// # Redis
    ///
    /// Two round trips.
    ///
    /// # Cancel safety
    ///
    /// It may or may not have been done; if not, the permits are released in the background.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if they are lost, and then the limit is as it was; or why the server did not do it, and
    /// then it may have been done.
    pub async fn forget(self) -> Result<(), Error> {
        let member = self.hold.member().ok_or_else(|| self.hold.lease_lost())?;
        let change = Change::Drop(Arg::Text(member), self.permits);
        match limit::change(&self.handle, change).await? {
            Some(_) => {
                self.hold.forget();
                Ok(())
            }
            None => Err(self.hold.lease_lost()),
        }
    }

    /// Releases the permits, and tells whether they were held until now.
    ///
    /// # Redis
    ///
    /// One round trip, two if many calls of this client are under way; none if the next in the queue is passed them.
    ///
    /// # Cancel safety
    ///
    /// The release goes on in the background.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if they were lost before.
    /// [`Error::OutcomeUnknown`] if there was no good answer within the operation timeout: then the release goes on in
    /// the background until the lease is over.
    /// [`Error::Refused`], [`Error::WrongType`], [`Error::UnexpectedReply`]: then the release is tried once more in the
    /// background, and the lease ends what is left.
    pub async fn release(self) -> Result<(), Error> {
        self.hold.release().await
    }
}

/// Has holds replaced by others with these weights.
async fn replace(handle: &Handle, holds: Vec<Hold>, weights: &[u32]) -> Result<Vec<Hold>, Error> {
    let spec = handle.spec()?;
    let named = spec.named(&[2]);
    exchange(handle.runtime(), &EXCHANGE, &named, holds, weights).await
}
