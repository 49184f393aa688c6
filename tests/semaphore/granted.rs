use lockyard::Lease;
use lockyard_memory::MemoryServer;
use lockyard_testkit::{Server, eventually_async};

use super::{available, line_up, until_waiting, wants};
use crate::support::{SOON, client, ms, no_keys, patient, soon};

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
    let [one, two, three, last] = line_up([(&other, 1), (&api, 2), (&other, 1), (&api, 1)]).await;
    all.release().await.unwrap();
    let mut permits = Vec::new();
    for waiter in [one, two, three] {
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

// Red when those are counted that have not been removed yet.
#[tokio::test(start_paused = true)]
async fn permits_whose_lease_is_over_are_not_told_of() {
    let client = MemoryServer::new().client();
    let api = client.semaphore("api", 9);
    let brief = api.clone().with_lease(Lease::Fixed(ms(100)));
    let _over = brief.acquire_many(4).await.unwrap();
    let _held = [api.acquire().await.unwrap(), api.acquire().await.unwrap()];
    tokio::time::sleep(ms(200)).await;
    let info = api.inspect().await.unwrap();
    assert_eq!((info.held, info.permits.len()), (2, 2));
    assert_eq!(info.available(), 7);
}
