//! What stands between a worker and the stock.

use anyhow::Context;
use fred::prelude::Client as Redis;
use lockyard::{Client, ClientOptions, Error, Lease, Lock};

use crate::cli::Orders;
use crate::market::Market;
use crate::scenario::Scenario;
use crate::worker::naive::NaiveLock;

/// The name of the lock that Lockyard guards the stock with.
const NAME: &str = "flash-sale";

/// Lets workers in, each kind in its own way.
#[derive(Debug)]
pub(crate) enum Gate {
    /// Everybody, at any time.
    Open,
    /// One at a time, as long as nobody is slow.
    Naive(NaiveLock),
    /// One at a time.
    Lockyard(Client, Lock),
}

impl Gate {
    pub(crate) async fn open(
        orders: &Orders,
        redis: &Redis,
        market: &Market,
    ) -> anyhow::Result<Self> {
        let lease = orders.terms.lease;
        match orders.scenario {
            Scenario::None => Ok(Self::Open),
            Scenario::Naive => {
                let lock = NaiveLock::new(redis.clone(), market.lock.clone(), lease);
                Ok(Self::Naive(lock))
            }
            Scenario::Lockyard => {
                let options = ClientOptions::from_url(&orders.url)?.lease(Lease::Renewed(lease));
                let client = Client::with_options(options)
                    .await
                    .context("cannot connect to the lock")?;
                let lock = client.lock(NAME);
                Ok(Self::Lockyard(client, lock))
            }
        }
    }

    /// Runs `sale` inside; `None` if it was stopped because the lease was lost.
    pub(crate) async fn pass<F: Future>(&self, sale: F) -> anyhow::Result<Option<F::Output>> {
        match self {
            Self::Open => Ok(Some(sale.await)),
            Self::Naive(lock) => {
                lock.acquire().await.context("cannot acquire the lock")?;
                let output = sale.await;
                lock.release().await.context("cannot release the lock")?;
                Ok(Some(output))
            }
            Self::Lockyard(_, lock) => {
                let guard = lock.acquire().await.context("cannot acquire the lock")?;
                let output = match guard.run(sale).await {
                    Err(Error::LeaseLost { .. }) => return Ok(None),
                    result => result.context("cannot hold the lock")?,
                };
                match guard.release().await {
                    // The sale was over in time, and what is left of the hold ends with its lease.
                    Ok(()) | Err(Error::LeaseLost { .. } | Error::OutcomeUnknown { .. }) => {
                        Ok(Some(output))
                    }
                    Err(error) => Err(error).context("cannot release the lock"),
                }
            }
        }
    }

    /// Leaves nothing behind.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Open | Self::Naive(_) => Ok(()),
            Self::Lockyard(client, _) => client
                .shutdown()
                .await
                .context("cannot close the lock's client"),
        }
    }
}
