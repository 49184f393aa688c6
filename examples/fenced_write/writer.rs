//! One of the two that sell chairs.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use lockyard::{Client, Lease};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

use crate::ledger::Ledger;

/// So long the lock outlives a machine that stands still.
const LEASE: Lease = Lease::Renewed(Duration::from_secs(1));

pub async fn run(name: &str, sold: i32, redis: &str, socket: &Path) -> anyhow::Result<()> {
    let lock = Client::connect(redis)
        .await?
        .lock("chairs")
        .with_lease(LEASE)
        .fenced();
    let ledger = Ledger::open(socket).await?;
    let mut told = BufReader::new(stdin()).lines();

    let guard = lock.acquire().await?;
    let token = guard.token().context("the lock is fenced")?;
    let read = ledger.fenced().await?;
    let amount = read - sold;
    println!("{name}: has the lock, has read {read} and wants to write {amount}");

    // Between the last look at the guard and the write anything can happen.
    told.next_line().await?;
    match ledger.write_fenced(amount, token).await? {
        true => println!("{name}: written"),
        false => println!("{name}: refused, for somebody with a greater token has written"),
    }
    ledger.write_unfenced(amount).await?;
    match guard.release().await {
        Ok(()) => println!("{name}: has released the lock"),
        Err(lost) => println!("{name}: {lost}"),
    }
    Ok(())
}
