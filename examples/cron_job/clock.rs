//! A machine's clock, which may be wrong, and the slots of the schedule by it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often the job is due; with cron it would be a day.
const SLOT_MS: i64 = 1000;

#[derive(Clone, Copy)]
pub struct Clock {
    ahead_ms: i64,
}

impl Clock {
    pub fn new(ahead_ms: i64) -> Self {
        Self { ahead_ms }
    }

    /// The number of the slot that it is now.
    pub fn slot(self) -> i64 {
        self.now_ms() / SLOT_MS
    }

    /// Waits until a slot begins.
    pub async fn wait_for(self, slot: i64) {
        let left_ms = slot * SLOT_MS - self.now_ms();
        tokio::time::sleep(Duration::from_millis(left_ms.try_into().unwrap_or(0))).await;
    }

    fn now_ms(self) -> i64 {
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        since_1970.as_millis() as i64 + self.ahead_ms
    }
}
