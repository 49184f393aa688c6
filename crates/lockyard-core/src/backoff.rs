//! Exponential back-off with jitter, for spinning and for a server that cannot be reached.

use std::time::Duration;

use crate::backend::Moment;
use crate::core::Core;

pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new(shortest: Duration, longest: Duration) -> Self {
        Self {
            next: shortest,
            longest,
        }
    }

    /// For what a server did not answer.
    pub(crate) fn retry() -> Self {
        Self::new(Duration::from_millis(10), Duration::from_secs(1))
    }

    /// Sleeps longer each time, but never beyond `until`.
    pub(crate) async fn sleep(&mut self, core: &Core, until: Moment) {
        core.sleep_until(self.next(core).min(until)).await;
    }

    /// When to try next, later each time.
    pub(crate) fn next(&mut self, core: &Core) -> Moment {
        let delay = self.next.mul_f64(0.5 + core.fraction() / 2.0);
        self.next = (self.next * 2).min(self.longest);
        core.now().after(delay)
    }
}
