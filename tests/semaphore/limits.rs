use lockyard::{Error, HoldState};
use lockyard_testkit::Server;

use super::{available, until_waiting, wants};
use crate::support::{client, no_keys, patient, soon};

#[tokio::test]
async fn a_limit_can_be_stored_raised_lowered_and_cleared() {
    let server = Server::start().unwrap();
    let (one, two) = (patient(&server.url()).await, client(&server.url()).await);
    let (api, other) = (one.semaphore("api", 2), two.semaphore("api", 1));
    let held = api.acquire_many(2).await.unwrap();
    let waiting = wants(&api, 1);
    until_waiting(&api, 1).await;
    other.set_limit(3).await.unwrap();
    let third = soon(waiting).await.unwrap().unwrap();
    assert_eq!(other.limit().await.unwrap(), 3);

    // Nothing is revoked, and nobody gets in until it fits.
    other.set_limit(2).await.unwrap();
    assert_eq!(available(&api).await, 0);
    assert!(api.try_acquire().await.unwrap().is_none());
    third.release().await.unwrap();
    assert!(api.try_acquire().await.unwrap().is_none());
    assert_eq!(held.state(), HoldState::Held);

    // A waiter that can never fit is told.
    let heavy = wants(&other, 2);
    until_waiting(&api, 1).await;
    api.set_limit(1).await.unwrap();
    let error = soon(heavy).await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            Error::InvalidPermits {
                permits: 2,
                most: 1,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(api.add_permits(4).await.unwrap(), 5);
    assert_eq!(available(&api).await, 3);
    api.clear_limit().await.unwrap();
    assert_eq!(api.limit().await.unwrap(), 2);
    assert!(!api.inspect().await.unwrap().is_stored);
    held.release().await.unwrap();
    no_keys(&server);
}

// Each request is judged by the limit that its handle names, and nobody waits for ever.
#[tokio::test]
async fn handles_may_name_different_limits() {
    let server = Server::start().unwrap();
    let (one, two) = (patient(&server.url()).await, patient(&server.url()).await);
    let (small, big) = (one.semaphore("api", 2), two.semaphore("api", 4));
    let held = big.acquire_many(3).await.unwrap();
    let first = wants(&small, 1);
    until_waiting(&small, 1).await;
    let second = wants(&big, 1);
    until_waiting(&small, 2).await;
    let (two, one) = held.split(2).await.unwrap();
    assert!(!first.is_finished() && !second.is_finished());
    two.release().await.unwrap();
    let first = soon(first).await.unwrap().unwrap();
    let second = soon(second).await.unwrap().unwrap();
    for permit in [one, first, second] {
        permit.release().await.unwrap();
    }
    no_keys(&server);
}
