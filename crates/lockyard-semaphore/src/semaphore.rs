//! The handle.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockyard_core::__private::{Family, Handle, Kind, Passing, Runtime, Script, Terms, Wait};
use lockyard_core::{Error, Lease};

use crate::info::SemaphoreInfo;
use crate::limit::{self, Change};
use crate::permit::SemaphorePermit;

static FAMILY: LazyLock<Family> = LazyLock::new(|| Family {
    kind: "semaphore",
    parts: &["queue", "permits", "limit", "alive"],
    acquire: Script::new(lockyard_lua::semaphore::ACQUIRE),
    renew: Script::new(lockyard_lua::semaphore::RENEW),
    release: Script::new(lockyard_lua::semaphore::RELEASE),
    inspect: Script::new(lockyard_lua::semaphore::INSPECT),
});

/// How many holds and waiters `inspect` lists at most.
const LISTED: u64 = 1000;

/// So many permits, shared by all processes.
///
/// Whoever waits stands in a queue: first come, first served.
/// A request for many permits is neither overtaken by smaller ones nor starved by them.
/// A task passes its permits to the next in the queue by itself, without a command, if that is of the same client and
/// wants as many on the same terms; not if they are held for longer than 10 ms, nor with a fixed lease or a
/// [longest hold](Self::with_max_hold).
/// Permits are leased and renewed like locks: when their holder's process dies they come back at the latest one lease
/// later, and while it lives they stay.
/// Permits have no owner, so acquiring while holding takes more of them, whatever the scope.
///
/// # The limit
///
/// Each handle names how many permits there are, and its requests are judged by that number.
/// Once [`set_limit`](Self::set_limit) has stored a limit, that one counts for all, until it is
/// [cleared](Self::clear_limit) or has not been used for 30 days.
/// Handles that name different limits share the permits and the queue: who named less waits longer, and never for ever.
///
/// # Examples
///
/// ```no_run
/// # use lockyard_semaphore::Semaphore;
/// # async fn example(api: Semaphore, call: impl Future<Output = ()>) -> Result<(), lockyard_core::Error> {
/// // let api = client.semaphore("api", 10);
/// let permit = api.acquire().await?; // at most ten at once, over the whole fleet
/// permit.run(call).await?;
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    handle: Handle,
    limit: u32,
}

impl Semaphore {
    #[doc(hidden)]
    #[must_use]
    pub fn new(runtime: &Arc<Runtime>, name: &str, limit: u32) -> Self {
        let mut handle = Handle::new(runtime, &FAMILY, name, Kind::Of(limit));
        handle.terms.passing = Passing::InLine;
        Self { handle, limit }
    }

    /// The semaphore's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    /// The same semaphore, under a label of its own in metrics, where its name does not appear.
    ///
    /// It means something only with the feature `metrics` of the crate `lockyard`.
    #[must_use]
    pub fn with_label(mut self, label: impl AsRef<str>) -> Self {
        self.handle.set_label(label.as_ref());
        self
    }

    /// The same semaphore, with another lease for what is acquired.
    ///
    /// A lease below 10 ms or above 10 years is [`Error::InvalidLease`] at the first acquire.
    #[must_use]
    pub fn with_lease(mut self, lease: Lease) -> Self {
        self.handle.terms.lease = lease;
        self
    }

    /// The same semaphore, with permits that are renewed for at most this long; then their lease runs out.
    ///
    /// It means nothing for a fixed lease.
    #[must_use]
    pub fn with_max_hold(mut self, longest: Duration) -> Self {
        self.handle.terms.max_hold = Some(longest);
        self
    }

    /// Acquires a permit, and waits as long as it takes; see [`acquire_many`](Self::acquire_many).
    ///
    /// # Redis
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    pub async fn acquire(&self) -> Result<SemaphorePermit, Error> {
        self.acquire_many(1).await
    }

    /// Acquires so many permits at once, and waits as long as it takes.
    ///
    /// # Redis
    ///
    /// One round trip if there are as many, two if many calls of this client are under way; else the same to join the
    /// queue, and one more every third of the waiter timeout for all waiters of this client and semaphore together.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, it leaves neither permits nor a place in the queue: the watchdog at once releases whatever
    /// the server may have made of it, and does so once more when the command can no longer arrive.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] and [`Error::InvalidLease`], and [`Error::InvalidPermits`] for no permits, before
    /// anything is sent; [`Error::InvalidPermits`] for more than there are in all, also if the limit is lowered under a
    /// waiter; [`Error::WrongType`], [`Error::Refused`] with what the server said; [`Error::LeaseLost`] if the answer
    /// took longer than the lease; [`Error::UnexpectedReply`] if the script answered what this version does not know;
    /// [`Error::Closed`] after a shutdown.
    pub async fn acquire_many(&self, permits: u32) -> Result<SemaphorePermit, Error> {
        let permit = self.enter(permits, Wait::Forever).await?;
        permit.ok_or(Error::Closed)
    }

    /// Acquires a permit if there is one and nobody waits.
    ///
    /// `None` is an answer, not an error, and leaves nothing behind.
    ///
    /// # Redis
    ///
    /// One round trip; two if many calls of this client are under way.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many), and [`Error::Unreachable`].
    pub async fn try_acquire(&self) -> Result<Option<SemaphorePermit>, Error> {
        self.enter(1, Wait::Try).await
    }

    /// Acquires so many permits if there are as many and nobody waits; see [`try_acquire`](Self::try_acquire).
    ///
    /// # Redis
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<SemaphorePermit>, Error> {
        self.enter(permits, Wait::Try).await
    }

    /// Acquires a permit, and waits for at most this long.
    ///
    /// Zero means one full attempt, as [`try_acquire`](Self::try_acquire) makes it, and [`Duration::MAX`] no limit.
    /// A command that is under way when the wait ends has up to 250 ms for its answer.
    ///
    /// # Redis
    ///
    /// As [`acquire_many`](Self::acquire_many), and one command in the background to leave the queue.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many), and [`Error::Unreachable`] if the server could not be asked before the
    /// wait ended.
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Option<SemaphorePermit>, Error> {
        self.enter(1, Wait::For(wait)).await
    }

    /// Acquires so many permits at once, and waits for at most this long; see
    /// [`try_acquire_for`](Self::try_acquire_for).
    ///
    /// # Redis
    ///
    /// As [`try_acquire_for`](Self::try_acquire_for).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// As [`try_acquire_for`](Self::try_acquire_for).
    pub async fn try_acquire_many_for(
        &self,
        permits: u32,
        wait: Duration,
    ) -> Result<Option<SemaphorePermit>, Error> {
        self.enter(permits, Wait::For(wait)).await
    }

    /// Acquires all permits that can be had now; `None` if there are none, or somebody waits.
    ///
    /// # Redis
    ///
    /// Two round trips; two more each time when others are quicker.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn drain(&self) -> Result<Option<SemaphorePermit>, Error> {
        loop {
            let info = self.look(0).await?;
            if info.available() == 0 || info.waiting > 0 {
                return Ok(None);
            }
            if let Some(permit) = self.try_acquire_many(info.available()).await? {
                return Ok(Some(permit));
            }
        }
    }

    /// How many permits can be had now, if nobody waits.
    ///
    /// # Redis
    ///
    /// One round trip.
    ///
    /// # Cancel safety
    ///
    /// It only reads, so nothing is left behind.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    pub async fn available_permits(&self) -> Result<u32, Error> {
        Ok(self.look(0).await?.available())
    }

    /// How many permits there are in all: the stored limit, or else this handle's.
    ///
    /// # Redis
    ///
    /// One round trip.
    ///
    /// # Cancel safety
    ///
    /// It only reads, so nothing is left behind.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    pub async fn limit(&self) -> Result<u32, Error> {
        Ok(self.look(0).await?.limit)
    }

    /// Stores how many permits there are, for all clients, and lets in the waiters that fit then.
    ///
    /// A lower limit revokes nothing: nobody gets in until fewer permits are held, but for tasks that are passed permits
    /// by one of their client within 10 ms of its being let in.
    /// Waiters that ask for more than the new limit learn of it by [`Error::InvalidPermits`]: the first that waits through
    /// a client at the latest a third of the waiter timeout later, each other one when it has become the first.
    /// With a limit of zero every request is refused so.
    /// A copy of the command that comes late, which is within the operation timeout, sets the limit once more.
    ///
    /// # Redis
    ///
    /// Two round trips.
    ///
    /// # Cancel safety
    ///
    /// It may or may not have been done; it can be called again.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect), and [`Error::OutcomeUnknown`] if it was not answered: then it may have been done, and
    /// can be called again.
    pub async fn set_limit(&self, limit: u32) -> Result<(), Error> {
        limit::change(&self.handle, Change::Set(limit)).await?;
        Ok(())
    }

    /// Removes a stored limit, so that each request is judged by the limit that its handle names.
    ///
    /// # Redis
    ///
    /// Two round trips.
    ///
    /// # Cancel safety
    ///
    /// As [`set_limit`](Self::set_limit).
    ///
    /// # Errors
    ///
    /// As [`set_limit`](Self::set_limit).
    pub async fn clear_limit(&self) -> Result<(), Error> {
        limit::change(&self.handle, Change::Clear).await?;
        Ok(())
    }

    /// Raises the limit by so many, stores it, and lets in the waiters that fit then; the limit from now on.
    ///
    /// It is the counterpart of [`SemaphorePermit::forget`].
    /// There are never more than [`u32::MAX`].
    ///
    /// # Redis
    ///
    /// Two round trips; it is sent only once, as it would count twice.
    ///
    /// # Cancel safety
    ///
    /// It may or may not have been done; [`limit`](Self::limit) tells.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect), and [`Error::OutcomeUnknown`] if it was not answered: then it may have been done, and
    /// [`limit`](Self::limit) tells.
    pub async fn add_permits(&self, permits: u32) -> Result<u32, Error> {
        let limit = limit::change(&self.handle, Change::Add(permits)).await?;
        limit.ok_or_else(|| self.handle.unexpected())
    }

    /// How many permits there are and are held, and who holds and waits: the first 1000 of each.
    ///
    /// # Redis
    ///
    /// One round trip.
    ///
    /// # Cancel safety
    ///
    /// It only reads, so nothing is left behind.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] before anything is sent; [`Error::WrongType`], [`Error::Refused`] with what the server
    /// said; [`Error::Unreachable`] after one operation timeout; [`Error::UnexpectedReply`] if the script answered what
    /// this version does not know; [`Error::Closed`] after a shutdown.
    pub async fn inspect(&self) -> Result<SemaphoreInfo, Error> {
        self.look(LISTED).await
    }

    async fn enter(&self, permits: u32, wait: Wait) -> Result<Option<SemaphorePermit>, Error> {
        if permits == 0 {
            return Err(Error::InvalidPermits {
                name: self.name().to_owned(),
                permits: 0,
                most: self.limit.into(),
            });
        }
        let terms = Terms {
            weight: permits,
            ..self.handle.terms
        };
        let hold = self.handle.acquire_as(None, terms, wait).await?;
        Ok(hold.map(|hold| SemaphorePermit::new(&self.handle, hold, permits)))
    }

    async fn look(&self, listed: u64) -> Result<SemaphoreInfo, Error> {
        let reply = self.handle.inspect(listed).await?;
        SemaphoreInfo::read(reply, self.limit).ok_or_else(|| self.handle.unexpected())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semaphores_and_permits_and_their_futures_cross_threads() {
        fn check<T: Send + Sync + 'static>() {}
        fn sent(_: impl Send) {}
        check::<Semaphore>();
        check::<SemaphorePermit>();
        check::<SemaphoreInfo>();
        // Not run: that it compiles is the test.
        let _ = |semaphore: &Semaphore| {
            sent(semaphore.acquire());
            sent(semaphore.try_acquire());
            sent(semaphore.try_acquire_for(Duration::ZERO));
            sent(semaphore.drain());
            sent(semaphore.set_limit(1));
            sent(semaphore.add_permits(1));
            sent(semaphore.inspect());
        };
        let _ = |one: SemaphorePermit, two: SemaphorePermit, three: SemaphorePermit| {
            sent(one.run(std::future::ready(())));
            sent(one.extend(Duration::ZERO));
            sent(one.split(1));
            sent(two.merge(three));
        };
        let _ = |one: SemaphorePermit, two: SemaphorePermit| {
            sent(one.forget());
            sent(two.release());
        };
    }
}
