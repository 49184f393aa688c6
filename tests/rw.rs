//! Readers together, writers alone: what only a read-write lock does.

use std::time::Duration;

use lockyard::{Client, Error, HoldState, Lease, RwLock, RwLockReadGuard, RwLockWriteGuard};
use lockyard_testkit::{Server, eventually_async};
use tokio::task::JoinHandle;

use crate::support::{SOON, client, ms, patient, soon, travelled};

fn no_keys(server: &Server) {
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

async fn until_waiting(lock: &RwLock, waiters: u64) {
    eventually_async(SOON, async || {
        lock.inspect().await.unwrap().waiting == waiters
    })
    .await;
}

fn reads(lock: &RwLock) -> JoinHandle<RwLockReadGuard> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.read().await.unwrap() })
}

fn writes(lock: &RwLock) -> JoinHandle<RwLockWriteGuard> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.write().await.unwrap() })
}

#[tokio::test]
async fn readers_are_together_and_a_writer_is_alone() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let (lock, other) = (one.rw_lock("x"), two.rw_lock("x"));
    let first = lock.read().await.unwrap();
    let second = other.try_read().await.unwrap().unwrap();
    assert_eq!(lock.reader_count().await.unwrap(), 2);
    assert!(lock.is_read_locked().await.unwrap() && !lock.is_write_locked().await.unwrap());
    assert!(other.try_write().await.unwrap().is_none());
    first.release().await.unwrap();
    assert!(other.try_write().await.unwrap().is_none());
    second.release().await.unwrap();

    let writer = other.try_write().await.unwrap().unwrap();
    assert!(lock.is_write_locked().await.unwrap() && !lock.is_read_locked().await.unwrap());
    assert!(lock.try_write().await.unwrap().is_none());
    assert!(lock.try_read().await.unwrap().is_none());
    writer.release().await.unwrap();
    no_keys(&server);
}

#[tokio::test]
async fn a_queued_writer_stops_later_readers_and_readers_in_a_row_enter_together() {
    let server = Server::start().unwrap();
    let (one, two) = (patient(&server.url()).await, patient(&server.url()).await);
    let (lock, other) = (one.rw_lock("x"), two.rw_lock("x"));
    let first = lock.read().await.unwrap();
    let writer = writes(&other);
    until_waiting(&lock, 1).await;
    assert!(lock.try_read().await.unwrap().is_none());
    let later: Vec<_> = (0..4)
        .map(|n| reads(if n % 2 == 0 { &lock } else { &other }))
        .collect();
    until_waiting(&lock, 5).await;
    let last = writes(&lock);
    until_waiting(&lock, 6).await;
    assert_eq!(
        lock.inspect()
            .await
            .unwrap()
            .waiters
            .iter()
            .map(|waiter| waiter.writes)
            .collect::<Vec<_>>(),
        [true, false, false, false, false, true]
    );

    first.release().await.unwrap();
    let writer = soon(writer).await.unwrap();
    assert!(!last.is_finished() && later.iter().all(|reader| !reader.is_finished()));
    writer.release().await.unwrap();
    let mut readers = Vec::new();
    for reader in later {
        readers.push(soon(reader).await.unwrap());
    }
    assert_eq!(lock.reader_count().await.unwrap(), 4);
    for reader in readers {
        assert!(!last.is_finished());
        reader.release().await.unwrap();
    }
    soon(last).await.unwrap().release().await.unwrap();
    no_keys(&server);
}

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
async fn the_sole_reader_upgrades_before_any_waiting_writer() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let (lock, other) = (one.rw_lock("x"), two.rw_lock("x"));
    let reading = lock.read().await.unwrap();
    let beside = other.read().await.unwrap();
    assert!(reading.try_upgrade().await.unwrap().is_none());
    beside.release().await.unwrap();

    let waiting = writes(&other);
    until_waiting(&lock, 1).await;
    let writing = reading.try_upgrade().await.unwrap().unwrap();
    assert_eq!(writing.owner(), reading.owner());
    assert!(lock.is_write_locked().await.unwrap());
    assert!(!waiting.is_finished());
    writing.release().await.unwrap();
    // It reads on.
    assert_eq!(reading.state(), HoldState::Held);
    assert!(lock.try_write().await.unwrap().is_none() && !waiting.is_finished());
    reading.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
    no_keys(&server);
}

#[tokio::test]
async fn a_lost_reader_cannot_upgrade() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let lock = client.rw_lock("x");
    let reading = lock.read().await.unwrap();
    assert!(lock.force_release().await.unwrap());
    soon(reading.lost()).await;
    let error = reading.try_upgrade().await.unwrap_err();
    assert!(matches!(error, Error::LeaseLost { .. }), "{error:?}");
    drop(reading);
    client.shutdown().await.unwrap();
    no_keys(&server);
}

#[tokio::test]
async fn a_downgrade_lets_in_the_readers_that_wait_and_no_writer() {
    let server = Server::start().unwrap();
    let (one, two) = (patient(&server.url()).await, patient(&server.url()).await);
    let (lock, other) = (one.rw_lock("x"), two.rw_lock("x"));
    let writing = lock.write().await.unwrap();
    let readers = [reads(&other), reads(&lock)];
    until_waiting(&lock, 2).await;
    let writer = writes(&other);
    until_waiting(&lock, 3).await;
    let reading = writing.downgrade().await.unwrap();
    for reader in readers {
        soon(reader).await.unwrap().release().await.unwrap();
    }
    assert_eq!(reading.state(), HoldState::Held);
    assert!(!writer.is_finished());
    reading.release().await.unwrap();
    soon(writer).await.unwrap().release().await.unwrap();
    no_keys(&server);
}

// Red when the key's time to live is that of a reader alone.
#[tokio::test]
async fn each_reader_has_its_own_lease() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, patient(&server.url()).await);
    let lock = one.rw_lock("x");
    let long = lock.clone().with_lease(Lease::Fixed(ms(60_000)));
    let short = lock.clone().with_lease(Lease::Fixed(ms(500)));
    let long = long.read().await.unwrap();
    let short = short.read().await.unwrap();
    let renewed = lock.clone().with_lease(Lease::Renewed(ms(600)));
    let renewed = renewed.read().await.unwrap();
    let writer = writes(&two.rw_lock("x"));
    soon(short.lost()).await;
    eventually_async(SOON, async || lock.reader_count().await.unwrap() == 2).await;
    assert_eq!(long.state(), HoldState::Held);
    assert_eq!(renewed.state(), HoldState::Held);
    assert!(long.remaining() > ms(30_000));
    long.release().await.unwrap();
    assert!(!writer.is_finished());
    renewed.release().await.unwrap();
    soon(writer).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_writer_has_a_token_and_readers_see_the_last() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let plain = client.rw_lock("x");
    let lock = plain.clone().fenced();
    assert_eq!(lock.read().await.unwrap().last_token(), None);
    client.shutdown().await.unwrap();

    let client = crate::support::client(&server.url()).await;
    let lock = client.rw_lock("x").fenced();
    let writing = lock.write().await.unwrap();
    let token = writing.token().unwrap();
    let reader = reads(&lock);
    until_waiting(&lock, 1).await;
    let reading = writing.downgrade().await.unwrap();
    assert_eq!(reading.last_token(), Some(token));
    let reader = soon(reader).await.unwrap();
    assert_eq!(reader.last_token(), Some(token));
    assert_eq!(
        client.rw_lock("x").read().await.unwrap().last_token(),
        None,
        "it was not asked for"
    );
    reader.release().await.unwrap();
    reading.release().await.unwrap();
    let next = lock.write().await.unwrap();
    assert!(next.token() > Some(token));
    next.release().await.unwrap();
}

async fn clients(server: &Server) -> (Client, Client) {
    (client(&server.url()).await, client(&server.url()).await)
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

#[tokio::test]
async fn a_lock_and_a_read_write_lock_of_one_name_are_two_things() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let lock = client.lock("x").try_acquire().await.unwrap().unwrap();
    let writing = client.rw_lock("x").try_write().await.unwrap().unwrap();
    lock.release().await.unwrap();
    assert!(client.rw_lock("x").is_write_locked().await.unwrap());
    writing.release().await.unwrap();
    no_keys(&server);
}
