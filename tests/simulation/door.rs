//! What tasks enter: a lock, either side of a read-write lock, or a semaphore; and what they hold then.

use std::fmt;
use std::time::Duration;

use lockyard::{
    Error, HoldState, Lock, LockGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore,
    SemaphorePermit,
};

/// How many permits the semaphore has.
pub(crate) const PERMITS: u32 = 3;

#[derive(Clone, Debug)]
pub(crate) enum Door {
    Lock(Lock),
    Read(RwLock),
    Write(RwLock),
    Permits(Semaphore, u32),
}

#[derive(Debug)]
pub(crate) enum Held {
    Lock(LockGuard),
    Read(RwLockReadGuard),
    Write(RwLockWriteGuard),
    Permits(SemaphorePermit),
}

/// Beside whom a hold may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Nobody,
    Readers,
    Permits(u32),
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(lock) => f.write_str(lock.name()),
            Self::Read(lock) => write!(f, "{} to read", lock.name()),
            Self::Write(lock) => write!(f, "{} to write", lock.name()),
            Self::Permits(semaphore, permits) => write!(f, "{permits} of {}", semaphore.name()),
        }
    }
}

impl Door {
    /// The main key.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Lock(lock) => format!("lockyard:lock:{{{}}}", lock.name()),
            Self::Read(lock) | Self::Write(lock) => format!("lockyard:rw:{{{}}}", lock.name()),
            Self::Permits(semaphore, _) => format!("lockyard:semaphore:{{{}}}", semaphore.name()),
        }
    }

    pub(crate) async fn acquire(&self) -> Result<Held, Error> {
        Ok(match self {
            Self::Lock(lock) => Held::Lock(lock.acquire().await?),
            Self::Read(lock) => Held::Read(lock.read().await?),
            Self::Write(lock) => Held::Write(lock.write().await?),
            Self::Permits(semaphore, permits) => {
                Held::Permits(semaphore.acquire_many(*permits).await?)
            }
        })
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Held>, Error> {
        Ok(match self {
            Self::Lock(lock) => lock.try_acquire().await?.map(Held::Lock),
            Self::Read(lock) => lock.try_read().await?.map(Held::Read),
            Self::Write(lock) => lock.try_write().await?.map(Held::Write),
            Self::Permits(semaphore, permits) => {
                let permit = semaphore.try_acquire_many(*permits).await?;
                permit.map(Held::Permits)
            }
        })
    }

    pub(crate) async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Held>, Error> {
        Ok(match self {
            Self::Lock(lock) => lock.try_acquire_for(wait).await?.map(Held::Lock),
            Self::Read(lock) => lock.try_read_for(wait).await?.map(Held::Read),
            Self::Write(lock) => lock.try_write_for(wait).await?.map(Held::Write),
            Self::Permits(semaphore, permits) => {
                let permit = semaphore.try_acquire_many_for(*permits, wait).await?;
                permit.map(Held::Permits)
            }
        })
    }
}

impl Held {
    pub(crate) fn state(&self) -> HoldState {
        match self {
            Self::Lock(guard) => guard.state(),
            Self::Read(guard) => guard.state(),
            Self::Write(guard) => guard.state(),
            Self::Permits(permit) => permit.state(),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.state() == HoldState::Lost
    }

    pub(crate) fn beside(&self) -> Beside {
        match self {
            Self::Lock(_) | Self::Write(_) => Beside::Nobody,
            Self::Read(_) => Beside::Readers,
            Self::Permits(permit) => Beside::Permits(permit.permits()),
        }
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Read(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::Permits(permit) => permit.release().await,
        }
    }

    /// The owner's text, without asking for it: that would keep a lock from being passed on.
    pub(crate) fn owner(&self) -> String {
        let text = format!("{self:?}");
        let hold = text.split_once("hold: Hold").map_or("", |(_, hold)| hold);
        let part = |before: &str, end: char| {
            let (_, rest) = hold.split_once(before).unwrap_or_default();
            rest.split(end).next().unwrap_or_default().to_owned()
        };
        match part("owner: ", ',') {
            none if none == "None" => format!("{}:{}", part("client: \"", '"'), part("seq: ", ',')),
            _ => part("owner: Some(Owner(", ')'),
        }
    }
}
