use std::time::Duration;

use lockyard::{Error, Latch};
use lockyard_testkit::{Proxy, Server};

use super::{KEY, OPS};
use crate::support::{SOON, client, ms, options, soon, variant};

async fn errors(latch: &Latch) -> Vec<Error> {
    vec![
        soon(latch.try_set_count(1)).await.unwrap_err(),
        soon(latch.count_down()).await.unwrap_err(),
        soon(latch.count()).await.unwrap_err(),
        soon(latch.wait()).await.unwrap_err(),
        soon(latch.wait_for(SOON)).await.unwrap_err(),
        soon(latch.wait_for(ms(0))).await.unwrap_err(),
    ]
}

#[tokio::test]
async fn names_and_life_times_that_make_no_sense_are_refused_before_anything_is_sent() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let before = server.scripts().unwrap();
    for name in ["", "{", "a{}", &"x".repeat(1025)] {
        for error in errors(&client.latch(name)).await {
            assert_eq!(variant(&error), "InvalidName");
        }
    }
    for life in [Duration::ZERO, ms(9), Duration::MAX] {
        let latch = client.latch("x").with_life_time(life);
        let error = latch.try_set_count(1).await.unwrap_err();
        assert_eq!(variant(&error), "InvalidOption");
        assert!(error.to_string().contains("life time"), "{error}");
    }
    assert_eq!(server.scripts().unwrap(), before);
}

// Red when another type counts as open.
#[tokio::test]
async fn a_key_of_another_type_is_told_and_left_as_it_is() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    server.command(&["SET", KEY, "1"]).unwrap();
    for error in errors(&client.latch("x")).await {
        assert_eq!(variant(&error), "WrongType", "{error:?}");
    }
    assert_eq!(server.query::<String>(&["GET", KEY]).unwrap(), "1");
    server.command(&["DEL", KEY]).unwrap();
    server.command(&["SET", OPS, "1"]).unwrap();
    let error = client.latch("x").try_set_count(1).await.unwrap_err();
    assert_eq!(variant(&error), "WrongType");
    assert_eq!(server.query::<String>(&["GET", OPS]).unwrap(), "1");
    assert_eq!(server.keys("*").unwrap(), [OPS]);
}

// Red when a count-down that was refused is made later all the same.
#[tokio::test]
async fn a_count_down_that_was_refused_is_not_made() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let latch = client.latch("x");
    latch.try_set_count(5).await.unwrap();
    latch.count_down().await.unwrap();
    let ops: Vec<String> = server.query(&["HGETALL", OPS]).unwrap();
    server.command(&["DEL", OPS]).unwrap();
    server.command(&["SET", OPS, "1"]).unwrap();
    let error = latch.count_down().await.unwrap_err();
    assert_eq!(variant(&error), "WrongType");
    server.command(&["DEL", OPS]).unwrap();
    server.command(&["HSET", OPS, &ops[0], &ops[1]]).unwrap();
    assert_eq!(latch.count_down().await.unwrap(), 3);
}

// Red when a range begins at zero for a server that has lost its part.
#[tokio::test]
async fn a_part_that_was_lost_counts_nothing_twice() {
    let server = Server::start().unwrap();
    let latch = client(&server.url()).await.latch("x");
    latch.try_set_count(9).await.unwrap();
    latch.count_down_by(2).await.unwrap();
    server.command(&["DEL", OPS]).unwrap();
    assert_eq!(latch.count_down().await.unwrap(), 6);
}

#[tokio::test]
async fn a_flushed_script_cache_changes_nothing() {
    let server = Server::start().unwrap();
    let latch = client(&server.url()).await.latch("x");
    latch.try_set_count(4).await.unwrap();
    for left in [3, 2, 1, 0] {
        server.flush_scripts().unwrap();
        assert_eq!(latch.count_down().await.unwrap(), left);
    }
    soon(latch.wait()).await.unwrap();
}

// Red when a wait that could never look says that the latch is not open.
#[tokio::test]
async fn a_wait_that_could_not_look_says_so() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let options = options(&proxy.url()).operation_timeout(ms(300));
    let client = lockyard::Client::with_options(options).await.unwrap();
    let latch = client.latch("x");
    proxy.refuse();
    proxy.cut();
    let error = soon(latch.wait_for(ms(800))).await.unwrap_err();
    assert_eq!(variant(&error), "Unreachable", "{error:?}");
    assert!(error.is_retryable());
    proxy.accept().unwrap();
    assert!(soon(latch.wait_for(SOON)).await.unwrap());
}
