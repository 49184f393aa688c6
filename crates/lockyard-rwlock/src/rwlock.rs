//! The handle.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockyard_core::__private::{Family, Handle, Kind, Runtime, Script, Terms, Wait};
use lockyard_core::{Error, Lease, Owner};

use crate::info::RwLockInfo;
use crate::read_guard::RwLockReadGuard;
use crate::write_guard::RwLockWriteGuard;

static FAMILY: LazyLock<Family> = LazyLock::new(|| Family {
    kind: "rw",
    parts: &["queue", "readers", "alive", "fence"],
    acquire: Script::new(lockyard_lua::rw::ACQUIRE),
    renew: Script::new(lockyard_lua::rw::RENEW),
    release: Script::new(lockyard_lua::rw::RELEASE),
    inspect: Script::new(lockyard_lua::rw::INSPECT),
});

/// How many waiters `inspect` lists at most.
const LISTED: u64 = 1000;

/// A lock that many readers hold together, or one writer alone, over all processes.
///
/// First come, first served: readers that stand next to each other in the queue enter together, and a writer that waits
/// stops later readers, so neither starves.
/// Each read hold has its own lease: a reader's process that dies keeps writers out for at most that, however many
/// others go on reading.
/// A handle costs nothing on the server, is cheap to clone, and does not change: `with_lease` and its like return a new
/// handle.
///
/// # Re-entry
///
/// An [`Owner`] may read while it reads or writes, and write while it writes.
/// To write while it only reads is [`Error::WouldDeadlock`] at once, for it would wait for itself; see
/// [`RwLockReadGuard::try_upgrade`].
///
/// # Examples
///
/// ```no_run
/// # use lockyard_rwlock::RwLock;
/// # async fn example(config: RwLock) -> Result<(), lockyard_core::Error> {
/// // let config = client.rw_lock("config");
/// let reading = config.read().await?; // beside other readers
/// reading.release().await?;
///
/// let writing = config.write().await?; // alone
/// let reading = writing.downgrade().await?; // no writer in between
/// reading.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    handle: Handle,
}

impl RwLock {
    #[doc(hidden)]
    #[must_use]
    pub fn new(runtime: &Arc<Runtime>, name: &str) -> Self {
        Self {
            handle: Handle::new(runtime, &FAMILY, name, Kind::Exclusive),
        }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    /// The same lock, under a label of its own in metrics, where its name does not appear.
    ///
    /// It means something only with the feature `metrics` of the crate `lockyard`.
    #[must_use]
    pub fn with_label(mut self, label: impl AsRef<str>) -> Self {
        self.handle.set_label(label.as_ref());
        self
    }

    /// The same lock, acquired with another lease.
    ///
    /// A lease below 10 ms or above 10 years is [`Error::InvalidLease`] at the first acquire.
    #[must_use]
    pub fn with_lease(mut self, lease: Lease) -> Self {
        self.handle.terms.lease = lease;
        self
    }

    /// The same lock, renewed for at most this long; then the lease runs out.
    ///
    /// It means nothing for a fixed lease.
    #[must_use]
    pub fn with_max_hold(mut self, longest: Duration) -> Self {
        self.handle.terms.max_hold = Some(longest);
        self
    }

    /// The same lock, acquired by this owner, whatever scope the call is made in.
    #[must_use]
    pub fn with_owner(mut self, owner: &Owner) -> Self {
        self.handle.owner = Some(owner.clone());
        self
    }

    /// The same lock, with a [fencing token](RwLockWriteGuard::token) for each new write hold, and for readers the
    /// [token of the last write](RwLockReadGuard::last_token).
    ///
    /// Tokens grow from write to write; a resource that refuses any token smaller than the greatest it has seen is
    /// safe from late writers.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.handle.terms.kind = Kind::Fenced;
        self
    }

    /// Acquires the lock to read, and waits as long as it takes.
    ///
    /// It waits for a writer that holds, and behind whoever waits already.
    ///
    /// # Redis
    ///
    /// One round trip if it need not wait, two if many calls of this client are under way; else the same to join the
    /// queue, and one more every third of the waiter timeout for all waiters of this client and lock together.
    /// A nested read of an owner that surely reads through this client costs nothing.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, it leaves neither a hold nor a place in the queue: the watchdog at once releases whatever
    /// the server may have made of it, and does so once more when the command can no longer arrive.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] and [`Error::InvalidLease`] before anything is sent; [`Error::WrongType`],
    /// [`Error::Refused`] with what the server said; [`Error::LeaseLost`] if the answer took longer than the lease;
    /// [`Error::UnexpectedReply`] if the script answered what this version does not know; [`Error::Closed`] after a
    /// shutdown.
    pub async fn read(&self) -> Result<RwLockReadGuard, Error> {
        self.enter_to_read(Wait::Forever)
            .await?
            .ok_or(Error::Closed)
    }

    /// Acquires the lock to read if nobody writes or waits.
    ///
    /// `None` is an answer, not an error, and leaves nothing behind.
    ///
    /// # Redis
    ///
    /// One round trip; two if many calls of this client are under way.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`Error::Unreachable`].
    pub async fn try_read(&self) -> Result<Option<RwLockReadGuard>, Error> {
        self.enter_to_read(Wait::Try).await
    }

    /// Acquires the lock to read, and waits for at most this long.
    ///
    /// Zero means one full attempt, as [`try_read`](Self::try_read) makes it, and [`Duration::MAX`] no limit.
    /// A command that is under way when the wait ends has up to 250 ms for its answer.
    ///
    /// # Redis
    ///
    /// As [`read`](Self::read), and one command in the background to leave the queue.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`Error::Unreachable`] if the server could not be asked before the wait ended.
    pub async fn try_read_for(&self, wait: Duration) -> Result<Option<RwLockReadGuard>, Error> {
        self.enter_to_read(Wait::For(wait)).await
    }

    /// Acquires the lock to write, and waits as long as it takes.
    ///
    /// It waits for all who hold, and behind whoever waits already; so a task that reads or writes already, and not as
    /// the same [`Owner`], waits for itself, for ever.
    ///
    /// # Redis
    ///
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); [`Error::WouldDeadlock`] if its owner only reads; [`Error::NotFenced`] for a fenced
    /// re-entry into an unfenced hold.
    pub async fn write(&self) -> Result<RwLockWriteGuard, Error> {
        self.enter_to_write(Wait::Forever)
            .await?
            .ok_or(Error::Closed)
    }

    /// Acquires the lock to write if nobody else holds it or waits for it.
    ///
    /// `None` is an answer, not an error, and leaves nothing behind.
    ///
    /// # Redis
    ///
    /// As [`try_read`](Self::try_read).
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), and [`Error::Unreachable`].
    pub async fn try_write(&self) -> Result<Option<RwLockWriteGuard>, Error> {
        self.enter_to_write(Wait::Try).await
    }

    /// Acquires the lock to write, and waits for at most this long.
    ///
    /// Zero means one full attempt, as [`try_write`](Self::try_write) makes it, and [`Duration::MAX`] no limit.
    /// A command that is under way when the wait ends has up to 250 ms for its answer.
    ///
    /// # Redis
    ///
    /// As [`try_read_for`](Self::try_read_for).
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), and [`Error::Unreachable`] if the server could not be asked before the wait ended.
    pub async fn try_write_for(&self, wait: Duration) -> Result<Option<RwLockWriteGuard>, Error> {
        self.enter_to_write(Wait::For(wait)).await
    }

    /// Reads within what the owner holds now, and never waits: this is for a called service whose caller may have lost
    /// the lock.
    ///
    /// The hold is this client's own, with its own lease: it stays when the caller's ends, and the caller's stays when
    /// this one ends.
    /// `None` if the owner holds nothing.
    ///
    /// # Redis
    ///
    /// As [`try_read`](Self::try_read); nothing if the owner surely reads through this client.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`try_read`](Self::try_read).
    pub async fn reenter_read(&self, owner: &Owner) -> Result<Option<RwLockReadGuard>, Error> {
        let owner = Some(owner.clone());
        let hold = self.handle.acquire_as(owner, self.to_read(), Wait::Reenter);
        Ok(hold.await?.map(RwLockReadGuard::new))
    }

    /// Writes within what the owner writes now, and never waits; see [`reenter_read`](Self::reenter_read).
    ///
    /// # Redis
    ///
    /// As [`reenter_read`](Self::reenter_read).
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`try_write`](Self::try_write): the owner may only be reading by now.
    pub async fn reenter_write(&self, owner: &Owner) -> Result<Option<RwLockWriteGuard>, Error> {
        let (owner, terms) = (Some(owner.clone()), self.handle.terms);
        let hold = self.handle.acquire_as(owner, terms, Wait::Reenter);
        Ok(hold.await?.map(RwLockWriteGuard::new))
    }

    /// Whether anybody reads now.
    ///
    /// # Redis
    ///
    /// One round trip; O(readers).
    ///
    /// # Cancel safety
    ///
    /// It only reads, so nothing is left behind.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    pub async fn is_read_locked(&self) -> Result<bool, Error> {
        Ok(self.reader_count().await? > 0)
    }

    /// Whether anybody writes now.
    ///
    /// # Redis
    ///
    /// One round trip; O(readers).
    ///
    /// # Cancel safety
    ///
    /// It only reads, so nothing is left behind.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    pub async fn is_write_locked(&self) -> Result<bool, Error> {
        Ok(!self.look(0).await?.writers.is_empty())
    }

    /// How many holds there are to read; nested guards of an owner in one client are one hold.
    ///
    /// # Redis
    ///
    /// One round trip; O(readers).
    ///
    /// # Cancel safety
    ///
    /// It only reads, so nothing is left behind.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    pub async fn reader_count(&self) -> Result<usize, Error> {
        Ok(self.look(0).await?.readers.len())
    }

    /// Who holds the lock, and who waits for it: the first 1000, in order.
    ///
    /// # Redis
    ///
    /// One round trip; O(readers).
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
    pub async fn inspect(&self) -> Result<RwLockInfo, Error> {
        self.look(LISTED).await
    }

    /// Takes the lock away from all who hold it, grants it to the first waiters, and tells whether anybody held it.
    ///
    /// The holders learn of it by message at once, or at the latest at their next check, a third of their lease later.
    /// Until then they and the next holders may both believe that they hold: this is for operators.
    /// It names the holds that it finds, so whoever acquires meanwhile is left alone.
    ///
    /// # Redis
    ///
    /// Two round trips; one if nobody holds. O(readers).
    ///
    /// # Cancel safety
    ///
    /// It may or may not have been done; it can be called again.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect); then it is unknown whether it was done, and it can be called again.
    pub async fn force_release(&self) -> Result<bool, Error> {
        self.handle.force_release().await
    }

    async fn enter_to_read(&self, wait: Wait) -> Result<Option<RwLockReadGuard>, Error> {
        let hold = self.handle.acquire(self.to_read(), wait).await?;
        Ok(hold.map(RwLockReadGuard::new))
    }

    async fn enter_to_write(&self, wait: Wait) -> Result<Option<RwLockWriteGuard>, Error> {
        let hold = self.handle.acquire(self.handle.terms, wait).await?;
        Ok(hold.map(RwLockWriteGuard::new))
    }

    fn to_read(&self) -> Terms {
        let terms = self.handle.terms;
        Terms {
            kind: terms.kind.counterpart(),
            ..terms
        }
    }

    async fn look(&self, listed: u64) -> Result<RwLockInfo, Error> {
        let reply = self.handle.inspect(listed).await?;
        RwLockInfo::read(&reply, self.handle.runtime()).ok_or_else(|| self.handle.unexpected())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_and_guards_and_their_futures_cross_threads() {
        fn check<T: Send + Sync + 'static>() {}
        fn sent(_: impl Send) {}
        check::<RwLock>();
        check::<RwLockReadGuard>();
        check::<RwLockWriteGuard>();
        check::<RwLockInfo>();
        // Not run: that it compiles is the test.
        let _ = |lock: &RwLock, owner: &Owner| {
            sent(lock.read());
            sent(lock.try_read());
            sent(lock.try_read_for(Duration::ZERO));
            sent(lock.write());
            sent(lock.try_write());
            sent(lock.try_write_for(Duration::ZERO));
            sent(lock.reenter_read(owner));
            sent(lock.reenter_write(owner));
            sent(lock.inspect());
            sent(lock.force_release());
        };
        let _ = |read: RwLockReadGuard, write: RwLockWriteGuard| {
            sent(read.lost());
            sent(read.run(std::future::ready(())));
            sent(read.try_upgrade());
            sent(read.release());
            sent(write.run(std::future::ready(())));
            sent(write.extend(Duration::ZERO));
            sent(write.downgrade());
        };
    }
}
