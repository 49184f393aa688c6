//! Two services in two processes, and one lock held over a call from one to the other.
//!
//! Service A holds `order:42` and calls service B with its owner in a header; B re-enters the hold. A third process
//! that is not part of the call stays out the whole time. Then B is killed in the middle: A's hold survives, and B's
//! ends with its own lease.
//!
//! Run it with `cargo run --example nested_services`; it starts its own Redis, which must be installed.

mod service;
mod service_a;
mod service_b;
mod stranger;

use std::time::Duration;

use lockyard::{Client, Lock};
use lockyard_testkit::{Server, eventually_async};
use processes::Process;

use crate::service::Service;

/// The header in which an owner travels.
const OWNER: &str = "lockyard-owner";

/// B's lease: so long its hold stands after B was killed.
const LEASE_OF_B: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => story().await,
        ["service-a", redis, b] => service_a::serve(redis, b).await,
        ["service-b", redis] => service_b::serve(redis).await,
        ["stranger", redis] => stranger::run(redis).await,
        _ => anyhow::bail!("run it without arguments"),
    }
}

async fn story() -> anyhow::Result<()> {
    let server = Server::start()?;
    let redis = server.url();
    let mut b = Service::start(&["service-b", &redis])?;
    let mut a = Service::start(&["service-a", &redis, &b.address])?;
    let mut stranger = Process::start(&["stranger", &redis])?;
    let order = Client::connect(&redis).await?.lock("order:42");

    println!("== A calls B");
    a.post("order")?;
    a.tell("A: holds order:42, calls B")?;
    b.tell("B: re-entered A's hold")?;
    ask(&mut stranger, "stayed out")?;
    b.post("go-on")?;
    b.tell("B: done, released its own hold")?;
    a.tell("A: B answered 200 OK")?;
    a.post("go-on")?;
    a.tell("A: released")?;
    ask(&mut stranger, "got in")?;

    println!("== A calls B, and B is killed");
    a.post("order")?;
    a.tell("A: holds order:42, calls B")?;
    b.tell("B: re-entered A's hold")?;
    println!("   holders: {}", holders(&order).await?);
    b.process.kill()?;
    a.tell("A: B is gone, but the hold is Held")?;
    eventually_async(LEASE_OF_B * 5, async || {
        holders(&order).await.is_ok_and(|holders| holders == 1)
    })
    .await;
    println!("   B's hold has ended with its lease; holders: 1");
    ask(&mut stranger, "stayed out")?;
    a.post("go-on")?;
    a.tell("A: released")?;
    ask(&mut stranger, "got in")?;
    Ok(())
}

/// Has the stranger try, and passes on what it says.
fn ask(stranger: &mut Process, expected: &str) -> anyhow::Result<()> {
    stranger.write("try")?;
    stranger.tell(&format!("C: {expected}"))
}

async fn holders(lock: &Lock) -> Result<usize, lockyard::Error> {
    Ok(lock.inspect().await?.holders.len())
}
