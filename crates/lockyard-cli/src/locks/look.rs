//! What the server knows of one name.

use std::time::Duration;

use lockyard::{Client, Error, LockInfo, Rate, RateLimiterInfo, RwLockInfo, SemaphoreInfo};

use crate::cli::complain;
use crate::locks::kind::Kind;
use crate::locks::view;

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

    /// Whether nobody has or wants anything of it.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Lock(info) => info.holders.is_empty() && info.waiting == 0,
            Self::Rw(info) => {
                info.writers.is_empty() && info.readers.is_empty() && info.waiting == 0
            }
            Self::Semaphore(info) => info.held == 0 && info.waiting == 0,
            Self::Latch(count) => *count == 0,
            Self::Rate(info) => info.owed == 0,
        }
    }
}

/// Tells on standard error of what else has this name and is in use, for it may have been meant.
pub(crate) async fn hint(client: &Client, others: impl IntoIterator<Item = Kind>, name: &str) {
    for other in others {
        // What cannot be looked at was not asked for.
        let seen = Seen::look(client, other, name).await;
        if seen.is_ok_and(|seen| !seen.is_idle()) {
            let (name, word) = (view::printable(name), other.word());
            complain(&format!("{name} is in use as another kind: --kind {word}"));
        }
    }
}
