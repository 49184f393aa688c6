//! A pool of workers in several processes: four jobs at once in the whole fleet, and two at once of one tenant.
//!
//! Then a process is killed while it has permits: they come back after its lease, and those of the living stay.
//!
//! Run it with `cargo run --example worker_pool`; it starts its own Redis, which must be installed.

mod job;
mod worker;

use std::time::Duration;

use anyhow::ensure;
use lockyard::Client;
use lockyard_testkit::{Server, eventually_async};
use processes::Process;

use crate::job::Job;

/// How many jobs run at once in the whole fleet, and of one tenant.
const FLEET: u32 = 4;
const TENANT: u32 = 2;

/// So long a killed worker's permits are missing.
const LEASE: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => story().await,
        ["worker", redis] => worker::run(redis).await,
        ["stuck", redis] => worker::get_stuck(redis).await,
        _ => anyhow::bail!("run it without arguments"),
    }
}

async fn story() -> anyhow::Result<()> {
    let server = Server::start()?;
    let redis = server.url();

    println!("== three processes have 36 jobs of three tenants");
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(Process::start(&["worker", &redis])?);
    }
    let mut jobs = Vec::new();
    for worker in &mut workers {
        for _ in 0..12 {
            jobs.push(worker.line()?.parse::<Job>()?);
        }
    }
    println!("   {} jobs are done", jobs.len());
    let most = job::most_at_once(&jobs);
    ensure!(most <= FLEET, "{most} at once");
    println!("   never more than {FLEET} at once");
    for tenant in worker::TENANTS {
        let jobs: Vec<Job> = jobs
            .iter()
            .filter(|job| job.tenant == tenant)
            .cloned()
            .collect();
        let most = job::most_at_once(&jobs);
        ensure!(most <= TENANT, "{most} of {tenant} at once");
        println!("   never more than {TENANT} of {tenant} at once");
    }

    println!("== a process is killed while it has two permits");
    let mut stuck = Process::start(&["stuck", &redis])?;
    stuck.tell("   it has them")?;
    stuck.kill()?;
    let fleet = Client::connect(&redis).await?.semaphore("jobs", FLEET);
    println!("   available: {}", fleet.available_permits().await?);
    eventually_async(LEASE * 5, async || {
        fleet
            .available_permits()
            .await
            .is_ok_and(|free| free == FLEET)
    })
    .await;
    println!("   a lease later: {FLEET}");
    Ok(())
}
