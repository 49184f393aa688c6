use std::pin::pin;
use std::time::Instant;

use lockyard::{HoldState, Lease};
use lockyard_testkit::{Action, Rule, eventually_async};

use super::{Line, VALID, options, until_after};
use crate::contract::exclusive::{Exclusive, Guard, Single};
use crate::support::{SOON, Script, connect_in_the_end, ms, soon, while_waiting};

impl<M: Single> Line<M> {
    /// Has the proxy hold the next call of a script back, with all that comes after it on its connection.
    fn hold_back(&self, script: Script) -> Rule {
        self.proxy.once(script.calls(), Action::Hold)
    }

    /// Lets go what is held back, and waits until the server has had it.
    async fn let_go(&self, held: &Rule) {
        let before = self.server.scripts().unwrap();
        held.let_go();
        let arrived = async || self.server.scripts().unwrap() > before;
        eventually_async(SOON, arrived).await;
    }
}

pub(crate) async fn an_acquire_that_arrives_when_it_is_no_longer_valid_is_refused<M: Single>() {
    let line = Line::<M>::new().await;
    let held = line.hold_back(Script::Acquire);
    let lock = M::of(&line.client, "x");
    let start = Instant::now();
    let mut acquire = Box::pin(lock.acquire());
    while_waiting(acquire.as_mut(), held.wait_fired_async(1, SOON)).await;
    drop(acquire);
    until_after(start, VALID + VALID / 16).await;
    let newer = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    let holds = line.holds("x");
    line.let_go(&held).await;
    assert_eq!(line.keys(), M::keys("x"));
    assert_eq!(line.holds("x"), holds);
    newer.release().await.unwrap();
    line.nothing_is_left().await;
}

// Red without a validity in acquire.lua.
pub(crate) async fn an_acquire_that_is_held_back_is_replaced_and_harmless_afterwards<M: Single>() {
    let line = Line::<M>::new().await;
    let held = line.hold_back(Script::Acquire);
    let lock = M::of(&line.client, "x");
    // It goes on over a new connection, or the watchdog's.
    let guard = soon(lock.acquire()).await.unwrap();
    assert_eq!(line.holds("x").len(), 1);
    line.let_go(&held).await;
    line.until_waiting(0).await;
    assert_eq!(line.holds("x").len(), 1);
    assert_eq!(guard.state(), HoldState::Held);
    assert!(
        M::of(&line.other, "x")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    drop(guard);
    line.nothing_is_left().await;
}

pub(crate) async fn a_release_that_arrives_late_frees_no_newer_hold<M: Single>() {
    let line = Line::<M>::new().await;
    let guard = soon(M::of(&line.client, "x").acquire()).await.unwrap();
    let held = line.hold_back(Script::Release);
    // It is unknown at first what has become of it, or it is done over another connection.
    let _ = soon(guard.release()).await;
    let newer = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    let holds = line.holds("x");
    line.let_go(&held).await;
    assert_eq!(line.holds("x"), holds);
    assert_eq!(newer.state(), HoldState::Held);
    newer.release().await.unwrap();
    line.nothing_is_left().await;
}

// Red if renew.lua writes a hold that it does not find.
pub(crate) async fn a_renewal_that_arrives_late_creates_nothing<M: Single>() {
    let line = Line::<M>::patient().await;
    let lease = Lease::Renewed(ms(3000));
    let client = connect_in_the_end(options(&line.proxy.url()).lease(lease)).await;
    let guard = soon(M::of(&client, "x").acquire()).await.unwrap();
    let held = line.hold_back(Script::Renew);
    held.wait_fired_async(1, SOON).await;
    soon(guard.release()).await.unwrap();
    let newer = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    let holds = line.holds("x");
    line.let_go(&held).await;
    assert_eq!(line.holds("x"), holds);
    assert_eq!(newer.state(), HoldState::Held);
    newer.release().await.unwrap();
    line.nothing_is_left().await;
}

pub(crate) async fn a_look_that_arrives_late_creates_no_place<M: Single>() {
    let line = Line::<M>::patient().await;
    let holder = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    let options = options(&line.proxy.url()).waiter_timeout(ms(1500));
    let client = connect_in_the_end(options).await;
    let held = line.hold_back(Script::Renew);
    let lock = M::of(&client, "x");
    let mut waiter = Box::pin(lock.acquire());
    while_waiting(waiter.as_mut(), held.wait_fired_async(1, SOON)).await;
    drop(waiter);
    line.let_go(&held).await;
    line.until_waiting(0).await;
    eventually_async(SOON, async || line.keys() == M::keys("x")).await;
    assert_eq!(holder.state(), HoldState::Held);
    holder.release().await.unwrap();
    line.nothing_is_left().await;
}

pub(crate) async fn a_release_by_force_that_arrives_late_frees_no_newer_hold<M: Exclusive>() {
    let line = Line::<M>::new().await;
    let first = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    let held = line.hold_back(Script::Release);
    let lock = M::of(&line.client, "x");
    let mut force = pin!(lock.force_release());
    while_waiting(force.as_mut(), held.wait_fired_async(1, SOON)).await;
    first.release().await.unwrap();
    let newer = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    let holds = line.holds("x");
    line.let_go(&held).await;
    assert_eq!(line.holds("x"), holds);
    let _ = soon(force).await;
    assert_eq!(newer.state(), HoldState::Held);
    newer.release().await.unwrap();
    line.nothing_is_left().await;
}
