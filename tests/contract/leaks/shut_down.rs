use std::pin::pin;
use std::time::{Duration, Instant};

use lockyard::{Client, Error, HoldState, Lease, Waiting};
use lockyard_testkit::{Action, Proxy, Server, eventually_async};

use super::{Scene, at_leisure, keys, nothing_is_left, options, until_waiting};
use crate::contract::exclusive::{Exclusive, Guard, Single};
use crate::contract::site::Site;
use crate::support::{SOON, Script, cache_scripts, soon, while_waiting};

// Red without abandoning in `State::close`.
pub(crate) async fn a_shutdown_releases_every_hold<M: Exclusive>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let owner = scene.client.owner();
    let outer = M::of(&scene.client, "x")
        .with_owner(&owner)
        .acquire()
        .await
        .unwrap();
    let inner = M::of(&scene.client, "x")
        .with_owner(&owner)
        .acquire()
        .await
        .unwrap();
    let fixed = M::of(&scene.client, "y").with_lease(Lease::Fixed(SOON * 10));
    let fixed = fixed.acquire().await.unwrap();
    let fenced = M::of(&scene.client, "z").fenced().acquire().await.unwrap();
    soon(scene.client.shutdown()).await.unwrap();
    assert_eq!(keys(&scene.site), Vec::<String>::new());
    for guard in [inner, outer, fixed, fenced] {
        soon(guard.lost()).await;
        assert_eq!(guard.state(), HoldState::Lost);
        assert!(matches!(
            guard.release().await,
            Err(Error::LeaseLost { .. })
        ));
    }
    nothing_is_left::<M>(&scene.site, &scene.other).await;
}

pub(crate) async fn a_shutdown_ends_every_wait<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let spinning = scene
        .site
        .client_with(|options| at_leisure(options).waiting(Waiting::Spin))
        .await;
    let guard = M::of(&scene.other, "x").acquire().await.unwrap();
    let waiting = M::of(&scene.client, "x");
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    let bounded = M::of(&scene.client, "x");
    let bounded = tokio::spawn(async move { bounded.try_acquire_for(SOON * 10).await });
    let spins = M::of(&spinning, "x");
    let spins = tokio::spawn(async move { spins.acquire().await });
    until_waiting::<M>(&scene.other, 2).await;
    soon(scene.client.shutdown()).await.unwrap();
    soon(spinning.shutdown()).await.unwrap();
    assert!(matches!(soon(waiting).await.unwrap(), Err(Error::Closed)));
    assert!(matches!(soon(bounded).await.unwrap(), Err(Error::Closed)));
    assert!(matches!(soon(spins).await.unwrap(), Err(Error::Closed)));
    until_waiting::<M>(&scene.other, 0).await;
    guard.release().await.unwrap();
    nothing_is_left::<M>(&scene.site, &scene.other).await;
}

pub(crate) async fn after_a_shutdown_every_call_is_refused<M: Exclusive>(site: Site) {
    let client = site.client().await;
    let (lock, owner) = (M::of(&client, "x"), client.owner());
    soon(client.shutdown()).await.unwrap();
    assert!(matches!(soon(lock.acquire()).await, Err(Error::Closed)));
    assert!(matches!(soon(lock.try_acquire()).await, Err(Error::Closed)));
    assert!(matches!(
        soon(lock.try_acquire_for(SOON)).await,
        Err(Error::Closed)
    ));
    assert!(matches!(
        soon(lock.reenter(&owner)).await,
        Err(Error::Closed)
    ));
    assert!(matches!(
        soon(lock.force_release()).await,
        Err(Error::Closed)
    ));
    assert!(matches!(soon(lock.is_locked()).await, Err(Error::Closed)));
    assert!(matches!(soon(lock.inspect()).await, Err(Error::Closed)));
    assert!(matches!(
        soon(M::of(&client, "y").acquire()).await,
        Err(Error::Closed)
    ));
    soon(client.shutdown()).await.unwrap();
}

// Red without abandoning in `State::close`.
pub(crate) async fn a_shutdown_does_not_wait_for_those_who_are_not_polled<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let guard = M::of(&scene.other, "x").acquire().await.unwrap();
    let lock = M::of(&scene.client, "x");
    let mut waiter = pin!(lock.acquire());
    while_waiting(waiter.as_mut(), until_waiting::<M>(&scene.other, 1)).await;
    soon(scene.client.shutdown()).await.unwrap();
    until_waiting::<M>(&scene.other, 0).await;
    assert!(matches!(soon(waiter).await, Err(Error::Closed)));
    guard.release().await.unwrap();
    nothing_is_left::<M>(&scene.site, &scene.other).await;
}

// Red without abandoning in `State::close`.
pub(crate) async fn a_shutdown_does_not_wait_for_guards_that_are_lost<M: Exclusive>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let guard = M::of(&scene.client, "x").acquire().await.unwrap();
    assert!(M::of(&scene.other, "x").force_release().await.unwrap());
    soon(guard.lost()).await;
    soon(scene.client.shutdown()).await.unwrap();
    nothing_is_left::<M>(&scene.site, &scene.other).await;
}

pub(crate) async fn a_shutdown_during_an_acquire_leaves_nothing<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    cache_scripts(&server);
    let other = Client::connect(&server.url()).await.unwrap();
    for action in [Action::Hold, Action::DelayReply(Duration::from_millis(200))] {
        let options = options(&proxy.url()).operation_timeout(Duration::from_secs(1));
        let client = Client::with_options(options).await.unwrap();
        let lock = M::of(&client, "x");
        let rule = proxy.once(Script::Acquire.calls(), action.clone());
        let acquire = tokio::spawn(async move { lock.acquire().await });
        let sent = async || rule.fired() == 1 || !keys(&server).is_empty();
        eventually_async(SOON, sent).await;
        // It may not learn in time what the server has made of an acquire that is held back.
        let _ = soon(client.shutdown()).await;
        rule.let_go();
        assert!(
            matches!(soon(acquire).await.unwrap(), Err(Error::Closed)),
            "{action:?}"
        );
        // It may arrive after its release, which is repeated when it can no longer do so.
        soon(M::of(&other, "x").acquire())
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        eventually_async(SOON, async || keys(&server).is_empty()).await;
    }
}

// Red if `ask` in core's runtime.rs looks only once whether the client is closed.
pub(crate) async fn a_shutdown_ends_a_question_that_is_asked_again_and_again<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = Client::with_options(options(&proxy.url())).await.unwrap();
    let loading = Action::error("LOADING Redis is loading the dataset in memory");
    let asked = proxy.always(Script::Inspect.calls(), loading);
    let lock = M::of(&client, "x");
    let inspect = tokio::spawn(async move { lock.inspect().await });
    asked.wait_fired_async(3, SOON).await;
    soon(client.shutdown()).await.unwrap();
    let closed = Instant::now();
    assert!(matches!(soon(inspect).await.unwrap(), Err(Error::Closed)));
    assert!(closed.elapsed() < SOON / 5, "{:?}", closed.elapsed());
}
