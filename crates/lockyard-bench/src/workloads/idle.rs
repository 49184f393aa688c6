//! `idle`: tasks wait for a key that stays held; what they cost the server meanwhile.

use tokio::time::sleep;

use super::WARM_UP;
use crate::Result;
use crate::figures::Figures;
use crate::libraries::{Library, Lock};
use crate::options::Options;
use crate::process::wait_for_driver;

pub(crate) async fn idle(
    holder: &impl Library,
    waiter: &impl Library,
    options: &Options,
) -> Result<Figures> {
    let _guard = holder.lock("idle").acquire().await?;
    let lock = waiter.lock("idle");
    let wait = |_| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire().await.map(|_| ()) })
    };
    let waiting: Vec<_> = (0..options.number("tasks")?).map(wait).collect();
    sleep(WARM_UP).await;
    wait_for_driver()?;
    sleep(options.window()?).await;
    let still_waiting = waiting.iter().filter(|task| !task.is_finished()).count();
    Ok(Figures::default().with("still_waiting", still_waiting))
}
