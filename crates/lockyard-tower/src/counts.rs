//! What a layer has done so far.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often a layer did what, since it was made; all services and clones of a layer count together.
///
/// Requests that are not limited, and those whose sender hung up while they waited, are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests that were within the limit.
    pub admitted: u64,
    /// Requests that were refused because of the limit.
    pub refused: u64,
    /// Requests that were let through unlimited, as the limit's server could not be asked.
    pub opened: u64,
    /// Requests that were refused because the limit's server could not be asked.
    pub closed: u64,
    /// Requests that were refused because of an invalid name or limit.
    pub failed: u64,
    /// Permits that were lost before their response had ended, so that others may have been let in too early.
    pub lost: u64,
}

/// The counters themselves.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) admitted: Counter,
    pub(crate) refused: Counter,
    pub(crate) opened: Counter,
    pub(crate) closed: Counter,
    pub(crate) failed: Counter,
    pub(crate) lost: Counter,
}

impl Counters {
    pub(crate) fn read(&self) -> Counts {
        Counts {
            admitted: self.admitted.0.load(Relaxed),
            refused: self.refused.0.load(Relaxed),
            opened: self.opened.0.load(Relaxed),
            closed: self.closed.0.load(Relaxed),
            failed: self.failed.0.load(Relaxed),
            lost: self.lost.0.load(Relaxed),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}
