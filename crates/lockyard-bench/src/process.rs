//! This process seen from outside: the driver that watches it, its CPU time and its memory.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Tells the driver that the measured window can start, and waits for its line or the end of its input.
#[expect(clippy::print_stderr, reason = "the driver reads the mark there")]
pub(crate) fn wait_for_driver() -> std::io::Result<()> {
    eprintln!("@ready");
    tokio::task::block_in_place(|| std::io::stdin().read_line(&mut String::new()))?;
    Ok(())
}

/// User and system time of all threads so far.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Resident memory in KiB; zero where there is no `/proc`.
pub(crate) fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|rest| rest.split_whitespace().next());
    kb.and_then(|kb| kb.parse().ok()).unwrap_or(0)
}
