//! What a rate limiter answers.

use std::time::Duration;

use crate::rate::Rate;

/// Whether permits were granted, and else when they can be had.
///
/// There will be no third answer, so a `match` needs no other arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says whether to go on"]
pub enum Decision {
    /// The permits are taken, and the caller may go on now.
    Allowed(Quota),
    /// Nothing is taken.
    Denied {
        /// After what time the same permits can be had, if nobody else takes any.
        retry_after: Duration,
        /// What there is.
        quota: Quota,
    },
}

/// What was left of a rate when the server decided, as the `RateLimit` headers of HTTP tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quota {
    /// How many permits can be had at once after a pause: the burst.
    pub limit: u32,
    /// How many permits can be had at once.
    pub remaining: u32,
    /// After what time all of them can be had, if nobody takes any.
    pub reset: Duration,
}

impl Decision {
    /// Whether the caller may go on.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// After what time the permits can be had; `None` if they are granted.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Allowed(_) => None,
            Self::Denied { retry_after, .. } => Some(*retry_after),
        }
    }

    /// What was left when the server decided.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        match self {
            Self::Allowed(quota) | Self::Denied { quota, .. } => *quota,
        }
    }
}

/// What the server said of permits.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) taken: bool,
    /// After what time they can be used, or tried again.
    pub(crate) wait: Duration,
    pub(crate) quota: Quota,
}

impl Verdict {
    /// Reads the ns until nothing is owed, negative if nothing was taken.
    pub(crate) fn read(value: i64, rate: &Rate, permits: u32) -> Self {
        let (taken, owed) = (value > 0, value.unsigned_abs());
        let (interval, limit) = (rate.interval_ns(), rate.max_burst());
        let burst = interval * f64::from(limit);
        let asked = if taken { 0 } else { permits };
        let over = owed as f64 + interval * f64::from(asked) - burst;
        // What is owed was rounded up.
        let remaining = ((burst - owed as f64 + 1.0) / interval).clamp(0.0, f64::from(limit));
        Self {
            taken,
            // In whole µs, the server's unit, so that it is not asked again a moment too early.
            wait: Duration::from_micros((over / 1000.0).ceil() as u64),
            quota: Quota {
                limit,
                remaining: remaining as u32,
                reset: Duration::from_nanos(owed),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn read(value: i64, permits: u32) -> (bool, u64, u32) {
        let verdict = Verdict::read(value, &Rate::per_second(10).burst(3), permits);
        let wait = verdict.wait.as_micros() as u64;
        (verdict.taken, wait, verdict.quota.remaining)
    }

    #[test]
    fn a_debt_tells_what_remains_and_how_long_to_wait() {
        assert_eq!(read(100 * MS, 1), (true, 0, 2));
        assert_eq!(read(100 * MS + 1, 1), (true, 0, 2));
        assert_eq!(read(300 * MS, 3), (true, 0, 0));
        assert_eq!(read(450 * MS, 1), (true, 150_000, 0));
        assert_eq!(read(-300 * MS, 1), (false, 100_000, 0));
        assert_eq!(read(-150 * MS, 3), (false, 150_000, 1));
        assert_eq!(read(-(150 * MS + 1), 3), (false, 150_001, 1));
    }

    #[test]
    fn nothing_overflows() {
        let rate = Rate::per_second(1).burst(1000);
        for value in [1, -1, i64::MAX, i64::MIN] {
            let verdict = Verdict::read(value, &rate, u32::MAX);
            assert!(verdict.quota.remaining <= 1000);
        }
    }
}
