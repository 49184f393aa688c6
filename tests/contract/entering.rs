use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use lockyard::{Error, HoldState};
use lockyard_testkit::eventually_async;

use crate::contract::exclusive::{Exclusive, Guard, Single};
use crate::contract::site::Site;
use crate::support::SOON;

pub(crate) async fn a_free_lock_is_acquired_and_released<M: Single>(site: Site) {
    let client = site.client().await;
    let lock = M::of(&client, "stock:42");
    let guard = lock.acquire().await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(lock.inspect().await.unwrap().remaining.len(), 1);
    assert!(lock.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(lock.inspect().await.unwrap().remaining.is_empty());
    assert_eq!(site.keys(), Vec::<String>::new());
}

pub(crate) async fn a_waiter_is_granted_when_the_holder_releases<M: Single>(site: Site) {
    let client = site.client().await;
    let other = site.client().await;
    let guard = M::of(&client, "x").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { M::of(&other, "x").acquire().await });
    let lock = M::of(&client, "x");
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
    guard.release().await.unwrap();
    let guard = tokio::time::timeout(SOON, waiter)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    guard.release().await.unwrap();
    assert_eq!(site.keys(), Vec::<String>::new());
}

pub(crate) async fn an_owner_re_enters_what_it_holds<M: Exclusive>(site: Site) {
    let client = site.client().await;
    let lock = M::of(&client, "x");
    let owner = client.owner();
    owner
        .scope(async {
            let outer = lock.acquire().await?;
            let inner = lock.acquire().await?;
            assert_eq!(lock.hold_count(&owner).await?, 2);
            inner.release().await?;
            assert_eq!(lock.hold_count(&owner).await?, 1);
            outer.release().await
        })
        .await
        .unwrap();
    assert!(matches!(
        M::of(&client, "").acquire().await,
        Err(Error::InvalidName { .. })
    ));
}

// Red if `open` in lock.lua and rw.lua is always true.
pub(crate) async fn of_many_tasks_of_several_clients_one_is_inside_at_a_time<M: Single>(
    site: Site,
) {
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let client = site.client().await;
        for _ in 0..5 {
            let (lock, inside) = (M::of(&client, "x"), inside.clone());
            tasks.push(tokio::spawn(async move {
                for round in 0..10 {
                    let guard = lock.acquire().await.unwrap();
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    tokio::task::yield_now().await;
                    if round % 3 == 0 {
                        tokio::time::sleep(Duration::from_micros(300)).await;
                    }
                    assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                    match round % 2 {
                        0 => drop(guard),
                        _ => guard.release().await.unwrap(),
                    }
                }
            }));
        }
    }
    for task in tasks {
        tokio::time::timeout(SOON * 6, task).await.unwrap().unwrap();
    }
    eventually_async(SOON, async || site.keys().is_empty()).await;
}
