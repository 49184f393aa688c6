use std::pin::pin;
use std::time::{Duration, Instant};

use lockyard::{Client, Error, HoldState, Lease, Waiting};
use lockyard_testkit::{Action, Proxy, Server, eventually_async};

use super::{Scene, keys, nothing_is_left, options, until_waiting};
use crate::support::{SOON, Script, cache_scripts, soon, while_waiting};

// Red without abandoning in `State::close`.
#[tokio::test]
async fn a_shutdown_releases_every_hold() {
    let scene = Scene::new().await;
    let owner = scene.client.owner();
    let outer = scene
        .client
        .lock("x")
        .with_owner(&owner)
        .acquire()
        .await
        .unwrap();
    let inner = scene
        .client
        .lock("x")
        .with_owner(&owner)
        .acquire()
        .await
        .unwrap();
    let fixed = scene.client.lock("y").with_lease(Lease::Fixed(SOON * 10));
    let fixed = fixed.acquire().await.unwrap();
    let fenced = scene.client.lock("z").fenced().acquire().await.unwrap();
    soon(scene.client.shutdown()).await.unwrap();
    assert_eq!(keys(&scene.server), Vec::<String>::new());
    for guard in [inner, outer, fixed, fenced] {
        soon(guard.lost()).await;
        assert_eq!(guard.state(), HoldState::Lost);
        assert!(matches!(
            guard.release().await,
            Err(Error::LeaseLost { .. })
        ));
    }
    nothing_is_left(&scene.server, &scene.other).await;
}

#[tokio::test]
async fn a_shutdown_ends_every_wait() {
    let scene = Scene::new().await;
    let spinning = Client::with_options(options(&scene.server.url()).waiting(Waiting::Spin))
        .await
        .unwrap();
    let guard = scene.other.lock("x").acquire().await.unwrap();
    let waiting = scene.client.lock("x");
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    let bounded = scene.client.lock("x");
    let bounded = tokio::spawn(async move { bounded.try_acquire_for(SOON * 10).await });
    let spins = spinning.lock("x");
    let spins = tokio::spawn(async move { spins.acquire().await });
    until_waiting(&scene.other, 2).await;
    soon(scene.client.shutdown()).await.unwrap();
    soon(spinning.shutdown()).await.unwrap();
    assert!(matches!(soon(waiting).await.unwrap(), Err(Error::Closed)));
    assert!(matches!(soon(bounded).await.unwrap(), Err(Error::Closed)));
    assert!(matches!(soon(spins).await.unwrap(), Err(Error::Closed)));
    until_waiting(&scene.other, 0).await;
    guard.release().await.unwrap();
    nothing_is_left(&scene.server, &scene.other).await;
}

#[tokio::test]
async fn after_a_shutdown_every_call_is_refused() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let (lock, owner) = (client.lock("x"), client.owner());
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
        soon(client.lock("y").acquire()).await,
        Err(Error::Closed)
    ));
    soon(client.shutdown()).await.unwrap();
}

// Red without abandoning in `State::close`.
#[tokio::test]
async fn a_shutdown_does_not_wait_for_those_who_are_not_polled() {
    let scene = Scene::new().await;
    let guard = scene.other.lock("x").acquire().await.unwrap();
    let lock = scene.client.lock("x");
    let mut waiter = pin!(lock.acquire());
    while_waiting(waiter.as_mut(), until_waiting(&scene.other, 1)).await;
    soon(scene.client.shutdown()).await.unwrap();
    until_waiting(&scene.other, 0).await;
    assert!(matches!(soon(waiter).await, Err(Error::Closed)));
    guard.release().await.unwrap();
    nothing_is_left(&scene.server, &scene.other).await;
}

// Red without abandoning in `State::close`.
#[tokio::test]
async fn a_shutdown_does_not_wait_for_guards_that_are_lost() {
    let scene = Scene::new().await;
    let guard = scene.client.lock("x").acquire().await.unwrap();
    assert!(scene.other.lock("x").force_release().await.unwrap());
    soon(guard.lost()).await;
    soon(scene.client.shutdown()).await.unwrap();
    nothing_is_left(&scene.server, &scene.other).await;
}

#[tokio::test]
async fn a_shutdown_during_an_acquire_leaves_nothing() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    cache_scripts(&server);
    let other = Client::connect(&server.url()).await.unwrap();
    for action in [Action::Hold, Action::DelayReply(Duration::from_millis(200))] {
        let options = options(&proxy.url()).operation_timeout(Duration::from_secs(1));
        let client = Client::with_options(options).await.unwrap();
        let lock = client.lock("x");
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
        soon(other.lock("x").acquire())
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        eventually_async(SOON, async || keys(&server).is_empty()).await;
    }
}

// Red if `ask` in core's runtime.rs looks only once whether the client is closed.
#[tokio::test]
async fn a_shutdown_ends_a_question_that_is_asked_again_and_again() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = Client::with_options(options(&proxy.url())).await.unwrap();
    let loading = Action::error("LOADING Redis is loading the dataset in memory");
    let asked = proxy.always(Script::Inspect.calls(), loading);
    let lock = client.lock("x");
    let inspect = tokio::spawn(async move { lock.inspect().await });
    asked.wait_fired_async(3, SOON).await;
    soon(client.shutdown()).await.unwrap();
    let closed = Instant::now();
    assert!(matches!(soon(inspect).await.unwrap(), Err(Error::Closed)));
    assert!(closed.elapsed() < SOON / 5, "{:?}", closed.elapsed());
}
