use std::pin::pin;

use lockyard::{Client, HoldState, Lease};
use lockyard_testkit::redis::Value;
use lockyard_testkit::{Action, Rule, eventually_async};

use super::{Line, options};
use crate::contract::exclusive::{Exclusive, Guard, Single};
use crate::support::{SOON, Script, connect_in_the_end, ms, soon, while_waiting};

/// A client that renews and looks often, and whose first renewal or look the proxy copies.
async fn copied_renewal<M: Single>(line: &Line<M>) -> (Client, Rule) {
    let copied = line.proxy.once(Script::Renew.calls(), Action::Copy);
    let lease = Lease::Renewed(ms(3000));
    let options = options(&line.proxy.url()).lease(lease);
    let client = connect_in_the_end(options.waiter_timeout(ms(1500))).await;
    (client, copied)
}

/// What a copied renewal of one id was answered: its status.
fn renewed_again<M: Single>(line: &Line<M>) -> i64 {
    match &line.proxy.resend_copies().unwrap()[..] {
        [Value::Array(parts)] => match parts[2] {
            Value::Int(status) => status,
            _ => panic!("{parts:?}"),
        },
        replies => panic!("{replies:?}"),
    }
}

// Red if renew.lua writes a hold that it does not find.
pub(crate) async fn a_renewal_that_arrives_after_the_release_creates_nothing<M: Single>() {
    let line = Line::<M>::patient().await;
    let (client, copied) = copied_renewal::<M>(&line).await;
    let guard = soon(M::of(&client, "x").acquire()).await.unwrap();
    copied.wait_fired_async(1, SOON).await;
    guard.release().await.unwrap();
    let newer = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    let holds = line.holds("x");
    assert_eq!(renewed_again(&line), 0);
    assert_eq!(line.holds("x"), holds);
    newer.release().await.unwrap();
    line.nothing_is_left().await;
}

// Red without `math.max` in renew.lua.
pub(crate) async fn a_renewal_that_arrives_again_shortens_no_lease<M: Exclusive>() {
    let line = Line::<M>::patient().await;
    let (client, copied) = copied_renewal::<M>(&line).await;
    let owner = client.owner();
    let lock = M::of(&client, "x").with_owner(&owner);
    let outer = soon(lock.acquire()).await.unwrap();
    copied.wait_fired_async(1, SOON).await;
    let longer = lock.clone().with_lease(Lease::Fixed(4 * SOON));
    let inner = soon(longer.acquire()).await.unwrap();
    let deadline = || {
        let value = &line.holds("x")[0].1;
        let deadline = value.split(':').nth(1).unwrap();
        deadline.parse::<u64>().unwrap()
    };
    let before = deadline();
    assert_eq!(renewed_again(&line), 1);
    assert!(deadline() >= before);
    // It has an old count as well, which the next renewal mends.
    let mended = async || M::of(&line.other, "x").hold_count(&owner).await.unwrap() == 2;
    eventually_async(SOON, mended).await;
    inner.release().await.unwrap();
    outer.release().await.unwrap();
    line.nothing_is_left().await;
}

// Red if renew.lua writes a place that it does not find.
pub(crate) async fn a_look_that_arrives_after_its_waiter_gave_up_creates_no_place<M: Single>() {
    let line = Line::<M>::patient().await;
    let (client, copied) = copied_renewal::<M>(&line).await;
    let holder = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    let lock = M::of(&client, "x");
    let mut waiter = Box::pin(lock.acquire());
    while_waiting(waiter.as_mut(), line.until_waiting(1)).await;
    while_waiting(waiter.as_mut(), copied.wait_fired_async(1, SOON)).await;
    drop(waiter);
    line.until_waiting(0).await;
    assert_eq!(renewed_again(&line), 0);
    eventually_async(SOON, async || line.keys() == M::keys("x")).await;
    holder.release().await.unwrap();
    line.nothing_is_left().await;
}

pub(crate) async fn a_release_that_arrives_again_frees_no_newer_hold<M: Single>() {
    let line = Line::<M>::patient().await;
    let lock = M::of(&line.client, "x");
    for drops in [false, true] {
        for client in [&line.client, &line.other] {
            let guard = soon(lock.acquire()).await.unwrap();
            let copied = line.proxy.once(Script::Release.calls(), Action::Copy);
            match drops {
                true => drop(guard),
                false => guard.release().await.unwrap(),
            }
            copied.wait_fired_async(1, SOON).await;
            let newer = soon(M::of(client, "x").acquire()).await.unwrap();
            let holds = line.holds("x");
            line.proxy.resend_copies().unwrap();
            assert_eq!(line.holds("x"), holds);
            assert_eq!(newer.state(), HoldState::Held);
            newer.release().await.unwrap();
        }
    }
    line.nothing_is_left().await;
}

// Red if a busy answer writes a hold in acquire.lua.
pub(crate) async fn a_release_that_arrives_again_frees_no_newer_hold_of_its_owner<M: Exclusive>() {
    let line = Line::<M>::patient().await;
    let owner = line.client.owner();
    let lock = M::of(&line.client, "x").with_owner(&owner);
    line.proxy.once(Script::Release.calls(), Action::Copy);
    soon(lock.acquire()).await.unwrap().release().await.unwrap();
    let outer = soon(lock.acquire()).await.unwrap();
    let inner = soon(lock.acquire()).await.unwrap();
    line.proxy.resend_copies().unwrap();
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 2);
    inner.release().await.unwrap();
    line.proxy.once(Script::Release.calls(), Action::Copy);
    assert!(
        M::of(&line.other, "x")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    outer.release().await.unwrap();
    line.nothing_is_left().await;
}

pub(crate) async fn giving_up_that_arrives_again_costs_no_newer_place<M: Single>() {
    let line = Line::<M>::patient().await;
    let holder = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    line.proxy.once(Script::Release.calls(), Action::Copy);
    let lock = M::of(&line.client, "x");
    let given_up = lock.try_acquire_for(ms(20)).await;
    assert!(given_up.unwrap().is_none());
    line.until_waiting(0).await;
    let mut waiter = pin!(lock.acquire());
    while_waiting(waiter.as_mut(), line.until_waiting(1)).await;
    line.proxy.resend_copies().unwrap();
    line.until_waiting(1).await;
    holder.release().await.unwrap();
    soon(waiter).await.unwrap().release().await.unwrap();
    line.nothing_is_left().await;
}

// Red if force releases whatever is there, not what it saw.
pub(crate) async fn a_release_by_force_that_arrives_again_frees_no_newer_hold<M: Exclusive>() {
    let line = Line::<M>::patient().await;
    let first = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    line.proxy.once(Script::Release.calls(), Action::Copy);
    assert!(M::of(&line.client, "x").force_release().await.unwrap());
    soon(first.lost()).await;
    let newer = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    line.proxy.resend_copies().unwrap();
    assert_eq!(line.holds("x").len(), 1);
    assert_eq!(newer.state(), HoldState::Held);
    newer.release().await.unwrap();
    line.nothing_is_left().await;
}
