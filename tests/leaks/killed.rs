use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use lockyard::{Client, Lease};
use lockyard_testkit::{eventually, eventually_async};

use super::{Scene, connections, keys, options, until_waiting};
use crate::process::{Other, Part};
use crate::support::{SOON, soon, while_waiting};

/// In another process: acquires and holds until killed.
async fn hold_until_killed(part: Part) {
    let lease = Lease::Renewed(Duration::from_millis(500));
    let options = options(&part.arguments[0])
        .lease(lease)
        .waiter_timeout(Duration::from_millis(600));
    let client = Client::with_options(options).await.unwrap();
    let _guard = client.lock("x").acquire().await.unwrap();
    part.say("held");
    pending::<()>().await;
}

#[tokio::test]
async fn a_killed_process_leaves_nothing_one_lease_later() {
    if let Some(part) = Part::mine() {
        return hold_until_killed(part).await;
    }
    let scene = Scene::new().await;
    let mut holder = Other::start(
        "leaks::killed::a_killed_process_leaves_nothing_one_lease_later",
        &[&scene.server.url()],
    );
    holder.hears("held");
    assert!(scene.other.lock("x").try_acquire().await.unwrap().is_none());
    holder.kill();
    let guard = soon(scene.other.lock("x").acquire()).await.unwrap();
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}

#[tokio::test]
async fn a_killed_waiters_place_holds_nobody_up() {
    if let Some(part) = Part::mine() {
        return hold_until_killed(part).await;
    }
    let scene = Scene::new().await;
    let connections = connections(&scene.server);
    let guard = scene.other.lock("x").acquire().await.unwrap();
    let mut killed = Other::start(
        "leaks::killed::a_killed_waiters_place_holds_nobody_up",
        &[&scene.server.url()],
    );
    until_waiting(&scene.other, 1).await;
    let lock = scene.client.lock("x");
    let mut next = pin!(lock.acquire());
    while_waiting(next.as_mut(), until_waiting(&scene.other, 2)).await;
    killed.kill();
    let hung_up = async || super::connections(&scene.server) == connections;
    while_waiting(next.as_mut(), eventually_async(SOON, hung_up)).await;
    guard.release().await.unwrap();
    soon(next).await.unwrap().release().await.unwrap();
    scene.nothing_is_left().await;
}

#[tokio::test]
async fn a_killed_waiters_place_is_gone_one_waiter_timeout_later() {
    if let Some(part) = Part::mine() {
        return hold_until_killed(part).await;
    }
    let scene = Scene::new().await;
    let guard = scene.other.lock("x").acquire().await.unwrap();
    let test = "leaks::killed::a_killed_waiters_place_is_gone_one_waiter_timeout_later";
    let mut killed = Other::start(test, &[&scene.server.url()]);
    until_waiting(&scene.other, 1).await;
    killed.kill();
    until_waiting(&scene.other, 0).await;
    eventually(SOON, || keys(&scene.server) == ["lockyard:lock:{x}"]);
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}
