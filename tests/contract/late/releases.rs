use lockyard::{Error, HoldState, Lease};
use lockyard_testkit::{Action, Server, eventually_async};

use super::{Line, options};
use crate::contract::exclusive::{Exclusive, Guard, Single};
use crate::support::{SOON, Script, connect_in_the_end, drop_after, ms, soon};

/// A way for a guard to end.
#[derive(Clone, Copy, Debug)]
enum End {
    Released,
    Dropped,
    ReleaseDropped,
}

impl End {
    const ALL: [Self; 3] = [Self::Released, Self::Dropped, Self::ReleaseDropped];

    async fn of<M: Single>(self, guard: M::Guard) {
        match self {
            Self::Released => guard.release().await.unwrap(),
            Self::Dropped => drop(guard),
            Self::ReleaseDropped => drop(drop_after(1, guard.release()).await),
        }
    }
}

/// An outer and an inner guard of one owner.
async fn nested<M: Single>(lock: &M) -> (M::Guard, M::Guard) {
    let outer = soon(lock.acquire()).await.unwrap();
    let inner = soon(lock.acquire()).await.unwrap();
    (outer, inner)
}

// Red if a busy answer writes a hold in acquire.lua.
pub(crate) async fn whatever_ends_one_guard_leaves_the_other<M: Exclusive>() {
    let line = Line::<M>::patient().await;
    let owner = line.client.owner();
    let lock = M::of(&line.client, "x").with_owner(&owner);
    for end in End::ALL {
        for ends_inner in [true, false] {
            let (outer, inner) = nested(&lock).await;
            let (first, last) = if ends_inner {
                (inner, outer)
            } else {
                (outer, inner)
            };
            end.of::<M>(first).await;
            assert_eq!(lock.hold_count(&owner).await.unwrap(), 1, "{end:?}");
            let other = M::of(&line.other, "x");
            let told = async || other.hold_count(&owner).await.unwrap() == 1;
            eventually_async(SOON, told).await;
            assert!(other.try_acquire().await.unwrap().is_none(), "{end:?}");
            assert_eq!(last.state(), HoldState::Held);
            end.of::<M>(last).await;
            line.nothing_is_left().await;
        }
    }
}

// Red if a busy answer writes a hold in acquire.lua.
pub(crate) async fn whatever_ends_a_guard_leaves_that_of_another_client<M: Exclusive>() {
    let line = Line::<M>::patient().await;
    let owner = line.client.owner();
    for end in End::ALL {
        for ends_inner in [true, false] {
            let outer = soon(M::of(&line.client, "x").with_owner(&owner).acquire()).await;
            let inner = soon(M::of(&line.other, "x").with_owner(&owner).acquire()).await;
            let (outer, inner) = (outer.unwrap(), inner.unwrap());
            let (first, last) = if ends_inner {
                (inner, outer)
            } else {
                (outer, inner)
            };
            end.of::<M>(first).await;
            eventually_async(SOON, async || line.holds("x").len() == 1).await;
            assert!(
                M::of(&line.other, "x")
                    .try_acquire()
                    .await
                    .unwrap()
                    .is_none()
            );
            assert_eq!(last.state(), HoldState::Held);
            end.of::<M>(last).await;
            line.nothing_is_left().await;
        }
    }
}

/// Sees that the release of a lost guard says so, and leaves the hold of who came after it.
async fn ends_for_nothing<M: Single>(line: &Line<M>, lost: M::Guard, end: End, newer: &M::Guard) {
    let holds = line.holds("x");
    match end {
        End::Released => {
            let released = lost.release().await;
            assert!(matches!(released, Err(Error::LeaseLost { .. })));
        }
        end => end.of::<M>(lost).await,
    }
    // A release by the watchdog goes the same way before this, and so has arrived as well.
    drop(
        soon(M::of(&line.client, "barrier").acquire())
            .await
            .unwrap(),
    );
    eventually_async(SOON, async || line.keys() == M::keys("x")).await;
    assert_eq!(line.holds("x"), holds);
    assert_eq!(newer.state(), HoldState::Held);
}

pub(crate) async fn a_guard_that_outlived_its_lease_does_not_release_who_came_after<M: Single>() {
    let line = Line::<M>::patient().await;
    for end in End::ALL {
        let lock = M::of(&line.client, "x").with_lease(Lease::Fixed(ms(300)));
        let late = soon(lock.acquire()).await.unwrap();
        let newer = soon(M::of(&line.other, "x").acquire()).await.unwrap();
        assert!(late.is_lost());
        ends_for_nothing::<M>(&line, late, end, &newer).await;
        newer.release().await.unwrap();
        line.nothing_is_left().await;
    }
}

pub(crate) async fn a_guard_released_by_force_does_not_release_who_came_after<M: Exclusive>() {
    let line = Line::<M>::patient().await;
    for end in End::ALL {
        let late = soon(M::of(&line.client, "x").acquire()).await.unwrap();
        assert!(M::of(&line.other, "x").force_release().await.unwrap());
        let newer = soon(M::of(&line.other, "x").acquire()).await.unwrap();
        soon(late.lost()).await;
        ends_for_nothing::<M>(&line, late, end, &newer).await;
        newer.release().await.unwrap();
        line.nothing_is_left().await;
    }
}

pub(crate) async fn a_guard_that_does_not_know_of_its_loss_does_not_release_who_came_after<
    M: Single,
>() {
    let line = Line::<M>::patient().await;
    for end in End::ALL {
        let late = soon(M::of(&line.client, "x").acquire()).await.unwrap();
        line.server.command(&["DEL", &M::key("x")]).unwrap();
        let newer = soon(M::of(&line.other, "x").acquire()).await.unwrap();
        assert_eq!(late.state(), HoldState::Held);
        ends_for_nothing::<M>(&line, late, end, &newer).await;
        newer.release().await.unwrap();
        line.nothing_is_left().await;
    }
}

pub(crate) async fn a_release_that_is_refused_is_made_once_more_in_the_background<M: Single>() {
    let line = Line::<M>::patient().await;
    let refused = Action::error("NOPERM on purpose");
    let refusal = line.proxy.once(Script::Release.calls(), refused);
    let passed = line.proxy.always(Script::Release.calls(), Action::Pass);
    let guard = soon(M::of(&line.client, "x").acquire()).await.unwrap();
    assert!(matches!(guard.release().await, Err(Error::Refused { .. })));
    assert_eq!(refusal.fired(), 1);
    let newer = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    eventually_async(SOON, async || passed.fired() == 1).await;
    assert_eq!(newer.state(), HoldState::Held);
    assert_eq!(line.holds("x").len(), 1);
    newer.release().await.unwrap();
    line.nothing_is_left().await;
    assert_eq!(passed.fired(), 1);
}

pub(crate) async fn a_release_that_is_refused_leaves_the_guards_outside_it<M: Exclusive>() {
    let line = Line::<M>::patient().await;
    let owner = line.client.owner();
    let here = soon(M::of(&line.other, "x").with_owner(&owner).acquire())
        .await
        .unwrap();
    let there = soon(M::of(&line.client, "x").with_owner(&owner).acquire())
        .await
        .unwrap();
    let refused = Action::error("NOPERM on purpose");
    line.proxy.once(Script::Release.calls(), refused);
    assert!(there.release().await.is_err());
    eventually_async(SOON, async || line.holds("x").len() == 1).await;
    assert_eq!(here.state(), HoldState::Held);
    here.release().await.unwrap();
    line.nothing_is_left().await;
}

// Red when a batch that is refused for its slots is not sent one by one (`send` in core's releases.rs).
pub(crate) async fn guards_of_several_slots_that_are_dropped_at_once_are_released_soon<
    M: Single,
>() {
    let server = Server::builder().cluster().start().unwrap();
    let options = options(&server.url()).operation_timeout(4 * SOON);
    let client = connect_in_the_end(options).await;
    let mut guards = Vec::new();
    for number in 0..10 {
        let lock = M::of(&client, format!("x{number}"));
        let lock = lock.with_lease(Lease::Fixed(60 * SOON));
        guards.push(soon(lock.acquire()).await.unwrap());
    }
    drop(guards);
    eventually_async(SOON, async || server.keys("*").unwrap().is_empty()).await;
}

// Red when each error inside a batch counts as one that passes (`send` in core's releases.rs).
pub(crate) async fn a_release_that_cannot_succeed_is_not_made_for_as_long_as_the_lease<
    M: Single,
>() {
    let line = Line::<M>::patient().await;
    let mut guards = Vec::new();
    for number in 0..10 {
        let lock = M::of(&line.client, format!("x{number}"));
        let lock = lock.with_lease(Lease::Fixed(60 * SOON));
        guards.push(soon(lock.acquire()).await.unwrap());
    }
    let spoilt = line.keys();
    for key in &spoilt {
        line.server.command(&["DEL", key]).unwrap();
        let words = ["RPUSH", key, "another type"];
        line.server.command(&words).unwrap();
    }
    let releases = line.proxy.always(Script::Release.calls(), Action::Pass);
    drop(guards);
    // It ends when no release is left to be made.
    soon(line.client.shutdown()).await.unwrap();
    assert_eq!(line.keys(), spoilt);
    // At most one for each, if the watchdog saw them dropped one by one.
    assert!(releases.fired() <= 10, "{} releases", releases.fired());
}
