//! What the command runs under: a lock, or permits of a semaphore.

use std::env;
use std::time::Duration;

use anyhow::Context;
use lockyard::{Client, Error, LockGuard, Owner, SemaphorePermit};
use tokio::process::Command;

use crate::run::options::Options;

/// The variables that tell the command, and a nested `lockyard run`, of the hold.
const NAME: &str = "LOCKYARD_NAME";
const OWNER: &str = "LOCKYARD_OWNER";
const TOKEN: &str = "LOCKYARD_TOKEN";

/// Held while the command runs.
#[derive(Debug)]
pub(crate) enum Guard {
    Lock(LockGuard),
    Permits(SemaphorePermit),
}

impl Guard {
    /// Waits as long as the options say; `None` if that was not long enough.
    pub(crate) async fn acquire(
        options: &Options,
        client: &Client,
        inherited: Option<Owner>,
    ) -> Result<Option<Self>, Error> {
        let (name, patience) = (&options.name, options.patience());
        if let Some(permits) = options.permits {
            let semaphore = client.semaphore(name, permits.all);
            let permit = semaphore.try_acquire_many_for(permits.taken, patience);
            return Ok(permit.await?.map(Self::Permits));
        }
        let owner = inherited.unwrap_or_else(|| client.owner());
        let lock = client.lock(name).with_owner(&owner).fenced();
        Ok(lock.try_acquire_for(patience).await?.map(Self::Lock))
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Lock(guard) => guard.name(),
            Self::Permits(permit) => permit.name(),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Lock(guard) => guard.is_lost(),
            Self::Permits(permit) => permit.is_lost(),
        }
    }

    /// What is left of its lease.
    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Self::Lock(guard) => guard.remaining(),
            Self::Permits(permit) => permit.remaining(),
        }
    }

    /// Waits until it is lost, which may be never.
    pub(crate) async fn lost(&self) {
        match self {
            Self::Lock(guard) => guard.lost().await,
            Self::Permits(permit) => permit.lost().await,
        }
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Permits(permit) => permit.release().await,
        }
    }

    /// Tells the command of it.
    pub(crate) fn introduce(&self, command: &mut Command) {
        command.env(NAME, self.name());
        match self {
            Self::Lock(guard) => {
                command.env(OWNER, guard.owner().to_string());
                if let Some(token) = guard.token() {
                    command.env(TOKEN, token.to_string());
                }
            }
            // The owner of a lock around the permits can still be entered, but its token is of another name.
            Self::Permits(_) => drop(command.env_remove(TOKEN)),
        }
    }
}

/// The owner of the `lockyard run` around this one.
pub(crate) fn inherited_owner() -> anyhow::Result<Option<Owner>> {
    let text = env::var_os(OWNER).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let owner = text.to_string_lossy().parse();
    Ok(Some(owner.context(OWNER)?))
}
