use lockyard::{Lease, Lock};
use lockyard_testkit::Action;

use super::available;
use crate::contract::late;
use crate::support::{SOON, Script, no_keys, soon};

/// Any lock, only for the line.
type Line = late::Line<Lock>;

// Red if the short way through acquire.lua counts a hold again that it finds.
#[tokio::test]
async fn an_acquire_that_arrives_again_while_it_holds_takes_no_more_permits() {
    let line = Line::patient().await;
    let api = line.client.semaphore("api", 5);
    let seen = line.other.semaphore("api", 5);
    line.proxy.once(Script::Acquire.calls(), Action::Copy);
    let two = soon(api.acquire_many(2)).await.unwrap();
    assert_eq!(line.proxy.resend_copies().unwrap().len(), 1);
    assert_eq!(available(&seen).await, 3);
    let three = seen.try_acquire_many(3).await.unwrap().unwrap();
    two.release().await.unwrap();
    assert_eq!(available(&seen).await, 2);
    three.release().await.unwrap();
    no_keys(&line.server);
}

// Red when the short way through acquire.lua writes a deadline that is there.
#[tokio::test]
async fn an_acquire_that_arrives_again_shortens_no_lease() {
    let line = Line::patient().await;
    let api = line.client.semaphore("api", 5);
    let seen = line.other.semaphore("api", 5);
    line.proxy.once(Script::Acquire.calls(), Action::Copy);
    let fixed = api.with_lease(Lease::Fixed(SOON));
    let permit = soon(fixed.acquire_many(2)).await.unwrap();
    permit.extend(10 * SOON).await.unwrap();
    assert_eq!(line.proxy.resend_copies().unwrap().len(), 1);
    let held = &seen.inspect().await.unwrap().permits[0];
    assert!(held.remaining > 5 * SOON, "{held:?}");
    permit.release().await.unwrap();
    no_keys(&line.server);
}
