use lockyard_testkit::{Action, Proxy, Server};

use crate::support::{Script, cache_scripts, client, connect, ms, patient, soon, variant};

const LIMIT: &str = "lockyard:semaphore.limit:{api}";

// Red when a stored limit is kept only by those who get permits.
#[tokio::test]
async fn a_limit_of_zero_is_kept_by_those_who_ask() {
    let server = Server::start().unwrap();
    let api = client(&server.url()).await.semaphore("api", 2);
    api.set_limit(0).await.unwrap();
    server.command(&["PEXPIRE", LIMIT, "60000"]).unwrap();
    let error = api.try_acquire().await.unwrap_err();
    assert_eq!(variant(&error), "InvalidPermits");
    let left: i64 = server.query(&["PTTL", LIMIT]).unwrap();
    assert!(left > 86_400_000, "{left}");
}

// Red when the short way through acquire.lua does not keep it.
#[tokio::test]
async fn a_limit_is_kept_by_those_who_get_permits_at_once() {
    let server = Server::start().unwrap();
    let api = client(&server.url()).await.semaphore("api", 2);
    api.set_limit(3).await.unwrap();
    server.command(&["PEXPIRE", LIMIT, "60000"]).unwrap();
    api.acquire().await.unwrap().release().await.unwrap();
    let left: i64 = server.query(&["PTTL", LIMIT]).unwrap();
    assert!(left > 86_400_000, "{left}");
}

// Red when the short way through acquire.lua computes with it.
#[tokio::test]
async fn a_stored_limit_that_is_no_number_counts_as_none() {
    let server = Server::start().unwrap();
    let api = patient(&server.url()).await.semaphore("api", 2);
    server.command(&["SET", LIMIT, "ten"]).unwrap();
    let one = api.try_acquire().await.unwrap().unwrap();
    let two = api.try_acquire().await.unwrap().unwrap();
    assert!(api.try_acquire().await.unwrap().is_none());
    one.release().await.unwrap();
    two.release().await.unwrap();
}

// Red when `clear` deletes without a look.
#[tokio::test]
async fn data_of_another_type_at_the_limit_is_left_as_it_is() {
    let server = Server::start().unwrap();
    let api = client(&server.url()).await.semaphore("api", 2);
    server.command(&["RPUSH", LIMIT, "theirs"]).unwrap();
    let error = api.clear_limit().await.unwrap_err();
    assert_eq!(variant(&error), "WrongType");
    let left: i64 = server.query(&["LLEN", LIMIT]).unwrap();
    assert_eq!(left, 1);
}

// Red when it is said to be retryable, for a second one would count as well.
#[tokio::test]
async fn a_change_whose_reply_is_lost_is_not_to_be_repeated_blindly() {
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let proxy = Proxy::start(&server).unwrap();
    let url = proxy.url();
    let client = connect(&url, |options| options.operation_timeout(ms(500)));
    let api = client.await.unwrap().semaphore("api", 2);
    proxy.once(Script::Limit.calls(), Action::SwallowReply);
    let error = soon(api.add_permits(3)).await.unwrap_err();
    assert_eq!(variant(&error), "OutcomeUnknown", "{error:?}");
    assert!(!error.is_retryable());
    assert_eq!(api.limit().await.unwrap(), 5);
}
