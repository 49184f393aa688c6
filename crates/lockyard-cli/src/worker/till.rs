//! One sale: read the stock, think, write it back.

use std::future;
use std::time::{Duration, Instant};

use anyhow::Context;
use fred::prelude::{Client, KeysInterface, SetOptions, StreamsInterface, TransactionInterface};
use tokio::time::sleep;

use crate::cli::Orders;
use crate::line::Line;
use crate::market::{Market, SELLER, WAIT_US};
use crate::worker::mishap::Mishap;
use crate::worker::parent;

/// How long a sale takes between reading the stock and writing it back.
const THINK: Duration = Duration::from_millis(3);

/// How a sale ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// A customer has the confirmation.
    Sold,
    /// Nothing was left.
    SoldOut,
}

/// Where a worker sells.
#[derive(Debug)]
pub(crate) struct Till<'a> {
    orders: &'a Orders,
    redis: Client,
    market: Market,
}

impl<'a> Till<'a> {
    pub(crate) fn new(orders: &'a Orders, redis: Client, market: Market) -> Self {
        Self {
            orders,
            redis,
            market,
        }
    }

    /// Sells one item to a customer who came at `wanted` and has waited since.
    pub(crate) async fn sell(&self, wanted: Instant) -> anyhow::Result<Outcome> {
        let wait = wanted.elapsed();
        let left: u32 = self
            .redis
            .get(&self.market.stock)
            .await
            .context("cannot read the stock")?;
        if left == 0 {
            return Ok(Outcome::SoldOut);
        }
        sleep(THINK).await;
        self.suffer(left).await?;
        self.confirm(left - 1, wait)
            .await
            .context("cannot write the stock")?;
        Ok(Outcome::Sold)
    }

    /// Lets happen what is planned for this stock, unless it has happened.
    async fn suffer(&self, left: u32) -> anyhow::Result<()> {
        let planned = Mishap::planned(self.orders.scenario, self.orders.terms, left);
        let Some(mishap) = planned else {
            return Ok(());
        };
        let key = format!("{}:{left}", self.market.mishap);
        let first: Option<String> = self
            .redis
            .set(key, self.orders.seller, None, Some(SetOptions::NX), false)
            .await
            .context("cannot claim the mishap")?;
        if first.is_none() {
            return Ok(());
        }
        match mishap {
            Mishap::Dawdle(duration) => sleep(duration).await,
            Mishap::Die => {
                parent::say(Line::Holding)?;
                future::pending().await
            }
        }
        Ok(())
    }

    /// Writes the stock and the sale, both or neither.
    async fn confirm(&self, left: u32, wait: Duration) -> Result<(), fred::error::Error> {
        let wait_us = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        let fields = vec![(SELLER, u64::from(self.orders.seller)), (WAIT_US, wait_us)];
        let transaction = self.redis.multi();
        let () = transaction
            .set(&self.market.stock, left, None, None, false)
            .await?;
        let () = transaction
            .xadd(&self.market.sales, false, None, "*", fields)
            .await?;
        transaction.exec(true).await
    }
}
