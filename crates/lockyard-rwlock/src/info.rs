//! What `inspect` returns.

use std::time::Duration;

use lockyard_core::__private::{Inspection, Reply, Runtime, identity};
use lockyard_core::{HolderInfo, Owner, WaiterInfo};

/// Who holds a read-write lock and who waits for it, at one moment of the server's time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RwLockInfo {
    /// The holds to write, the oldest first; more than one only if an owner holds through several clients.
    pub writers: Vec<HolderInfo>,
    /// The holds to read, the shortest remaining lease first.
    pub readers: Vec<ReaderInfo>,
    /// The first 1000 waiters, in the order in which they will be served.
    pub waiters: Vec<RwLockWaiterInfo>,
    /// How many there are in all.
    pub waiting: u64,
}

/// A hold to read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReaderInfo {
    /// Who reads.
    pub owner: Owner,
    /// Through which client.
    pub client: String,
    /// What is left of the lease.
    pub remaining: Duration,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RwLockWaiterInfo {
    /// Who waits.
    pub owner: Owner,
    /// Through which client.
    pub client: String,
    /// For how long it has waited.
    pub waited: Duration,
    /// Whether it wants to write.
    pub writes: bool,
}

impl RwLockInfo {
    pub(crate) fn read(reply: &Reply, runtime: &Runtime) -> Option<Self> {
        let inspection = Inspection::read(reply)?;
        let ms = inspection.ms();
        let (mut writers, mut readers) = (Vec::new(), Vec::new());
        for (hold, value) in &inspection.holds {
            if let Some(deadline) = value.strip_prefix("r:") {
                readers.push(reader(hold, deadline, ms)?);
            } else {
                let mut writer = HolderInfo::read(hold, value, ms)?;
                writer.count = runtime.local_count(hold).unwrap_or(writer.count);
                writers.push(writer);
            }
        }
        writers.retain(|writer| !writer.remaining.is_zero());
        writers.sort_by_key(|writer| std::cmp::Reverse(writer.held_for));
        readers.retain(|reader| !reader.remaining.is_zero());
        let waiters = inspection.queue.iter();
        let waiters = waiters.map(|(entry, ticket)| waiter(entry, ticket, inspection.us));
        Some(Self {
            writers,
            readers,
            waiters: waiters.collect::<Option<_>>()?,
            waiting: inspection.waiting,
        })
    }
}

fn reader(hold: &str, deadline: &str, ms: u64) -> Option<ReaderInfo> {
    let (owner, client) = identity(hold)?;
    let deadline: u64 = deadline.parse().ok()?;
    Some(ReaderInfo {
        owner,
        client,
        remaining: Duration::from_millis(deadline.saturating_sub(ms)),
    })
}

fn waiter(entry: &str, ticket: &str, us: u64) -> Option<RwLockWaiterInfo> {
    let waiter = WaiterInfo::read(entry, ticket, us)?;
    let reads = matches!(entry.split('|').nth(1), Some("r" | "s"));
    Some(RwLockWaiterInfo {
        owner: waiter.owner,
        client: waiter.client,
        waited: waiter.waited,
        writes: !reads,
    })
}
