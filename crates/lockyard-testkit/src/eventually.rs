//! Waiting for a state, and names that nobody else uses.

use std::process;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(2);

/// Blocks until a condition holds.
///
/// # Panics
///
/// If it does not hold within the deadline.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// lockyard_testkit::eventually(Duration::from_secs(1), || start.elapsed().as_millis() > 5);
/// ```
#[track_caller]
pub fn eventually(deadline: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < deadline, "not within {deadline:?}");
        thread::sleep(PAUSE);
    }
}

/// Waits until a condition holds, in async code on tokio.
///
/// # Panics
///
/// If it does not hold within the deadline.
///
/// # Examples
///
/// ```no_run
/// # use std::time::Duration;
/// # use lockyard_testkit::{Server, eventually_async};
/// # async fn f(server: Server) {
/// eventually_async(Duration::from_secs(1), async || server.keys("*").unwrap().is_empty()).await;
/// # }
/// ```
pub async fn eventually_async(deadline: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < deadline, "not within {deadline:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns a prefix for keys, such as `test-4711-1:`, that no other test on this machine has.
#[must_use]
pub fn fresh_prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("test-{}-{}:", process::id(), NEXT.fetch_add(1, Relaxed))
}
