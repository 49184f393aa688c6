use lockyard::Lease;
use lockyard_testkit::{Action, Proxy, Server};

use super::available;
use crate::support::{SOON, Script, cache_scripts, client, no_keys, soon};

// Red if the short way through acquire.lua counts a hold again that it finds.
#[tokio::test]
async fn an_acquire_that_arrives_again_while_it_holds_takes_no_more_permits() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    cache_scripts(&server);
    let (copied, other) = (client(&proxy.url()).await, client(&server.url()).await);
    let (api, seen) = (copied.semaphore("api", 5), other.semaphore("api", 5));
    proxy.once(Script::Acquire.calls(), Action::Copy);
    let two = soon(api.acquire_many(2)).await.unwrap();
    assert_eq!(proxy.resend_copies().unwrap().len(), 1);
    assert_eq!(available(&seen).await, 3);
    let three = seen.try_acquire_many(3).await.unwrap().unwrap();
    two.release().await.unwrap();
    assert_eq!(available(&seen).await, 2);
    three.release().await.unwrap();
    no_keys(&server);
}

// Red without GT in the short way through acquire.lua.
#[tokio::test]
async fn an_acquire_that_arrives_again_shortens_no_lease() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    cache_scripts(&server);
    let (copied, other) = (client(&proxy.url()).await, client(&server.url()).await);
    let (api, seen) = (copied.semaphore("api", 5), other.semaphore("api", 5));
    proxy.once(Script::Acquire.calls(), Action::Copy);
    let fixed = api.with_lease(Lease::Fixed(SOON));
    let permit = soon(fixed.acquire_many(2)).await.unwrap();
    permit.extend(10 * SOON).await.unwrap();
    assert_eq!(proxy.resend_copies().unwrap().len(), 1);
    let held = &seen.inspect().await.unwrap().permits[0];
    assert!(held.remaining > 5 * SOON, "{held:?}");
    permit.release().await.unwrap();
    no_keys(&server);
}
