use std::pin::pin;

use lockyard::{Error, HoldState, Lease};
use lockyard_testkit::{Action, eventually_async};

use super::{Line, VALID, options};
use crate::contract::exclusive::{Exclusive, Guard, Single};
use crate::support::{SOON, Script, connect_in_the_end, ms, soon, while_waiting};

/// Runs a test, each time on a line of its own, with all that may happen to a command so that the client does not learn
/// its outcome, or not at once.
async fn with_each_loss(test: impl AsyncFn(Action)) {
    tokio::join!(
        test(Action::SwallowReply),
        test(Action::CutBeforeReply),
        test(Action::DropCommand),
        test(Action::DelayReply(VALID * 3 / 2)),
        test(Action::error("LOADING on purpose")),
    );
}

// Red if a busy answer writes a hold in acquire.lua, and if `put` there overwrites.
pub(crate) async fn an_acquire_whose_reply_is_lost_succeeds_and_holds_once<M: Single>() {
    with_each_loss(async |loss| {
        let line = Line::<M>::new().await;
        for lock in M::of_each_kind(&line.client, ["x"; 3]) {
            let rule = line.proxy.once(Script::Acquire.calls(), loss.clone());
            let guard = soon(lock.acquire()).await.unwrap();
            rule.wait_fired_async(1, SOON).await;
            eventually_async(SOON, async || line.keys() == M::keys("x")).await;
            assert_eq!(line.holds("x").len(), 1, "{loss:?}");
            let other = M::of(&line.other, "x");
            assert!(other.try_acquire().await.unwrap().is_none());
            assert_eq!(guard.state(), HoldState::Held);
            drop(guard);
            line.nothing_is_left().await;
        }
    })
    .await;
}

pub(crate) async fn a_waiter_that_is_not_told_of_its_place_stands_in_the_queue_once<M: Single>() {
    with_each_loss(async |loss| {
        let line = Line::<M>::new().await;
        let holder = soon(M::of(&line.other, "x").acquire()).await.unwrap();
        let rule = line.proxy.once(Script::Acquire.calls(), loss.clone());
        let lock = M::of(&line.client, "x");
        let mut waiter = pin!(lock.acquire());
        while_waiting(waiter.as_mut(), rule.wait_fired_async(1, SOON)).await;
        let passed = line.proxy.once(Script::Acquire.calls(), Action::Pass);
        if !matches!(loss, Action::DelayReply(_)) {
            while_waiting(waiter.as_mut(), passed.wait_fired_async(1, SOON)).await;
        }
        while_waiting(waiter.as_mut(), line.until_waiting(1)).await;
        holder.release().await.unwrap();
        let guard = soon(waiter).await.unwrap();
        assert_eq!(line.holds("x").len(), 1, "{loss:?}");
        drop(guard);
        line.nothing_is_left().await;
    })
    .await;
}

pub(crate) async fn nobody_is_refused_a_free_lock_for_a_reply_that_was_lost<M: Single>() {
    let line = Line::<M>::patient().await;
    for round in 0..30 {
        line.proxy
            .once(Script::Acquire.calls(), Action::CutBeforeReply);
        let lock = M::of(&line.client, "x");
        let guard = match round % 3 {
            0 => soon(lock.try_acquire()).await,
            1 => soon(lock.try_acquire_for(ms(0))).await,
            _ => soon(lock.try_acquire_for(SOON)).await,
        };
        let guard = guard.unwrap().expect("nobody else has it");
        assert_eq!(line.holds("x").len(), 1);
        guard.release().await.unwrap();
        line.nothing_is_left().await;
    }
}

// Red if `put` in acquire.lua overwrites.
pub(crate) async fn a_re_entry_whose_reply_is_lost_counts_once<M: Exclusive>() {
    with_each_loss(async |loss| {
        let line = Line::<M>::new().await;
        let owner = line.other.owner();
        let outer = soon(M::of(&line.other, "x").with_owner(&owner).acquire())
            .await
            .unwrap();
        line.proxy.once(Script::Acquire.calls(), loss.clone());
        let inner = soon(M::of(&line.client, "x").with_owner(&owner).acquire())
            .await
            .unwrap();
        eventually_async(SOON, async || line.holds("x").len() == 2).await;
        assert_eq!(
            M::of(&line.other, "x").hold_count(&owner).await.unwrap(),
            2,
            "{loss:?}"
        );
        drop(inner);
        eventually_async(SOON, async || line.holds("x").len() == 1).await;
        assert_eq!(outer.state(), HoldState::Held);
        outer.release().await.unwrap();
        line.nothing_is_left().await;
    })
    .await;
}

pub(crate) async fn a_renewal_whose_reply_is_lost_is_made_again_in_time<M: Single>() {
    with_each_loss(async |loss| {
        let line = Line::<M>::patient().await;
        let lease = Lease::Renewed(ms(3000));
        let options = options(&line.proxy.url())
            .lease(lease)
            .operation_timeout(ms(500));
        let client = connect_in_the_end(options).await;
        let rule = line.proxy.once(Script::Renew.calls(), loss.clone());
        let guard = soon(M::of(&client, "x").acquire()).await.unwrap();
        rule.wait_fired_async(1, SOON).await;
        let passed = line.proxy.times(2, Script::Renew.calls(), Action::Pass);
        passed.wait_fired_async(2, SOON).await;
        eventually_async(SOON, async || guard.state() != HoldState::Unsure).await;
        assert_eq!(guard.state(), HoldState::Held, "{loss:?}");
        assert_eq!(line.holds("x").len(), 1);
        drop(guard);
        line.nothing_is_left().await;
    })
    .await;
}

// Red if the first try may take all the time there is.
pub(crate) async fn a_release_whose_reply_is_lost_succeeds<M: Single>() {
    with_each_loss(async |loss| {
        let line = Line::<M>::new().await;
        let guard = soon(M::of(&line.client, "x").acquire()).await.unwrap();
        let rule = line.proxy.once(Script::Release.calls(), loss.clone());
        let released = soon(guard.release()).await;
        rule.wait_fired_async(1, SOON).await;
        assert!(released.is_ok(), "{loss:?} {released:?}");
        line.nothing_is_left().await;
    })
    .await;
}

// Red if a busy answer writes a hold in acquire.lua.
pub(crate) async fn a_release_whose_reply_is_lost_counts_once<M: Exclusive>() {
    with_each_loss(async |loss| {
        let line = Line::<M>::new().await;
        let owner = line.client.owner();
        let lock = M::of(&line.client, "x").with_owner(&owner);
        let here = soon(M::of(&line.other, "x").with_owner(&owner).acquire())
            .await
            .unwrap();
        let outer = soon(lock.acquire()).await.unwrap();
        let inner = soon(lock.acquire()).await.unwrap();
        // Nothing is sent for the inner one but the count, in the background.
        let renewal = line.proxy.once(Script::Renew.calls(), loss.clone());
        soon(inner.release()).await.unwrap();
        renewal.wait_fired_async(1, SOON).await;
        assert_eq!(line.holds("x").len(), 2);
        line.proxy.once(Script::Release.calls(), loss.clone());
        let _ = soon(outer.release()).await;
        eventually_async(SOON, async || line.holds("x").len() == 1).await;
        assert_eq!(here.state(), HoldState::Held, "{loss:?}");
        assert!(
            M::of(&line.other, "x")
                .try_acquire()
                .await
                .unwrap()
                .is_none()
        );
        here.release().await.unwrap();
        line.nothing_is_left().await;
    })
    .await;
}

pub(crate) async fn a_dropped_guards_release_is_made_until_it_is_answered<M: Single>() {
    with_each_loss(async |loss| {
        let line = Line::<M>::new().await;
        let guard = soon(M::of(&line.client, "x").acquire()).await.unwrap();
        let rule = line.proxy.once(Script::Release.calls(), loss);
        drop(guard);
        rule.wait_fired_async(1, SOON).await;
        line.nothing_is_left().await;
    })
    .await;
}

pub(crate) async fn giving_up_is_repeated_until_it_is_answered<M: Single>() {
    with_each_loss(async |loss| {
        let line = Line::<M>::new().await;
        let holder = soon(M::of(&line.other, "x").acquire()).await.unwrap();
        let rule = line.proxy.once(Script::Release.calls(), loss);
        let given_up = M::of(&line.client, "x").try_acquire_for(ms(50)).await;
        assert!(given_up.unwrap().is_none());
        rule.wait_fired_async(1, SOON).await;
        line.until_waiting(0).await;
        holder.release().await.unwrap();
        line.nothing_is_left().await;
    })
    .await;
}

pub(crate) async fn a_release_by_force_whose_reply_is_lost_frees_nothing_newer<M: Exclusive>() {
    with_each_loss(async |loss| {
        let line = Line::<M>::new().await;
        let first = soon(M::of(&line.other, "x").acquire()).await.unwrap();
        line.proxy.once(Script::Release.calls(), loss.clone());
        let forced = soon(M::of(&line.client, "x").force_release()).await;
        match forced {
            Ok(forced) => assert!(forced, "{loss:?}"),
            Err(error) => assert!(matches!(error, Error::Unreachable { .. }), "{error:?}"),
        }
        drop(first);
        let newer = soon(M::of(&line.other, "x").acquire()).await.unwrap();
        drop(
            soon(M::of(&line.client, "barrier").acquire())
                .await
                .unwrap(),
        );
        assert_eq!(newer.state(), HoldState::Held, "{loss:?}");
        newer.release().await.unwrap();
        line.nothing_is_left().await;
    })
    .await;
}
