//! `handoff`: one client holds, another waits; how long from release called to acquire returned.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::Result;
use crate::figures::Figures;
use crate::libraries::{Library, Lock};
use crate::options::Options;

const WARM_UP_ROUNDS: usize = 5;

pub(crate) async fn handoff(
    holder: &impl Library,
    waiter: &impl Library,
    options: &Options,
) -> Result<Figures> {
    let (holder, waiter) = (holder.lock("handoff"), waiter.lock("handoff"));
    for _ in 0..WARM_UP_ROUNDS {
        hand_over(&holder, &waiter).await?;
    }
    let rounds = options.number("rounds")?;
    let mut took = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        took.push(hand_over(&holder, &waiter).await?);
    }
    Ok(Figures::default()
        .with("rounds", rounds)
        .with_latencies(took))
}

async fn hand_over(holder: &impl Lock, waiter: &impl Lock) -> Result<Duration> {
    let guard = holder.acquire().await?;
    let waiting = tokio::spawn(wait(waiter.clone()));
    // At random, or the release would fall into step with those who poll.
    sleep(Duration::from_millis(fastrand::u64(30..130))).await;
    let released = Instant::now();
    holder.release(guard).await?;
    Ok(waiting.await?? - released)
}

/// Returns when the lock was acquired.
async fn wait(waiter: impl Lock) -> Result<Instant> {
    let guard = waiter.acquire().await?;
    let acquired = Instant::now();
    waiter.release(guard).await?;
    Ok(acquired)
}
