use lockyard_testkit::Server;

use super::{no_keys, reads, until_waiting, writes};
use crate::support::{client, patient, soon};

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
