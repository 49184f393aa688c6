//! Who offers what the contract asks.

use std::time::Duration;

use lockyard::{
    Client, Error, FairLock, FencingToken, HoldState, HolderInfo, Lease, Lock, LockGuard, Owner,
    RwLock, RwLockWriteGuard, Semaphore, SemaphorePermit,
};

use super::exclusive::{Exclusive, Guard, Info, Owned, Single};

/// One that is plain, one that is fenced, one with an owner.
fn plain_fenced_and_named<M: Exclusive>(client: &Client, names: [&str; 3]) -> Vec<M> {
    let [plain, fenced, named] = names.map(|name| M::of(client, name));
    vec![plain, fenced.fenced(), named.with_owner(&client.owner())]
}

/// The side of a read-write lock that writes.
#[derive(Clone, Debug)]
pub(crate) struct Write(RwLock);

/// A semaphore with one permit.
#[derive(Clone, Debug)]
pub(crate) struct OnePermit(Semaphore);

/// Calls go to methods of the same name, or of the name given for them.
macro_rules! single {
    (
        $single:ty, $guard:ty, $tests:literal, $kind:literal;
        $client:ident, $name:ident => $new:expr; $it:ident => $inner:expr; $wrap:expr;
        $acquire:ident $try_acquire:ident $try_acquire_for:ident;
        $($more:item)*
    ) => {
        impl Single for $single {
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
            async fn inspect(&self) -> Result<Info, Error> {
                let $it = self;
                $inner.inspect().await.map(Info::from)
            }
            $($more)*
        }
    };
}

macro_rules! exclusive {
    (
        $exclusive:ty; $it:ident => $inner:expr; $wrap:expr;
        $reenter:ident $is_locked:ident $holders:ident; $owner:ident => $hold_count:expr
    ) => {
        impl Exclusive for $exclusive {
            fn with_owner(self, owner: &Owner) -> Self {
                let $it = self;
                $wrap($inner.with_owner(owner))
            }
            fn fenced(self) -> Self {
                let $it = self;
                $wrap($inner.fenced())
            }
            async fn reenter(&self, owner: &Owner) -> Result<Option<Self::Guard>, Error> {
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
            async fn holders(&self) -> Result<Vec<HolderInfo>, Error> {
                let $it = self;
                $inner.inspect().await.map(|info| info.$holders)
            }
        }
    };
}

single! {
    Lock, LockGuard, "lock", "lock";
    client, name => client.lock(name); it => it; std::convert::identity;
    acquire try_acquire try_acquire_for;
    fn of_each_kind(client: &Client, names: [&str; 3]) -> Vec<Self> {
        plain_fenced_and_named(client, names)
    }
}
exclusive! {
    Lock; it => it; std::convert::identity;
    reenter is_locked holders; owner => it.hold_count(owner).await
}

single! {
    FairLock, LockGuard, "fair_lock", "lock";
    client, name => client.fair_lock(name); it => it; std::convert::identity;
    acquire try_acquire try_acquire_for;
    fn of_each_kind(client: &Client, names: [&str; 3]) -> Vec<Self> {
        plain_fenced_and_named(client, names)
    }
}
exclusive! {
    FairLock; it => it; std::convert::identity;
    reenter is_locked holders; owner => it.hold_count(owner).await
}

single! {
    Write, RwLockWriteGuard, "write_side", "rw";
    client, name => client.rw_lock(name); it => it.0; Write;
    write try_write try_write_for;
    fn of_each_kind(client: &Client, names: [&str; 3]) -> Vec<Self> {
        plain_fenced_and_named(client, names)
    }
}
exclusive! {
    Write; it => it.0; Write;
    reenter_write is_write_locked writers;
    owner => {
        let writers = it.0.inspect().await?.writers;
        let own = writers.iter().filter(|writer| writer.owner == *owner);
        Ok(own.map(|writer| writer.count).sum())
    }
}

single! {
    OnePermit, SemaphorePermit, "one_permit", "semaphore";
    client, name => client.semaphore(name, 1); it => it.0; OnePermit;
    acquire try_acquire try_acquire_for;
    const ENTRY: &str = "1";
    fn key(name: &str) -> String {
        Self::part("permits", name)
    }
    fn keys(name: &str) -> Vec<String> {
        vec![Self::key(name), format!("lockyard:semaphore:{{{name}}}")]
    }
}

macro_rules! guard {
    ($guard:ty) => {
        impl Guard for $guard {
            fn name(&self) -> &str {
                self.name()
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

macro_rules! owned {
    ($guard:ty) => {
        impl Owned for $guard {
            fn owner(&self) -> Owner {
                self.owner()
            }
            fn token(&self) -> Option<FencingToken> {
                self.token()
            }
        }
    };
}

guard!(LockGuard);
owned!(LockGuard);
guard!(RwLockWriteGuard);
owned!(RwLockWriteGuard);
guard!(SemaphorePermit);
