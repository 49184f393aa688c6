use std::time::Duration;

use lockyard::{ClientOptions, Error, HoldState, Lease};
use lockyard_testkit::eventually_async;
use tokio::time::{Instant, sleep_until};

use super::{Scene, at_leisure, keys, nothing_is_left, until_waiting};
use crate::contract::exclusive::{Guard, Single};
use crate::contract::site::Site;
use crate::support::{SOON, soon};

// Red without leaving the queue in release.lua, and without `Drop for Claim`.
pub(crate) async fn waiters_that_time_out_leave_no_places<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let guard = M::of(&scene.client, "x").acquire().await.unwrap();
    let mut waiters = Vec::new();
    for at in 0..100 {
        let clients = [&scene.client, &scene.other];
        let mut locks = M::of_each_kind(clients[at as usize % 2], ["x"; 3]);
        let lock = locks.swap_remove(at as usize % locks.len());
        let wait = Duration::from_millis(200 + at % 7);
        waiters.push(tokio::spawn(
            async move { lock.try_acquire_for(wait).await },
        ));
    }
    for waiter in waiters {
        assert!(waiter.await.unwrap().unwrap().is_none());
    }
    until_waiting::<M>(&scene.other, 0).await;
    assert_eq!(keys(&scene.site), M::keys("x"));
    assert_eq!(guard.state(), HoldState::Held);
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}

/// Has a waiter give up and the holder release at the same moment; what the waiter got, if the server was there.
async fn give_up_when_granted<M: Single>(
    scene: &Scene<M>,
    wait: Duration,
    earlier: Duration,
) -> Option<M::Guard> {
    let guard = M::of(&scene.other, "x").acquire().await.unwrap();
    let start = Instant::now();
    let lock = M::of(&scene.client, "x");
    let waiter = tokio::spawn(async move { lock.try_acquire_for(wait).await });
    let release = tokio::spawn(async move {
        sleep_until(start + wait - earlier).await;
        guard.release().await
    });
    release.await.unwrap().unwrap();
    match soon(waiter).await.unwrap() {
        // On a busy machine it may take longer than so short a wait.
        Err(Error::Unreachable { .. }) => None,
        got => got.unwrap(),
    }
}

// Red without `Drop for Claim`.
pub(crate) async fn a_waiter_that_gives_up_when_it_is_granted_has_the_guard_or_nothing<
    M: Single,
>() {
    let scene = Scene::<M>::new().await;
    let wait = Duration::from_millis(8);
    let (mut earlier, step) = (Duration::from_millis(1), Duration::from_micros(100));
    let (mut granted, mut given_up) = (0, 0);
    for _ in 0..100 {
        // Seeks the moment at which it goes either way.
        match give_up_when_granted::<M>(&scene, wait, earlier).await {
            Some(guard) => {
                assert_eq!(guard.state(), HoldState::Held);
                assert!(
                    M::of(&scene.other, "x")
                        .try_acquire()
                        .await
                        .unwrap()
                        .is_none()
                );
                guard.release().await.unwrap();
                granted += 1;
                earlier = earlier.saturating_sub(step);
            }
            None => {
                given_up += 1;
                earlier = (earlier + step).min(wait);
            }
        }
        let next = soon(M::of(&scene.other, "x").acquire()).await.unwrap();
        next.release().await.unwrap();
    }
    assert!(
        granted > 0 && given_up > 0,
        "granted {granted} times, given up {given_up} times"
    );
    scene.ends().await;
}

// Red without `Drop for Claim`.
pub(crate) async fn a_wait_of_zero_leaves_nothing<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let guard = M::of(&scene.other, "x").acquire().await.unwrap();
    for _ in 0..20 {
        let lock = M::of(&scene.client, "x");
        assert!(
            lock.try_acquire_for(Duration::ZERO)
                .await
                .unwrap()
                .is_none()
        );
        assert!(
            lock.try_acquire_for(Duration::from_nanos(1))
                .await
                .unwrap()
                .is_none()
        );
    }
    until_waiting::<M>(&scene.other, 0).await;
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}

// Red without enqueueing again after `gone`.
pub(crate) async fn when_all_keys_are_deleted_holders_learn_it_and_waiters_go_on<M: Single>(
    site: Site,
) {
    let quick = |options: ClientOptions| {
        let options = at_leisure(options).waiter_timeout(Duration::from_millis(600));
        options.lease(Lease::Renewed(Duration::from_millis(900)))
    };
    let clients = [site.client_with(quick).await, site.client_with(quick).await];
    let holder = M::of(&clients[0], "x").acquire().await.unwrap();
    let mut waiters = Vec::new();
    for at in 0..6 {
        let lock = M::of(&clients[at % 2], "x");
        waiters.push(tokio::spawn(async move {
            lock.acquire().await?.release().await
        }));
        until_waiting::<M>(&clients[0], at as u64 + 1).await;
    }
    site.flush_all();
    soon(holder.lost()).await;
    for waiter in waiters {
        soon(waiter).await.unwrap().unwrap();
    }
    assert!(holder.release().await.is_err());
    nothing_is_left::<M>(&site, &clients[1]).await;
}

// Red without `Drop for Claim`.
pub(crate) async fn a_client_that_no_longer_waits_is_not_among_the_living<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let guard = M::of(&scene.client, "x").acquire().await.unwrap();
    let lock = M::of(&scene.other, "x");
    assert!(lock.try_acquire_for(super::MOMENT).await.unwrap().is_none());
    eventually_async(SOON, async || keys(&scene.site) == M::keys("x")).await;
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}
