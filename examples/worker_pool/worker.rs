//! A process with workers.

use lockyard::{Client, ClientOptions, Lease};
use tokio::task::JoinSet;

use crate::job::Job;
use crate::{FLEET, LEASE, TENANT};

pub const TENANTS: [&str; 3] = ["blue", "green", "red"];

/// Does twelve jobs, as many at once as it may, and reports each.
pub async fn run(redis: &str) -> anyhow::Result<()> {
    let client = Client::connect(redis).await?;
    let mut jobs = JoinSet::new();
    for number in 0..12 {
        jobs.spawn(work(client.clone(), TENANTS[number % TENANTS.len()]));
    }
    while let Some(job) = jobs.join_next().await {
        println!("{}", job??);
    }
    Ok(client.shutdown().await?)
}

/// Does a job of a tenant when there is room for it.
///
/// The tenant's permit comes first, so that a busy tenant's jobs wait without keeping the fleet's permits from others.
async fn work(client: Client, tenant: &str) -> anyhow::Result<Job> {
    let mine = client.semaphore(format!("jobs:{tenant}"), TENANT);
    let mine = mine.acquire().await?;
    let fleet = client.semaphore("jobs", FLEET).acquire().await?;
    // The job stops if the permit is lost, for then somebody else may have it.
    let job = fleet.run(Job::run(tenant)).await??;
    fleet.release().await?;
    mine.release().await?;
    Ok(job)
}

/// Takes two permits, and never ends.
pub async fn get_stuck(redis: &str) -> anyhow::Result<()> {
    let options = ClientOptions::from_url(redis)?.lease(Lease::Renewed(LEASE));
    let client = Client::with_options(options).await?;
    let _permits = client.semaphore("jobs", FLEET).acquire_many(2).await?;
    println!("   it has them");
    std::future::pending().await
}
