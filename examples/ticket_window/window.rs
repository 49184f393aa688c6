//! One window: each customer at it waits in a task of his own.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use lockyard::{Client, FairLock};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::task::JoinHandle;

pub async fn run(redis: &str, seats: &str) -> anyhow::Result<()> {
    let client = Client::connect(redis).await?;
    let lock = client.fair_lock("seats");
    let mut customers: BTreeMap<String, JoinHandle<anyhow::Result<()>>> = BTreeMap::new();
    let mut told = BufReader::new(stdin()).lines();
    while let Some(line) = told.next_line().await? {
        match line.split_once(' ') {
            Some(("comes", name)) => {
                let task = tokio::spawn(serve(lock.clone(), name.to_owned(), seats.to_owned()));
                customers.insert(name.to_owned(), task);
            }
            // The future is dropped, and its place in the queue is gone.
            Some(("leaves", name)) => customers.remove(name).context("unknown")?.abort(),
            _ => bail!("unknown: {line}"),
        }
    }
    Ok(())
}

async fn serve(lock: FairLock, name: String, seats: String) -> anyhow::Result<()> {
    let guard = lock.acquire().await?;
    // Seats are numbered in the order in which they are sold.
    let seat = std::fs::read_to_string(&seats)?.parse::<u32>()? + 1;
    std::fs::write(&seats, seat.to_string())?;
    println!("{name} has seat {seat}");
    guard.release().await?;
    Ok(())
}
