use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use lockyard::{Client, Error, HoldState, Lease, Owner};
use lockyard_testkit::{Action, Proxy, Server, eventually, eventually_async};

use crate::contract::exclusive::{Exclusive, Guard, Owned, Single};
use crate::contract::site::Site;
use crate::support::{
    SOON, Script, cache_scripts, client, ms, options, patient, soon, travelled, until_waiting,
    wait, while_waiting,
};

async fn stays_out<M: Single>(stranger: &Client) {
    assert!(M::of(stranger, "x").try_acquire().await.unwrap().is_none());
}

// Red if a nested acquire of one client does not share the hold (core's acquire.rs without `nest`).
pub(crate) async fn an_owner_enters_again_and_the_last_release_frees<M: Exclusive>(site: Site) {
    let (holder, stranger) = (site.client().await, site.client().await);
    let owner = holder.owner();
    let lock = M::of(&holder, "x").with_owner(&owner);
    let mut guards = Vec::new();
    for count in 1..=5 {
        let guard = match count % 3 {
            0 => lock.try_acquire().await.unwrap().unwrap(),
            1 => lock.acquire().await.unwrap(),
            _ => lock.try_acquire_for(ms(100)).await.unwrap().unwrap(),
        };
        guards.push(guard);
        assert_eq!(lock.hold_count(&owner).await.unwrap(), count);
    }
    // Others see it as well, a little later.
    eventually_async(SOON, async || {
        M::of(&stranger, "x").hold_count(&owner).await.unwrap() == 5
    })
    .await;
    let waiter = wait(&M::of(&stranger, "x"));
    until_waiting(&lock, 1).await;
    // The order of release does not matter, and a drop is a release.
    for place in [0, 3, 1] {
        stays_out::<M>(&stranger).await;
        guards.remove(place).release().await.unwrap();
    }
    drop(guards.remove(0));
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 1);
    eventually_async(SOON, async || {
        M::of(&stranger, "x").hold_count(&owner).await.unwrap() == 1
    })
    .await;
    assert!(!waiter.is_finished());
    guards.remove(0).release().await.unwrap();
    soon(waiter).await.unwrap().release().await.unwrap();
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 0);
    assert_eq!(site.keys(), Vec::<String>::new());
}

// Red if acquire.lua does not look for holds of the owner.
pub(crate) async fn an_owner_enters_through_another_client_what_it_holds_through_the_first<
    M: Exclusive,
>(
    site: Site,
) {
    let [a, b, stranger] = [
        site.client().await,
        site.client().await,
        site.client().await,
    ];
    let owner = a.owner();
    for outer_ends_first in [false, true] {
        let outer = M::of(&a, "x").with_owner(&owner).acquire().await.unwrap();
        let (caller, lock) = (travelled(&owner), M::of(&b, "x"));
        let inner = soon(caller.scope(lock.acquire())).await.unwrap();
        assert_eq!(inner.owner(), owner);
        for seen_by in [&a, &b, &stranger] {
            assert_eq!(M::of(seen_by, "x").hold_count(&owner).await.unwrap(), 2);
        }
        let (first, last) = if outer_ends_first {
            (outer, inner)
        } else {
            (inner, outer)
        };
        first.release().await.unwrap();
        stays_out::<M>(&stranger).await;
        assert_eq!(last.state(), HoldState::Held);
        assert_eq!(M::of(&stranger, "x").hold_count(&owner).await.unwrap(), 1);
        last.release().await.unwrap();
        M::of(&stranger, "x")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}

// Red if a nested acquire asks the server (core's `is_served_by` always false).
pub(crate) async fn re_entering_what_is_surely_held_needs_no_server<M: Exclusive>() {
    let server = Server::start().unwrap();
    let holder = client(&server.url()).await;
    let owner = holder.owner();
    let lock = M::of(&holder, "x").with_owner(&owner);
    let outer = lock.acquire().await.unwrap();
    server.pause().unwrap();
    let start = Instant::now();
    let inner = soon(lock.acquire()).await.unwrap();
    let again = soon(lock.reenter(&owner)).await.unwrap().unwrap();
    let shorter = lock.clone().with_lease(Lease::Fixed(ms(5000)));
    let shorter = soon(shorter.acquire()).await.unwrap();
    assert!(start.elapsed() < ms(1000), "{:?}", start.elapsed());
    for guard in [inner, again, shorter] {
        guard.release().await.unwrap();
    }
    server.resume().unwrap();
    outer.release().await.unwrap();
    eventually(SOON, || server.keys("*").unwrap().is_empty());
}

// Red if `extend` in core's cell.rs or in renew.lua shortens a deadline.
pub(crate) async fn a_partial_release_keeps_the_lease_that_remains<M: Exclusive>(site: Site) {
    const LONG: Duration = ms(90_000);
    let (holder, other) = (site.client().await, site.client().await);
    let cases = [
        (Lease::Fixed(LONG), Lease::Fixed(LONG)),
        (Lease::Fixed(LONG), Lease::Fixed(ms(2000))),
        (Lease::Fixed(LONG), Lease::Renewed(ms(2000))),
        (Lease::Renewed(LONG), Lease::Fixed(ms(2000))),
        (Lease::Renewed(LONG), Lease::Renewed(ms(2000))),
        // The longer one extends the hold, and what it gave stays.
        (Lease::Fixed(ms(9000)), Lease::Fixed(LONG)),
        (Lease::Fixed(ms(9000)), Lease::Renewed(LONG)),
        (Lease::Renewed(ms(9000)), Lease::Fixed(LONG)),
    ];
    for (outer, inner) in cases {
        let owner = holder.owner();
        let lock = M::of(&holder, "x").with_owner(&owner);
        let seen_count = async |count: u64| {
            let seen = M::of(&other, "x").hold_count(&owner).await.unwrap();
            seen == count
        };
        let outer_guard = lock.clone().with_lease(outer).acquire().await.unwrap();
        for _ in 0..2 {
            let inner_guard = lock.clone().with_lease(inner).acquire().await.unwrap();
            eventually_async(SOON, async || seen_count(2).await).await;
            inner_guard.release().await.unwrap();
            // The renewal that brings the count is one as any other.
            eventually_async(SOON, async || seen_count(1).await).await;
        }
        let info = M::of(&other, "x").inspect().await.unwrap();
        let (local, left) = (outer_guard.remaining(), info.remaining[0]);
        assert!(
            left > LONG - SOON && left <= LONG && local > LONG - SOON,
            "{inner:?} in {outer:?}: {left:?} left, {local:?} by the guard"
        );
        outer_guard.release().await.unwrap();
        assert_eq!(site.keys(), Vec::<String>::new());
    }
}

// Red if a hold is renewed as its first guard asked (core's `wants`).
pub(crate) async fn a_hold_is_renewed_as_the_guards_that_are_left_ask<M: Exclusive>(site: Site) {
    let (holder, stranger) = (site.client().await, site.client().await);
    let owner = holder.owner();
    let lock = M::of(&holder, "x").with_owner(&owner);
    // A renewed guard keeps the hold of a fixed one beyond its end, and no longer than it is there.
    let fixed = lock
        .clone()
        .with_lease(Lease::Fixed(ms(1500)))
        .acquire()
        .await
        .unwrap();
    let renewed = lock
        .clone()
        .with_lease(Lease::Renewed(ms(1500)))
        .acquire()
        .await
        .unwrap();
    let start = Instant::now();
    while start.elapsed() < ms(3000) {
        stays_out::<M>(&stranger).await;
        assert_eq!(
            (fixed.state(), renewed.state()),
            (HoldState::Held, HoldState::Held)
        );
        tokio::time::sleep(ms(20)).await;
    }
    renewed.release().await.unwrap();
    let released = Instant::now();
    soon(fixed.lost()).await;
    assert!(released.elapsed() < SOON / 2, "{:?}", released.elapsed());
    // A fixed guard does not end the renewal of the hold that it is part of.
    let renewed = soon(lock.clone().with_lease(Lease::Renewed(ms(1500))).acquire())
        .await
        .unwrap();
    let fixed = lock
        .clone()
        .with_lease(Lease::Fixed(ms(500)))
        .acquire()
        .await
        .unwrap();
    let start = Instant::now();
    while start.elapsed() < ms(1500) {
        stays_out::<M>(&stranger).await;
        assert_eq!(
            (fixed.state(), renewed.state()),
            (HoldState::Held, HoldState::Held)
        );
        tokio::time::sleep(ms(20)).await;
    }
    fixed.release().await.unwrap();
    let start = Instant::now();
    while start.elapsed() < ms(1500) {
        stays_out::<M>(&stranger).await;
        tokio::time::sleep(ms(20)).await;
    }
    renewed.release().await.unwrap();
}

pub(crate) async fn owners_do_not_leak_out_of_their_scope_or_into_spawned_tasks<M: Exclusive>(
    site: Site,
) {
    let holder = site.client().await;
    let (owner, lock) = (holder.owner(), M::of(&holder, "x"));
    assert_eq!(Owner::current(), None);
    let outer = owner
        .scope(async {
            assert_eq!(Owner::current(), Some(owner.clone()));
            let outer = lock.acquire().await.unwrap();
            let spawned = lock.clone();
            let spawned = tokio::spawn(async move {
                assert_eq!(Owner::current(), None);
                spawned.try_acquire().await.unwrap()
            });
            assert!(spawned.await.unwrap().is_none());
            let (wrapper, wrapped) = (owner.clone(), lock.clone());
            let wrapped =
                tokio::spawn(async move { wrapper.scope(wrapped.try_acquire()).await.unwrap() });
            wrapped
                .await
                .unwrap()
                .expect("a wrapped future has the owner")
                .release()
                .await
                .unwrap();
            // Other scopes inside are their own owners, and end.
            let inner = holder.owner();
            assert!(inner.scope(lock.try_acquire()).await.unwrap().is_none());
            assert_eq!(Owner::current(), Some(owner.clone()));
            outer
        })
        .await;
    assert_eq!(Owner::current(), None);
    assert!(lock.try_acquire().await.unwrap().is_none());
    // Tasks of one thread take turns, and each keeps its own.
    let tasks = [0, 1, 2].map(|number| {
        let (owner, lock) = (holder.owner(), M::of(&holder, format!("y{number}")));
        tokio::spawn(async move {
            owner
                .clone()
                .scope(async {
                    for _ in 0..20 {
                        let guards = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
                        tokio::task::yield_now().await;
                        assert_eq!(
                            (guards.0.owner(), guards.1.owner()),
                            (owner.clone(), owner.clone())
                        );
                    }
                })
                .await;
        })
    });
    for task in tasks {
        soon(task).await.unwrap();
    }
    outer.release().await.unwrap();
}

// Red if `owner` in lockyard-lock prefers the scope.
pub(crate) async fn the_owner_of_a_handle_beats_that_of_the_scope<M: Exclusive>(site: Site) {
    let holder = site.client().await;
    let (named, scoped) = (holder.owner(), holder.owner());
    let lock = M::of(&holder, "x");
    scoped
        .scope(async {
            let guard = lock.clone().with_owner(&named).acquire().await.unwrap();
            assert_eq!(guard.owner(), named);
            assert!(lock.try_acquire().await.unwrap().is_none());
            assert!(
                lock.clone()
                    .with_owner(&scoped)
                    .try_acquire()
                    .await
                    .unwrap()
                    .is_none()
            );
            let again = lock
                .clone()
                .with_owner(&scoped)
                .with_owner(&named)
                .try_acquire()
                .await
                .unwrap();
            assert_eq!(lock.hold_count(&named).await.unwrap(), 2);
            assert_eq!(lock.hold_count(&scoped).await.unwrap(), 0);
            again.unwrap().release().await.unwrap();
            guard.release().await.unwrap();
        })
        .await;
}

pub(crate) async fn without_an_owner_nothing_is_entered_again<M: Exclusive>(site: Site) {
    let holder = site.client().await;
    let lock = M::of(&holder, "x");
    let guard = lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.try_acquire_for(ms(50)).await.unwrap().is_none());
    // Its owner is one all the same, and can be named.
    let again = lock
        .clone()
        .with_owner(&guard.owner())
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    assert_eq!(lock.hold_count(&guard.owner()).await.unwrap(), 2);
    guard.release().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    again.release().await.unwrap();
}

// Red if acquire.lua does not look for holds of the owner, or `held` in core's state.rs lets nobody in.
pub(crate) async fn branches_of_a_join_share_the_scope_and_do_not_exclude_each_other<
    M: Exclusive,
>(
    site: Site,
) {
    let (holder, stranger) = (site.client().await, site.client().await);
    let (owner, lock) = (holder.owner(), M::of(&holder, "x"));
    let branch = async || {
        let guard = lock.acquire().await.unwrap();
        // Only both together get beyond this.
        eventually_async(SOON, async || lock.hold_count(&owner).await.unwrap() == 3).await;
        guard
    };
    let guards = soon(owner.scope(async { tokio::join!(branch(), branch(), branch()) })).await;
    let guards: [M::Guard; 3] = guards.into();
    for guard in guards {
        stays_out::<M>(&stranger).await;
        guard.release().await.unwrap();
    }
    assert_eq!(site.keys(), Vec::<String>::new());
    // The same while a stranger holds and all wait: one grant lets the owner in.
    let guard = M::of(&stranger, "x").acquire().await.unwrap();
    let entered = owner.scope(async { tokio::join!(branch(), branch(), branch()) });
    let release = async {
        until_waiting(&lock, 3).await;
        guard.release().await.unwrap();
    };
    let (guards, ()) = soon(async { tokio::join!(entered, release) }).await;
    for guard in <[M::Guard; 3]>::from(guards) {
        guard.release().await.unwrap();
    }
    eventually_async(SOON, async || site.keys().is_empty()).await;
}

// Red if release.lua removes all holds of the owner.
pub(crate) async fn the_crash_of_a_called_client_costs_its_caller_nothing<M: Exclusive>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (caller, stranger) = (client(&server.url()).await, client(&server.url()).await);
    let called = client(&proxy.url()).await;
    let owner = caller.owner();
    let outer = M::of(&caller, "x")
        .with_owner(&owner)
        .with_lease(Lease::Renewed(ms(1500)))
        .acquire()
        .await
        .unwrap();
    let lock = M::of(&called, "x").with_lease(Lease::Renewed(ms(1200)));
    let inner = lock
        .reenter(&travelled(&owner))
        .await
        .unwrap()
        .expect("the caller holds");
    assert_eq!(M::of(&caller, "x").hold_count(&owner).await.unwrap(), 2);
    drop(proxy);
    eventually_async(SOON, async || {
        M::of(&caller, "x").hold_count(&owner).await.unwrap() == 1
    })
    .await;
    let start = Instant::now();
    while start.elapsed() < ms(1500) {
        assert_eq!(outer.state(), HoldState::Held);
        stays_out::<M>(&stranger).await;
        tokio::time::sleep(ms(20)).await;
    }
    assert!(inner.is_lost());
    outer.release().await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

// Red if release.lua removes all holds of the owner.
pub(crate) async fn a_release_that_comes_twice_costs_the_caller_nothing<M: Exclusive>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (caller, called) = (client(&server.url()).await, client(&proxy.url()).await);
    let owner = caller.owner();
    let outer = M::of(&caller, "x")
        .with_owner(&owner)
        .acquire()
        .await
        .unwrap();
    let lock = M::of(&called, "x").with_owner(&travelled(&owner));
    let inner = lock.acquire().await.unwrap();
    proxy.once(Script::Release.calls(), Action::Copy);
    inner.release().await.unwrap();
    let again = lock.acquire().await.unwrap();
    assert_eq!(proxy.resend_copies().unwrap().len(), 1);
    assert_eq!(M::of(&caller, "x").hold_count(&owner).await.unwrap(), 2);
    assert_eq!(
        (outer.state(), again.state()),
        (HoldState::Held, HoldState::Held)
    );
    outer.release().await.unwrap();
    assert_eq!(M::of(&caller, "x").hold_count(&owner).await.unwrap(), 1);
    again.release().await.unwrap();
}

// Red if a waiter whose owner has travelled does not look (core's `looks`), or a look does not enter what the owner
// holds (renew.lua), or an acquire respects the queue before its owner's hold (acquire.lua).
pub(crate) async fn clients_of_one_owner_never_wait_for_each_other<M: Exclusive>(site: Site) {
    let [a, b, stranger] = [
        site.client().await,
        site.client().await,
        site.client().await,
    ];
    for there_is in [travelled, Owner::clone] {
        // As text, or as a value in one process.
        let owner = a.owner();
        let there = there_is(&owner);
        let (through_a, through_b) = (
            M::of(&a, "x").with_owner(&owner),
            M::of(&b, "x").with_owner(&there),
        );

        // The owner holds, and a stranger stands in the queue before its second client.
        let held = through_a.acquire().await.unwrap();
        let queued = wait(&M::of(&stranger, "x"));
        until_waiting(&through_a, 1).await;
        let entered = soon(through_b.acquire()).await.unwrap();
        assert!(!queued.is_finished());
        held.release().await.unwrap();
        entered.release().await.unwrap();
        let guard = soon(queued).await.unwrap();

        // Both clients wait, with strangers between and before them in each.
        let order = [
            &through_a,
            &M::of(&stranger, "x"),
            &M::of(&b, "x"),
            &through_b,
            &M::of(&a, "x"),
        ];
        let mut waiters = Vec::new();
        for lock in order {
            waiters.push(wait(lock));
            until_waiting(lock, waiters.len() as u64).await;
        }
        let (first, second) = (waiters.remove(0), waiters.remove(2));
        let strangers = waiters;
        guard.release().await.unwrap();
        let held = soon(first).await.unwrap();
        // Its first client now does what ends only with the second's part.
        let entered = soon(second).await.unwrap();
        assert!(strangers.iter().all(|stranger| !stranger.is_finished()));
        assert_eq!(held.state(), HoldState::Held);
        held.release().await.unwrap();
        assert!(strangers.iter().all(|stranger| !stranger.is_finished()));
        entered.release().await.unwrap();
        for stranger in strangers {
            soon(stranger).await.unwrap().release().await.unwrap();
        }
        eventually_async(SOON, async || site.keys().is_empty()).await;
    }
}

// Red if `reenter` queues, or takes what is free (acquire.lua, mode reenter).
pub(crate) async fn reenter_takes_only_what_its_owner_holds_and_never_waits<M: Exclusive>(
    site: Site,
) {
    let [a, b, stranger] = [
        site.client().await,
        site.client().await,
        site.client().await,
    ];
    let owner = a.owner();
    let text = travelled(&owner);
    assert!(
        M::of(&b, "x").reenter(&text).await.unwrap().is_none(),
        "nobody holds"
    );
    assert_eq!(site.keys(), Vec::<String>::new());

    let held = M::of(&stranger, "x").acquire().await.unwrap();
    let start = Instant::now();
    assert!(
        M::of(&a, "x").reenter(&owner).await.unwrap().is_none(),
        "a stranger holds"
    );
    assert!(start.elapsed() < ms(1000));
    assert_eq!(M::of(&a, "x").inspect().await.unwrap().waiting, 0);
    held.release().await.unwrap();

    let outer = M::of(&a, "x").with_owner(&owner).acquire().await.unwrap();
    let queued = wait(&M::of(&stranger, "x"));
    until_waiting(&M::of(&a, "x"), 1).await;
    // The owner that is named counts, not that of the handle or the scope.
    let other = b.owner();
    let inner = other
        .scope(M::of(&b, "x").with_owner(&other).reenter(&text))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(inner.owner(), owner);
    let same_client = M::of(&a, "x").reenter(&owner).await.unwrap().unwrap();
    assert_eq!(M::of(&a, "x").hold_count(&owner).await.unwrap(), 3);
    outer.release().await.unwrap();
    same_client.release().await.unwrap();
    let more = M::of(&b, "x").reenter(&text).await.unwrap().unwrap();
    inner.release().await.unwrap();
    more.release().await.unwrap();
    let held = soon(queued).await.unwrap();
    assert!(
        M::of(&b, "x").reenter(&text).await.unwrap().is_none(),
        "the owner holds no more"
    );
    assert!(
        M::of(&a, "x").reenter(&owner).await.unwrap().is_none(),
        "the owner holds no more"
    );
    held.release().await.unwrap();
    eventually_async(SOON, async || site.keys().is_empty()).await;
}

pub(crate) async fn reenter_answers_none_when_the_caller_has_lost_the_lock<M: Exclusive>(
    site: Site,
) {
    let (a, b) = (site.client().await, site.client().await);
    let owner = a.owner();
    let lost = M::of(&a, "x").with_owner(&owner).acquire().await.unwrap();
    assert!(M::of(&b, "x").force_release().await.unwrap());
    soon(lost.lost()).await;
    assert!(M::of(&a, "x").reenter(&owner).await.unwrap().is_none());
    assert!(
        M::of(&b, "x")
            .reenter(&travelled(&owner))
            .await
            .unwrap()
            .is_none()
    );
    assert!(matches!(lost.release().await, Err(Error::LeaseLost { .. })));
}

// Red if `nest` in core's state.rs takes an unsure hold for one that serves.
pub(crate) async fn a_hold_that_is_unsure_is_asked_for_before_it_is_entered_again<M: Exclusive>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let holder = Client::with_options(options(&proxy.url()).operation_timeout(ms(1000)))
        .await
        .unwrap();
    let owner = holder.owner();
    let lock = M::of(&holder, "x")
        .with_owner(&owner)
        .with_lease(Lease::Renewed(ms(3000)));
    let outer = lock.acquire().await.unwrap();
    let trouble = proxy.always(
        Script::Renew.calls(),
        Action::error("BUSY a slow script is at work"),
    );
    eventually_async(SOON, async || outer.state() == HoldState::Unsure).await;
    let inner = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    let asked = proxy.commands_seen();
    eventually_async(SOON, async || proxy.commands_seen() > asked).await;
    assert!(!inner.is_finished());
    trouble.remove();
    let inner = soon(inner).await.unwrap().unwrap();
    assert_eq!(
        (outer.state(), inner.state()),
        (HoldState::Held, HoldState::Held)
    );
    inner.release().await.unwrap();
    outer.release().await.unwrap();
}

// Red if `abandon` in core's state.rs gives up a hold that others share.
pub(crate) async fn a_waiter_dropped_after_its_grant_leaves_the_hold_to_those_who_share_it<
    M: Exclusive,
>(
    site: Site,
) {
    let (holder, stranger) = (site.patient().await, site.patient().await);
    for granted_stays in [false, true] {
        let owner = holder.owner();
        let lock = M::of(&holder, "x").with_owner(&owner);
        let held = M::of(&stranger, "x").acquire().await.unwrap();
        let mut granted = Box::pin(lock.acquire());
        let mut shares = Box::pin(lock.acquire());
        while_waiting(granted.as_mut(), until_waiting(&lock, 1)).await;
        while_waiting(shares.as_mut(), until_waiting(&lock, 2)).await;
        held.release().await.unwrap();
        // The one who stays learns of the grant, and the other is dropped without having been asked.
        let (stays, goes) = if granted_stays {
            (granted, shares)
        } else {
            (shares, granted)
        };
        let guard = soon(stays).await.unwrap();
        drop(goes);
        // What that left to the watchdog has been sent before this.
        drop(M::of(&holder, "barrier").acquire().await.unwrap());
        eventually_async(SOON, async || {
            !M::of(&stranger, "barrier").is_locked().await.unwrap()
        })
        .await;
        stays_out::<M>(&stranger).await;
        assert_eq!(guard.state(), HoldState::Held);
        assert_eq!(lock.hold_count(&owner).await.unwrap(), 1);
        guard.release().await.unwrap();
        eventually_async(SOON, async || site.keys().is_empty()).await;
    }
}

// Red if `queued` in core's state.rs does not ask whether the owner holds by now.
pub(crate) async fn a_place_that_is_learnt_of_after_the_owners_grant_is_not_waited_in<
    M: Exclusive,
>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    cache_scripts(&server);
    let (holder, stranger) = (patient(&proxy.url()).await, patient(&server.url()).await);
    let owner = holder.owner();
    let lock = M::of(&holder, "x").with_owner(&owner);
    let held = M::of(&stranger, "x").acquire().await.unwrap();
    let granted = wait(&lock);
    until_waiting(&M::of(&stranger, "x"), 1).await;
    // Only the caller's connection is late, and not the one on which the grant comes.
    proxy.once(Script::Acquire.calls(), Action::DelayReply(ms(500)));
    let shares = wait(&lock);
    until_waiting(&M::of(&stranger, "x"), 2).await;
    held.release().await.unwrap();
    let granted = soon(granted).await.unwrap();
    let shares = soon(shares).await.unwrap();
    shares.release().await.unwrap();
    granted.release().await.unwrap();
    eventually(SOON, || server.keys("*").unwrap().is_empty());
}

// Red if a share that others asked for counts before its renewal is answered (`is_served_by` in core's id.rs).
pub(crate) async fn a_longer_lease_counts_when_its_renewal_is_answered<M: Exclusive>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = patient(&proxy.url()).await;
    let lock = M::of(&client, "x").with_owner(&client.owner());
    let fixed = lock.clone().with_lease(Lease::Fixed(ms(5000)));
    let outer = fixed.acquire().await.unwrap();
    let held = proxy.once(Script::Renew.calls(), Action::Hold);
    let mut first = pin!(lock.acquire());
    tokio::select! {
        biased;
        _ = first.as_mut() => panic!("it is renewed first"),
        () = held.wait_fired_async(1, SOON) => {}
    }
    let mut second = pin!(lock.acquire());
    let ready = poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_ready())).await;
    assert!(!ready, "the first one's renewal is not answered yet");
    proxy.let_go();
    let inner = [soon(first).await.unwrap(), soon(second).await.unwrap()];
    for guard in inner.into_iter().chain([outer]) {
        guard.release().await.unwrap();
    }
}
