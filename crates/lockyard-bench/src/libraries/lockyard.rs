//! Lockyard, with its defaults.

use lockyard::{Client, LockGuard};

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
