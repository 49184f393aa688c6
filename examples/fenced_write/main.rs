//! A write that comes too late, and a PostgreSQL that refuses it by its fencing token.
//!
//! A holds the lock and is about to write when its machine stands still for longer than the lease. B gets the lock,
//! and writes. Then A goes on: it has looked at its guard before the pause, and writes what it computed then. No lock
//! can prevent that, for the write may as well have been on its way all the time. The store can: with each write comes
//! the token of the hold, which is greater for each new hold, and the store takes none that is smaller than the last.
//!
//! Run it with `cargo run --example fenced_write`; it starts its own Redis and PostgreSQL, which must be installed.

mod ledger;
mod postgres;
mod writer;

use std::path::Path;

use lockyard_testkit::Server;
use processes::Process;

use crate::ledger::Ledger;
use crate::postgres::Postgres;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => story().await,
        ["writer", name, sold, redis, socket] => {
            writer::run(name, sold.parse()?, redis, Path::new(socket)).await
        }
        _ => anyhow::bail!("run it without arguments"),
    }
}

async fn story() -> anyhow::Result<()> {
    let server = Server::start()?;
    let postgres = Postgres::start()?;
    let (redis, socket) = (server.url(), postgres.socket().display().to_string());
    let ledger = Ledger::open(postgres.socket()).await?;
    ledger.create().await?;

    let mut a = Process::start(&["writer", "A", "1", &redis, &socket])?;
    a.tell("A: has the lock, has read 100 and wants to write 99")?;
    a.pause()?;
    println!("   A's machine stands still");

    let mut b = Process::start(&["writer", "B", "30", &redis, &socket])?;
    b.tell("B: has the lock, has read 100 and wants to write 70")?;
    b.write("go on")?;
    b.tell("B: written")?;
    b.tell("B: has released the lock")?;

    println!("   A's machine goes on");
    a.write("go on")?;
    a.resume()?;
    a.tell("A: refused, for somebody with a greater token has written")?;
    a.tell("A: the hold of \"chairs\" is lost: its lease ran out or it was released by force")?;

    let (fenced, unfenced) = (ledger.fenced().await?, ledger.unfenced().await?);
    println!("   in stock: {fenced}");
    println!("   without tokens it would be {unfenced}, and the 30 that B sold forgotten");
    Ok(())
}
