//! What `inspect` returns.

use std::time::Duration;

use lockyard_core::__private::Reply;

/// What is owed of a rate, at one moment of the server's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateLimiterInfo {
    /// How many permits were taken and are not yet paid back by time; one that is begun counts.
    pub owed: u64,
    /// After what time nothing is owed, at the rate of the latest call, if nobody takes any.
    pub clears_in: Duration,
}

impl RateLimiterInfo {
    /// Reads `{permits owed, ns until nothing is owed}`.
    pub(crate) fn read(reply: &Reply) -> Option<Self> {
        let Reply::Array(parts) = reply else {
            return None;
        };
        let [Reply::Number(owed), Reply::Number(ns)] = parts[..] else {
            return None;
        };
        Some(Self {
            owed: owed.try_into().ok()?,
            clears_in: Duration::from_nanos(ns.try_into().ok()?),
        })
    }
}
