//! Readers together, writers alone: what only a read-write lock does.

// Who enters when, and who together.
mod order;

// Re-entry, in one client and over several.
mod owners;

// From reading to writing and back.
mod upgrade;

// Each reader's own lease, and the writer who waits for its end.
mod leases;

// Many readers, long queues, and many who are gone.
mod crowd;

// Lost and late messages and commands, foreign and damaged data.
mod faults;

// Random calls of several owners, compared after each with a model.
mod random;

use lockyard::{Client, RwLock, RwLockReadGuard, RwLockWriteGuard};
use lockyard_testkit::{Server, eventually_async};
use tokio::task::JoinHandle;

use crate::support::{SOON, client, no_keys};

async fn clients(server: &Server) -> (Client, Client) {
    (client(&server.url()).await, client(&server.url()).await)
}

async fn until_waiting(lock: &RwLock, waiters: u64) {
    eventually_async(SOON, async || {
        lock.inspect().await.unwrap().waiting == waiters
    })
    .await;
}

fn reads(lock: &RwLock) -> JoinHandle<RwLockReadGuard> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.read().await.unwrap() })
}

fn writes(lock: &RwLock) -> JoinHandle<RwLockWriteGuard> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.write().await.unwrap() })
}
