//! What the contract asks of what is held once at a time, by an owner or without one.

use std::fmt::Debug;
use std::time::Duration;

use lockyard::{
    Client, Error, FencingToken, HoldState, HolderInfo, Lease, LockInfo, Owner, RwLockInfo,
    SemaphoreInfo,
};

/// Something that is held once at a time.
pub(crate) trait Single: Clone + Debug + Send + Sync + 'static {
    type Guard: Guard;

    /// The module of its tests, for those that run in several processes.
    const TESTS: &str;
    /// What its keys begin with.
    const KIND: &str;
    /// What an entry of its queue says of the kind of hold.
    const ENTRY: &str = "-";

    fn of(client: &Client, name: impl AsRef<str>) -> Self;
    /// One for each way in which it can be acquired, under these names.
    fn of_each_kind(client: &Client, names: [&str; 3]) -> Vec<Self> {
        vec![Self::of(client, names[0])]
    }
    fn with_lease(self, lease: Lease) -> Self;
    fn with_max_hold(self, longest: Duration) -> Self;

    fn name(&self) -> &str;
    fn acquire(&self) -> impl Future<Output = Result<Self::Guard, Error>> + Send;
    fn try_acquire(&self) -> impl Future<Output = Result<Option<Self::Guard>, Error>> + Send;
    fn try_acquire_for(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<Self::Guard>, Error>> + Send;
    fn inspect(&self) -> impl Future<Output = Result<Info, Error>> + Send;

    /// The key that holds stand in.
    fn key(name: &str) -> String {
        format!("lockyard:{}:{{{name}}}", Self::KIND)
    }

    /// The keys that are there while it is held and nobody waits, in order.
    fn keys(name: &str) -> Vec<String> {
        vec![Self::key(name)]
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

/// One that an owner holds, who may enter it again.
pub(crate) trait Exclusive: Single<Guard: Owned> {
    fn with_owner(self, owner: &Owner) -> Self;
    fn fenced(self) -> Self;

    fn reenter(
        &self,
        owner: &Owner,
    ) -> impl Future<Output = Result<Option<Self::Guard>, Error>> + Send;
    fn is_locked(&self) -> impl Future<Output = Result<bool, Error>> + Send;
    fn hold_count(&self, owner: &Owner) -> impl Future<Output = Result<u64, Error>> + Send;
    fn force_release(&self) -> impl Future<Output = Result<bool, Error>> + Send;
    /// Those who hold.
    fn holders(&self) -> impl Future<Output = Result<Vec<HolderInfo>, Error>> + Send;
}

/// A hold of it.
pub(crate) trait Guard: Debug + Send + Sync + 'static {
    fn name(&self) -> &str;
    fn state(&self) -> HoldState;
    fn is_lost(&self) -> bool;
    fn remaining(&self) -> Duration;
    fn lost(&self) -> impl Future<Output = ()> + Send;
    fn run<F: Future<Output: Send> + Send>(
        &self,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Error>> + Send;
    fn extend(&self, lease: Duration) -> impl Future<Output = Result<(), Error>> + Send;
    fn release(self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// A hold of an owner.
pub(crate) trait Owned: Guard {
    fn owner(&self) -> Owner;
    fn token(&self) -> Option<FencingToken>;
}

/// What any of them tells of its holders and waiters.
#[derive(Debug)]
pub(crate) struct Info {
    /// What is left of the lease of each who holds.
    pub(crate) remaining: Vec<Duration>,
    /// The clients of those who wait.
    pub(crate) waiters: Vec<String>,
    pub(crate) waiting: u64,
}

impl From<LockInfo> for Info {
    fn from(info: LockInfo) -> Self {
        let holders = info.holders.into_iter();
        let waiters = info.waiters.into_iter();
        Self {
            remaining: holders.map(|holder| holder.remaining).collect(),
            waiters: waiters.map(|waiter| waiter.client).collect(),
            waiting: info.waiting,
        }
    }
}

impl From<RwLockInfo> for Info {
    fn from(info: RwLockInfo) -> Self {
        let writers = info.writers.into_iter();
        let waiters = info.waiters.into_iter();
        Self {
            remaining: writers.map(|writer| writer.remaining).collect(),
            waiters: waiters.map(|waiter| waiter.client).collect(),
            waiting: info.waiting,
        }
    }
}

impl From<SemaphoreInfo> for Info {
    fn from(info: SemaphoreInfo) -> Self {
        let permits = info.permits.into_iter();
        let waiters = info.waiters.into_iter();
        Self {
            remaining: permits.map(|permit| permit.remaining).collect(),
            waiters: waiters.map(|waiter| waiter.client).collect(),
            waiting: info.waiting,
        }
    }
}
