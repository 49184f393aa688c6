//! Servers that are full, busy, replicas, or short of replicas.

use std::time::{Duration, Instant};

use lockyard::{Client, Error, HoldState, ServerErrorKind};
use lockyard_testkit::{Server, eventually_async};

use crate::refusals::{SLACK, assert_tells, renewed};
use crate::support::{SOON, connect, ms, soon};

// Red without `flags=allow-oom` in renew.lua or release.lua.
#[tokio::test]
async fn a_full_server_renews_and_releases_and_lets_nobody_in() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let lease = ms(900);
    let held = client
        .lock("held")
        .with_lease(renewed(lease))
        .acquire()
        .await
        .unwrap();
    let contended = client
        .lock("contended")
        .with_lease(renewed(lease))
        .acquire()
        .await
        .unwrap();
    let waiting = client.lock("contended").fenced();
    let waiter = tokio::spawn(async move { waiting.acquire().await });
    let lock = client.lock("contended");
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
    server.fill().unwrap();

    let lock = client.lock("x");
    for lock in [
        lock.clone(),
        lock.clone().fenced(),
        lock.clone().with_owner(&client.owner()),
    ] {
        for error in [
            lock.try_acquire().await.err(),
            soon(lock.acquire()).await.err(),
            soon(lock.try_acquire_for(Duration::MAX)).await.err(),
        ] {
            let error = error.unwrap();
            assert_tells(
                &error,
                "Refused",
                "raise maxmemory or free keys, then try again",
                "OOM",
                true,
            );
            assert!(
                matches!(&error, Error::Refused { source, .. } if source.kind() == ServerErrorKind::OutOfMemory)
            );
        }
    }
    assert!(!lock.is_locked().await.unwrap());
    assert_eq!(lock.inspect().await.unwrap().waiting, 0);
    assert!(tokio::time::timeout(lease * 2, held.lost()).await.is_err());
    assert_eq!(held.state(), HoldState::Held);
    held.release().await.unwrap();
    contended.release().await.unwrap();
    let granted = soon(waiter).await.unwrap().unwrap();
    granted.release().await.unwrap();
    assert_eq!(
        server.keys("lockyard:*").unwrap(),
        ["lockyard:lock.fence:{contended}"]
    );

    server.unfill().unwrap();
    for lock in [
        client.lock("x"),
        client.lock("held"),
        client.lock("contended"),
    ] {
        soon(lock.acquire()).await.unwrap().release().await.unwrap();
    }
}

// Red without `flags=allow-oom` in release.lua.
#[tokio::test]
async fn a_full_server_releases_by_drop_and_by_force() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let dropped = client.lock("dropped").acquire().await.unwrap();
    let forced = client.lock("forced").acquire().await.unwrap();
    server.fill().unwrap();
    drop(dropped);
    assert!(client.lock("forced").force_release().await.unwrap());
    soon(forced.lost()).await;
    eventually_async(SOON, async || server.keys("*").unwrap().is_empty()).await;
}

// Red when BUSY is not transient.
#[tokio::test]
async fn a_busy_server_is_told_and_waited_for() {
    let server = Server::start().unwrap();
    let timeout = ms(1000);
    let client = connect(&server.url(), |options| options.operation_timeout(timeout))
        .await
        .unwrap();
    let held = client
        .lock("held")
        .with_lease(renewed(ms(3000)))
        .acquire()
        .await
        .unwrap();
    let taken = Instant::now();
    server.busy(ms(2000)).unwrap();
    let error = client.lock("x").try_acquire().await.unwrap_err();
    assert_tells(
        &error,
        "Refused",
        "slow script blocks it; try again, or see SCRIPT KILL",
        "BUSY",
        true,
    );
    let error = connect(&server.url(), |options| options.operation_timeout(timeout))
        .await
        .unwrap_err();
    assert_tells(&error, "Refused", "slow script blocks it", "BUSY", true);
    soon(client.lock("x").acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    if let Some(rest) = ms(3300).checked_sub(taken.elapsed()) {
        assert!(tokio::time::timeout(rest, held.lost()).await.is_err());
    }
    held.release().await.unwrap();
}

// Red without `flags=no-writes` in inspect.lua.
#[tokio::test]
async fn a_replica_is_told_and_can_be_asked() {
    let primary = Server::start().unwrap();
    let held = Client::connect(&primary.url())
        .await
        .unwrap()
        .lock("x")
        .acquire()
        .await
        .unwrap();
    let replica = Server::builder().replica_of(&primary).start().unwrap();
    let timeout = ms(1000);
    let client = connect(&replica.url(), |options| options.operation_timeout(timeout))
        .await
        .unwrap();
    let start = Instant::now();
    let error = client.lock("x").try_acquire().await.unwrap_err();
    assert!(start.elapsed() < timeout + SLACK, "{:?}", start.elapsed());
    assert_tells(
        &error,
        "Refused",
        "read-only replica; connect to the primary",
        "READONLY",
        true,
    );
    eventually_async(SOON, async || client.lock("x").is_locked().await.unwrap()).await;
    held.release().await.unwrap();
    eventually_async(SOON, async || !client.lock("x").is_locked().await.unwrap()).await;
}

// Red when READONLY is not transient.
#[tokio::test]
async fn a_primary_that_was_a_replica_for_a_while_is_used_again() {
    let server = Server::start().unwrap();
    let timeout = ms(1000);
    let client = connect(&server.url(), |options| options.operation_timeout(timeout))
        .await
        .unwrap();
    let held = client
        .lock("held")
        .with_lease(renewed(ms(3000)))
        .acquire()
        .await
        .unwrap();
    let taken = Instant::now();
    server.make_replica().unwrap();
    let error = client.lock("x").try_acquire().await.unwrap_err();
    assert_tells(&error, "Refused", "read-only replica", "READONLY", true);
    let lock = client.lock("x");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    eventually_async(SOON, async || held.state() == HoldState::Unsure).await;
    assert!(!waiter.is_finished());
    server.make_primary().unwrap();
    soon(waiter)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    if let Some(rest) = ms(3300).checked_sub(taken.elapsed()) {
        assert!(tokio::time::timeout(rest, held.lost()).await.is_err());
    }
    held.release().await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_without_enough_replicas_is_told_and_waited_for() {
    let server = Server::start().unwrap();
    let timeout = ms(1000);
    let client = connect(&server.url(), |options| options.operation_timeout(timeout))
        .await
        .unwrap();
    let held = client
        .lock("held")
        .with_lease(renewed(ms(60_000)))
        .acquire()
        .await
        .unwrap();
    server
        .command(&["CONFIG", "SET", "min-replicas-to-write", "1"])
        .unwrap();
    let error = client.lock("x").try_acquire().await.unwrap_err();
    assert_tells(
        &error,
        "Refused",
        "cannot write for now; try again",
        "NOREPLICAS",
        true,
    );
    // Nobody knows whether it was released, and it goes on in the background.
    let error = held.release().await.unwrap_err();
    assert_tells(
        &error,
        "OutcomeUnknown",
        "goes on in the background",
        "NOREPLICAS",
        false,
    );
    server
        .command(&["CONFIG", "SET", "min-replicas-to-write", "0"])
        .unwrap();
    soon(client.lock("held").acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}
