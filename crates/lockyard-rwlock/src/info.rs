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
        let reads = |(_, value): &&(String, String)| value.starts_with("r:");
        let (reading, writing): (Vec<_>, Vec<_>) = inspection.holds.iter().partition(reads);
        let readers = reading
            .into_iter()
            .map(|(hold, value)| reader(hold, value, ms));
        let mut readers: Vec<ReaderInfo> = readers.collect::<Option<_>>()?;
        readers.retain(|reader| !reader.remaining.is_zero());
        let waiters = inspection.queue.iter();
        let waiters = waiters.map(|(entry, ticket)| waiter(entry, ticket, inspection.us));
        Some(Self {
            writers: inspection.holders(writing.into_iter(), runtime)?,
            readers,
            waiters: waiters.collect::<Option<_>>()?,
            waiting: inspection.waiting,
        })
    }
}

/// Reads a hold id and `r:deadline` in server ms.
fn reader(hold: &str, value: &str, ms: u64) -> Option<ReaderInfo> {
    let (owner, client) = identity(hold)?;
    let deadline: u64 = value.strip_prefix("r:")?.parse().ok()?;
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
