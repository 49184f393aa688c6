//! So many permits for all: what only a semaphore does.

// Who gets permits when, and when they come back.
mod granted;

// How many there are: named, stored, raised, lowered.
mod limits;

// A limit that is stored, and what stands in its place.
mod stored;

// Permits that are split, merged and forgotten.
mod parts;

// Permits that go from task to task of a client, without the server.
mod passed;

// Numbers that make no sense.
mod refused;

// Commands that come twice or late, or that nobody answers.
mod late;

// Calls that are dropped at any of their await points.
mod stepped;

// Many holds that end at once.
mod crowd;

// Random calls through several handles, compared after each with a model.
mod random;

use lockyard::{Error, Semaphore, SemaphorePermit};
use lockyard_testkit::eventually_async;
use tokio::task::JoinHandle;

use crate::support::SOON;

async fn until_waiting(semaphore: &Semaphore, waiters: u64) {
    eventually_async(SOON, async || {
        semaphore.inspect().await.unwrap().waiting == waiters
    })
    .await;
}

fn wants(semaphore: &Semaphore, permits: u32) -> JoinHandle<Result<SemaphorePermit, Error>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire_many(permits).await })
}

/// Has tasks wait for permits, one behind the other.
async fn line_up<const N: usize>(
    requests: [(&Semaphore, u32); N],
) -> [JoinHandle<Result<SemaphorePermit, Error>>; N] {
    let mut tasks = Vec::new();
    for (number, (semaphore, permits)) in (1..).zip(requests) {
        tasks.push(wants(semaphore, permits));
        until_waiting(semaphore, number).await;
    }
    tasks.try_into().unwrap()
}

async fn available(semaphore: &Semaphore) -> u32 {
    semaphore.available_permits().await.unwrap()
}
