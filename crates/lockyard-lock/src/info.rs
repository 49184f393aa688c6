//! What `inspect` returns.

use lockyard_core::__private::{Inspection, Reply, Runtime};
use lockyard_core::{HolderInfo, WaiterInfo};

/// Who holds a lock and who waits for it, at one moment of the server's time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The holds, the oldest first; more than one only if an owner holds through several clients.
    pub holders: Vec<HolderInfo>,
    /// The first 1000 waiters, in the order in which they will be served.
    pub waiters: Vec<WaiterInfo>,
    /// How many there are in all.
    pub waiting: u64,
}

impl LockInfo {
    pub(crate) fn read(reply: &Reply, runtime: &Runtime) -> Option<Self> {
        let inspection = Inspection::read(reply)?;
        let queue = inspection.queue.iter();
        let waiters = queue.map(|(entry, ticket)| WaiterInfo::read(entry, ticket, inspection.us));
        Some(Self {
            holders: inspection.holders(inspection.holds.iter(), runtime)?,
            waiters: waiters.collect::<Option<_>>()?,
            waiting: inspection.waiting,
        })
    }
}
