use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use lockyard::{Client, Lease};
use lockyard_testkit::{eventually, eventually_async};

use super::{Scene, connections, keys, options, until_waiting};
use crate::contract::exclusive::{Guard, Single};
use crate::process::{Other, Part};
use crate::support::{SOON, soon, while_waiting};

/// In another process: acquires and holds until killed.
async fn hold_until_killed<M: Single>(part: Part) {
    let lease = Lease::Renewed(Duration::from_millis(500));
    let options = options(&part.arguments[0])
        .lease(lease)
        .waiter_timeout(Duration::from_millis(600));
    let client = Client::with_options(options).await.unwrap();
    let _guard = M::of(&client, "x").acquire().await.unwrap();
    part.say("held");
    pending::<()>().await;
}

pub(crate) async fn a_killed_process_leaves_nothing_one_lease_later<M: Single>() {
    if let Some(part) = Part::mine() {
        return hold_until_killed::<M>(part).await;
    }
    let scene = Scene::<M>::new().await;
    let mut holder = Other::start(
        &M::test("a_killed_process_leaves_nothing_one_lease_later"),
        &[&scene.server().url()],
    );
    holder.hears("held");
    assert!(
        M::of(&scene.other, "x")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    holder.kill();
    let guard = soon(M::of(&scene.other, "x").acquire()).await.unwrap();
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}

pub(crate) async fn a_killed_waiters_place_holds_nobody_up<M: Single>() {
    if let Some(part) = Part::mine() {
        return hold_until_killed::<M>(part).await;
    }
    let scene = Scene::<M>::new().await;
    let connections = connections(scene.server());
    let guard = M::of(&scene.other, "x").acquire().await.unwrap();
    let mut killed = Other::start(
        &M::test("a_killed_waiters_place_holds_nobody_up"),
        &[&scene.server().url()],
    );
    until_waiting::<M>(&scene.other, 1).await;
    let lock = M::of(&scene.client, "x");
    let mut next = pin!(lock.acquire());
    while_waiting(next.as_mut(), until_waiting::<M>(&scene.other, 2)).await;
    killed.kill();
    let hung_up = async || super::connections(scene.server()) == connections;
    while_waiting(next.as_mut(), eventually_async(SOON, hung_up)).await;
    guard.release().await.unwrap();
    soon(next).await.unwrap().release().await.unwrap();
    scene.nothing_is_left().await;
}

pub(crate) async fn a_killed_waiters_place_is_gone_one_waiter_timeout_later<M: Single>() {
    if let Some(part) = Part::mine() {
        return hold_until_killed::<M>(part).await;
    }
    let scene = Scene::<M>::new().await;
    let guard = M::of(&scene.other, "x").acquire().await.unwrap();
    let test = M::test("a_killed_waiters_place_is_gone_one_waiter_timeout_later");
    let mut killed = Other::start(&test, &[&scene.server().url()]);
    until_waiting::<M>(&scene.other, 1).await;
    killed.kill();
    until_waiting::<M>(&scene.other, 0).await;
    eventually(SOON, || keys(&scene.site) == M::keys("x"));
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}
