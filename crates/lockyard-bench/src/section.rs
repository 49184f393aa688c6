//! The section that tasks enter and leave: the loop behind every workload that counts pairs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Result;
use crate::figures::Figures;
use crate::libraries::Lock;

/// A lock and those inside it now. Clones are the same section.
#[derive(Clone)]
pub(crate) struct Section<L> {
    lock: L,
    inside: Arc<AtomicU64>,
    overlaps: Arc<AtomicU64>,
}

/// What the tasks of one window did.
#[derive(Debug)]
pub(crate) struct Measured {
    window: Duration,
    /// How long each pair took, per task.
    tasks: Vec<Vec<Duration>>,
    /// How often somebody was inside already.
    overlaps: u64,
}

impl<L: Lock> Section<L> {
    pub(crate) fn new(lock: L) -> Self {
        Self {
            lock,
            inside: Arc::default(),
            overlaps: Arc::default(),
        }
    }

    /// Enters and leaves until the time is up. A pair that enters later does not count.
    async fn repeat(self, end: Instant) -> Result<Vec<Duration>> {
        let mut took = Vec::new();
        loop {
            let start = Instant::now();
            let guard = self.lock.acquire().await?;
            let late = Instant::now() >= end;
            let first = self.inside.fetch_add(1, Ordering::SeqCst) == 0;
            if !first && self.lock.is_exclusive() {
                self.overlaps.fetch_add(1, Ordering::SeqCst);
            }
            self.inside.fetch_sub(1, Ordering::SeqCst);
            self.lock.release(guard).await?;
            if late {
                return Ok(took);
            }
            took.push(start.elapsed());
        }
    }
}

/// Lets one task per section enter and leave for the window's time.
pub(crate) async fn repeat<L: Lock>(sections: &[Section<L>], window: Duration) -> Result<Measured> {
    let end = Instant::now() + window;
    let mut running = JoinSet::new();
    for section in sections {
        running.spawn(section.clone().repeat(end));
    }
    let mut tasks = Vec::with_capacity(sections.len());
    while let Some(took) = running.join_next().await {
        tasks.push(took??);
    }
    let mut overlaps = 0;
    for section in sections {
        // Swapped, or a section that several tasks share would count once for each.
        overlaps += section.overlaps.swap(0, Ordering::SeqCst);
    }
    Ok(Measured {
        window,
        tasks,
        overlaps,
    })
}

impl Measured {
    /// How many pairs per second.
    pub(crate) fn rate(&self) -> Figures {
        let pairs: usize = self.tasks.iter().map(Vec::len).sum();
        let secs = self.window.as_secs_f64();
        Figures::default()
            .with("tasks", self.tasks.len())
            .with("ops", pairs)
            .with("secs", secs)
            .with("per_s", (pairs as f64 / secs).round())
            .with("overlaps", self.overlaps)
    }

    /// The rate, and how evenly it was shared.
    pub(crate) fn shares(&self) -> Figures {
        let pairs = || self.tasks.iter().map(Vec::len);
        self.rate()
            .with("task_min", pairs().min())
            .with("task_max", pairs().max())
    }

    /// The rate, and how long a pair took.
    pub(crate) fn latencies(self) -> Figures {
        let rate = self.rate();
        rate.with_latencies(self.tasks.concat())
    }
}
