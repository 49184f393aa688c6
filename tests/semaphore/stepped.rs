use lockyard::Semaphore;
use lockyard_testkit::eventually_async;

use super::available;
use crate::contract::site::Site;
use crate::support::{SOON, drop_after};

/// A semaphore of five permits, whose calls are dropped after their first poll, their second, and so on.
async fn five(site: &Site) -> Semaphore {
    site.client().await.semaphore("api", 5)
}

/// Drops a future wherever it can be; after each time all permits are there again.
async fn leaves_all_permits<F: Future>(site: &Site, api: &Semaphore, future: impl AsyncFn() -> F) {
    for polls in 0.. {
        let completed = drop_after(polls, future().await).await.is_some();
        // The reply to what goes last over the same connection says that all has arrived.
        available(api).await;
        eventually_async(SOON, async || site.keys().is_empty()).await;
        assert_eq!(available(api).await, 5);
        if completed {
            assert!(polls > 1, "it never waited for anything");
            return;
        }
    }
}

async fn calls_leave_all_permits(site: Site) {
    let api = five(&site).await;
    let held = async |permits| api.acquire_many(permits).await.unwrap();
    leaves_all_permits(&site, &api, async || api.acquire_many(3)).await;
    leaves_all_permits(&site, &api, async || api.drain()).await;
    leaves_all_permits(&site, &api, async || held(3).await.split(1)).await;
    leaves_all_permits(&site, &api, async || held(3).await.merge(held(1).await)).await;
    leaves_all_permits(&site, &api, async || held(3).await.release()).await;
}

/// What is dropped in the middle was done or not, and nothing else.
async fn limits_are_changed_or_not(site: Site) {
    let api = five(&site).await;
    let mut completed = [false; 3];
    for polls in 0.. {
        let permit = api.acquire_many(2).await.unwrap();
        completed[0] |= drop_after(polls, permit.forget()).await.is_some();
        eventually_async(SOON, async || api.inspect().await.unwrap().held == 0).await;
        assert!([3, 5].contains(&api.limit().await.unwrap()));
        completed[1] |= drop_after(polls, api.set_limit(7)).await.is_some();
        let limit = api.limit().await.unwrap();
        assert!([3, 5, 7].contains(&limit));
        completed[2] |= drop_after(polls, api.add_permits(2)).await.is_some();
        assert!([limit, limit + 2].contains(&api.limit().await.unwrap()));
        api.clear_limit().await.unwrap();
        eventually_async(SOON, async || site.keys().is_empty()).await;
        if completed == [true; 3] {
            return;
        }
    }
}

// Red without `Drop for Claim`.
#[tokio::test]
async fn a_call_leaves_all_permits_wherever_it_is_dropped() {
    calls_leave_all_permits(Site::server()).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_leaves_all_permits_wherever_it_is_dropped_in_memory() {
    calls_leave_all_permits(Site::memory()).await;
}

#[tokio::test]
async fn a_change_of_the_limit_is_made_or_not_wherever_it_is_dropped() {
    limits_are_changed_or_not(Site::server()).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_limit_is_made_or_not_wherever_it_is_dropped_in_memory() {
    limits_are_changed_or_not(Site::memory()).await;
}
