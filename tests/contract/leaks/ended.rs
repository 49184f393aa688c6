use std::future::pending;
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use lockyard::{Client, HoldState, Lease};
use lockyard_testkit::{Action, Proxy, Server, eventually_async};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::{Scene, connections, keys, nothing_is_left, options, until_waiting};
use crate::contract::exclusive::{Exclusive, Guard, Owned, Single};
use crate::contract::site::Site;
use crate::support::{SOON, Script, cache_scripts, soon, while_waiting};

// Red without `Drop for Hold`.
pub(crate) async fn a_panic_in_the_section_releases<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let lock = M::of(&scene.client, "x");
    let section = tokio::spawn(async move {
        let _guard = lock.acquire().await.unwrap();
        panic!("on purpose, in the section");
    });
    assert!(section.await.unwrap_err().is_panic());
    scene.nothing_is_left().await;

    let guard = M::of(&scene.client, "x").acquire().await.unwrap();
    let section = thread::spawn(move || {
        let _guard = guard;
        panic!("on purpose, in the section of a plain thread");
    });
    assert!(section.join().is_err());
    scene.nothing_is_left().await;
}

// Red without `Drop for Hold`.
pub(crate) async fn a_panic_in_a_nested_section_releases_all_of_it<M: Exclusive>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let lock = M::of(&scene.client, "x");
    let owner = scene.client.owner();
    let section = tokio::spawn(async move {
        let nested = async {
            let _outer = lock.acquire().await.unwrap();
            let _inner = lock.acquire().await.unwrap();
            panic!("on purpose, in the nested section");
        };
        owner.scope(nested).await
    });
    assert!(section.await.unwrap_err().is_panic());
    scene.nothing_is_left().await;
}

// Red without `Drop for Claim`.
pub(crate) async fn a_panic_while_waiting_leaves_no_place<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let guard = M::of(&scene.other, "x").acquire().await.unwrap();
    let lock = M::of(&scene.client, "x");
    let (tell, told) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let accident = async {
            told.await.unwrap();
            panic!("on purpose, while waiting");
        };
        tokio::join!(lock.acquire(), accident)
    });
    until_waiting::<M>(&scene.other, 1).await;
    tell.send(()).unwrap();
    assert!(task.await.unwrap_err().is_panic());
    until_waiting::<M>(&scene.other, 0).await;
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}

// Red without `Drop for Hold`.
pub(crate) async fn a_guard_dropped_on_a_plain_thread_is_released<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let guard = M::of(&scene.client, "x").acquire().await.unwrap();
    thread::spawn(move || drop(guard)).join().unwrap();
    scene.nothing_is_left().await;
}

/// A runtime like a user's, with a client on it.
fn runtime_with_client(url: &str) -> (Runtime, Client) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let client = runtime
        .block_on(Client::with_options(options(url)))
        .unwrap();
    (runtime, client)
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Sees from a runtime of its own that nothing is left.
fn nothing_is_left_on<M: Single>(server: &Server) {
    runtime().block_on(async {
        let client = Client::with_options(options(&server.url())).await.unwrap();
        nothing_is_left::<M>(server, &client).await;
    });
}

// Red without `Drop for Hold`.
pub(crate) fn a_guard_dropped_after_its_runtime_is_released<M: Single>() {
    let server = Server::start().unwrap();
    for keeps_the_client in [true, false] {
        let (runtime, client) = runtime_with_client(&server.url());
        let guard = runtime.block_on(M::of(&client, "x").acquire()).unwrap();
        let client = keeps_the_client.then_some(client);
        drop(runtime);
        assert_eq!(guard.state(), HoldState::Held);
        assert_eq!(keys(&server), M::keys("x"));
        drop(guard);
        nothing_is_left_on::<M>(&server);
        drop(client);
    }
}

// Red without handing the lane of a runtime that has ended over to the watchdog.
pub(crate) fn a_guard_is_released_on_another_runtime_after_its_own_has_ended<M: Single>() {
    let server = Server::start().unwrap();
    let (first, client) = runtime_with_client(&server.url());
    let guard = first.block_on(M::of(&client, "x").acquire()).unwrap();
    drop(first);
    runtime()
        .block_on(async { soon(guard.release()).await })
        .unwrap();
    nothing_is_left_on::<M>(&server);
}

// Red without `Drop for Hold`.
pub(crate) fn a_guard_dropped_inside_another_runtime_is_released<M: Single>() {
    let server = Server::start().unwrap();
    let (first, client) = runtime_with_client(&server.url());
    let guard = first.block_on(M::of(&client, "x").acquire()).unwrap();
    runtime().block_on(async move { drop(guard) });
    nothing_is_left_on::<M>(&server);
    let guard = first.block_on(M::of(&client, "x").acquire()).unwrap();
    runtime()
        .block_on(async { soon(guard.release()).await })
        .unwrap();
    nothing_is_left_on::<M>(&server);
}

// Red without `Drop for Claim`, and without `Drop for Hold`.
pub(crate) fn a_runtime_that_ends_while_its_tasks_hold_and_wait_leaves_nothing<M: Single>() {
    let server = Server::start().unwrap();
    for ends_in_background in [true, false] {
        let (runtime, client) = runtime_with_client(&server.url());
        for _ in 0..3 {
            let lock = M::of(&client, "x");
            runtime.spawn(async move {
                let _guard = lock.acquire().await.unwrap();
                pending::<()>().await;
            });
        }
        runtime.block_on(until_waiting::<M>(&client, 2));
        match ends_in_background {
            true => runtime.shutdown_background(),
            false => drop(runtime),
        }
        nothing_is_left_on::<M>(&server);
    }
}

// Red without `Drop for Claim`.
pub(crate) fn a_runtime_that_ends_before_the_reply_to_an_acquire_leaves_nothing<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    cache_scripts(&server);
    let (runtime, client) = runtime_with_client(&proxy.url());
    let lock = M::of(&client, "x");
    let swallowed = proxy.once(Script::Acquire.calls(), Action::SwallowReply);
    runtime.spawn(async move { lock.acquire().await });
    swallowed.wait_fired(1, SOON);
    assert_eq!(keys(&server), M::keys("x"));
    drop(runtime);
    nothing_is_left_on::<M>(&server);
}

pub(crate) async fn a_client_lives_as_long_as_its_guards<M: Exclusive>() {
    let scene = Scene::<M>::new().await;
    let lease = Duration::from_millis(300);
    let short = options(&scene.server().url()).lease(Lease::Renewed(lease));
    let client = Client::with_options(short).await.unwrap();
    let guard = M::of(&client, "x").acquire().await.unwrap();
    let nested = M::of(&client, "x")
        .with_owner(&guard.owner())
        .acquire()
        .await
        .unwrap();
    drop(client);
    let before = scene.server().time_micros().unwrap();
    let two_leases = 2 * lease.as_micros() as u64;
    eventually_async(SOON, async || {
        scene.server().time_micros().unwrap() > before + two_leases
    })
    .await;
    assert_eq!(guard.state(), HoldState::Held);
    drop(guard);
    assert!(
        M::of(&scene.other, "x")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    drop(nested);
    scene.nothing_is_left().await;
}

// Red without `Drop for Claim`, and without the end of the watchdog's thread.
pub(crate) async fn a_client_dropped_with_holds_and_waiters_leaves_nothing<M: Single>() {
    let scene = Scene::<M>::new().await;
    let connections = connections(scene.server());
    for _ in 0..3 {
        let client = Client::with_options(options(&scene.server().url()))
            .await
            .unwrap();
        let guard = M::of(&client, "x").acquire().await.unwrap();
        let lock = M::of(&client, "x");
        let mut waiter = Box::pin(async move { lock.acquire().await });
        while_waiting(waiter.as_mut(), until_waiting::<M>(&scene.other, 1)).await;
        drop((client, guard, waiter));
        scene.nothing_is_left().await;
    }
    // The last of the clients goes when its acquires can no longer come late, at the latest.
    eventually_async(3 * SOON, async || {
        super::connections(scene.server()) == connections
    })
    .await;
}

// Red without the end of renewing after `max_hold`.
pub(crate) async fn a_forgotten_guard_holds_no_longer_than_its_longest_hold<M: Single>(site: Site) {
    let scene = Scene::<M>::at(site).await;
    let lease = Lease::Renewed(Duration::from_millis(300));
    let lock = M::of(&scene.client, "x")
        .with_lease(lease)
        .with_max_hold(Duration::from_millis(600));
    let start = Instant::now();
    std::mem::forget(lock.acquire().await.unwrap());
    let guard = soon(M::of(&scene.other, "x").acquire()).await.unwrap();
    assert!(start.elapsed() > Duration::from_millis(500));
    guard.release().await.unwrap();
    scene.nothing_is_left().await;
}

// Red without `Drop for Claim`, and without `Drop for Hold`.
pub(crate) async fn tasks_aborted_at_any_moment_leave_nothing<M: Single>() {
    let scene = Scene::<M>::new().await;
    let start = Instant::now();
    for _ in 0..50 {
        let guard = M::of(&scene.client, "x").acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    let usual = (start.elapsed() / 50).as_nanos() as u64;
    let mut completed = 0;
    for round in 0..400 {
        let client = if round % 3 == 0 {
            &scene.other
        } else {
            &scene.client
        };
        let lock = M::of(client, "x");
        let start = Instant::now();
        let task = tokio::spawn(async move {
            let guard = lock.acquire().await?;
            yield_now().await;
            guard.release().await
        });
        let moment = Duration::from_nanos((round * 7919) % 1000 * usual / 500);
        while start.elapsed() < moment {
            yield_now().await;
        }
        task.abort();
        completed += u32::from(task.await.is_ok());
    }
    assert!(
        (1..400).contains(&completed),
        "{completed} of the tasks completed"
    );
    scene.nothing_is_left().await;
    // Which would not be so, were anything kept for an aborted task.
    soon(scene.client.shutdown()).await.unwrap();
    soon(scene.other.shutdown()).await.unwrap();
}
