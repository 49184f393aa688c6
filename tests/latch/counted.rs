use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use lockyard::{ClientOptions, Latch};
use lockyard_testkit::Server;

use super::{KEY, OPS, nothing_is_left};
use crate::support::{SOON, begin, cache_scripts, client, connect, drop_after, ms, soon};

// Red when a latch is set that is counted down, and when zero sets one.
#[tokio::test]
async fn a_latch_is_set_by_the_first_and_only_while_it_is_open() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let (one, two) = (one.latch("x"), two.latch("x"));
    assert_eq!(one.count().await.unwrap(), 0);
    assert!(two.try_set_count(0).await.unwrap());
    assert_eq!(two.count().await.unwrap(), 0);
    assert!(one.try_set_count(3).await.unwrap());
    for count in [0, 3, 5, u32::MAX] {
        assert!(!two.try_set_count(count).await.unwrap());
        assert!(!one.try_set_count(count).await.unwrap());
    }
    assert_eq!(two.count().await.unwrap(), 3);
    assert_eq!(two.count_down_by(3).await.unwrap(), 0);
    assert!(two.try_set_count(u32::MAX).await.unwrap());
    assert_eq!(one.count().await.unwrap(), u64::from(u32::MAX));
}

// Red when a range begins at zero each time, and when a client's part of one latch counts for the next.
#[tokio::test]
async fn clients_count_down_together_and_never_below_zero() {
    let server = Server::start().unwrap();
    let clients = [client(&server.url()).await, client(&server.url()).await];
    let latches = clients.map(|client| client.latch("x"));
    for round in 0..3 {
        assert!(latches[0].try_set_count(7).await.unwrap());
        assert_eq!(latches[0].count_down().await.unwrap(), 6);
        assert_eq!(latches[1].count_down_by(2).await.unwrap(), 4);
        assert_eq!(latches[0].count_down_by(0).await.unwrap(), 4);
        assert_eq!(latches[0].count_down_by(3).await.unwrap(), 1);
        assert_eq!(
            latches[1].count_down_by(u32::MAX).await.unwrap(),
            0,
            "{round}"
        );
        // It is open, and stays so.
        assert_eq!(latches[0].count_down_by(5).await.unwrap(), 0);
        assert_eq!(latches[1].count().await.unwrap(), 0);
    }
}

// Red when one of the calls that go together is forgotten.
#[tokio::test]
async fn a_thousand_count_downs_of_many_tasks_each_count() {
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let clients = [client(&server.url()).await, client(&server.url()).await];
    let latches = clients.map(|client| client.latch("x"));
    assert!(latches[0].try_set_count(1001).await.unwrap());
    let before = server.scripts().unwrap();
    let calls = (0..1000).map(|number: usize| latches[number % 2].count_down());
    for left in soon(join_all(calls)).await {
        assert!(left.unwrap() >= 1);
    }
    let scripts = server.scripts().unwrap() - before;
    assert!(scripts < 300, "{scripts} scripts");
    assert_eq!(latches[0].count().await.unwrap(), 1);
    assert_eq!(latches[1].count_down().await.unwrap(), 0);
}

#[tokio::test]
async fn a_count_down_is_two_scripts() {
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let latch = client(&server.url()).await.latch("x");
    latch.try_set_count(9).await.unwrap();
    let before = server.scripts().unwrap();
    for _ in 0..5 {
        latch.count_down().await.unwrap();
    }
    assert_eq!(server.scripts().unwrap() - before, 10);
}

// Red when a client begins at zero again where the server knows better.
#[tokio::test]
async fn a_client_that_counts_down_at_thousands_of_latches_counts_right() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let first = client.latch("x");
    first.try_set_count(5).await.unwrap();
    assert_eq!(first.count_down_by(2).await.unwrap(), 3);
    let others: Vec<Latch> = (0..1100)
        .map(|number| client.latch(number.to_string()))
        .collect();
    for answer in soon(join_all(others.iter().map(|latch| latch.try_set_count(2)))).await {
        assert!(answer.unwrap());
    }
    for left in soon(join_all(others.iter().map(Latch::count_down))).await {
        assert_eq!(left.unwrap(), 1);
    }
    assert_eq!(first.count_down().await.unwrap(), 2);
}

async fn quick(server: &Server) -> lockyard::Client {
    let change = |options: ClientOptions| options.operation_timeout(ms(300));
    connect(&server.url(), change).await.unwrap()
}

// Red when what keeps a copy of the setting away stays, or the clients' parts.
#[tokio::test]
async fn nothing_is_left_when_a_latch_has_opened() {
    let server = Server::start().unwrap();
    let latch = quick(&server).await.latch("x");
    for wait in [ms(0), ms(400)] {
        latch.try_set_count(2).await.unwrap();
        latch.count_down().await.unwrap();
        tokio::time::sleep(wait).await;
        latch.count_down().await.unwrap();
        nothing_is_left(&server).await;
    }
}

// Red without PEXPIRE of either key.
#[tokio::test]
async fn a_latch_lives_for_thirty_days_or_as_long_as_it_is_told() {
    let server = Server::start().unwrap();
    let latch = client(&server.url()).await.latch("x");
    let month = Duration::from_secs(30 * 24 * 3600);
    for (latch, life) in [
        (latch.clone(), month),
        (latch.clone().with_life_time(SOON * 60), SOON * 60),
    ] {
        latch.try_set_count(2).await.unwrap();
        latch.count_down().await.unwrap();
        for key in [KEY, OPS] {
            let ttl = Duration::from_millis(server.ttl_ms(key).unwrap() as u64);
            assert!(ttl <= life && ttl + SOON > life, "{key} {ttl:?}");
        }
        latch.count_down().await.unwrap();
    }
    let short = latch.with_life_time(ms(150));
    short.try_set_count(2).await.unwrap();
    short.count_down().await.unwrap();
    soon(short.wait()).await.unwrap();
    assert_eq!(short.count_down().await.unwrap(), 0);
    nothing_is_left(&server).await;
    // What the client knew of it does not count for the next.
    short.with_life_time(SOON).try_set_count(5).await.unwrap();
    assert_eq!(
        client(&server.url())
            .await
            .latch("x")
            .count()
            .await
            .unwrap(),
        5
    );
}

// Red when count.lua says of a latch without an end that it ends at once.
#[tokio::test]
async fn a_latch_that_somebody_made_permanent_is_looked_for_as_seldom_as_any() {
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let latch = client(&server.url()).await.latch("x");
    latch.try_set_count(1).await.unwrap();
    server.command(&["PERSIST", KEY]).unwrap();
    let before = server.scripts().unwrap();
    assert!(!latch.wait_for(ms(300)).await.unwrap());
    let looks = server.scripts().unwrap() - before;
    assert!(looks < 10, "{looks} looks");
}

// Red when what an earlier latch of the name has left counts for the next.
#[tokio::test]
async fn a_latch_that_is_deleted_and_set_again_is_another_one() {
    let server = Server::start().unwrap();
    let clients = [client(&server.url()).await, client(&server.url()).await];
    let latches = clients.map(|client| client.latch("x"));
    latches[0].try_set_count(9).await.unwrap();
    for latch in &latches {
        latch.count_down_by(2).await.unwrap();
    }
    server.command(&["DEL", KEY]).unwrap();
    assert_eq!(latches[0].count().await.unwrap(), 0);
    assert!(latches[1].try_set_count(6).await.unwrap());
    assert_eq!(server.query::<u64>(&["EXISTS", OPS]).unwrap(), 0);
    assert_eq!(latches[0].count_down().await.unwrap(), 5);
    assert_eq!(latches[1].count_down().await.unwrap(), 4);
}

#[tokio::test]
async fn a_wait_ends_for_none_but_the_last_count_down() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let (one, two) = (one.latch("x"), two.latch("x"));
    soon(one.wait()).await.unwrap();
    one.try_set_count(2).await.unwrap();
    let mut wait = pin!(two.wait());
    begin(wait.as_mut()).await;
    assert!(!one.wait_for(ms(0)).await.unwrap());
    assert!(!one.wait_for(ms(100)).await.unwrap());
    one.count_down().await.unwrap();
    assert!(!two.wait_for(ms(100)).await.unwrap());
    one.count_down().await.unwrap();
    soon(wait).await.unwrap();
    for wait in [ms(0), ms(1), SOON, Duration::MAX] {
        assert!(soon(one.wait_for(wait)).await.unwrap());
    }
}

// Red when a count-down that is under way keeps a client from ending, or is lost by its end.
#[tokio::test]
async fn a_shutdown_ends_waits_and_finishes_count_downs() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let latch = one.latch("x");
    latch.try_set_count(9).await.unwrap();
    let mut wait = pin!(latch.wait());
    begin(wait.as_mut()).await;
    drop_after(1, latch.count_down_by(4)).await;
    soon(one.shutdown()).await.unwrap();
    assert_eq!(two.latch("x").count().await.unwrap(), 5);
    let error = soon(wait).await.unwrap_err();
    assert!(matches!(error, lockyard::Error::Closed), "{error:?}");
    for error in [
        latch.count_down().await.err(),
        latch.count().await.err(),
        latch.try_set_count(1).await.err(),
        latch.wait().await.err(),
    ] {
        assert!(matches!(error, Some(lockyard::Error::Closed)), "{error:?}");
    }
}

// Red when the client ends with its last handle, whatever it has still to send.
#[tokio::test]
async fn a_count_down_that_is_dropped_with_its_client_is_made() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    two.latch("x").try_set_count(2).await.unwrap();
    let latch = one.latch("x");
    drop_after(1, latch.count_down()).await;
    drop((one, latch));
    let counted = async || two.latch("x").count().await.unwrap() == 1;
    lockyard_testkit::eventually_async(SOON, counted).await;
}
