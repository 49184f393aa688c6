//! The same name in different places.

use lockyard::{Client, HoldState, Lease};
use lockyard_testkit::{Server, eventually_async};

use crate::support::{SOON, connect, ms, soon};

/// Two clients that must have nothing to do with each other.
async fn check_apart(server: &Server, one: Client, two: Client) {
    let (first, second) = (one.lock("x"), two.lock("x"));
    let lease = Lease::Renewed(ms(600));
    let held = first
        .clone()
        .with_lease(lease)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    let fenced = second
        .clone()
        .fenced()
        .with_lease(lease)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    let (waiting, other) = (first.clone(), second.clone());
    let waiter = tokio::spawn(async move { waiting.acquire().await });
    let stranger = tokio::spawn(async move { other.acquire().await });
    eventually_async(SOON, async || first.inspect().await.unwrap().waiting == 1).await;
    eventually_async(SOON, async || second.inspect().await.unwrap().waiting == 1).await;

    // Much traffic on the one side, and a release by force.
    assert!(second.force_release().await.unwrap());
    soon(fenced.lost()).await;
    let stranger = soon(stranger).await.unwrap().unwrap();
    stranger.release().await.unwrap();
    for _ in 0..50 {
        second.acquire().await.unwrap().release().await.unwrap();
    }
    // None of it reached the other.
    assert!(!waiter.is_finished());
    assert!(tokio::time::timeout(ms(900), held.lost()).await.is_err());
    assert_eq!(held.state(), HoldState::Held);
    assert_eq!(first.inspect().await.unwrap().waiting, 1);
    assert!(!second.is_locked().await.unwrap());
    held.release().await.unwrap();
    soon(waiter)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    for database in ["0", "1"] {
        let mut keys: Vec<String> = server
            .query(&[
                "EVAL",
                "redis.call('SELECT', ARGV[1]) return redis.call('KEYS', '*')",
                "0",
                database,
            ])
            .unwrap();
        keys.retain(|key| !key.contains("lock.fence:"));
        assert_eq!(keys, Vec::<String>::new(), "database {database}");
    }
}

// Red when keys are made with the default prefix.
#[tokio::test]
async fn the_same_name_under_two_prefixes_is_two_locks() {
    let server = Server::start().unwrap();
    let one = connect(&server.url(), |options| options.prefix("one:"))
        .await
        .unwrap();
    let two = connect(&server.url(), |options| options.prefix("one:two:"))
        .await
        .unwrap();
    check_apart(&server, one, two).await;
}

// Red when the connection drops the database.
#[tokio::test]
async fn the_same_name_in_two_databases_is_two_locks() {
    let server = Server::start().unwrap();
    let one = Client::connect(&format!("{}/0", server.url()))
        .await
        .unwrap();
    let two = Client::connect(&format!("{}/1", server.url()))
        .await
        .unwrap();
    check_apart(&server, one, two).await;
}

// Channels know no databases, and anybody may publish to them. Red when a message must be UTF-8.
#[tokio::test]
async fn strange_messages_in_the_inbox_do_no_harm() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = client.lock("x").with_lease(Lease::Renewed(ms(600)));
    let guard = lock.acquire().await.unwrap();
    let waiting = lock.clone();
    let waiter = tokio::spawn(async move { waiting.acquire().await });
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;

    let inboxes: Vec<String> = server
        .query(&["PUBSUB", "CHANNELS", "lockyard:inbox:*"])
        .unwrap();
    let hold = server
        .query::<Vec<String>>(&["HKEYS", "lockyard:lock:{x}"])
        .unwrap()
        .remove(0);
    let entry = server
        .query::<Vec<String>>(&["ZRANGE", "lockyard:lock.queue:{x}", "0", "0"])
        .unwrap()
        .remove(0);
    let stranger = "67e55044-10b1-426f-9247-bb680e5fe0c8:7/67e55044-10b1-426f-9247-bb680e5fe0c8.7";
    let mut messages: Vec<Vec<u8>> = vec![b"\xff\xfe\0".to_vec(), vec![b'x'; 1 << 20]];
    for text in [
        "",
        " ",
        "granted",
        "granted ",
        "granted x y",
        "granted 1",
        "granted -1 x",
        "revoked",
        "revoked ",
        "revoked x",
        "released",
    ] {
        messages.push(text.into());
    }
    let now = server.time_micros().unwrap();
    messages.push(format!("revoked {stranger}").into());
    messages.push(format!("granted {now} {stranger}|-|1|30000|10000").into());
    // Old news: the hold is there already, and this grant would be over.
    messages.push(format!("granted {now} {hold}|-|1|600|600").into());
    messages.push(format!("granted {} {entry}", now - 3_600_000_000).into());
    messages.push(format!("granted 18446744073709551616 {entry}").into());
    for message in &messages {
        let told: u64 = server
            .query(&[b"PUBLISH".as_slice(), inboxes[0].as_bytes(), message])
            .unwrap();
        assert_eq!(told, 1);
    }
    assert!(tokio::time::timeout(ms(900), guard.lost()).await.is_err());
    assert_eq!(guard.state(), HoldState::Held);
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    tokio::time::timeout(SOON, waiter)
        .await
        .unwrap()
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}
