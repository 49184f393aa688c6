//! A worker's life: connect, wait for the start, sell until nothing is left.

use std::time::Instant;

use anyhow::Context;
use fred::prelude::{Builder, Client, ClientLike, Config};

use crate::cli::Orders;
use crate::line::Line;
use crate::market::Market;
use crate::worker::gate::Gate;
use crate::worker::parent::{self, Parent};
use crate::worker::till::{Outcome, Till};

/// Carries out the orders; returns when the stock is sold out.
pub(crate) async fn work(orders: &Orders) -> anyhow::Result<()> {
    let mut parent = Parent::watch();
    let redis = connect(&orders.url)
        .await
        .context("cannot connect to the stock")?;
    let market = Market::of(orders.scenario);
    let gate = Gate::open(orders, &redis, &market).await?;
    let till = Till::new(orders, redis, market);

    parent::say(Line::Ready)?;
    parent.start().await;
    loop {
        let wanted = Instant::now();
        let outcome = gate.pass(till.sell(wanted)).await?;
        match outcome.transpose()? {
            Some(Outcome::SoldOut) => break,
            // If the gate stopped a sale, the customer asks again, and the stock is read anew.
            Some(Outcome::Sold) | None => {}
        }
    }
    gate.close().await
}

async fn connect(url: &str) -> anyhow::Result<Client> {
    let client = Builder::from_config(Config::from_url(url)?).build()?;
    client.init().await?;
    Ok(client)
}
