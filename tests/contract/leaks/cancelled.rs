use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use lockyard::{Client, HoldState, Lease, Waiting};
use lockyard_testkit::eventually_async;

use super::{Scene, at_leisure, keys, until_waiting};
use crate::contract::exclusive::{Exclusive, Guard, Owned, Single};
use crate::contract::site::Site;
use crate::support::{SOON, drop_after, soon, while_waiting};

/// Drops a future after its first poll, its second, and so on until it completes; after each, nothing may be left.
async fn leaves_nothing_wherever_dropped<M: Single, F: Future>(
    scene: &Scene<M>,
    future: impl AsyncFn() -> F,
) {
    for polls in 0.. {
        let future = future().await;
        let completed = drop_after(polls, future).await.is_some();
        scene.nothing_is_left().await;
        if completed {
            assert!(polls > 1, "it never waited for anything");
            return;
        }
    }
}

// Red without `Drop for Claim`.
pub(crate) async fn an_acquire_of_a_free_lock_leaves_nothing_wherever_it_is_dropped<M: Single>(
    site: Site,
) {
    let scene = Scene::<M>::at(site).await;
    let lock = M::of(&scene.client, "x");
    leaves_nothing_wherever_dropped(&scene, async || lock.try_acquire()).await;
    leaves_nothing_wherever_dropped(&scene, async || lock.try_acquire_for(SOON)).await;
    leaves_nothing_wherever_dropped(&scene, async || lock.try_acquire_for(Duration::ZERO)).await;
    for lock in M::of_each_kind(&scene.client, ["x"; 3]) {
        leaves_nothing_wherever_dropped(&scene, async || lock.acquire()).await;
        let fixed = lock.with_lease(Lease::Fixed(SOON * 10));
        leaves_nothing_wherever_dropped(&scene, async || fixed.acquire()).await;
    }
    scene.ends().await;
}

// Red without `Drop for Claim`.
pub(crate) async fn an_acquire_of_a_spinning_client_leaves_nothing_wherever_it_is_dropped<
    M: Single,
>(
    site: Site,
) {
    let scene = Scene::<M>::at(site).await;
    let spinning = scene
        .site
        .client_with(|options| at_leisure(options).waiting(Waiting::Spin))
        .await;
    let lock = M::of(&spinning, "x");
    leaves_nothing_wherever_dropped(&scene, async || lock.acquire()).await;
    leaves_nothing_wherever_dropped(&scene, async || lock.try_acquire()).await;
    let held = M::of(&scene.client, "x");
    for polls in 0..12 {
        let guard = held.acquire().await.unwrap();
        assert!(drop_after(polls, lock.acquire()).await.is_none());
        guard.release().await.unwrap();
        scene.nothing_is_left().await;
    }
}

/// Drops waiting futures after each of their polls, until they stand in the queue and are not woken any more.
async fn leaves_no_place_wherever_dropped<F: Future, M: Single>(
    scene: &Scene<M>,
    future: impl Fn() -> F,
) {
    let guard = M::of(&scene.other, "x").acquire().await.unwrap();
    for polls in 0.. {
        let mut dropped = false;
        tokio::select! {
            biased;
            output = drop_after(polls, future()) => {
                assert!(output.is_none(), "the lock is held");
                dropped = true;
            }
            () = until_queued::<M>(&scene.client) => {}
        }
        scene.all_has_arrived().await;
        until_waiting::<M>(&scene.other, 0).await;
        assert_eq!(keys(&scene.site), M::keys("x"));
        assert_eq!(guard.state(), HoldState::Held);
        if !dropped {
            assert!(polls > 1, "it never waited for anything");
            break;
        }
    }
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}

/// Waits until one waits, and the client has read the reply that says so: the next reply on the same connection.
async fn until_queued<M: Single>(client: &Client) {
    until_waiting::<M>(client, 1).await;
    M::of(client, "x").inspect().await.unwrap();
}

// Red without leaving the queue in release.lua, and without `Drop for Claim`.
pub(crate) async fn an_acquire_of_a_held_lock_leaves_no_place_wherever_it_is_dropped<M: Single>(
    site: Site,
) {
    let scene = Scene::<M>::at(site).await;
    for lock in M::of_each_kind(&scene.client, ["x"; 3]) {
        leaves_no_place_wherever_dropped(&scene, || lock.acquire()).await;
        leaves_no_place_wherever_dropped(&scene, || lock.try_acquire_for(SOON)).await;
    }
    scene.ends().await;
}

// Red without `Drop for Claim`.
pub(crate) async fn a_refused_attempt_leaves_nothing_wherever_it_is_dropped<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let guard = M::of(&scene.other, "x").acquire().await.unwrap();
    let lock = M::of(&scene.client, "x");
    for polls in 0.. {
        let tried = drop_after(polls, lock.try_acquire()).await;
        let waited = drop_after(polls, lock.try_acquire_for(Duration::from_millis(20))).await;
        scene.all_has_arrived().await;
        until_waiting::<M>(&scene.other, 0).await;
        assert_eq!(keys(&scene.site), M::keys("x"));
        if let (Some(tried), Some(waited)) = (tried, waited) {
            assert!(tried.unwrap().is_none() && waited.unwrap().is_none());
            break;
        }
    }
    guard.release().await.unwrap();
    scene.ends().await;
}

// Red without `Drop for Claim`.
pub(crate) async fn a_refused_re_entry_leaves_nothing_wherever_it_is_dropped<M: Exclusive>(
    site: Site,
) {
    let scene = Scene::<M>::at(site).await;
    let lock = M::of(&scene.client, "x");
    let stranger = scene.client.owner();
    leaves_nothing_wherever_dropped(&scene, async || lock.reenter(&stranger)).await;
    let guard = M::of(&scene.other, "x").acquire().await.unwrap();
    for polls in 0.. {
        let entered = drop_after(polls, lock.reenter(&stranger)).await;
        scene.all_has_arrived().await;
        assert_eq!(keys(&scene.site), M::keys("x"));
        if let Some(entered) = entered {
            assert!(entered.unwrap().is_none());
            break;
        }
    }
    guard.release().await.unwrap();
    scene.ends().await;
}

/// Drops a waiter so many polls after the lock was granted to it; whether it had its guard by then.
async fn drop_when_granted<M: Single>(scene: &Scene<M>, lock: &M, polls: usize) -> bool {
    let guard = M::of(&scene.other, "x").acquire().await.unwrap();
    let mut waiter = pin!(lock.acquire());
    while_waiting(waiter.as_mut(), until_queued::<M>(&scene.client)).await;
    guard.release().await.unwrap();
    let granted = scene.site.holds(&M::key("x"));
    assert_eq!(
        granted.len(),
        1,
        "the release grants the lock to the waiter"
    );
    drop_after(polls, waiter).await.is_some()
}

// Red if `State::abandon` leaves what is held.
pub(crate) async fn a_waiter_dropped_while_it_is_granted_leaves_nothing<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    for lock in M::of_each_kind(&scene.client, ["x"; 3]) {
        let mut polls = 0;
        while !drop_when_granted(&scene, &lock, polls).await {
            scene.nothing_is_left().await;
            polls += 1;
        }
        assert!(polls > 0, "the guard was there before the grant");
        scene.nothing_is_left().await;
    }
}

// Red without `Drop for Claim`.
pub(crate) async fn a_waiter_dropped_while_it_is_granted_leaves_the_lock_to_the_next<M: Single>(
    site: Site,
) {
    let scene = Scene::<M>::at(site).await;
    for polls in 0..3 {
        let guard = M::of(&scene.other, "x").acquire().await.unwrap();
        let first = M::of(&scene.client, "x");
        let mut first = Box::pin(first.acquire());
        while_waiting(first.as_mut(), until_queued::<M>(&scene.client)).await;
        let next = M::of(&scene.client, "x");
        let next = tokio::spawn(async move { next.acquire().await });
        while_waiting(first.as_mut(), until_waiting::<M>(&scene.other, 2)).await;
        guard.release().await.unwrap();
        drop(drop_after(polls, first).await);
        soon(next).await.unwrap().unwrap().release().await.unwrap();
        scene.nothing_is_left().await;
    }
}

/// Drops a nested acquire after each of its polls; the outer hold stays, and alone.
async fn leaves_the_outer_hold<F: Future, M: Exclusive>(
    scene: &Scene<M>,
    outer: &M::Guard,
    nested: impl Fn() -> F,
) {
    let owner = outer.owner();
    for polls in 0.. {
        let completed = drop_after(polls, nested()).await.is_some();
        for client in [&scene.client, &scene.other] {
            let lock = M::of(client, "x");
            eventually_async(SOON, async || lock.hold_count(&owner).await.unwrap() == 1).await;
        }
        assert_eq!(outer.state(), HoldState::Held);
        assert!(
            M::of(&scene.other, "x")
                .try_acquire()
                .await
                .unwrap()
                .is_none()
        );
        if completed {
            return;
        }
    }
}

// Red without `Drop for Hold`.
pub(crate) async fn a_re_entry_leaves_the_outer_hold_wherever_it_is_dropped<M: Exclusive>(
    site: Site,
) {
    let scene = Scene::<M>::at(site).await;
    let owner = scene.client.owner();
    let lock = M::of(&scene.client, "x").with_owner(&owner);
    let outer = lock.acquire().await.unwrap();
    leaves_the_outer_hold(&scene, &outer, || lock.acquire()).await;
    leaves_the_outer_hold(&scene, &outer, || lock.reenter(&owner)).await;
    // A longer lease has to be asked for.
    let longer = lock
        .clone()
        .with_lease(Lease::Renewed(Duration::from_secs(60)));
    leaves_the_outer_hold(&scene, &outer, || longer.acquire()).await;
    let fixed = lock
        .clone()
        .with_lease(Lease::Fixed(Duration::from_secs(100)));
    leaves_the_outer_hold(&scene, &outer, || fixed.try_acquire()).await;
    outer.release().await.unwrap();
    scene.ends().await;
}

// Red without `Drop for Claim`.
pub(crate) async fn a_re_entry_from_another_client_leaves_the_first_ones_hold_wherever_it_is_dropped<
    M: Exclusive,
>(
    site: Site,
) {
    let scene = Scene::<M>::at(site).await;
    let owner = scene.client.owner();
    let outer = M::of(&scene.client, "x")
        .fenced()
        .with_owner(&owner)
        .acquire()
        .await
        .unwrap();
    let lock = M::of(&scene.other, "x").with_owner(&owner);
    leaves_the_outer_hold(&scene, &outer, || lock.acquire()).await;
    leaves_the_outer_hold(&scene, &outer, || lock.reenter(&owner)).await;
    leaves_the_outer_hold(&scene, &outer, || lock.try_acquire_for(SOON)).await;
    let fenced = lock.clone().fenced();
    leaves_the_outer_hold(&scene, &outer, || fenced.acquire()).await;
    outer.release().await.unwrap();
    scene.ends().await;
}

// Red without `Drop for Hold`.
pub(crate) async fn a_release_leaves_nothing_wherever_it_is_dropped<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    for lock in M::of_each_kind(&scene.client, ["x"; 3]) {
        let release = async |lock: &M| lock.acquire().await.unwrap().release();
        leaves_nothing_wherever_dropped(&scene, async || release(&lock).await).await;
        let fixed = lock.with_lease(Lease::Fixed(SOON * 10));
        leaves_nothing_wherever_dropped(&scene, async || release(&fixed).await).await;
    }
    scene.ends().await;
}

// Red without `Drop for Hold`.
pub(crate) async fn a_nested_release_leaves_the_outer_hold_wherever_it_is_dropped<M: Exclusive>(
    site: Site,
) {
    let scene = Scene::<M>::at(site).await;
    let owner = scene.client.owner();
    for client in [&scene.client, &scene.other] {
        let outer = M::of(&scene.client, "x")
            .with_owner(&owner)
            .acquire()
            .await
            .unwrap();
        for polls in 0.. {
            let inner = M::of(client, "x")
                .with_owner(&owner)
                .acquire()
                .await
                .unwrap();
            let completed = drop_after(polls, inner.release()).await.is_some();
            eventually_async(SOON, async || {
                M::of(&scene.other, "x").hold_count(&owner).await.unwrap() == 1
            })
            .await;
            assert_eq!(outer.state(), HoldState::Held);
            if completed {
                break;
            }
        }
        outer.release().await.unwrap();
        scene.nothing_is_left().await;
    }
}

// Red without `Drop for Claim`.
pub(crate) async fn an_acquire_that_loses_a_race_leaves_nothing<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let guard = M::of(&scene.other, "x").acquire().await.unwrap();
    let lock = M::of(&scene.client, "x");
    for _ in 0..5 {
        let timeout = tokio::time::timeout(super::MOMENT, lock.acquire());
        assert!(timeout.await.is_err());
        tokio::select! {
            _ = lock.acquire() => panic!("the lock is held"),
            () = until_waiting::<M>(&scene.other, 1) => {}
        }
    }
    until_waiting::<M>(&scene.other, 0).await;
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}
