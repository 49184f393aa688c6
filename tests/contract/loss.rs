use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tokio::time::Instant;

use lockyard::{Client, Error, HoldState, Lease};
use lockyard_testkit::{Action, Direction, Proxy, Server, eventually, eventually_async};

use crate::contract::exclusive::{Exclusive, Guard, Single};
use crate::contract::site::Site;
use crate::process::{Other, Part};
use crate::support::{SOON, Script, client, ms, soon, until_waiting};

const LEASES: [Lease; 2] = [Lease::Renewed(ms(1200)), Lease::Fixed(ms(1200))];

/// What the holder sees at the moment at which somebody else gets in.
async fn when_another_gets_in<M: Single>(other: &M, guard: &M::Guard) -> (HoldState, Duration) {
    let entered = soon(other.acquire()).await.unwrap();
    let seen = (guard.state(), guard.remaining());
    entered.release().await.unwrap();
    seen
}

/// Waits until a renewal was answered, so that the deadline is not that of the acquire any more.
async fn until_renewed(guard: &impl Guard) {
    let mut least = guard.remaining();
    eventually_async(SOON, async || {
        let remaining = guard.remaining();
        assert!(
            !guard.is_lost(),
            "lost instead of renewed, with {least:?} left before"
        );
        let renewed = remaining > least + ms(50);
        least = remaining;
        renewed
    })
    .await;
}

// Red if a renewal or an acquire counts from its reply (settle and attempt in core: `core.now()` for `sent`).
pub(crate) async fn a_holder_that_is_cut_off_has_lost_before_another_gets_in<M: Single>() {
    for lease in LEASES {
        let server = Server::start().unwrap();
        let proxy = Proxy::start(&server).unwrap();
        let (holder, other) = (client(&proxy.url()).await, client(&server.url()).await);
        // Replies take their time, so whoever counts from them believes too long.
        proxy.delay(Direction::ToClient, ms(100));
        let guard = M::of(&holder, "x")
            .with_lease(lease)
            .acquire()
            .await
            .unwrap();
        if matches!(lease, Lease::Renewed(_)) {
            until_renewed(&guard).await;
        }
        proxy.hold(Direction::Both);
        let seen = when_another_gets_in(&M::of(&other, "x"), &guard).await;
        assert_eq!(seen, (HoldState::Lost, Duration::ZERO), "{lease:?}");
        soon(guard.lost()).await;
    }
}

// Red if a grant counts from its message (`granted` in core's sync.rs: `now` for `written`).
pub(crate) async fn a_grantee_that_is_cut_off_has_lost_before_another_gets_in<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (grantee, other) = (client(&proxy.url()).await, client(&server.url()).await);
    let first = M::of(&other, "x").acquire().await.unwrap();
    proxy.delay(Direction::ToClient, ms(100));
    let waiter = {
        let lock = M::of(&grantee, "x").with_lease(Lease::Renewed(ms(1500)));
        tokio::spawn(async move { lock.acquire().await })
    };
    until_waiting(&M::of(&other, "x"), 1).await;
    first.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    proxy.hold(Direction::Both);
    let seen = when_another_gets_in(&M::of(&other, "x"), &guard).await;
    assert_eq!(seen, (HoldState::Lost, Duration::ZERO));
    soon(guard.lost()).await;
}

// Red if `expire` in core's cell.rs never says so.
pub(crate) async fn a_process_that_was_stopped_beyond_its_lease_knows_when_it_goes_on<M: Single>() {
    const LEASE: Duration = ms(900);
    if let Some(part) = Part::mine() {
        let guard = client(&part.arguments[0]).await;
        let guard = M::of(&guard, "x")
            .with_lease(Lease::Renewed(LEASE))
            .acquire()
            .await
            .unwrap();
        let mut before = Instant::now();
        let work = async {
            loop {
                let now = Instant::now();
                if now - before > LEASE {
                    part.say("the work was polled after the pause");
                }
                before = now;
                if now.elapsed() > LEASE {
                    part.say("stopped in the middle");
                }
                tokio::time::sleep(ms(1)).await;
            }
        };
        part.say("held");
        let result: Result<(), Error> = guard.run(work).await;
        part.say(&format!(
            "{:?} {:?} {}",
            guard.state(),
            guard.remaining(),
            result.unwrap_err().is_retryable()
        ));
        guard.lost().await;
        part.say("lost");
        return std::future::pending().await;
    }
    let server = Server::start().unwrap();
    let stranger = client(&server.url()).await;
    let other = Other::start(
        &M::test("a_process_that_was_stopped_beyond_its_lease_knows_when_it_goes_on"),
        &[&server.url()],
    );
    other.hears("held");
    other.pause();
    let entered = soon(M::of(&stranger, "x").acquire()).await.unwrap();
    other.resume();
    other.hears("Lost 0ns true");
    other.hears("lost");
    assert_eq!(entered.state(), HoldState::Held);
    entered.release().await.unwrap();
}

// Red if `expire` in core's cell.rs never says so.
pub(crate) async fn a_holder_learns_of_the_end_of_its_lease_while_the_server_stands_still<
    M: Single,
>() {
    for lease in LEASES {
        let server = Server::start().unwrap();
        let (holder, other) = (client(&server.url()).await, client(&server.url()).await);
        let guard = M::of(&holder, "x")
            .with_lease(lease)
            .acquire()
            .await
            .unwrap();
        let acquired = Instant::now();
        server.pause().unwrap();
        soon(guard.lost()).await;
        assert!(guard.is_lost(), "{lease:?}");
        assert!(
            acquired.elapsed() < SOON / 2,
            "{lease:?}: lost after {:?}",
            acquired.elapsed()
        );
        // A renewal that the server has not read yet must not bring the hold back.
        server.resume().unwrap();
        let entered = soon(M::of(&other, "x").acquire()).await.unwrap();
        assert_eq!(guard.state(), HoldState::Lost, "{lease:?}");
        assert_eq!(entered.state(), HoldState::Held, "{lease:?}");
    }
}

pub(crate) async fn a_holder_learns_of_the_end_of_its_lease_after_the_server_was_killed<
    M: Single,
>() {
    for lease in LEASES {
        let server = Server::start().unwrap();
        let holder = client(&server.url()).await;
        let guard = M::of(&holder, "x")
            .with_lease(lease)
            .acquire()
            .await
            .unwrap();
        server.kill();
        soon(guard.lost()).await;
        assert_eq!(
            (guard.state(), guard.remaining()),
            (HoldState::Lost, Duration::ZERO),
            "{lease:?}"
        );
    }
}

/// How long it takes holders with long leases, renewed and fixed, to learn of what is done to them.
async fn news_takes<M: Single>(trouble: impl FnOnce(&Server)) -> [Duration; 2] {
    let server = Server::start().unwrap();
    let holder = client(&server.url()).await;
    let leases = [Lease::Renewed(ms(3000)), Lease::Fixed(ms(3000))];
    let mut guards = Vec::new();
    for (name, lease) in ["renewed", "fixed"].into_iter().zip(leases) {
        guards.push(
            M::of(&holder, name)
                .with_lease(lease)
                .acquire()
                .await
                .unwrap(),
        );
    }
    let start = Instant::now();
    trouble(&server);
    let took = async |guard: &M::Guard| {
        soon(guard.lost()).await;
        assert!(guard.is_lost());
        start.elapsed()
    };
    let (renewed, fixed) = tokio::join!(took(&guards[0]), took(&guards[1]));
    [renewed, fixed]
}

// Red if a fixed lease is not checked (`due` of a fixed share never in core's renewal.rs).
pub(crate) async fn a_deleted_key_reaches_the_holder_at_its_next_check<M: Single>() {
    let deleted = news_takes::<M>(|server| {
        for name in ["renewed", "fixed"] {
            let deleted: u64 = server.query(&["DEL", &M::key(name)]).unwrap();
            assert_eq!(deleted, 1);
        }
    });
    let flushed = news_takes::<M>(|server| server.flush_all().unwrap());
    let (deleted, flushed) = tokio::join!(deleted, flushed);
    for took in deleted.into_iter().chain(flushed) {
        assert!(took < ms(2500), "{took:?} of a lease of 3 s");
    }
}

// Red without the revocation in release.lua.
pub(crate) async fn force_release_reaches_the_holder_by_message<M: Exclusive>(site: Site) {
    for lease in [Lease::Renewed(ms(30_000)), Lease::Fixed(ms(30_000))] {
        let (holder, operator, third) = (
            site.client().await,
            site.client().await,
            site.client().await,
        );
        let guard = M::of(&holder, "x")
            .with_lease(lease)
            .acquire()
            .await
            .unwrap();
        let waiter = tokio::spawn(async move { M::of(&third, "x").acquire().await });
        until_waiting(&M::of(&operator, "x"), 1).await;
        let forced = Instant::now();
        assert!(M::of(&operator, "x").force_release().await.unwrap());
        soon(guard.lost()).await;
        assert!(guard.is_lost());
        let entered = soon(waiter).await.unwrap().unwrap();
        assert!(
            forced.elapsed() < ms(3000),
            "{lease:?}: a message took {:?}",
            forced.elapsed()
        );
        assert!(matches!(
            guard.release().await,
            Err(Error::LeaseLost { .. })
        ));
        assert_eq!(entered.state(), HoldState::Held);
    }
}

// Red if `extend` in core's cell.rs moves any deadline.
pub(crate) async fn lost_stays_lost_when_the_network_comes_back<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let holder = client(&proxy.url()).await;
    let guard = M::of(&holder, "x")
        .with_lease(Lease::Renewed(ms(900)))
        .acquire()
        .await
        .unwrap();
    // The replies to renewals that keep the hold on the server come after its loss here.
    proxy.hold(Direction::ToClient);
    soon(guard.lost()).await;
    proxy.let_go();
    // The way back is open for good once this is answered.
    let other = soon(M::of(&holder, "y").inspect()).await.unwrap();
    assert!(other.remaining.is_empty());
    let until = Instant::now() + ms(1000);
    while Instant::now() < until {
        assert_eq!(
            (guard.state(), guard.remaining()),
            (HoldState::Lost, Duration::ZERO)
        );
        tokio::time::sleep(ms(5)).await;
    }
    assert!(matches!(
        guard.release().await,
        Err(Error::LeaseLost { .. })
    ));
}

/// Work that counts how often it is polled, and tells when it is dropped.
struct Work {
    polls: Arc<AtomicU64>,
    /// Set when the work must not be polled any more.
    over: Arc<AtomicBool>,
    dropped: Arc<AtomicBool>,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.dropped.store(true, SeqCst);
    }
}

impl Work {
    async fn toil(self) {
        loop {
            assert!(!self.over.load(SeqCst), "polled after somebody else got in");
            self.polls.fetch_add(1, SeqCst);
            tokio::time::sleep(ms(1)).await;
        }
    }
}

// Red if `run` in core's hold.rs only awaits the work.
pub(crate) async fn run_stops_polling_the_work_before_another_gets_in<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, other) = (client(&proxy.url()).await, client(&server.url()).await);
    let guard = M::of(&holder, "x")
        .with_lease(Lease::Renewed(ms(900)))
        .acquire()
        .await
        .unwrap();
    let (polls, over, dropped) = (Arc::default(), Arc::default(), Arc::default());
    let work = Work {
        polls: Arc::clone(&polls),
        over: Arc::clone(&over),
        dropped: Arc::clone(&dropped),
    };
    let running = tokio::spawn(async move {
        let result = guard.run(work.toil()).await;
        (result, guard)
    });
    eventually_async(SOON, async || polls.load(SeqCst) > 10).await;
    proxy.hold(Direction::Both);
    let entered = soon(M::of(&other, "x").acquire()).await.unwrap();
    over.store(true, SeqCst);
    let (result, guard) = soon(running).await.unwrap();
    assert!(matches!(result, Err(Error::LeaseLost { .. })), "{result:?}");
    assert!(dropped.load(SeqCst));
    // Work for a lost hold is not begun.
    let polled = AtomicBool::new(false);
    let result = guard.run(async { polled.store(true, SeqCst) }).await;
    assert!(matches!(result, Err(Error::LeaseLost { .. })), "{result:?}");
    assert!(!polled.load(SeqCst));
    entered.release().await.unwrap();
}

pub(crate) async fn run_answers_what_the_work_answers<M: Single>(site: Site) {
    let guard = M::of(&site.client().await, "x").acquire().await.unwrap();
    let output: Result<Result<u32, &str>, Error> = guard.run(async { Err("sold out") }).await;
    assert_eq!(output.unwrap(), Err("sold out"));
    assert_eq!(guard.run(async { 42 }).await.unwrap(), 42);
    assert_eq!(guard.state(), HoldState::Held);
}

/// A named owner takes the lock again after a loss, while its lost guard is still there.
async fn takes_it_again<M: Exclusive>(
    holder: &Client,
    observer: &Client,
    lose: impl AsyncFnOnce(&M::Guard),
) {
    let owner = holder.owner();
    let lock = M::of(holder, "x")
        .with_owner(&owner)
        .with_lease(Lease::Renewed(ms(1500)));
    let lost = lock.acquire().await.unwrap();
    lose(&lost).await;
    soon(lost.lost()).await;
    let again = soon(lock.acquire()).await.unwrap();
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 1);
    let until = Instant::now() + ms(2000);
    while Instant::now() < until {
        assert!(M::of(observer, "x").try_acquire().await.unwrap().is_none());
        // On a busy machine a renewal may have to be tried again.
        assert_eq!(lost.state(), HoldState::Lost);
        assert_ne!(again.state(), HoldState::Lost);
        tokio::time::sleep(ms(20)).await;
    }
    assert!(matches!(lost.release().await, Err(Error::LeaseLost { .. })));
    assert_ne!(again.state(), HoldState::Lost);
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 1);
    again.release().await.unwrap();
}

// Red if `lose` in core's state.rs leaves the nest.
pub(crate) async fn a_hold_after_a_loss_is_a_new_one_and_renewed<M: Exclusive>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, other) = (client(&proxy.url()).await, client(&server.url()).await);
    takes_it_again::<M>(&holder, &other, async |lost| {
        proxy.cut();
        proxy.refuse();
        soon(lost.lost()).await;
        proxy.accept().unwrap();
    })
    .await;
    takes_it_again::<M>(&holder, &other, async |_| {
        let waiter = {
            let lock = M::of(&other, "x");
            tokio::spawn(async move { lock.acquire().await?.release().await })
        };
        until_waiting(&M::of(&other, "x"), 1).await;
        assert!(M::of(&other, "x").force_release().await.unwrap());
        soon(waiter).await.unwrap().unwrap();
    })
    .await;
    takes_it_again::<M>(&holder, &other, async |_| {
        let deleted: u64 = server.query(&["DEL", &M::key("x")]).unwrap();
        assert_eq!(deleted, 1);
    })
    .await;
}

// Red if release.lua deletes the whole hash.
pub(crate) async fn release_of_a_lost_guard_says_so_and_spares_the_new_holder<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, other) = (client(&proxy.url()).await, client(&server.url()).await);
    let lost = M::of(&holder, "x")
        .with_lease(Lease::Fixed(ms(300)))
        .acquire()
        .await
        .unwrap();
    let dropped = M::of(&holder, "y")
        .with_lease(Lease::Fixed(ms(300)))
        .acquire()
        .await
        .unwrap();
    let entered = soon(M::of(&other, "x").acquire()).await.unwrap();
    let entered_too = soon(M::of(&other, "y").acquire()).await.unwrap();
    let releases = proxy.always(Script::Release.calls(), Action::Pass);
    assert!(matches!(lost.release().await, Err(Error::LeaseLost { .. })));
    drop(dropped);
    // One script may release both.
    releases.wait_fired_async(1, SOON).await;
    eventually_async(SOON, async || {
        let seen = proxy.commands_seen();
        tokio::time::sleep(ms(50)).await;
        seen == proxy.commands_seen()
    })
    .await;
    for (lock, entered) in [("x", entered), ("y", entered_too)] {
        assert!(M::of(&holder, lock).try_acquire().await.unwrap().is_none());
        assert_eq!(entered.state(), HoldState::Held);
        entered.release().await.unwrap();
    }
}

// Red if a failed renewal does not set unsure, or a good one does not take it back (core's renewal.rs).
pub(crate) async fn a_hold_is_unsure_while_renewals_fail_and_sure_after<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let holder = client(&proxy.url()).await;
    for lease in [Lease::Renewed(ms(3000)), Lease::Fixed(ms(6000))] {
        let guard = M::of(&holder, "x")
            .with_lease(lease)
            .acquire()
            .await
            .unwrap();
        assert_eq!(guard.state(), HoldState::Held);
        let trouble = proxy.always(
            Script::Renew.calls(),
            Action::error("BUSY a slow script is at work"),
        );
        eventually_async(SOON, async || guard.state() == HoldState::Unsure).await;
        assert!(guard.remaining() > Duration::ZERO);
        trouble.remove();
        eventually_async(SOON, async || guard.state() != HoldState::Unsure).await;
        assert_eq!(guard.state(), HoldState::Held, "{lease:?}");
        guard.release().await.unwrap();
    }
}

// Red without the check of the state at the end of an attempt in core's acquire.rs.
pub(crate) async fn an_acquire_answered_after_its_lease_fails_and_leaves_nothing<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (slow, other) = (client(&proxy.url()).await, client(&server.url()).await);
    proxy.delay(Direction::ToClient, ms(400));
    let result = M::of(&slow, "x")
        .with_lease(Lease::Renewed(ms(200)))
        .acquire()
        .await;
    assert!(matches!(result, Err(Error::LeaseLost { .. })), "{result:?}");
    proxy.delay(Direction::ToClient, ms(0));
    soon(M::of(&other, "x").acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    eventually(SOON, || server.keys("*").unwrap().is_empty());
}

// Red if a release that meets a renewal says that the hold is lost (core's hold.rs).
pub(crate) async fn no_loss_is_signalled_for_a_hold_whose_release_has_started<M: Single>() {
    let server = Server::start().unwrap();
    // A slow line, so that renewals and releases are under way at once.
    let proxy = Proxy::start(&server).unwrap();
    let holder = client(&proxy.url()).await;
    proxy.delay(Direction::Both, ms(5));
    let task = async |task: u64| {
        let lock = M::of(&holder, format!("x{task}")).with_lease(Lease::Renewed(ms(1500)));
        for round in 0..4 {
            let guard = lock.acquire().await.unwrap();
            // As long as the time to the renewal, so that many of these meet the release.
            tokio::time::sleep(Duration::from_micros(
                496_000 + 500 * ((task * 7 + round * 3) % 16),
            ))
            .await;
            assert_eq!(guard.state(), HoldState::Held);
            guard.release().await.unwrap();
        }
    };
    let [a, b, c, d, e, f, g, h] = [0, 1, 2, 3, 4, 5, 6, 7].map(task);
    tokio::join!(a, b, c, d, e, f, g, h);
    eventually(SOON, || server.keys("*").unwrap().is_empty());
}

// Red if `lose` in core's cell.rs wakes one.
pub(crate) async fn all_guards_of_a_hold_are_lost_together<M: Exclusive>(site: Site) {
    let (holder, operator) = (site.client().await, site.client().await);
    let owner = holder.owner();
    let lock = M::of(&holder, "x").with_owner(&owner);
    let guards = [
        lock.acquire().await.unwrap(),
        lock.acquire().await.unwrap(),
        lock.acquire().await.unwrap(),
    ];
    let [a, b, c] = &guards;
    let forced = async { M::of(&operator, "x").force_release().await.unwrap() };
    soon(async { tokio::join!(a.lost(), b.lost(), c.lost(), c.lost(), forced) }).await;
    for guard in guards {
        assert!(guard.is_lost());
        soon(guard.lost()).await;
        assert!(matches!(
            guard.release().await,
            Err(Error::LeaseLost { .. })
        ));
    }
    soon(lock.acquire()).await.unwrap().release().await.unwrap();
}

pub(crate) async fn a_client_that_is_shut_down_has_lost_what_it_held<M: Single>(site: Site) {
    let holder = site.client().await;
    let guard = M::of(&holder, "x").acquire().await.unwrap();
    holder.shutdown().await.unwrap();
    soon(guard.lost()).await;
    assert_eq!(guard.state(), HoldState::Lost);
    assert_eq!(site.keys(), Vec::<String>::new());
    assert!(matches!(
        guard.release().await,
        Err(Error::LeaseLost { .. })
    ));
}
