//! How many may start in what time.

use std::time::Duration;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The longest that a burst may take to be paid back, and that a caller may wait.
pub(crate) const LONGEST: Duration = YEAR.saturating_mul(10);

/// So many permits in a period, evenly, and a burst that may be had at once.
///
/// In any span of time `t` at most `burst + permits × t / period` permits are granted.
///
/// A rate that makes no sense is [`Error::InvalidRate`](lockyard_core::Error::InvalidRate) at the first use: no permits,
/// no period, no burst, less than a nanosecond a permit, or a burst that takes more than 10 years to be paid back.
///
/// # Examples
///
/// ```
/// # use lockyard_limiter::Rate;
/// # use std::time::Duration;
/// let api = Rate::per_second(100).burst(20); // never more than 20 at once, then one every 10 ms
/// let mail = Rate::new(500, Duration::from_secs(24 * 60 * 60)); // 500 at once, then one every 3 minutes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    permits: u32,
    period: Duration,
    burst: u32,
}

impl Rate {
    /// So many permits in a period, all of which may be had at once.
    #[must_use]
    pub const fn new(permits: u32, period: Duration) -> Self {
        Self {
            permits,
            period,
            burst: permits,
        }
    }

    /// So many permits a second, all of which may be had at once.
    #[must_use]
    pub const fn per_second(permits: u32) -> Self {
        Self::new(permits, Duration::from_secs(1))
    }

    /// So many permits a minute, all of which may be had at once.
    #[must_use]
    pub const fn per_minute(permits: u32) -> Self {
        Self::new(permits, Duration::from_secs(60))
    }

    /// So many permits an hour, all of which may be had at once.
    #[must_use]
    pub const fn per_hour(permits: u32) -> Self {
        Self::new(permits, Duration::from_secs(60 * 60))
    }

    /// The same rate, with another number of permits that may be had at once after a pause.
    ///
    /// With a burst of 1 they come one by one.
    #[must_use]
    pub const fn burst(mut self, permits: u32) -> Self {
        self.burst = permits;
        self
    }

    /// How many permits there are in a period.
    #[must_use]
    pub const fn permits(&self) -> u32 {
        self.permits
    }

    /// The period.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// How many permits may be had at once after a pause.
    #[must_use]
    pub const fn max_burst(&self) -> u32 {
        self.burst
    }

    /// The ns for which a permit is owed.
    pub(crate) fn interval_ns(&self) -> f64 {
        self.period.as_nanos() as f64 / f64::from(self.permits)
    }

    /// What is wrong with it.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if self.permits == 0 {
            return Some("a rate has at least one permit in its period");
        }
        if self.period.is_zero() {
            return Some("a period is longer than nothing");
        }
        if self.burst == 0 {
            return Some("a burst is at least one permit");
        }
        if self.interval_ns() < 1.0 {
            return Some("a permit takes at least a nanosecond");
        }
        if self.interval_ns() * f64::from(self.burst) > LONGEST.as_nanos() as f64 {
            return Some("a burst is paid back within 10 years");
        }
        None
    }
}
