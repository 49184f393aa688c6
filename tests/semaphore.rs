//! So many permits for all: what only a semaphore does.

use std::time::Duration;

use lockyard::{Error, HoldState, Lease, Semaphore, SemaphorePermit};
use lockyard_testkit::{Server, eventually_async};
use tokio::task::JoinHandle;

use crate::support::{SOON, client, ms, no_keys, patient, soon};

async fn until_waiting(semaphore: &Semaphore, waiters: u64) {
    eventually_async(SOON, async || {
        semaphore.inspect().await.unwrap().waiting == waiters
    })
    .await;
}

fn wants(semaphore: &Semaphore, permits: u32) -> JoinHandle<Result<SemaphorePermit, Error>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire_many(permits).await })
}

async fn available(semaphore: &Semaphore) -> u32 {
    semaphore.available_permits().await.unwrap()
}

#[tokio::test]
async fn there_are_so_many_permits_and_no_more() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let (api, other) = (one.semaphore("api", 3), two.semaphore("api", 3));
    assert_eq!(api.limit().await.unwrap(), 3);
    let first = api.acquire_many(2).await.unwrap();
    assert_eq!(first.permits(), 2);
    assert!(other.try_acquire_many(2).await.unwrap().is_none());
    let second = other.try_acquire().await.unwrap().unwrap();
    assert_eq!(available(&api).await, 0);
    assert!(api.try_acquire_for(ms(50)).await.unwrap().is_none());
    first.release().await.unwrap();
    // Whoever gave up may be granted a permit first, and gives it back.
    eventually_async(SOON, async || available(&other).await == 2).await;
    drop(second);
    eventually_async(SOON, async || available(&api).await == 3).await;
    no_keys(&server);
}

#[tokio::test]
async fn a_scope_makes_no_permit_reentrant() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let api = client.semaphore("api", 2);
    let owner = client.owner();
    let permits = owner
        .scope(async {
            [
                api.acquire().await.unwrap(),
                api.try_acquire().await.unwrap().unwrap(),
            ]
        })
        .await;
    assert_eq!(available(&api).await, 0);
    for permit in permits {
        permit.release().await.unwrap();
    }
    no_keys(&server);
}

// Red when a waiter that does not fit is passed over.
#[tokio::test]
async fn a_big_request_is_neither_overtaken_nor_starved() {
    let server = Server::start().unwrap();
    let (one, two) = (patient(&server.url()).await, patient(&server.url()).await);
    let (api, other) = (one.semaphore("api", 3), two.semaphore("api", 3));
    let held = api.acquire().await.unwrap();
    let big = wants(&other, 3);
    until_waiting(&api, 1).await;
    assert!(api.try_acquire().await.unwrap().is_none());
    let small: Vec<_> = (0..2).map(|_| wants(&api, 1)).collect();
    until_waiting(&api, 3).await;
    let info = api.inspect().await.unwrap();
    assert_eq!(
        (info.waiters[0].permits, info.held, info.permits[0].permits),
        (3, 1, 1)
    );
    held.release().await.unwrap();
    let big = soon(big).await.unwrap().unwrap();
    assert!(small.iter().all(|small| !small.is_finished()));
    big.release().await.unwrap();
    for small in small {
        soon(small).await.unwrap().unwrap().release().await.unwrap();
    }
    no_keys(&server);
}

#[tokio::test]
async fn one_release_lets_in_all_who_fit() {
    let server = Server::start().unwrap();
    let (one, two) = (patient(&server.url()).await, patient(&server.url()).await);
    let (api, other) = (one.semaphore("api", 4), two.semaphore("api", 4));
    let all = api.acquire_many(4).await.unwrap();
    let mut waiters = Vec::new();
    for (number, permits) in [(1, 1), (2, 2), (3, 1), (4, 1)] {
        waiters.push(wants(if number % 2 == 0 { &api } else { &other }, permits));
        until_waiting(&api, number).await;
    }
    all.release().await.unwrap();
    let last = waiters.pop().unwrap();
    let mut permits = Vec::new();
    for waiter in waiters {
        permits.push(soon(waiter).await.unwrap().unwrap());
    }
    assert!(!last.is_finished());
    assert_eq!(api.inspect().await.unwrap().held, 4);
    permits.pop().unwrap().release().await.unwrap();
    soon(last).await.unwrap().unwrap().release().await.unwrap();
    for permit in permits {
        permit.release().await.unwrap();
    }
    no_keys(&server);
}

#[tokio::test]
async fn permits_of_a_dead_holder_come_back_and_those_of_a_living_one_stay() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, patient(&server.url()).await);
    let api = one.semaphore("api", 2);
    let renewed = api
        .clone()
        .with_lease(Lease::Renewed(ms(600)))
        .acquire()
        .await
        .unwrap();
    let dead = api
        .clone()
        .with_lease(Lease::Fixed(ms(600)))
        .acquire()
        .await
        .unwrap();
    let both = wants(&two.semaphore("api", 2), 2);
    until_waiting(&api, 1).await;
    soon(dead.lost()).await;
    eventually_async(SOON, async || api.inspect().await.unwrap().held == 1).await;
    tokio::time::timeout(ms(900), renewed.lost())
        .await
        .unwrap_err();
    assert!(!both.is_finished());
    renewed.release().await.unwrap();
    soon(both).await.unwrap().unwrap().release().await.unwrap();
}

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

#[tokio::test]
async fn numbers_that_make_no_sense_are_refused() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let api = client.semaphore("api", 2);
    for permits in [0, 3, u32::MAX] {
        for error in [
            api.acquire_many(permits).await.unwrap_err(),
            api.try_acquire_many(permits).await.unwrap_err(),
            api.try_acquire_many_for(permits, Duration::MAX)
                .await
                .unwrap_err(),
        ] {
            let told = matches!(error, Error::InvalidPermits { permits: told, most: 2, .. } if told == u64::from(permits));
            assert!(told, "{error:?}");
        }
    }
    let none = client.semaphore("api", 0).acquire().await.unwrap_err();
    assert!(matches!(none, Error::InvalidPermits { .. }), "{none:?}");
    let bad = client.semaphore("", 1).acquire().await.unwrap_err();
    assert!(matches!(bad, Error::InvalidName { .. }), "{bad:?}");
    no_keys(&server);
}

#[tokio::test]
async fn permits_are_split_and_merged() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let api = client.semaphore("api", 5);
    let permit = api.acquire_many(5).await.unwrap();
    let (two, three) = permit.split(2).await.unwrap();
    assert_eq!((two.permits(), three.permits()), (2, 3));
    assert_eq!(available(&api).await, 0);
    two.release().await.unwrap();
    assert_eq!(available(&api).await, 2);
    let one = api.acquire().await.unwrap();
    let four = three.merge(one).await.unwrap();
    assert_eq!((four.permits(), four.state()), (4, HoldState::Held));
    assert_eq!(api.inspect().await.unwrap().permits.len(), 1);
    let (_, other) = (four.split(4).await.unwrap_err(), client.semaphore("b", 1));
    eventually_async(SOON, async || available(&api).await == 5).await;
    let (a, b) = (api.acquire().await.unwrap(), other.acquire().await.unwrap());
    let error = a.merge(b).await.unwrap_err();
    assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
    eventually_async(SOON, async || server.keys("*").unwrap().is_empty()).await;
}

// Red when the parts are not renewed, and when they have the lease of a new hold.
#[tokio::test]
async fn parts_go_on_with_the_lease_of_the_whole() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let api = client.semaphore("api", 4);
    let fixed = api.clone().with_lease(Lease::Fixed(ms(60_000)));
    let fixed = fixed.acquire_many(2).await.unwrap();
    let remaining = fixed.remaining();
    let (one, other) = fixed.split(1).await.unwrap();
    assert!(one.remaining() <= remaining && other.remaining() <= remaining);
    let renewed = api.clone().with_lease(Lease::Renewed(ms(600)));
    let (two, three) = renewed
        .acquire_many(2)
        .await
        .unwrap()
        .split(1)
        .await
        .unwrap();
    tokio::time::timeout(ms(1500), two.lost())
        .await
        .unwrap_err();
    assert_eq!(three.state(), HoldState::Held);
    for permit in [one, other, two, three] {
        permit.release().await.unwrap();
    }
    no_keys(&server);
}

#[tokio::test]
async fn permits_that_are_forgotten_are_out_of_the_semaphore_until_they_are_added() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let api = client.semaphore("api", 5);
    let permit = api.acquire_many(2).await.unwrap();
    permit.forget().await.unwrap();
    assert_eq!((api.limit().await.unwrap(), available(&api).await), (3, 3));
    let lost = api.acquire().await.unwrap();
    server.command(&["FLUSHALL"]).unwrap();
    api.set_limit(3).await.unwrap();
    let error = lost.forget().await.unwrap_err();
    assert!(matches!(error, Error::LeaseLost { .. }), "{error:?}");
    assert_eq!(api.limit().await.unwrap(), 3);
    assert_eq!(api.add_permits(2).await.unwrap(), 5);
    assert_eq!(available(&api).await, 5);
}

#[tokio::test]
async fn all_that_can_be_had_are_drained() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let api = client.semaphore("api", 5);
    let two = api.acquire_many(2).await.unwrap();
    let rest = api.drain().await.unwrap().unwrap();
    assert_eq!(rest.permits(), 3);
    assert!(api.drain().await.unwrap().is_none());
    two.release().await.unwrap();
    rest.release().await.unwrap();
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

// Red when the sum of the permits is not counted anew without its key.
#[tokio::test]
async fn a_sum_that_was_deleted_is_counted_anew() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let api = client.semaphore("api", 3);
    let permit = api.acquire_many(2).await.unwrap();
    let key = "lockyard:semaphore:{api}";
    server.command(&["DEL", key]).unwrap();
    assert!(api.try_acquire_many(2).await.unwrap().is_none());
    let one = api.try_acquire().await.unwrap().unwrap();
    server.command(&["DEL", key]).unwrap();
    assert_eq!(available(&api).await, 0);
    permit.release().await.unwrap();
    assert_eq!(available(&api).await, 2);
    one.release().await.unwrap();
    no_keys(&server);
}
