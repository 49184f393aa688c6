use std::time::Duration;

use lockyard::{Client, Error, HoldState, Lease, LockGuard};
use lockyard_testkit::{Server, eventually_async};
use tokio::time::{Instant, sleep_until};

use super::{Scene, keys, nothing_is_left, options, until_waiting};
use crate::support::{SOON, soon};

// Red without leaving the queue in release.lua, and without `Drop for Claim`.
#[tokio::test]
async fn waiters_that_time_out_leave_no_places() {
    let scene = Scene::new().await;
    let guard = scene.client.lock("x").acquire().await.unwrap();
    let mut waiters = Vec::new();
    for at in 0..100 {
        let lock = if at % 2 == 0 {
            &scene.client
        } else {
            &scene.other
        }
        .lock("x");
        let lock = if at % 3 == 0 { lock.fenced() } else { lock };
        let wait = Duration::from_millis(200 + at % 7);
        waiters.push(tokio::spawn(
            async move { lock.try_acquire_for(wait).await },
        ));
    }
    for waiter in waiters {
        assert!(waiter.await.unwrap().unwrap().is_none());
    }
    until_waiting(&scene.other, 0).await;
    assert_eq!(keys(&scene.server), ["lockyard:lock:{x}"]);
    assert_eq!(guard.state(), HoldState::Held);
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}

/// Has a waiter give up and the holder release at the same moment; what the waiter got, if the server was there.
async fn give_up_when_granted(
    scene: &Scene,
    wait: Duration,
    earlier: Duration,
) -> Option<LockGuard> {
    let guard = scene.other.lock("x").acquire().await.unwrap();
    let start = Instant::now();
    let lock = scene.client.lock("x");
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
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_gives_up_when_it_is_granted_has_the_guard_or_nothing() {
    let scene = Scene::new().await;
    let wait = Duration::from_millis(8);
    let (mut earlier, step) = (Duration::from_millis(1), Duration::from_micros(40));
    let (mut granted, mut given_up) = (0, 0);
    for _ in 0..300 {
        // Seeks the moment at which it goes either way.
        match give_up_when_granted(&scene, wait, earlier).await {
            Some(guard) => {
                assert_eq!(guard.state(), HoldState::Held);
                assert!(scene.other.lock("x").try_acquire().await.unwrap().is_none());
                guard.release().await.unwrap();
                granted += 1;
                earlier = earlier.saturating_sub(step);
            }
            None => {
                given_up += 1;
                earlier = (earlier + step).min(wait);
            }
        }
        let next = soon(scene.other.lock("x").acquire()).await.unwrap();
        next.release().await.unwrap();
    }
    assert!(
        granted > 0 && given_up > 0,
        "granted {granted} times, given up {given_up} times"
    );
    scene.ends().await;
}

// Red without `Drop for Claim`.
#[tokio::test]
async fn a_wait_of_zero_leaves_nothing() {
    let scene = Scene::new().await;
    let guard = scene.other.lock("x").acquire().await.unwrap();
    for _ in 0..20 {
        let lock = scene.client.lock("x");
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
    until_waiting(&scene.other, 0).await;
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}

// Red without enqueueing again after `gone`.
#[tokio::test]
async fn when_all_keys_are_deleted_holders_learn_it_and_waiters_go_on() {
    let server = Server::start().unwrap();
    let client = || {
        let options = options(&server.url()).lease(Lease::Renewed(Duration::from_millis(900)));
        Client::with_options(options.waiter_timeout(Duration::from_millis(600)))
    };
    let clients = [client().await.unwrap(), client().await.unwrap()];
    let holder = clients[0].lock("x").acquire().await.unwrap();
    let mut waiters = Vec::new();
    for at in 0..6 {
        let lock = clients[at % 2].lock("x");
        waiters.push(tokio::spawn(async move {
            lock.acquire().await?.release().await
        }));
        until_waiting(&clients[0], at as u64 + 1).await;
    }
    server.flush_all().unwrap();
    soon(holder.lost()).await;
    for waiter in waiters {
        soon(waiter).await.unwrap().unwrap();
    }
    assert!(holder.release().await.is_err());
    nothing_is_left(&server, &clients[1]).await;
}

// Red without `Drop for Claim`.
#[tokio::test]
async fn a_client_that_no_longer_waits_is_not_among_the_living() {
    let scene = Scene::new().await;
    let guard = scene.client.lock("x").acquire().await.unwrap();
    let lock = scene.other.lock("x");
    assert!(lock.try_acquire_for(super::MOMENT).await.unwrap().is_none());
    eventually_async(SOON, async || keys(&scene.server) == ["lockyard:lock:{x}"]).await;
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}
