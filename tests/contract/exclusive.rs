//! What the contract asks of a primitive that one owner at a time holds, and who offers it.

use std::fmt::Debug;
use std::time::Duration;

use lockyard::{
    Client, Error, FairLock, FencingToken, HoldState, HolderInfo, Lease, Lock, LockGuard, LockInfo,
    Owner, RwLock, RwLockInfo, RwLockWriteGuard,
};

/// Something that one owner at a time holds.
pub(crate) trait Exclusive: Clone + Debug + Send + Sync + 'static {
    type Guard: Guard;

    /// The module of its tests, for those that run in several processes.
    const TESTS: &str;
    /// What its keys begin with.
    const KIND: &str;

    fn of(client: &Client, name: impl AsRef<str>) -> Self;
    fn with_lease(self, lease: Lease) -> Self;
    fn with_max_hold(self, longest: Duration) -> Self;
    fn with_owner(self, owner: &Owner) -> Self;
    fn fenced(self) -> Self;

    fn name(&self) -> &str;
    fn acquire(&self) -> impl Future<Output = Result<Self::Guard, Error>> + Send;
    fn try_acquire(&self) -> impl Future<Output = Result<Option<Self::Guard>, Error>> + Send;
    fn try_acquire_for(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<Self::Guard>, Error>> + Send;
    fn reenter(
        &self,
        owner: &Owner,
    ) -> impl Future<Output = Result<Option<Self::Guard>, Error>> + Send;
    fn is_locked(&self) -> impl Future<Output = Result<bool, Error>> + Send;
    fn hold_count(&self, owner: &Owner) -> impl Future<Output = Result<u64, Error>> + Send;
    fn force_release(&self) -> impl Future<Output = Result<bool, Error>> + Send;
    fn inspect(&self) -> impl Future<Output = Result<Info, Error>> + Send;

    /// The key that holds stand in.
    fn key(name: &str) -> String {
        format!("lockyard:{}:{{{name}}}", Self::KIND)
    }

    fn part(part: &str, name: &str) -> String {
        format!("lockyard:{}.{part}:{{{name}}}", Self::KIND)
    }

    /// A test's full name, for its other processes.
    fn test(name: &str) -> String {
        format!("contract::{}::{name}", Self::TESTS)
    }

    fn test_in_order(name: &str) -> String {
        format!("contract::{}_in_order::{name}", Self::TESTS)
    }
}

/// A hold of it.
pub(crate) trait Guard: Debug + Send + Sync + 'static {
    fn name(&self) -> &str;
    fn owner(&self) -> Owner;
    fn state(&self) -> HoldState;
    fn is_lost(&self) -> bool;
    fn remaining(&self) -> Duration;
    fn token(&self) -> Option<FencingToken>;
    fn lost(&self) -> impl Future<Output = ()> + Send;
    fn run<F: Future<Output: Send> + Send>(
        &self,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Error>> + Send;
    fn extend(&self, lease: Duration) -> impl Future<Output = Result<(), Error>> + Send;
    fn release(self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// What any of them tells of its holders and waiters.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) holders: Vec<HolderInfo>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) waiting: u64,
}

#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) client: String,
}

impl From<LockInfo> for Info {
    fn from(info: LockInfo) -> Self {
        let clients = info.waiters.into_iter().map(|waiter| waiter.client);
        Self {
            holders: info.holders,
            waiters: clients.map(|client| Waiter { client }).collect(),
            waiting: info.waiting,
        }
    }
}

impl From<RwLockInfo> for Info {
    fn from(info: RwLockInfo) -> Self {
        let clients = info.waiters.into_iter().map(|waiter| waiter.client);
        Self {
            holders: info.writers,
            waiters: clients.map(|client| Waiter { client }).collect(),
            waiting: info.waiting,
        }
    }
}

/// The side of a read-write lock that writes.
#[derive(Clone, Debug)]
pub(crate) struct Write(RwLock);

/// Calls go to methods of the same name, or of the name given for them.
macro_rules! exclusive {
    (
        $exclusive:ty, $guard:ty, $tests:literal, $kind:literal;
        $client:ident, $name:ident => $new:expr; $it:ident => $inner:expr; $wrap:expr;
        $acquire:ident $try_acquire:ident $try_acquire_for:ident $reenter:ident $is_locked:ident;
        $owner:ident => $hold_count:expr
    ) => {
        impl Exclusive for $exclusive {
            type Guard = $guard;
            const TESTS: &str = $tests;
            const KIND: &str = $kind;

            fn of($client: &Client, $name: impl AsRef<str>) -> Self {
                $wrap($new)
            }
            fn with_lease(self, lease: Lease) -> Self {
                let $it = self;
                $wrap($inner.with_lease(lease))
            }
            fn with_max_hold(self, longest: Duration) -> Self {
                let $it = self;
                $wrap($inner.with_max_hold(longest))
            }
            fn with_owner(self, owner: &Owner) -> Self {
                let $it = self;
                $wrap($inner.with_owner(owner))
            }
            fn fenced(self) -> Self {
                let $it = self;
                $wrap($inner.fenced())
            }
            fn name(&self) -> &str {
                let $it = self;
                $inner.name()
            }
            async fn acquire(&self) -> Result<$guard, Error> {
                let $it = self;
                $inner.$acquire().await
            }
            async fn try_acquire(&self) -> Result<Option<$guard>, Error> {
                let $it = self;
                $inner.$try_acquire().await
            }
            async fn try_acquire_for(&self, wait: Duration) -> Result<Option<$guard>, Error> {
                let $it = self;
                $inner.$try_acquire_for(wait).await
            }
            async fn reenter(&self, owner: &Owner) -> Result<Option<$guard>, Error> {
                let $it = self;
                $inner.$reenter(owner).await
            }
            async fn is_locked(&self) -> Result<bool, Error> {
                let $it = self;
                $inner.$is_locked().await
            }
            async fn hold_count(&self, $owner: &Owner) -> Result<u64, Error> {
                let $it = self;
                $hold_count
            }
            async fn force_release(&self) -> Result<bool, Error> {
                let $it = self;
                $inner.force_release().await
            }
            async fn inspect(&self) -> Result<Info, Error> {
                let $it = self;
                $inner.inspect().await.map(Info::from)
            }
        }
    };
}

exclusive! {
    Lock, LockGuard, "lock", "lock";
    client, name => client.lock(name); it => it; std::convert::identity;
    acquire try_acquire try_acquire_for reenter is_locked;
    owner => it.hold_count(owner).await
}
exclusive! {
    FairLock, LockGuard, "fair_lock", "lock";
    client, name => client.fair_lock(name); it => it; std::convert::identity;
    acquire try_acquire try_acquire_for reenter is_locked;
    owner => it.hold_count(owner).await
}
exclusive! {
    Write, RwLockWriteGuard, "write_side", "rw";
    client, name => client.rw_lock(name); it => it.0; Write;
    write try_write try_write_for reenter_write is_write_locked;
    owner => {
        let writers = it.0.inspect().await?.writers;
        let own = writers.iter().filter(|writer| writer.owner == *owner);
        Ok(own.map(|writer| writer.count).sum())
    }
}

macro_rules! guard {
    ($guard:ty) => {
        impl Guard for $guard {
            fn name(&self) -> &str {
                self.name()
            }
            fn owner(&self) -> Owner {
                self.owner()
            }
            fn state(&self) -> HoldState {
                self.state()
            }
            fn is_lost(&self) -> bool {
                self.is_lost()
            }
            fn remaining(&self) -> Duration {
                self.remaining()
            }
            fn token(&self) -> Option<FencingToken> {
                self.token()
            }
            async fn lost(&self) {
                self.lost().await;
            }
            async fn run<F: Future<Output: Send> + Send>(
                &self,
                future: F,
            ) -> Result<F::Output, Error> {
                self.run(future).await
            }
            async fn extend(&self, lease: Duration) -> Result<(), Error> {
                self.extend(lease).await
            }
            async fn release(self) -> Result<(), Error> {
                self.release().await
            }
        }
    };
}

guard!(LockGuard);
guard!(RwLockWriteGuard);
