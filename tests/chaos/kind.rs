//! The locks of a run, and their guards: plain, fair, to read and to write, and permits.

use std::time::Duration;

use fastrand::Rng;
use lockyard::{
    Client, Error, FairLock, HoldState, Lease, Lock, LockGuard, Owner, RwLock, RwLockReadGuard,
    RwLockWriteGuard, Semaphore, SemaphorePermit,
};

use crate::history::Share;

/// How many permits a semaphore has while no limit is stored, and how many at once somebody wants at most.
pub(crate) const PERMITS: u32 = 6;
pub(crate) const MOST_WANTED: u32 = 4;

/// Whether a lock of this name is a read-write lock.
pub(crate) fn is_shared(lock: &str) -> bool {
    lock.starts_with("shelf")
}

/// Whether it is a semaphore.
pub(crate) fn is_semaphore(lock: &str) -> bool {
    lock.starts_with("desk")
}

/// What a task may want of a lock of this name.
pub(crate) fn any_share(lock: &str, rng: &mut Rng) -> Share {
    match () {
        () if is_semaphore(lock) => Share::Permits(rng.u32(1..=MOST_WANTED)),
        () if is_shared(lock) && rng.u8(..10) < 7 => Share::Read,
        () => Share::All,
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Handle {
    Lock(Lock),
    Fair(FairLock),
    Read(RwLock),
    Write(RwLock),
    Permits(Semaphore, u32),
}

#[derive(Debug)]
pub(crate) enum Guard {
    Lock(LockGuard),
    Read(RwLockReadGuard),
    Write(RwLockWriteGuard),
    Permit(SemaphorePermit),
}

/// Does the same with each kind of handle.
macro_rules! each {
    ($handle:expr, $inner:ident => $change:expr; $permits:expr) => {
        match $handle {
            Self::Lock($inner) => Self::Lock($change),
            Self::Fair($inner) => Self::Fair($change),
            Self::Read($inner) => Self::Read($change),
            Self::Write($inner) => Self::Write($change),
            Self::Permits($inner, permits) => Self::Permits($permits, permits),
        }
    };
}

impl Handle {
    /// The lock of this name, of the kind that its name says.
    pub(crate) fn new(client: &Client, name: &str, share: Share) -> Self {
        match share {
            Share::Permits(permits) => Self::Permits(client.semaphore(name, PERMITS), permits),
            Share::Read => Self::Read(client.rw_lock(name)),
            Share::All if is_shared(name) => Self::Write(client.rw_lock(name)),
            Share::All if name.ends_with('2') => Self::Fair(client.fair_lock(name)),
            Share::All => Self::Lock(client.lock(name)),
        }
    }

    pub(crate) fn with_lease(self, lease: Lease) -> Self {
        each!(self, lock => lock.with_lease(lease); lock.with_lease(lease))
    }

    /// Permits have no owner.
    pub(crate) fn with_owner(self, owner: &Owner) -> Self {
        each!(self, lock => lock.with_owner(owner); lock)
    }

    pub(crate) fn fenced(self) -> Self {
        each!(self, lock => lock.fenced(); lock)
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Lock(lock) => lock.name(),
            Self::Fair(lock) => lock.name(),
            Self::Read(lock) | Self::Write(lock) => lock.name(),
            Self::Permits(semaphore, _) => semaphore.name(),
        }
    }

    pub(crate) fn share(&self) -> Share {
        match self {
            Self::Read(_) => Share::Read,
            Self::Permits(_, permits) => Share::Permits(*permits),
            Self::Lock(_) | Self::Fair(_) | Self::Write(_) => Share::All,
        }
    }

    /// What a reader upgrades to, or a writer downgrades to.
    pub(crate) fn other_side(&self) -> Option<Self> {
        match self {
            Self::Read(lock) => Some(Self::Write(lock.clone())),
            Self::Write(lock) => Some(Self::Read(lock.clone())),
            Self::Lock(_) | Self::Fair(_) | Self::Permits(..) => None,
        }
    }

    /// Acquires it, and waits for so long at most, or without limit.
    pub(crate) async fn acquire(&self, wait: Option<Duration>) -> Result<Option<Guard>, Error> {
        let wait = wait.unwrap_or(Duration::MAX);
        Ok(match self {
            Self::Lock(lock) => lock.try_acquire_for(wait).await?.map(Guard::Lock),
            Self::Fair(lock) => lock.try_acquire_for(wait).await?.map(Guard::Lock),
            Self::Read(lock) => lock.try_read_for(wait).await?.map(Guard::Read),
            Self::Write(lock) => lock.try_write_for(wait).await?.map(Guard::Write),
            Self::Permits(semaphore, permits) => {
                let permit = semaphore.try_acquire_many_for(*permits, wait).await?;
                permit.map(Guard::Permit)
            }
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
            Self::Permits(..) => self.try_acquire().await?,
        })
    }

    /// Releases what others hold; permits cannot be taken away.
    pub(crate) async fn force_release(&self) -> Result<bool, Error> {
        match self {
            Self::Lock(lock) => lock.force_release().await,
            Self::Fair(lock) => lock.force_release().await,
            Self::Read(lock) | Self::Write(lock) => lock.force_release().await,
            Self::Permits(..) => Ok(false),
        }
    }
}

/// How an owner is named in events: without formatting it, which would make it a traveller.
pub(crate) fn named(owner: &Owner) -> String {
    let text = format!("{owner:?}");
    let text = text
        .strip_prefix("Owner(")
        .and_then(|text| text.strip_suffix(')'));
    text.expect("an owner is shown as Owner(…)").to_owned()
}

/// The owner of a hold that was acquired without one, `<client>:<seq>`, which permits do not tell.
fn nameless(permit: &SemaphorePermit) -> String {
    let text = format!("{permit:?}");
    let after = |start: &str| {
        let (_, rest) = text.split_once(start)?;
        rest.split(['"', ',']).next()
    };
    let parts = (after("client: \""), after(" seq: "));
    let (Some(client), Some(seq)) = parts else {
        panic!("a permit shows its client and its number: {text}");
    };
    format!("{client}:{seq}")
}

impl Guard {
    /// How the owner is named in events.
    pub(crate) fn owner(&self) -> String {
        match self {
            Self::Lock(guard) => named(&guard.owner()),
            Self::Read(guard) => named(&guard.owner()),
            Self::Write(guard) => named(&guard.owner()),
            Self::Permit(permit) => nameless(permit),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        let state = match self {
            Self::Lock(guard) => guard.state(),
            Self::Read(guard) => guard.state(),
            Self::Write(guard) => guard.state(),
            Self::Permit(permit) => permit.state(),
        };
        state == HoldState::Lost
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Self::Lock(guard) => guard.remaining(),
            Self::Read(guard) => guard.remaining(),
            Self::Write(guard) => guard.remaining(),
            Self::Permit(permit) => permit.remaining(),
        }
    }

    /// Its own token: a reader only sees that of another.
    pub(crate) fn token(&self) -> Option<u64> {
        let token = match self {
            Self::Lock(guard) => guard.token(),
            Self::Read(_) | Self::Permit(_) => None,
            Self::Write(guard) => guard.token(),
        };
        token.map(|token| token.get())
    }

    pub(crate) async fn lost(&self) {
        match self {
            Self::Lock(guard) => guard.lost().await,
            Self::Read(guard) => guard.lost().await,
            Self::Write(guard) => guard.lost().await,
            Self::Permit(permit) => permit.lost().await,
        }
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Read(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::Permit(permit) => permit.release().await,
        }
    }
}
