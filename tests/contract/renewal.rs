use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tokio::time::Instant;

use lockyard::{Client, Error, HoldState, Lease};
use lockyard_testkit::{Action, Direction, Proxy, Server, eventually, eventually_async};

use crate::contract::exclusive::{Exclusive, Guard, Single};
use crate::contract::site::Site;
use crate::support::{
    SOON, Script, assert_quick_scripts, client, ms, options, patient, soon, until_waiting, variant,
    wait,
};

/// Short, but a busy machine may keep a thread from running for a good part of a second.
const RENEWED: Lease = Lease::Renewed(ms(1500));

/// Sees to it for so long that the guards hold and nobody else gets in.
async fn stay_held<M: Single>(guards: &[&M::Guard], other: &Client, time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        for guard in guards {
            let name = guard.name();
            assert!(
                !guard.is_lost(),
                "{name} is lost after {:?}",
                start.elapsed()
            );
            let entered = M::of(other, name).try_acquire().await;
            assert!(
                matches!(entered, Ok(None) | Err(Error::Refused { .. })),
                "{name}: {entered:?}"
            );
        }
        tokio::time::sleep(ms(10)).await;
    }
}

async fn hold<M: Single>(
    client: &Client,
    names: impl IntoIterator<Item = impl AsRef<str>>,
    lease: Lease,
) -> Vec<M::Guard> {
    let mut guards = Vec::new();
    for name in names {
        guards.push(
            M::of(client, name)
                .with_lease(lease)
                .acquire()
                .await
                .unwrap(),
        );
    }
    guards
}

// Red if the watchdog's commands take the caller's connection (core's fred_backend.rs).
pub(crate) async fn renewal_goes_on_while_the_executor_is_blocked<M: Single>() {
    let server = Server::start().unwrap();
    let holder = client(&server.url()).await;
    let guard = M::of(&holder, "x")
        .with_lease(RENEWED)
        .acquire()
        .await
        .unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let prober = {
        let (over, url) = (over.clone(), server.url());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let other = client(&url).await;
                while !over.load(SeqCst) {
                    assert!(M::of(&other, "x").try_acquire().await.unwrap().is_none());
                    tokio::time::sleep(ms(5)).await;
                }
            });
        })
    };
    std::thread::sleep(ms(2500));
    let spun = Instant::now();
    while spun.elapsed() < ms(900) {
        std::hint::spin_loop();
    }
    assert_eq!(guard.state(), HoldState::Held);
    over.store(true, SeqCst);
    prober.join().unwrap();
    guard.release().await.unwrap();
}

// Red if an error inside renew.lua ends the script.
pub(crate) async fn trouble_with_one_renewal_does_not_touch_the_others<M: Single>() {
    let server = Server::start().unwrap();
    let (holder, other) = (client(&server.url()).await, client(&server.url()).await);
    let mut guards = hold::<M>(&holder, ["a", "b", "c", "d", "e"], RENEWED).await;
    let (written, deleted) = (guards.remove(1), guards.remove(2));
    server
        .command(&["SET", &M::key("b"), "somebody's"])
        .unwrap();
    server.command(&["DEL", &M::key("d")]).unwrap();
    stay_held::<M>(&guards.iter().collect::<Vec<_>>(), &other, ms(3600)).await;
    assert!(written.is_lost() && deleted.is_lost());
    let value: String = server.query(&["GET", &M::key("b")]).unwrap();
    assert_eq!(value, "somebody's");
    for guard in guards {
        guard.release().await.unwrap();
    }
}

// Red if renew.lua writes an id that it does not find.
pub(crate) async fn a_renewal_never_brings_a_key_back<M: Exclusive>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let holder = client(&proxy.url()).await;
    for delete in [&["DEL", &M::key("x")][..], &["FLUSHALL"], &["HDEL"]] {
        let guard = M::of(&holder, "x")
            .with_lease(RENEWED)
            .acquire()
            .await
            .unwrap();
        let renewals = proxy.always(Script::Renew.calls(), Action::Pass);
        if delete == ["HDEL"] {
            let fields: Vec<String> = server.query(&["HKEYS", &M::key("x")]).unwrap();
            server.command(&["HDEL", &M::key("x"), &fields[0]]).unwrap();
        } else {
            server.command(delete).unwrap();
        }
        renewals.wait_fired_async(1, SOON).await;
        renewals.remove();
        soon(guard.lost()).await;
        assert_eq!(
            server.keys("*").unwrap(),
            Vec::<String>::new(),
            "{delete:?}"
        );
    }
}

// Red if renew.lua writes an id that it does not find.
pub(crate) async fn a_renewal_that_is_overtaken_by_the_release_brings_nothing_back<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let holder = client(&proxy.url()).await;
    let guard = M::of(&holder, "x")
        .with_lease(RENEWED)
        .acquire()
        .await
        .unwrap();
    let late = proxy.once(Script::Renew.calls(), Action::Hold);
    late.wait_fired_async(1, SOON).await;
    guard.release().await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
    let before = server.scripts().unwrap();
    late.let_go();
    eventually(SOON, || server.scripts().unwrap() > before);
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

// Red if the last release leaves the id a hold (`part` in core's state.rs).
pub(crate) async fn after_release_nothing_is_renewed<M: Exclusive>() {
    let server = Server::start().unwrap();
    let holder = client(&server.url()).await;
    let owner = holder.owner();
    let lock = M::of(&holder, "x")
        .with_owner(&owner)
        .with_lease(Lease::Renewed(ms(600)));
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(lock.acquire().await.unwrap());
    }
    for guard in guards {
        guard.release().await.unwrap();
    }
    drop(
        M::of(&holder, "y")
            .with_lease(Lease::Renewed(ms(600)))
            .acquire()
            .await
            .unwrap(),
    );
    eventually(SOON, || server.keys("*").unwrap().is_empty());
    let before = server.scripts().unwrap();
    tokio::time::sleep(ms(1200)).await;
    assert_eq!(server.scripts().unwrap(), before);
}

// Red if a renewal asks for less than the lease (`wants` in core's id.rs).
pub(crate) async fn each_renewal_gives_the_full_lease_however_slow_they_are<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let holder = client(&proxy.url()).await;
    proxy.delay(Direction::Both, ms(40));
    let guard = M::of(&holder, "x")
        .with_lease(RENEWED)
        .acquire()
        .await
        .unwrap();
    let (mut renewed, mut last) = (Vec::new(), 0);
    let start = Instant::now();
    while start.elapsed() < ms(4500) {
        let ttl = server.ttl_ms(&M::key("x")).unwrap();
        assert!(ttl > 0, "{ttl}");
        if ttl > last && last != 0 {
            renewed.push(ttl);
        }
        last = ttl;
        tokio::time::sleep(ms(2)).await;
    }
    assert!(renewed.len() >= 4, "{renewed:?}");
    assert!(
        renewed.iter().all(|ttl| (1200..=1500).contains(ttl)),
        "{renewed:?}"
    );
    assert_eq!(guard.state(), HoldState::Held);
}

// Red if `wants` in core's id.rs gives a fixed share its lease anew.
pub(crate) async fn a_fixed_lease_is_checked_but_not_renewed<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, other) = (client(&proxy.url()).await, client(&server.url()).await);
    let acquired = Instant::now();
    let guard = M::of(&holder, "x")
        .with_lease(Lease::Fixed(ms(1500)))
        .acquire()
        .await
        .unwrap();
    let checks = proxy.always(Script::Renew.calls(), Action::Pass);
    checks.wait_fired_async(1, SOON).await;
    soon(guard.lost()).await;
    assert!(
        acquired.elapsed() > ms(1400),
        "lost after {:?}",
        acquired.elapsed()
    );
    soon(M::of(&other, "x").acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    assert!(
        acquired.elapsed() < ms(3000),
        "free after {:?}",
        acquired.elapsed()
    );
    assert!(matches!(
        guard.extend(ms(1500)).await,
        Err(Error::LeaseLost { .. })
    ));
}

// Red when `extend` leaves the period of the lease before.
pub(crate) async fn an_extended_lease_is_checked_no_more_often_than_a_long_one<M: Single>() {
    let server = Server::start().unwrap();
    let holder = client(&server.url()).await;
    let lock = M::of(&holder, "x").with_lease(Lease::Fixed(ms(300)));
    let guard = lock.acquire().await.unwrap();
    guard.extend(ms(3_600_000)).await.unwrap();
    // The check that was due before.
    tokio::time::sleep(ms(200)).await;
    let before = server.scripts().unwrap();
    tokio::time::sleep(ms(500)).await;
    let checks = server.scripts().unwrap() - before;
    assert!(checks <= 1, "{checks}");
    guard.release().await.unwrap();
}

pub(crate) async fn a_fixed_lease_is_extended_by_hand_and_never_shortened<M: Single>() {
    let server = Server::start().unwrap();
    let (holder, other) = (client(&server.url()).await, client(&server.url()).await);
    let guard = M::of(&holder, "x")
        .with_lease(Lease::Fixed(ms(1500)))
        .acquire()
        .await
        .unwrap();
    let start = Instant::now();
    while start.elapsed() < ms(3000) {
        tokio::time::sleep(ms(100)).await;
        guard.extend(ms(1500)).await.unwrap();
        assert!(guard.remaining() > ms(1000), "{:?}", guard.remaining());
        assert!(M::of(&other, "x").try_acquire().await.unwrap().is_none());
    }
    guard.extend(ms(60_000)).await.unwrap();
    guard.extend(ms(100)).await.unwrap();
    assert!(guard.remaining() > ms(50_000));
    assert!(server.ttl_ms(&M::key("x")).unwrap() > 50_000);
    for lease in [Duration::ZERO, ms(9), Duration::MAX] {
        assert!(
            matches!(guard.extend(lease).await, Err(Error::InvalidLease { .. })),
            "{lease:?}"
        );
    }
    guard.release().await.unwrap();
    let renewed = M::of(&holder, "x").acquire().await.unwrap();
    assert!(matches!(
        renewed.extend(ms(1000)).await,
        Err(Error::NotFixed { .. })
    ));
    renewed.release().await.unwrap();
}

// Red if `Share::new` in core's id.rs leaves the longest hold out.
pub(crate) async fn a_hold_is_renewed_for_its_longest_time_and_then_runs_out<M: Single>(
    site: Site,
) {
    let (holder, other) = (site.client().await, site.client().await);
    let lock = M::of(&holder, "x")
        .with_lease(RENEWED)
        .with_max_hold(ms(2000));
    let acquired = Instant::now();
    // Nobody is left to release it.
    std::mem::forget(lock.acquire().await.unwrap());
    let entered = soon(M::of(&other, "x").acquire()).await.unwrap();
    let held = acquired.elapsed();
    assert!(held > ms(2000) && held < ms(2000 + 1500 + 1500), "{held:?}");
    entered.release().await.unwrap();
}

pub(crate) async fn each_acquire_has_the_lease_of_its_own_handle<M: Single>() {
    let server = Server::start().unwrap();
    let holder = Client::with_options(options(&server.url()).lease(Lease::Renewed(ms(5000))))
        .await
        .unwrap();
    let plain = M::of(&holder, "x");
    let long = plain.clone().with_lease(Lease::Fixed(ms(3_600_000)));
    let ttl = async |lock: &M| {
        let guard = lock.acquire().await.unwrap();
        let ttl = server.ttl_ms(&M::key("x")).unwrap();
        let remaining = guard.remaining();
        guard.release().await.unwrap();
        assert!(remaining.as_millis() as i64 <= ttl + 1000);
        ttl
    };
    for _ in 0..2 {
        assert!((3_500_000..=3_600_000).contains(&ttl(&long).await));
        assert!((4_000..=5_000).contains(&ttl(&plain).await));
    }
}

// Red if `BATCH` in core's renewal.rs is 1.
pub(crate) async fn ten_thousand_holds_are_renewed_by_a_hundred_scripts_a_period<M: Single>() {
    let server = Server::start().unwrap();
    let holder = client(&server.url()).await;
    let numbers: Vec<u32> = (0..10_000).collect();
    let mut guards = Vec::new();
    for some in numbers.chunks(500) {
        let acquire = |number| {
            let lock = M::of(&holder, format!("x{number}")).with_lease(Lease::Renewed(ms(6000)));
            tokio::spawn(async move { lock.acquire().await.unwrap() })
        };
        for acquired in some.iter().map(acquire).collect::<Vec<_>>() {
            guards.push(acquired.await.unwrap());
        }
    }
    // What was acquired over some time is renewed together after the first periods.
    tokio::time::sleep(ms(4000)).await;
    let before = server.scripts().unwrap();
    tokio::time::sleep(ms(4000)).await;
    let scripts = server.scripts().unwrap() - before;
    assert!(
        // The window of two periods may see the beginning of a third.
        (1..=300).contains(&scripts),
        "{scripts} scripts in two periods"
    );
    assert!(!guards.iter().any(|guard| guard.state() == HoldState::Lost));
    // On a busy machine an answer may be late, and some are unsure until the next.
    let all = async || guards.iter().all(|guard| guard.state() == HoldState::Held);
    eventually_async(SOON, all).await;
    let held: u64 = server.query(&["DBSIZE"]).unwrap();
    assert_eq!(held, 10_000);
    assert_quick_scripts(&server);
}

// Red if a renewal that fails loses the hold (`failed` in core's renewal.rs).
pub(crate) async fn a_slow_script_of_somebody_else_costs_no_hold<M: Single>() {
    let server = Server::start().unwrap();
    let (holder, other) = (client(&server.url()).await, client(&server.url()).await);
    let guard = M::of(&holder, "x")
        .with_lease(Lease::Renewed(ms(3600)))
        .acquire()
        .await
        .unwrap();
    tokio::time::sleep(ms(800)).await;
    server.busy(ms(1500)).unwrap();
    eventually_async(SOON, async || guard.state() == HoldState::Unsure).await;
    eventually_async(SOON, async || guard.state() == HoldState::Held).await;
    stay_held::<M>(&[&guard], &other, ms(2400)).await;
    guard.release().await.unwrap();
}

// Red if a renewal that fails is not tried again (`failed` in core's renewal.rs).
pub(crate) async fn a_hold_outlasts_refusals_of_every_kind_inside_its_lease<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, other) = (client(&proxy.url()).await, client(&server.url()).await);
    let guards = hold::<M>(&holder, ["a", "b"], Lease::Renewed(ms(2400))).await;
    for refusal in [
        "BUSY busy",
        "LOADING loading",
        "READONLY replica",
        "TRYAGAIN later",
        "CLUSTERDOWN down",
        "NOREPLICAS few",
        "MISCONF disk",
        "MASTERDOWN down",
        "NOPERM no",
        "ERR odd",
        "WRONGTYPE odd",
    ] {
        let rule = proxy.once(Script::Renew.calls(), Action::error(refusal));
        rule.wait_fired_async(1, SOON).await;
        let held = |guard: &M::Guard| guard.state() == HoldState::Held;
        eventually_async(SOON, async || guards.iter().all(held)).await;
    }
    stay_held::<M>(&guards.iter().collect::<Vec<_>>(), &other, ms(100)).await;
}

// Red if a renewal that fails loses the hold (`failed` in core's renewal.rs).
pub(crate) async fn a_server_that_stands_still_or_only_reads_for_a_while_costs_no_hold<
    M: Single,
>() {
    let server = Server::start().unwrap();
    let (holder, other) = (client(&server.url()).await, client(&server.url()).await);
    let guard = M::of(&holder, "x")
        .with_lease(Lease::Renewed(ms(4500)))
        .acquire()
        .await
        .unwrap();
    server.make_replica().unwrap();
    eventually_async(SOON, async || guard.state() == HoldState::Unsure).await;
    server.make_primary().unwrap();
    eventually_async(SOON, async || guard.state() == HoldState::Held).await;
    // As long as until the next renewal, and a bit.
    server.pause().unwrap();
    tokio::time::sleep(ms(2000)).await;
    server.resume().unwrap();
    let before = guard.remaining();
    eventually_async(SOON, async || guard.remaining() > before).await;
    stay_held::<M>(&[&guard], &other, ms(100)).await;
    guard.release().await.unwrap();
}

// Red without the EVAL after NOSCRIPT in core's fred_backend.rs.
pub(crate) async fn a_flushed_script_cache_costs_no_hold<M: Single>() {
    let server = Server::start().unwrap();
    let (holder, other) = (client(&server.url()).await, client(&server.url()).await);
    let guards = hold::<M>(&holder, ["a", "b", "c"], RENEWED).await;
    for _ in 0..9 {
        server.flush_scripts().unwrap();
        stay_held::<M>(&guards.iter().collect::<Vec<_>>(), &other, ms(200)).await;
    }
    server.flush_scripts().unwrap();
    for guard in guards {
        guard.release().await.unwrap();
    }
}

// Red if nothing is checked after a reconnect (`check_all` in core's inbox.rs).
pub(crate) async fn a_server_that_comes_back_empty_costs_every_hold_at_once<M: Single>() {
    let server = Server::start().unwrap();
    let holder = client(&server.url()).await;
    let names = (0..20).map(|number| format!("x{number}"));
    let mut guards = hold::<M>(&holder, names.clone(), Lease::Renewed(ms(60_000))).await;
    guards.extend(hold::<M>(&holder, ["y", "z"], Lease::Fixed(ms(60_000))).await);
    server.restart().unwrap();
    for guard in &guards {
        soon(guard.lost()).await;
    }
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
    // It works as before.
    for guard in hold::<M>(&holder, names, RENEWED).await {
        guard.release().await.unwrap();
    }
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

// Red if a renewal that fails loses the hold (`failed` in core's renewal.rs).
pub(crate) async fn cut_connections_cost_no_hold<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, other) = (client(&proxy.url()).await, client(&server.url()).await);
    let guards = hold::<M>(&holder, ["a", "b", "c"], Lease::Renewed(ms(1500))).await;
    let guards: Vec<&M::Guard> = guards.iter().collect();
    for kind in ["normal", "pubsub", "normal"] {
        server.kill_clients(kind).unwrap();
        tokio::time::sleep(ms(300)).await;
        assert!(guards.iter().all(|guard| !guard.is_lost()), "{kind}");
    }
    for _ in 0..40 {
        proxy.cut();
        tokio::time::sleep(ms(5)).await;
    }
    soon(stay_held::<M>(&guards, &other, ms(3000))).await;
}

// Red if nobody replaces a connection that does not answer.
pub(crate) async fn a_connection_that_goes_dead_without_a_word_costs_no_hold<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let holder = Client::with_options(options(&proxy.url()).operation_timeout(ms(500)))
        .await
        .unwrap();
    let other = client(&server.url()).await;
    // More than one batch: the first is never answered, and so is nothing else on its connection.
    let guards = hold::<M>(
        &holder,
        (0..250).map(|number| format!("x{number}")),
        Lease::Renewed(ms(6000)),
    )
    .await;
    let dead = proxy.once(Script::Renew.calls(), Action::SwallowReply);
    dead.wait_fired_async(1, SOON).await;
    let renewed = |guard: &M::Guard| {
        assert!(!guard.is_lost());
        guard.remaining() > ms(4500)
    };
    eventually_async(SOON, async || {
        guards.iter().filter(|guard| renewed(guard)).count() == 250
    })
    .await;
    stay_held::<M>(&[&guards[0], &guards[249]], &other, ms(100)).await;
}

pub(crate) async fn locks_that_come_and_go_do_not_stop_the_renewal_of_one_that_stays<
    M: Exclusive,
>() {
    let server = Server::start().unwrap();
    let (holder, other) = (client(&server.url()).await, client(&server.url()).await);
    let owner = holder.owner();
    let quiet = M::of(&holder, "quiet")
        .with_lease(RENEWED)
        .with_owner(&holder.owner())
        .acquire()
        .await
        .unwrap();
    let churn = async {
        let start = Instant::now();
        let mut round = 0;
        while start.elapsed() < ms(3600) {
            let lock = M::of(&holder, format!("x{}", round % 49))
                .with_lease(RENEWED)
                .with_owner(&owner);
            let outer = lock.acquire().await.unwrap();
            let inner = lock.acquire().await.unwrap();
            if round % 5 == 0 {
                tokio::time::sleep(ms(7)).await;
            }
            outer.release().await.unwrap();
            inner.release().await.unwrap();
            round += 1;
        }
    };
    let held = [&quiet];
    tokio::join!(churn, stay_held::<M>(&held, &other, ms(3600)));
    quiet.release().await.unwrap();
    eventually(SOON, || server.keys("*").unwrap().is_empty());
}

// Red with `allow-oom` taken out of renew.lua.
pub(crate) async fn a_full_server_costs_no_hold<M: Single>() {
    let server = Server::start().unwrap();
    let holder = client(&server.url()).await;
    let guards = hold::<M>(&holder, ["a", "b", "c"], RENEWED).await;
    server.fill().unwrap();
    let start = Instant::now();
    while start.elapsed() < ms(2500) {
        assert!(
            guards.iter().all(|guard| !guard.is_lost()),
            "lost after {:?}",
            start.elapsed()
        );
        tokio::time::sleep(ms(10)).await;
    }
    for guard in guards {
        guard.release().await.unwrap();
    }
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

// Red if the first check counts from when the grant was noticed (`granted` in core's inbox.rs).
pub(crate) async fn a_grant_that_is_noticed_late_is_renewed_in_time<M: Single>() {
    const LEASE: Duration = ms(2400);
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    // No look comes before the message.
    let (other, waits) = (patient(&server.url()).await, patient(&proxy.url()).await);
    let held = M::of(&other, "x").acquire().await.unwrap();
    let waiter = wait(&M::of(&waits, "x").with_lease(Lease::Renewed(LEASE)));
    until_waiting(&M::of(&other, "x"), 1).await;
    proxy.hold(Direction::ToClient);
    held.release().await.unwrap();
    let released = Instant::now();
    eventually_async(LEASE, async || released.elapsed() > LEASE * 7 / 10).await;
    proxy.let_go();
    let guard = soon(waiter).await.unwrap();
    stay_held::<M>(&[&guard], &other, 2 * LEASE).await;
    guard.release().await.unwrap();
}

// Red without `patient` in core's core.rs: a command that had little time has its connection closed.
pub(crate) async fn a_short_lease_that_is_answered_late_costs_no_connection<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let options = options(&proxy.url()).operation_timeout(4 * SOON);
    let client = Client::with_options(options).await.unwrap();
    let connections = || {
        let list: String = server.query(&["CLIENT", "LIST"]).unwrap();
        let id = |line: &str| line.split(' ').next().unwrap().to_owned();
        list.lines().map(id).collect::<Vec<_>>()
    };
    let long = M::of(&client, "long").with_lease(RENEWED);
    let long = long.acquire().await.unwrap();
    let before = connections();
    let late = proxy.times(2, Script::Renew.calls(), Action::DelayReply(ms(150)));
    let renewals = proxy.always(Script::Renew.calls(), Action::Pass);
    // A third of it is too short for an answer.
    let short = M::of(&client, "short").with_lease(Lease::Renewed(ms(90)));
    let short = loop {
        match short.acquire().await {
            Ok(guard) => break guard,
            // On a busy machine the answer itself may be too late.
            Err(error) => assert_eq!(variant(&error), "LeaseLost"),
        }
    };
    soon(short.lost()).await;
    late.wait_fired_async(1, SOON).await;
    // The long one is renewed by the same connection, or by what has come in its place.
    renewals.wait_fired_async(2, SOON).await;
    assert_eq!(connections(), before);
    assert_eq!(long.state(), HoldState::Held);
    long.release().await.unwrap();
}
