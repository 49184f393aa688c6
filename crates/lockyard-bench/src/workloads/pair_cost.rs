//! `pair-cost`: the server's own time for a pair of one task that nobody disturbs.

use std::time::Duration;

use crate::Result;
use crate::admin::Admin;
use crate::figures::Figures;
use crate::libraries::{Library, Lock};
use crate::options::Options;

/// The median over so many batches counts: a busy machine disturbs some, not most.
const BATCHES: usize = 11;

pub(crate) async fn pair_cost(client: &impl Library, options: &Options) -> Result<Figures> {
    let mut admin = Admin::connect(options.address()?)?;
    let lock = client.lock("pair-cost");
    let pairs = (options.number("pairs")? / BATCHES).max(1);
    repeat(&lock, pairs).await?;

    let mut costs = Vec::with_capacity(BATCHES);
    let mut calls = 0;
    for _ in 0..BATCHES {
        let before = admin.scripts()?;
        repeat(&lock, pairs).await?;
        let after = admin.scripts()?;
        costs.push(per_pair(after.time - before.time, pairs));
        calls += after.calls - before.calls;
    }
    costs.sort_by(f64::total_cmp);
    Ok(Figures::default()
        .with("pairs", pairs * BATCHES)
        .with("scripts_per_pair", calls as f64 / (pairs * BATCHES) as f64)
        .with("server_us_per_pair", costs[BATCHES / 2])
        .with("server_us_per_pair_min", costs[0]))
}

async fn repeat(lock: &impl Lock, pairs: usize) -> Result<()> {
    for _ in 0..pairs {
        let guard = lock.acquire().await?;
        lock.release(guard).await?;
    }
    Ok(())
}

/// In µs, to the hundredth.
fn per_pair(time: Duration, pairs: usize) -> f64 {
    let us = time.as_secs_f64() * 1e6 / pairs as f64;
    (us * 100.0).round() / 100.0
}
