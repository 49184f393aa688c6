//! `held`: many locks, renewed in the background; what that costs both sides.

use lockyard::{Client, Lease};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::WARM_UP;
use crate::Result;
use crate::admin::Admin;
use crate::figures::Figures;
use crate::options::Options;
use crate::process::{cpu_time, resident_kb, wait_for_driver};

pub(crate) async fn held(client: &Client, options: &Options) -> Result<Figures> {
    let lease = Lease::Renewed(options.lease()?);
    let locks = options.number("locks")?;
    let names = || (0..locks).map(|lock| format!("held-{lock}"));
    let mut acquiring = JoinSet::new();
    for name in names() {
        let lock = client.lock(name).with_lease(lease);
        acquiring.spawn(async move { lock.acquire().await });
    }
    let mut guards = Vec::new();
    while let Some(guard) = acquiring.join_next().await {
        guards.push(guard??);
    }
    sleep(WARM_UP).await;
    wait_for_driver()?;

    let before = cpu_time();
    sleep(options.window()?).await;
    let cpu = cpu_time() - before;

    // By both accounts: a hold that the server has dropped is lost, and so is one whose guard says so.
    let keys: Vec<String> = names()
        .map(|name| format!("lockyard:lock:{{{name}}}"))
        .collect();
    let in_redis = Admin::connect(options.address()?)?.count_existing(&keys)?;
    let not_lost = guards.iter().filter(|guard| !guard.is_lost()).count() as u64;
    Ok(Figures::default()
        .with("locks", guards.len())
        .with("still_held", in_redis.min(not_lost))
        .with("cpu_s", cpu.as_secs_f64())
        .with("rss_kb", resident_kb()))
}
