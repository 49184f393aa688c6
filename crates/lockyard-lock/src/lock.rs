//! The handle.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockyard_core::__private::{Family, Handle, Kind, Passing, Runtime, Script, Wait};
use lockyard_core::{Error, Lease, Owner};

use crate::guard::LockGuard;
use crate::info::LockInfo;

static FAMILY: LazyLock<Family> = LazyLock::new(|| Family {
    kind: "lock",
    parts: &["queue", "alive", "fence"],
    acquire: Script::new(lockyard_lua::lock::ACQUIRE),
    renew: Script::new(lockyard_lua::lock::RENEW),
    release: Script::new(lockyard_lua::lock::RELEASE),
    inspect: Script::new(lockyard_lua::lock::INSPECT),
});

/// How many waiters `inspect` lists at most.
const LISTED: u64 = 1000;

/// A lock that at most one owner holds at a time, over all processes, and that its owner may take again.
///
/// Whoever waits stands in a queue: first come, first served.
/// Tasks of one client that wait on the same terms, with a renewed lease and without an [`Owner`], a
/// [longest hold](Self::with_max_hold) or a [token](Self::fenced), share a place there and pass the lock on among
/// themselves, without a command, while their lease is sure and for at most 10 ms; then whoever is first in the queue
/// has its turn.
/// So tasks that came later may be served first, for 10 ms and a section in each turn of a client in front;
/// [`FairLock`](crate::FairLock) serves all tasks strictly in order.
/// A guard whose [`owner`](LockGuard::owner) has been asked for is not passed on, as another process may have entered.
/// When the holder's process dies the lock is free at the latest one lease later.
/// A handle costs nothing on the server, is cheap to clone, and does not change: `with_lease` and its like return a new
/// handle.
///
/// Exclusion lasts as long as the lease: only a [fencing token](Self::fenced) lets a store refuse what a holder that
/// was paused beyond its lease still writes.
///
/// # What a call costs
///
/// While six commands that acquire are under way, further acquires of the same client are gathered and sent as one
/// command; so are releases.
/// A gathered call waits for one round trip at most, and never longer than 10 ms, before it is sent.
/// So an acquire or a release takes two round trips instead of one if many calls of the client are under way.
///
/// One more goes before it if the server's time has to be asked: after a new connection, and after a minute without a
/// reply; and one after it if the server has forgotten the script, as after a restart.
/// An acquire that is released within the operation timeout is released once more when that is over, in the background
/// and together with others, for a copy of it might have come late.
///
/// # Examples
///
/// ```no_run
/// # use lockyard_lock::Lock;
/// # async fn example(stock: Lock, sell: impl Future<Output = ()>) -> Result<(), lockyard_core::Error> {
/// // let stock = client.lock("stock:42");
/// let guard = stock.acquire().await?;
/// guard.run(sell).await?; // stops if the lease is lost
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Lock {
    handle: Handle,
}

impl Lock {
    #[doc(hidden)]
    #[must_use]
    pub fn new(runtime: &Arc<Runtime>, name: &str) -> Self {
        let mut lock = Self::strict(runtime, name);
        lock.handle.terms.passing = Passing::InRoom;
        lock
    }

    /// A lock that no task passes on.
    pub(crate) fn strict(runtime: &Arc<Runtime>, name: &str) -> Self {
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
    /// Choose few labels, such as `stock` for all of `stock:1`, `stock:2` and so on.
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
    /// It bounds the harm of a guard that is never dropped, and means nothing for a fixed lease.
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

    /// The same lock, with a [fencing token](LockGuard::token) for each new hold.
    ///
    /// Tokens grow from hold to hold; a resource that refuses any token smaller than the greatest it has seen is safe
    /// from late writers, which no lease can promise.
    /// They start anew only if the key is lost **and** the server's clock has gone back beyond the last token.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.handle.terms.kind = Kind::Fenced;
        self
    }

    /// Acquires the lock, and waits as long as it takes.
    ///
    /// While the server cannot be reached it goes on trying; see [`try_acquire_for`](Self::try_acquire_for) for a
    /// bound.
    /// A task that acquires what it holds already, and not as the same [`Owner`], waits for itself, for ever.
    ///
    /// Poll the future to its end or drop it: one that has been granted the lock but is kept unpolled holds it, and a
    /// renewed lease goes on being renewed.
    ///
    /// # Redis
    ///
    /// One round trip if the lock is free, two if [many calls of this client are under way](Self#what-a-call-costs);
    /// else the same to join the queue, and one more every third of the waiter timeout for all waiters of this client
    /// and lock together.
    /// A nested acquire of an owner that surely holds costs nothing.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, it leaves neither a hold nor a place in the queue: the watchdog at once releases whatever
    /// the server may have made of it, and does so once more when the command can no longer arrive.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] and [`Error::InvalidLease`] before anything is sent; [`Error::WrongType`],
    /// [`Error::Refused`] with what the server said; [`Error::NotFenced`] for a fenced re-entry into an unfenced hold;
    /// [`Error::LeaseLost`] if the answer took longer than the lease; [`Error::UnexpectedReply`] if the script answered
    /// what this version does not know; [`Error::Closed`] after a shutdown.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        match self.enter(Wait::Forever).await? {
            Some(guard) => Ok(guard),
            None => Err(Error::Closed),
        }
    }

    /// Acquires the lock if nobody else holds it or waits for it.
    ///
    /// `None` is an answer, not an error, and leaves nothing behind.
    /// Just after `drop(guard)` it may still meet the old hold; `guard.release().await` waits until that is gone.
    /// If the server cannot be reached it goes on trying for one operation timeout.
    ///
    /// Bind the guard to a name: `lock.try_acquire().await?;` drops it, and so releases the lock, at once and without a
    /// warning.
    ///
    /// # Redis
    ///
    /// One round trip; two if [many calls of this client are under way](Self#what-a-call-costs).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Error::Unreachable`].
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.enter(Wait::Try).await
    }

    /// Acquires the lock, and waits for at most this long.
    ///
    /// Zero means one full attempt, as [`try_acquire`](Self::try_acquire) makes it, and [`Duration::MAX`] no limit.
    /// A command that is under way when the wait ends has up to 250 ms for its answer, so the call may take that much
    /// longer.
    ///
    /// # Redis
    ///
    /// As [`acquire`](Self::acquire), and one command in the background to leave the queue.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Error::Unreachable`] if the server could not be asked before the wait
    /// ended.
    /// Once the call stands in the queue, it returns `None` even if the server falls silent.
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.enter(Wait::For(wait)).await
    }

    /// Enters what the owner holds now, and never waits: this is for a called service whose caller may have lost the
    /// lock.
    ///
    /// The hold is this client's own, with its own lease: it stays when the caller's ends, and the caller's stays when
    /// this one ends.
    /// `None` if the owner does not hold the lock.
    ///
    /// # Redis
    ///
    /// As [`try_acquire`](Self::try_acquire); nothing if the owner surely holds through this client.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn reenter(&self, owner: &Owner) -> Result<Option<LockGuard>, Error> {
        let owner = Some(owner.clone());
        let hold = self
            .handle
            .acquire_as(owner, self.handle.terms, Wait::Reenter)
            .await?;
        Ok(hold.map(LockGuard::new))
    }

    /// Whether anybody holds the lock now.
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
    pub async fn is_locked(&self) -> Result<bool, Error> {
        Ok(!self.look(0).await?.holders.is_empty())
    }

    /// How often an owner holds the lock, over all processes; zero if it does not.
    ///
    /// Another process learns of nested guards some milliseconds later.
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
    pub async fn hold_count(&self, owner: &Owner) -> Result<u64, Error> {
        let info = self.look(0).await?;
        Ok(info
            .holders
            .iter()
            .filter(|holder| &holder.owner == owner)
            .map(|holder| holder.count)
            .sum())
    }

    /// Who holds the lock, and who waits for it: the first 1000, in order; tasks that share a place count once.
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
    pub async fn inspect(&self) -> Result<LockInfo, Error> {
        self.look(LISTED).await
    }

    /// Takes the lock away from whoever holds it, grants it to the first waiter, and tells whether anybody held it.
    ///
    /// The holders learn of it by message at once, or at the latest at their next check, a third of their lease later.
    /// Until then they and the next holder may both believe that they hold: this is for operators.
    /// It names the holds that it finds, so whoever acquires meanwhile is left alone.
    ///
    /// # Redis
    ///
    /// Two round trips; one if nobody holds.
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

    async fn enter(&self, wait: Wait) -> Result<Option<LockGuard>, Error> {
        let hold = self.handle.acquire(self.handle.terms, wait).await?;
        Ok(hold.map(LockGuard::new))
    }

    async fn look(&self, listed: u64) -> Result<LockInfo, Error> {
        let reply = self.handle.inspect(listed).await?;
        LockInfo::read(&reply, self.handle.runtime()).ok_or_else(|| self.handle.unexpected())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_and_guards_and_their_futures_cross_threads() {
        fn check<T: Send + Sync + 'static>() {}
        fn sent(_: impl Send) {}
        check::<Lock>();
        check::<LockGuard>();
        check::<LockInfo>();
        // Not run: that it compiles is the test.
        let _ = |lock: &Lock, owner: &Owner| {
            sent(lock.acquire());
            sent(lock.try_acquire());
            sent(lock.try_acquire_for(Duration::ZERO));
            sent(lock.reenter(owner));
            sent(lock.is_locked());
            sent(lock.hold_count(owner));
            sent(lock.inspect());
            sent(lock.force_release());
        };
        let _ = |guard: LockGuard| {
            sent(guard.lost());
            sent(guard.run(std::future::ready(())));
            sent(guard.extend(Duration::ZERO));
            sent(guard.release());
        };
    }
}
