//! What `inspect` returns.

use std::time::Duration;

use lockyard_core::__private::{Inspection, Reply, identity};
use lockyard_core::WaiterInfo;

/// How many permits there are and who has them, at one moment of the server's time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SemaphoreInfo {
    /// How many there are in all: the stored limit, or else that of the handle.
    pub limit: u32,
    /// Whether the limit is stored, and so the same for all clients.
    pub is_stored: bool,
    /// How many are held; more than the limit after that was lowered.
    pub held: u64,
    /// The first 1000 holds, the shortest remaining lease first.
    pub permits: Vec<PermitInfo>,
    /// The first 1000 waiters, in the order in which they will be served.
    pub waiters: Vec<SemaphoreWaiterInfo>,
    /// How many there are in all.
    pub waiting: u64,
}

/// Permits that were acquired together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitInfo {
    /// Through which client they are held.
    pub client: String,
    /// How many.
    pub permits: u32,
    /// What is left of the lease.
    pub remaining: Duration,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SemaphoreWaiterInfo {
    /// Through which client somebody waits.
    pub client: String,
    /// For how many permits.
    pub permits: u32,
    /// For how long it has waited.
    pub waited: Duration,
}

impl SemaphoreInfo {
    /// How many permits can be had now, if nobody waits.
    #[must_use]
    pub fn available(&self) -> u32 {
        let held = u32::try_from(self.held).unwrap_or(u32::MAX);
        self.limit.saturating_sub(held)
    }

    pub(crate) fn read(reply: Reply, default: u32) -> Option<Self> {
        let Reply::Array(mut parts) = reply else {
            return None;
        };
        if parts.len() < 2 {
            return None;
        }
        let rest = parts.split_off(2);
        let [Reply::Number(stored), Reply::Number(held)] = parts[..] else {
            return None;
        };
        let inspection = Inspection::read(&Reply::Array(rest))?;
        let (us, ms) = (inspection.us, inspection.ms());
        let permits = inspection.holds.iter();
        let permits = permits.map(|(member, deadline)| permit(member, deadline, ms));
        let mut permits: Vec<PermitInfo> = permits.collect::<Option<_>>()?;
        permits.retain(|permit| !permit.remaining.is_zero());
        let waiters = inspection.queue.iter();
        let waiters = waiters.map(|(entry, ticket)| waiter(entry, ticket, us));
        Some(Self {
            limit: u32::try_from(stored).unwrap_or(default),
            is_stored: stored >= 0,
            held: u64::try_from(held).ok()?,
            permits,
            waiters: waiters.collect::<Option<_>>()?,
            waiting: inspection.waiting,
        })
    }
}

/// Reads `hold|weight` and a deadline in server ms.
fn permit(member: &str, deadline: &str, ms: u64) -> Option<PermitInfo> {
    let (hold, weight) = member.split_once('|')?;
    let (_, client) = identity(hold)?;
    let deadline: u64 = deadline.parse().ok()?;
    Some(PermitInfo {
        client,
        permits: weight.parse().ok()?,
        remaining: Duration::from_millis(deadline.saturating_sub(ms)),
    })
}

fn waiter(entry: &str, ticket: &str, us: u64) -> Option<SemaphoreWaiterInfo> {
    let waiter = WaiterInfo::read(entry, ticket, us)?;
    Some(SemaphoreWaiterInfo {
        client: waiter.client,
        permits: entry.split('|').nth(2)?.parse().ok()?,
        waited: waiter.waited,
    })
}
