//! The locks of a run, and their guards: plain, fair, to read and to write.

use std::time::Duration;

use lockyard::{
    Client, Error, FairLock, HoldState, Lease, Lock, LockGuard, Owner, RwLock, RwLockReadGuard,
    RwLockWriteGuard,
};

/// Whether a lock of this name is a read-write lock.
pub(crate) fn is_shared(lock: &str) -> bool {
    lock.starts_with("shelf")
}

#[derive(Clone, Debug)]
pub(crate) enum Handle {
    Lock(Lock),
    Fair(FairLock),
    Read(RwLock),
    Write(RwLock),
}

#[derive(Debug)]
pub(crate) enum Guard {
    Lock(LockGuard),
    Read(RwLockReadGuard),
    Write(RwLockWriteGuard),
}

/// Does the same with each kind of handle.
macro_rules! each {
    ($handle:expr, $inner:ident => $change:expr) => {
        match $handle {
            Self::Lock($inner) => Self::Lock($change),
            Self::Fair($inner) => Self::Fair($change),
            Self::Read($inner) => Self::Read($change),
            Self::Write($inner) => Self::Write($change),
        }
    };
}

impl Handle {
    /// The lock of this name, of the kind that its name says.
    pub(crate) fn new(client: &Client, name: &str, reads: bool) -> Self {
        match (is_shared(name), reads) {
            (true, true) => Self::Read(client.rw_lock(name)),
            (true, false) => Self::Write(client.rw_lock(name)),
            (false, _) if name.ends_with('2') => Self::Fair(client.fair_lock(name)),
            (false, _) => Self::Lock(client.lock(name)),
        }
    }

    pub(crate) fn with_lease(self, lease: Lease) -> Self {
        each!(self, lock => lock.with_lease(lease))
    }

    pub(crate) fn with_owner(self, owner: &Owner) -> Self {
        each!(self, lock => lock.with_owner(owner))
    }

    pub(crate) fn fenced(self) -> Self {
        each!(self, lock => lock.fenced())
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Lock(lock) => lock.name(),
            Self::Fair(lock) => lock.name(),
            Self::Read(lock) | Self::Write(lock) => lock.name(),
        }
    }

    pub(crate) fn reads(&self) -> bool {
        matches!(self, Self::Read(_))
    }

    /// Acquires it, and waits for so long at most, or without limit.
    pub(crate) async fn acquire(&self, wait: Option<Duration>) -> Result<Option<Guard>, Error> {
        let wait = wait.unwrap_or(Duration::MAX);
        Ok(match self {
            Self::Lock(lock) => lock.try_acquire_for(wait).await?.map(Guard::Lock),
            Self::Fair(lock) => lock.try_acquire_for(wait).await?.map(Guard::Lock),
            Self::Read(lock) => lock.try_read_for(wait).await?.map(Guard::Read),
            Self::Write(lock) => lock.try_write_for(wait).await?.map(Guard::Write),
        })
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        self.acquire(Some(Duration::ZERO)).await
    }

    pub(crate) async fn reenter(&self, owner: &Owner) -> Result<Option<Guard>, Error> {
        Ok(match self {
            Self::Lock(lock) => lock.reenter(owner).await?.map(Guard::Lock),
            Self::Fair(lock) => lock.reenter(owner).await?.map(Guard::Lock),
            Self::Read(lock) => lock.reenter_read(owner).await?.map(Guard::Read),
            Self::Write(lock) => lock.reenter_write(owner).await?.map(Guard::Write),
        })
    }

    pub(crate) async fn force_release(&self) -> Result<bool, Error> {
        match self {
            Self::Lock(lock) => lock.force_release().await,
            Self::Fair(lock) => lock.force_release().await,
            Self::Read(lock) | Self::Write(lock) => lock.force_release().await,
        }
    }
}

impl Guard {
    pub(crate) fn owner(&self) -> Owner {
        match self {
            Self::Lock(guard) => guard.owner(),
            Self::Read(guard) => guard.owner(),
            Self::Write(guard) => guard.owner(),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        let state = match self {
            Self::Lock(guard) => guard.state(),
            Self::Read(guard) => guard.state(),
            Self::Write(guard) => guard.state(),
        };
        state == HoldState::Lost
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Self::Lock(guard) => guard.remaining(),
            Self::Read(guard) => guard.remaining(),
            Self::Write(guard) => guard.remaining(),
        }
    }

    /// Its own token: a reader only sees that of another.
    pub(crate) fn token(&self) -> Option<u64> {
        let token = match self {
            Self::Lock(guard) => guard.token(),
            Self::Read(_) => None,
            Self::Write(guard) => guard.token(),
        };
        token.map(|token| token.get())
    }

    pub(crate) async fn lost(&self) {
        match self {
            Self::Lock(guard) => guard.lost().await,
            Self::Read(guard) => guard.lost().await,
            Self::Write(guard) => guard.lost().await,
        }
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Read(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
        }
    }
}
