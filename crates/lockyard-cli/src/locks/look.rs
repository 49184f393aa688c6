//! What the server knows of one name.

use std::time::Duration;

use lockyard::{Client, Error, LockInfo, Rate, RateLimiterInfo, RwLockInfo, SemaphoreInfo};

use crate::locks::kind::Kind;

/// What was seen, by kind.
#[derive(Debug)]
pub(crate) enum Seen {
    Lock(LockInfo),
    Rw(RwLockInfo),
    Semaphore(SemaphoreInfo),
    /// How much is left to count down.
    Latch(u64),
    Rate(RateLimiterInfo),
}

impl Seen {
    pub(crate) async fn look(client: &Client, kind: Kind, name: &str) -> Result<Self, Error> {
        // Neither the permits nor the rate of a handle matter to an inspection.
        let rate = Rate::new(1, Duration::MAX);
        Ok(match kind {
            Kind::Lock => Self::Lock(client.lock(name).inspect().await?),
            Kind::Rw => Self::Rw(client.rw_lock(name).inspect().await?),
            Kind::Semaphore => Self::Semaphore(client.semaphore(name, 1).inspect().await?),
            Kind::Latch => Self::Latch(client.latch(name).count().await?),
            Kind::Rate => Self::Rate(client.rate_limiter(name, rate).inspect().await?),
        })
    }
}
