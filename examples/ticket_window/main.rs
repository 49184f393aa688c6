//! A ticket window: whoever comes first is served first, whichever process he stands in.
//!
//! A `FairLock` queues every task of every process by itself, so nobody is overtaken.
//! With a plain `Lock` the tasks of one client may pass the lock on among themselves for some milliseconds: more are
//! served in a second, but who stands in another process waits a little longer.
//!
//! Three windows, each a process, have a lane of customers. They come one after another, to any window; each is served
//! when all who came before have been, wherever they stand.
//! One gives up meanwhile, and nobody behind him loses his place.
//!
//! Run it with `cargo run --example ticket_window`; it starts its own Redis, which must be installed.

mod window;

use std::time::Duration;

use anyhow::bail;
use lockyard::{Client, FairLock};
use lockyard_testkit::Server;
use processes::Process;

/// At which of the windows each customer comes, in order of arrival.
const CUSTOMERS: [(&str, usize); 7] = [
    ("Ada", 0),
    ("Ben", 1),
    ("Cleo", 0),
    ("Dan", 2),
    ("Eve", 1),
    ("Finn", 0),
    ("Gil", 2),
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => story().await,
        ["window", redis, seats] => window::run(redis, seats).await,
        _ => bail!("run it without arguments"),
    }
}

async fn story() -> anyhow::Result<()> {
    let server = Server::start()?;
    let redis = server.url();
    let client = Client::connect(&redis).await?;
    let lock = client.fair_lock("seats");
    let closed = lock.acquire().await?;
    println!("three windows, still closed");
    let folder = tempfile::tempdir()?;
    let seats = folder.path().join("seats").display().to_string();
    std::fs::write(&seats, "0")?;
    let mut windows = (0..3)
        .map(|_| Process::start(&["window", &redis, &seats]))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for (waiting, (name, window)) in (1..).zip(CUSTOMERS) {
        windows[window].write(&format!("comes {name}"))?;
        until_queued(&lock, waiting).await?;
        println!("{name} comes to window {}", window + 1);
    }
    windows[2].write("leaves Dan")?;
    until_queued(&lock, CUSTOMERS.len() as u64 - 1).await?;
    println!("Dan gives up");
    closed.release().await?;
    let served = CUSTOMERS.iter().filter(|(name, _)| *name != "Dan");
    for (seat, (name, window)) in (1..).zip(served) {
        windows[*window].tell(&format!("{name} has seat {seat}"))?;
    }
    Ok(())
}

/// Waits until so many stand in the queue.
async fn until_queued(lock: &FairLock, waiting: u64) -> anyhow::Result<()> {
    for _ in 0..2000 {
        if lock.inspect().await?.waiting == waiting {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bail!("{waiting} do not wait in time")
}
