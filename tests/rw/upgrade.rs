use lockyard::{Error, HoldState};
use lockyard_testkit::Server;

use super::{no_keys, reads, until_waiting, writes};
use crate::support::{client, patient, soon};

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
