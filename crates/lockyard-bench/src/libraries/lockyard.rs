//! Lockyard, with its defaults.

use lockyard::{Client, LockGuard, RwLockReadGuard, RwLockWriteGuard, SemaphorePermit};

use super::{Library, Lock};
use crate::Result;

pub(crate) async fn connect(address: &str) -> Result<Client> {
    Ok(Client::connect(&format!("redis://{address}")).await?)
}

impl Library for Client {
    type Lock = lockyard::Lock;

    fn lock(&self, key: &str) -> Self::Lock {
        self.lock(key)
    }
}

impl Lock for lockyard::Lock {
    type Guard = LockGuard;

    async fn acquire(&self) -> Result<LockGuard> {
        Ok(self.acquire().await?)
    }

    async fn release(&self, guard: LockGuard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

/// Its fair lock.
pub(crate) struct Fair(pub(crate) Client);

impl Library for Fair {
    type Lock = lockyard::FairLock;

    fn lock(&self, key: &str) -> Self::Lock {
        self.0.fair_lock(key)
    }
}

impl Lock for lockyard::FairLock {
    type Guard = LockGuard;

    async fn acquire(&self) -> Result<LockGuard> {
        Ok(self.acquire().await?)
    }

    async fn release(&self, guard: LockGuard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

/// Its semaphore, with one permit.
pub(crate) struct Permits(pub(crate) Client);

impl Library for Permits {
    type Lock = lockyard::Semaphore;

    fn lock(&self, key: &str) -> Self::Lock {
        self.0.semaphore(key, 1)
    }
}

impl Lock for lockyard::Semaphore {
    type Guard = SemaphorePermit;

    async fn acquire(&self) -> Result<SemaphorePermit> {
        Ok(self.acquire().await?)
    }

    async fn release(&self, permit: SemaphorePermit) -> Result<()> {
        Ok(permit.release().await?)
    }
}

/// Its read-write lock, so many times in a hundred to read.
pub(crate) struct ReadWrite {
    pub(crate) client: Client,
    pub(crate) reads: usize,
}

#[derive(Clone)]
pub(crate) struct Mixed {
    lock: lockyard::RwLock,
    reads: usize,
}

pub(crate) enum Either {
    Read(RwLockReadGuard),
    Write(RwLockWriteGuard),
}

impl Library for ReadWrite {
    type Lock = Mixed;

    fn lock(&self, key: &str) -> Mixed {
        Mixed {
            lock: self.client.rw_lock(key),
            reads: self.reads,
        }
    }
}

impl Lock for Mixed {
    type Guard = Either;

    async fn acquire(&self) -> Result<Either> {
        Ok(match fastrand::usize(..100) < self.reads {
            true => Either::Read(self.lock.read().await?),
            false => Either::Write(self.lock.write().await?),
        })
    }

    async fn release(&self, guard: Either) -> Result<()> {
        match guard {
            Either::Read(guard) => guard.release().await?,
            Either::Write(guard) => guard.release().await?,
        }
        Ok(())
    }

    fn is_exclusive(&self) -> bool {
        self.reads == 0
    }
}
