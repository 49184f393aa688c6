//! A server that is killed or stopped.

use std::time::{Duration, Instant};

use lockyard::{Client, HoldState, Lease};
use lockyard_testkit::{Direction, Proxy, Server, eventually_async};

use crate::contract::exclusive::{Exclusive, Guard, Single};
use crate::refusals::{SLACK, assert_tells};
use crate::support::{SOON, connect, ms, soon, variant};

/// A wait ends when it is over, whatever the server does not do, with an error.
async fn check_gone<M: Single>(client: Client, stop: impl Fn()) {
    let lock = M::of(&client, "x");
    stop();
    for wait in [ms(1), ms(400), ms(900)] {
        let start = Instant::now();
        let error = lock.try_acquire_for(wait).await.unwrap_err();
        let took = start.elapsed();
        assert_tells(&error, "Unreachable", "it is running", "", true);
        assert!(took >= wait && took < wait + ms(1200), "{wait:?}: {took:?}");
    }
}

// Red when one command may take the whole operation timeout.
pub(crate) async fn a_wait_for_a_killed_server_ends_in_time_with_an_error<M: Single>() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    check_gone::<M>(client, || server.kill()).await;
}

// Red when one command may take the whole operation timeout.
pub(crate) async fn a_wait_for_a_stopped_server_ends_in_time_with_an_error<M: Single>() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    check_gone::<M>(client, || server.pause().unwrap()).await;
}

// Red when TIME, asked before the first acquire on a new connection, may take the whole operation timeout.
pub(crate) async fn a_wait_for_a_server_that_stopped_after_a_reconnect_ends_in_time_with_an_error<
    M: Single,
>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = Client::connect(&proxy.url()).await.unwrap();
    proxy.cut();
    // The inbox is subscribed, at the latest by now, after its own reconnect; so are the others.
    let inboxes = || {
        server
            .query::<Vec<String>>(&["PUBSUB", "CHANNELS"])
            .unwrap()
    };
    let back = async || proxy.connections() == 3 && inboxes().len() == 1;
    eventually_async(SOON, back).await;
    tokio::time::sleep(ms(100)).await;
    check_gone::<M>(client, || proxy.hold(Direction::Both)).await;
}

// Red when the renewal behind a nested acquire may take the whole operation timeout.
pub(crate) async fn a_nested_wait_for_a_stopped_server_ends_in_time_with_an_error<M: Exclusive>() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = M::of(&client, "x").with_owner(&client.owner());
    let guard = lock.acquire().await.unwrap();
    server.pause().unwrap();
    // A longer lease than the hold has, so it must be renewed first.
    let longer = lock.with_lease(Lease::Renewed(ms(90_000)));
    let start = Instant::now();
    let error = longer.try_acquire_for(ms(300)).await.unwrap_err();
    assert!(start.elapsed() < ms(1500), "{:?}", start.elapsed());
    assert_tells(&error, "Unreachable", "it is running", "", true);
    assert_eq!(guard.state(), HoldState::Held);
}

pub(crate) async fn a_try_at_a_server_that_is_gone_ends_with_the_operation_timeout<M: Exclusive>() {
    async fn check<M: Exclusive>(stop: fn(&Server)) {
        let server = Server::start().unwrap();
        let timeout = ms(1500);
        let client = connect(&server.url(), |options| options.operation_timeout(timeout))
            .await
            .unwrap();
        let lock = M::of(&client, "x");
        let owner = client.owner();
        stop(&server);
        let start = Instant::now();
        let (tried, waited, entered, locked, inspected, forced) = tokio::join!(
            lock.try_acquire(),
            lock.try_acquire_for(Duration::ZERO),
            lock.reenter(&owner),
            lock.is_locked(),
            lock.inspect(),
            lock.force_release(),
        );
        assert!(start.elapsed() < timeout + SLACK, "{:?}", start.elapsed());
        let errors = [
            tried.err(),
            waited.err(),
            entered.err(),
            locked.err(),
            inspected.err(),
            forced.err(),
        ];
        for error in errors {
            assert_tells(&error.unwrap(), "Unreachable", "it is running", "", true);
        }
    }
    tokio::join!(
        check::<M>(Server::kill),
        check::<M>(|server| server.pause().unwrap())
    );
}

// The queue was told of it, but who stands in it does not know whether its turn came.
pub(crate) async fn a_queued_waiter_whose_server_is_gone_ends_in_time_and_holds_nothing<
    M: Single,
>() {
    async fn check<M: Single>(stop: fn(&Server)) {
        let server = Server::start().unwrap();
        let client = Client::connect(&server.url()).await.unwrap();
        let guard = M::of(&client, "x").acquire().await.unwrap();
        let lock = M::of(&client, "x");
        let start = Instant::now();
        let waiter = tokio::spawn(async move { lock.try_acquire_for(ms(1500)).await });
        eventually_async(SOON, async || {
            M::of(&client, "x").inspect().await.unwrap().waiting == 1
        })
        .await;
        stop(&server);
        match soon(waiter).await.unwrap() {
            Ok(granted) => assert!(granted.is_none()),
            Err(error) => assert_eq!(variant(&error), "Unreachable"),
        }
        assert!(start.elapsed() < ms(1500) + SLACK);
        drop(guard);
    }
    tokio::join!(
        check::<M>(Server::kill),
        check::<M>(|server| server.pause().unwrap())
    );
}

// Red without a policy to reconnect.
pub(crate) async fn a_server_that_comes_back_is_used_again<M: Single>() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    server.kill();
    let lock = M::of(&client, "x");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    assert!(M::of(&client, "x").try_acquire_for(ms(200)).await.is_err());
    assert!(!waiter.is_finished());
    server.restart().unwrap();
    tokio::time::timeout(SOON * 2, waiter)
        .await
        .unwrap()
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    // The other connections may be later.
    client.shutdown().await.unwrap();
}
