use lockyard::{Error, HoldState, Lease};
use lockyard_testkit::{Action, Proxy, Server, eventually_async};

use super::available;
use crate::support::{SOON, Script, client, ms, no_keys, soon};

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

// Red when the lease of the first counts, and when a renewed one wins.
#[tokio::test]
async fn what_is_merged_has_the_shorter_lease() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let api = client.semaphore("api", 4);
    let of = async |lease| api.clone().with_lease(lease).acquire().await.unwrap();
    let renewed = of(Lease::Renewed(ms(60_000))).await;
    let fixed = of(Lease::Fixed(ms(700))).await;
    let both = renewed.merge(fixed).await.unwrap();
    // Only a fixed lease is extended by hand.
    both.extend(ms(800)).await.unwrap();
    let short = of(Lease::Renewed(ms(900))).await;
    let three = of(Lease::Renewed(ms(60_000))).await.merge(short).await;
    let three = three.unwrap();
    assert!(three.remaining() <= ms(900));
    tokio::time::timeout(ms(2000), three.lost())
        .await
        .unwrap_err();
    assert!(three.remaining() <= ms(900));
    soon(both.lost()).await;
    three.release().await.unwrap();
}

// Red when what comes is seen to when the renewal of what goes would have been, at the end of the lease.
#[tokio::test]
async fn parts_are_renewed_though_the_whole_was_being_renewed() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let api = client(&proxy.url()).await.semaphore("api", 2);
    let api = api.with_lease(Lease::Renewed(ms(3000)));
    let permit = api.acquire_many(2).await.unwrap();
    let renewal = proxy.once(Script::Renew.calls(), Action::DelayReply(ms(500)));
    renewal.wait_fired_async(1, SOON).await;
    let (one, other) = permit.split(1).await.unwrap();
    tokio::time::timeout(ms(3500), one.lost())
        .await
        .unwrap_err();
    assert_eq!(other.state(), HoldState::Held);
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

// Red when merge asks the first permit's client about both: it may have another hold of that number.
#[tokio::test]
async fn permits_of_two_clients_are_not_merged() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let (api, other) = (one.semaphore("api", 5), two.semaphore("api", 5));
    let fixed = other.with_lease(Lease::Fixed(ms(300)));
    let (long, short) = (api.acquire().await.unwrap(), fixed.acquire().await.unwrap());
    let error = long.merge(short).await.unwrap_err();
    assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
    eventually_async(SOON, async || available(&api).await == 5).await;
    no_keys(&server);
}
