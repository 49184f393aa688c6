//! A configuration that many processes read and that one of them rewrites now and then.
//!
//! Readers hold the lock together, the writer alone, so nobody reads what is half written.
//! When it has written, the writer downgrades: it goes on as a reader, together with those who wait, and no other
//! writer gets in between. So what it reads back, and reports as loaded, is what it has written.
//!
//! Run it with `cargo run --example config_cache`; it starts its own Redis, which must be installed.

mod config;
mod reader;
mod writer;

use std::time::Duration;

use anyhow::{bail, ensure};
use lockyard::{Client, RwLock};
use lockyard_testkit::Server;
use processes::Process;

use crate::config::Config;

const READERS: usize = 3;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => story().await,
        ["reader", redis, path] => reader::run(&lock(redis).await?, &Config::at(path)).await,
        ["writer", redis, path] => writer::run(&lock(redis).await?, &Config::at(path)).await,
        _ => bail!("run it without arguments"),
    }
}

async fn lock(redis: &str) -> anyhow::Result<RwLock> {
    Ok(Client::connect(redis).await?.rw_lock("config"))
}

async fn story() -> anyhow::Result<()> {
    let server = Server::start()?;
    let redis = server.url();
    let lock = lock(&redis).await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("config").display().to_string();
    let config = Config::at(&path);
    config.begin(1)?;
    config.finish(1)?;
    let start = |role| Process::start(&[role, &redis, &path]);
    let mut readers = (0..READERS)
        .map(|_| start("reader"))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut writer = start("writer")?;

    tell(&mut readers, "read")?;
    expect(&mut readers, "reads version 1")?;
    println!("{READERS} readers read version 1, all at once");
    writer.write("rewrite")?;
    until_queued(&lock, 1).await?;
    println!("the writer waits until they are done");
    tell(&mut readers, "done")?;
    ensure!(writer.line()? == "is alone", "the writer is not alone");
    println!("the writer has written half of version 2");
    tell(&mut readers, "read")?;
    until_queued(&lock, READERS as u64).await?;
    println!("{READERS} readers wait until it is whole");
    writer.write("go on")?;
    ensure!(
        writer.line()? == "reads version 2",
        "the writer does not read"
    );
    expect(&mut readers, "reads version 2")?;
    let together = lock.inspect().await?.readers.len();
    println!("{together} read version 2 at once, and the writer is one of them");
    Ok(())
}

fn tell(readers: &mut [Process], line: &str) -> anyhow::Result<()> {
    readers.iter_mut().try_for_each(|reader| reader.write(line))
}

/// Checks what all readers say.
fn expect(readers: &mut [Process], expected: &str) -> anyhow::Result<()> {
    for reader in readers {
        let line = reader.line()?;
        ensure!(line == expected, "unexpected: {line}");
    }
    Ok(())
}

/// Waits until so many stand in the queue.
async fn until_queued(lock: &RwLock, waiting: u64) -> anyhow::Result<()> {
    for _ in 0..2000 {
        if lock.inspect().await?.waiting == waiting {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bail!("{waiting} do not wait in time")
}
