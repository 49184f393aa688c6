//! What users bring: durations, names, prefixes, owners, options.

mod apart;
mod durations;
mod names;
mod options;
mod owners;

use std::time::Duration;

/// The longest lease.
const YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// The least that is more.
const NANO: Duration = Duration::from_nanos(1);
