use lockyard::Client;
use lockyard_testkit::{Action, Direction, Proxy, eventually_async};

use super::{Scene, keys, nothing_is_left, options, until_waiting};
use crate::contract::exclusive::{Guard, Single};
use crate::support::{SOON, Script, cache_scripts, soon, while_waiting};

/// Polls an acquire until the server has carried it out, and drops it before its reply has come.
async fn drop_before_the_reply<M: Single>(scene: &Scene<M>, proxy: &Proxy, lock: &M) {
    let rule = proxy.once(Script::Acquire.calls(), Action::Hold);
    let mut acquire = Box::pin(lock.acquire());
    while_waiting(acquire.as_mut(), rule.wait_fired_async(1, SOON)).await;
    proxy.hold(Direction::ToClient);
    let before = scene.server().scripts().unwrap();
    rule.let_go();
    while_waiting(
        acquire.as_mut(),
        eventually_async(SOON, async || scene.server().scripts().unwrap() > before),
    )
    .await;
}

// Red without `Drop for Claim`.
pub(crate) async fn an_acquire_dropped_before_its_reply_leaves_nothing<M: Single>() {
    let scene = Scene::<M>::new().await;
    let proxy = Proxy::start(scene.server()).unwrap();
    cache_scripts(scene.server());
    let client = Client::with_options(options(&proxy.url())).await.unwrap();
    for lock in M::of_each_kind(&client, ["x"; 3]) {
        drop_before_the_reply(&scene, &proxy, &lock).await;
        scene.nothing_is_left().await;
        proxy.let_go();
        scene.nothing_is_left().await;
    }
}

// Red without `Drop for Claim`.
pub(crate) async fn an_acquire_dropped_before_it_is_told_of_its_place_leaves_none<M: Single>() {
    let scene = Scene::<M>::new().await;
    let proxy = Proxy::start(scene.server()).unwrap();
    cache_scripts(scene.server());
    let client = Client::with_options(options(&proxy.url())).await.unwrap();
    let guard = M::of(&scene.client, "x").acquire().await.unwrap();
    drop_before_the_reply(&scene, &proxy, &M::of(&client, "x")).await;
    until_waiting::<M>(&scene.other, 0).await;
    proxy.let_go();
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}

// Red if its release goes over the watchdog's connection, where it is faster.
pub(crate) async fn an_acquire_dropped_before_it_reaches_the_server_leaves_nothing<M: Single>() {
    let scene = Scene::<M>::new().await;
    let proxy = Proxy::start(scene.server()).unwrap();
    cache_scripts(scene.server());
    let client = Client::with_options(options(&proxy.url())).await.unwrap();
    let lock = M::of(&client, "x");
    let held = proxy.once(Script::Acquire.calls(), Action::Hold);
    let mut acquire = Box::pin(lock.acquire());
    while_waiting(acquire.as_mut(), held.wait_fired_async(1, SOON)).await;
    drop(acquire);
    assert!(keys(&scene.site).is_empty());
    let before = scene.server().scripts().unwrap();
    held.let_go();
    // The acquire, and its release behind it.
    eventually_async(SOON, async || {
        scene.server().scripts().unwrap() >= before + 2
    })
    .await;
    scene.nothing_is_left().await;
}

// Red without `Drop for Background`.
pub(crate) async fn a_release_dropped_before_its_reply_leaves_nothing<M: Single>() {
    let scene = Scene::<M>::new().await;
    let proxy = Proxy::start(scene.server()).unwrap();
    cache_scripts(scene.server());
    let client = Client::with_options(options(&proxy.url())).await.unwrap();
    for action in [
        Action::Hold,
        Action::SwallowReply,
        Action::CutBeforeReply,
        Action::DropCommand,
    ] {
        let guard = soon(M::of(&client, "x").acquire()).await.unwrap();
        let rule = proxy.once(Script::Release.calls(), action);
        let mut release = Box::pin(guard.release());
        while_waiting(release.as_mut(), rule.wait_fired_async(1, SOON)).await;
        drop(release);
        // The watchdog releases over its own connection.
        nothing_is_left::<M>(&scene.site, &scene.other).await;
        rule.remove();
        proxy.cut();
    }
}
