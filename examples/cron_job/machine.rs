//! One machine: at the beginning of each slot it tries to get the slot's lock.

use std::time::Duration;

use anyhow::Context;
use lockyard::{Client, Lease};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::time::sleep;

use crate::clock::Clock;

/// Longer than any clock is behind another.
const LEASE: Lease = Lease::Fixed(Duration::from_secs(60));

/// How long the job takes: less than the clocks differ.
const JOB: Duration = Duration::from_millis(50);

pub async fn run(redis: &str, clock: Clock) -> anyhow::Result<()> {
    let client = Client::connect(redis).await?;
    let mut told = BufReader::new(stdin()).lines();
    println!("ready");
    let mut slot: i64 = told.next_line().await?.context("no first slot")?.parse()?;
    loop {
        clock.wait_for(slot).await;
        let lock = client.lock(format!("report:{slot}")).with_lease(LEASE);
        match lock.try_acquire().await? {
            None => println!("leaves it"),
            Some(guard) => {
                println!("runs");
                sleep(JOB).await;
                println!("ran");
                // Kept until the lease is over: dropped, it would release the lock.
                tokio::spawn(async move { guard.lost().await });
            }
        }
        slot += 1;
    }
}
