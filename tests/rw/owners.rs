use std::time::Duration;

use lockyard::{Error, HoldState};
use lockyard_testkit::Server;

use super::{clients, no_keys, reads, until_waiting, writes};
use crate::support::{client, soon, travelled};

#[tokio::test]
async fn an_owner_reads_while_it_reads_or_writes_and_writes_while_it_writes() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let owner = client.owner();
    let lock = client.rw_lock("x").with_owner(&owner);
    let others = client.rw_lock("x");

    let outer = lock.read().await.unwrap();
    // A writer queues, and the owner reads on all the same.
    let waiting = writes(&others);
    until_waiting(&lock, 1).await;
    let inner = lock.try_read().await.unwrap().unwrap();
    outer.release().await.unwrap();
    assert!(!waiting.is_finished());
    inner.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();

    let outer = lock.write().await.unwrap();
    let inner = lock.write().await.unwrap();
    let reading = lock.read().await.unwrap();
    outer.release().await.unwrap();
    assert!(others.try_read().await.unwrap().is_none());
    inner.release().await.unwrap();
    // It goes on reading, beside others.
    let other = others.try_read().await.unwrap().unwrap();
    assert!(others.try_write().await.unwrap().is_none());
    reading.release().await.unwrap();
    other.release().await.unwrap();
    no_keys(&server);
}

#[tokio::test]
async fn to_write_while_only_reading_is_refused_at_once() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let owner = one.owner();
    let lock = one.rw_lock("x").with_owner(&owner);
    let reading = lock.read().await.unwrap();
    let elsewhere = two.rw_lock("x").with_owner(&travelled(&owner));
    for lock in [&lock, &elsewhere] {
        for error in [
            lock.write().await.unwrap_err(),
            lock.try_write().await.unwrap_err(),
            lock.try_write_for(Duration::MAX).await.unwrap_err(),
            lock.reenter_write(&owner).await.unwrap_err(),
        ] {
            assert!(matches!(error, Error::WouldDeadlock { .. }), "{error:?}");
            assert!(!error.is_retryable());
        }
    }
    assert_eq!(reading.state(), HoldState::Held);
    reading.release().await.unwrap();
    no_keys(&server);
}

// An owner waits to write, and is let in to read through another client: it would wait for itself.
#[tokio::test]
async fn a_waiter_whose_owner_has_begun_to_read_is_told() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let owner = one.owner();
    let sent = travelled(&owner);
    let (lock, elsewhere) = (
        one.rw_lock("x").with_owner(&owner),
        two.rw_lock("x").with_owner(&sent),
    );
    let writer = two.rw_lock("x").write().await.unwrap();
    let first = reads(&elsewhere);
    until_waiting(&lock, 1).await;
    let waiting = lock.clone();
    let second = tokio::spawn(async move { waiting.write().await });
    until_waiting(&lock, 2).await;
    writer.release().await.unwrap();
    let reading = soon(first).await.unwrap();
    let error = soon(second).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::WouldDeadlock { .. }), "{error:?}");
    reading.release().await.unwrap();
    no_keys(&server);
}

#[tokio::test]
async fn a_called_service_reads_and_writes_under_its_callers_hold_and_outlasts_it() {
    let server = Server::start().unwrap();
    let (a, b) = clients(&server).await;
    let owner = a.owner();
    let lock = a.rw_lock("x").with_owner(&owner);
    let writing = lock.write().await.unwrap();
    let sent = travelled(&owner);
    let called = b.rw_lock("x");
    let read = called.reenter_read(&sent).await.unwrap().unwrap();
    let write = called.reenter_write(&sent).await.unwrap().unwrap();
    read.release().await.unwrap();
    writing.release().await.unwrap();
    assert!(a.rw_lock("x").try_read().await.unwrap().is_none());
    write.release().await.unwrap();
    assert!(called.reenter_read(&sent).await.unwrap().is_none());
    assert!(called.reenter_write(&sent).await.unwrap().is_none());
    no_keys(&server);
}
