//! A batch job of two stages over three processes: nobody sorts before everybody has loaded.
//!
//! Each stage has a latch, named after the job and the stage, so that tomorrow's run has latches of its own.
//! Each worker counts down once when its share is done, and waits until all are.
//!
//! Whoever starts the job sets the latches, before any worker runs: a latch that was never set is open, and a worker
//! that is started anew must not set one that has opened since.
//!
//! A latch knows nothing of processes that die: what they have not counted down stays.
//! So a worker that is killed is started anew, and does its share again.
//! Killed between the end of its work and the count-down, or just after that, it would leave unclear whether to count.
//! Where that matters, give each share a latch of one: no latch goes below zero, so counting it twice does no harm.
//!
//! Run it with `cargo run --example batch_job`; it starts its own Redis, which must be installed.

mod worker;

use anyhow::ensure;
use lockyard::{Client, Latch};
use lockyard_testkit::Server;
use processes::Process;

const WORKERS: u32 = 3;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => story().await,
        ["worker", redis, share] => worker::run(redis, share).await,
        _ => anyhow::bail!("run it without arguments"),
    }
}

fn loaded(client: &Client) -> Latch {
    client.latch("2025-06-01:loaded")
}

fn sorted(client: &Client) -> Latch {
    client.latch("2025-06-01:sorted")
}

async fn story() -> anyhow::Result<()> {
    let server = Server::start()?;
    let redis = server.url();
    let client = Client::connect(&redis).await?;
    for latch in [loaded(&client), sorted(&client)] {
        ensure!(latch.try_set_count(WORKERS).await?, "the job runs already");
    }
    let start = |share: u32| Process::start(&["worker", &redis, &share.to_string()]);
    let mut workers = (1..=WORKERS)
        .map(start)
        .collect::<anyhow::Result<Vec<_>>>()?;
    for (share, worker) in (1..).zip(&mut workers) {
        worker.tell(&format!("worker {share}: loads"))?;
    }
    workers[1].kill()?;
    println!("   worker 2 is killed");
    for share in [1, 3] {
        let worker = &mut workers[share - 1];
        worker.write("done")?;
        worker.tell(&format!("worker {share}: has loaded"))?;
    }
    let left = loaded(&client).count().await?;
    println!("   {left} share is left, so nobody sorts");
    workers[1] = start(2)?;
    workers[1].tell("worker 2: loads")?;
    workers[1].write("done")?;
    workers[1].tell("worker 2: has loaded")?;
    for (share, worker) in (1..).zip(&mut workers) {
        worker.tell(&format!("worker {share}: sorts"))?;
        worker.write("done")?;
    }
    sorted(&client).wait().await?;
    println!("   all is sorted");
    Ok(())
}
