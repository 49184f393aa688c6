//! The lock that people write by hand.
//!
//! It has the usual faults on purpose. A holder that dies between the two commands of `acquire`
//! leaves a lock for ever. Nobody renews the lease, so a slow holder is joined by another. And
//! `release` deletes whatever lock is there, so the slow one then lets in a third.

use std::time::Duration;

use fred::error::Error;
use fred::prelude::{Client, KeysInterface};
use tokio::time::sleep;

/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(1);

/// A lock of `SETNX`, `EXPIRE` and `DEL`.
#[derive(Debug)]
pub(crate) struct NaiveLock {
    redis: Client,
    key: String,
    lease: Duration,
}

impl NaiveLock {
    pub(crate) fn new(redis: Client, key: String, lease: Duration) -> Self {
        Self { redis, key, lease }
    }

    pub(crate) async fn acquire(&self) -> Result<(), Error> {
        while !self.redis.setnx::<bool, _, _>(&self.key, 1).await? {
            sleep(PAUSE).await;
        }
        // `EXPIRE` knows only whole seconds.
        let lease_ms = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX);
        self.redis.pexpire(&self.key, lease_ms, None).await
    }

    pub(crate) async fn release(&self) -> Result<(), Error> {
        self.redis.del(&self.key).await
    }
}
