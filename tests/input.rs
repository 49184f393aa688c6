//! What users bring: durations, names, prefixes, owners, options.

mod apart;
mod names;
mod options;
mod owners;

use std::time::Duration;

/// The longest lease.
pub(crate) const YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// The least that is more.
pub(crate) const NANO: Duration = Duration::from_nanos(1);
