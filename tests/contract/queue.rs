use std::sync::{Arc, Mutex};
use tokio::time::Instant;

use lockyard::{Client, Error, Lease};
use lockyard_testkit::{Action, Proxy, Server, eventually, eventually_async};
use tokio::task::JoinHandle;

use crate::contract::exclusive::{Exclusive, Guard, Owned, Single};
use crate::contract::site::Site;
use crate::process::{Other, Part};
use crate::support::{
    A_LOOK, SOON, Script, assert_quick_scripts, client, connect, ms, patient, soon, until_waiting,
    wait,
};

/// Waiters that come one after another, and note their numbers when they enter.
struct Line<M> {
    lock: M,
    entered: Arc<Mutex<Vec<usize>>>,
    waiters: Vec<JoinHandle<()>>,
}

impl<M: Single> Line<M> {
    fn new(lock: M) -> Self {
        Self {
            lock,
            entered: Arc::default(),
            waiters: Vec::new(),
        }
    }

    /// The next one queues, through a client of its choice.
    async fn queue(&mut self, client: &Client) {
        let (lock, entered, number) = (
            M::of(client, self.lock.name()),
            self.entered.clone(),
            self.waiters.len(),
        );
        let before = self.lock.inspect().await.unwrap().waiting;
        self.waiters.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            entered.lock().unwrap().push(number);
            guard.release().await.unwrap();
        }));
        until_waiting(&self.lock, before + 1).await;
    }

    fn entered(&self) -> Vec<usize> {
        self.entered.lock().unwrap().clone()
    }
}

/// Writes entries of waiters that are gone to the head of a lock's queue.
fn queue_the_dead<M: Single>(server: &Server, waiters: u64, counts_as_alive: bool) {
    let owner = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    for number in 0..waiters {
        let (client, ticket) = (
            format!("00000000-0000-4000-8000-{number:012}"),
            (number + 1).to_string(),
        );
        let hold = format!("{owner}:{number}/{client}.{number}");
        let entry = format!("{hold}|{}|1|30000|10000", M::ENTRY);
        server
            .command(&["ZADD", &M::part("queue", "x"), &ticket, &entry])
            .unwrap();
        if counts_as_alive {
            let gone = (server.time_micros().unwrap() / 1000 + 600_000).to_string();
            server
                .command(&["ZADD", &M::part("alive", "x"), &gone, &client])
                .unwrap();
        }
    }
}

// Red if the grant block keeps an entry that nobody hears (without `leave` after a PUBLISH to none), and for the 250
// if `more` is not followed up (core's hold.rs).
pub(crate) async fn killed_waiters_at_the_head_of_the_queue_hold_nobody_up<M: Single>() {
    let server = Server::start().unwrap();
    let (holder, waits) = (patient(&server.url()).await, patient(&server.url()).await);
    for (dead, counts_as_alive) in [(40, true), (40, false), (250, true)] {
        let guard = M::of(&holder, "x").acquire().await.unwrap();
        queue_the_dead::<M>(&server, dead, counts_as_alive);
        let waiter = wait(&M::of(&waits, "x"));
        until_waiting(&M::of(&holder, "x"), dead + 1).await;
        guard.release().await.unwrap();
        // Their look would come after minutes.
        let entered = soon(waiter).await.unwrap();
        assert_eq!(M::of(&holder, "x").inspect().await.unwrap().waiting, 0);
        entered.release().await.unwrap();
        assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
    }
}

// Red as above.
pub(crate) async fn waiters_of_a_killed_process_hold_nobody_up<M: Single>() {
    if let Some(part) = Part::mine() {
        let waits = patient(&part.arguments[0]).await;
        let _waiters: Vec<_> = (0..40).map(|_| wait(&M::of(&waits, "x"))).collect();
        return std::future::pending().await;
    }
    let server = Server::start().unwrap();
    let (holder, waits) = (patient(&server.url()).await, patient(&server.url()).await);
    let guard = M::of(&holder, "x").acquire().await.unwrap();
    let mut other = Other::start(
        &M::test_in_order("waiters_of_a_killed_process_hold_nobody_up"),
        &[&server.url()],
    );
    until_waiting(&M::of(&holder, "x"), 40).await;
    let waiter = wait(&M::of(&waits, "x"));
    until_waiting(&M::of(&holder, "x"), 41).await;
    other.kill();
    guard.release().await.unwrap();
    soon(waiter).await.unwrap().release().await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

// Red if a look is not worth while when the lease ends (`look_in` in acquire.lua and renew.lua).
pub(crate) async fn a_dead_holder_is_followed_when_its_lease_runs_out<M: Single>() {
    let server = Server::start().unwrap();
    let waits = patient(&server.url()).await;
    let proxy = Proxy::start(&server).unwrap();
    let holder = client(&proxy.url()).await;
    let guard = M::of(&holder, "x")
        .with_lease(Lease::Renewed(ms(1500)))
        .acquire()
        .await
        .unwrap();
    let mut line = Line::new(M::of(&waits, "x"));
    for _ in 0..3 {
        line.queue(&waits).await;
    }
    // A cut connection, and no way back, is all that the server sees of a killed process.
    drop(proxy);
    let died = Instant::now();
    eventually_async(SOON, async || line.entered().len() == 3).await;
    assert!(died.elapsed() < ms(1500 + 1500), "{:?}", died.elapsed());
    assert_eq!(line.entered(), [0, 1, 2]);
    assert!(guard.is_lost());
}

// Red if renew.lua does not prune, or acquire.lua reads the whole queue (`ZRANGE queue 0 -1` for the last ticket).
pub(crate) async fn ten_thousand_waiters_are_served_in_order_when_the_holder_dies<M: Exclusive>() {
    let server = Server::start().unwrap();
    // A busy machine is not to make a client seem dead, whose waiters would queue again as others.
    let url = server.url();
    let quiet = || connect(&url, |options| options.waiter_timeout(ms(6000)));
    let clients = [quiet().await.unwrap(), quiet().await.unwrap()];
    let lock = M::of(&clients[0], "x");
    std::mem::forget(
        lock.clone()
            .with_lease(Lease::Fixed(ms(60_000)))
            .acquire()
            .await
            .unwrap(),
    );
    let entered = Arc::new(Mutex::new(Vec::new()));
    let waiters: Vec<_> = (0..10_000)
        .map(|number| {
            let client = &clients[number % 2];
            let (lock, entered) = (M::of(client, "x"), entered.clone());
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                entered.lock().unwrap().push(guard.owner());
                // On a busy machine a turn may be over before it is used.
                match guard.release().await {
                    Ok(()) | Err(Error::LeaseLost { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            })
        })
        .collect();
    let waiting = || {
        server
            .query::<u64>(&["ZCARD", &M::part("queue", "x")])
            .unwrap()
    };
    eventually_async(SOON * 6, async || waiting() == 10_000).await;
    let entries: Vec<String> = server
        .query(&["ZRANGE", &M::part("queue", "x"), "0", "-1"])
        .unwrap();
    let scripts = server.scripts().unwrap();
    // The holder dies: from one moment to the next its lease is over.
    let hold: Vec<String> = server.query(&["HKEYS", &M::key("x")]).unwrap();
    server
        .command(&["HSET", &M::key("x"), &hold[0], "1:1:1"])
        .unwrap();
    let died = Instant::now();
    eventually_async(SOON, async || !entered.lock().unwrap().is_empty()).await;
    assert!(
        died.elapsed() < ms(2000 + 1500),
        "nobody entered for {:?}",
        died.elapsed()
    );
    for waiter in waiters {
        let served = tokio::time::timeout(SOON * 12, waiter).await;
        served.unwrap().unwrap();
    }
    let order = entries
        .iter()
        .map(|entry| -> lockyard::Owner { entry.split('/').next().unwrap().parse().unwrap() });
    let order: Vec<_> = order.collect();
    let entered = entered.lock().unwrap().clone();
    let differs = order.iter().zip(&entered).position(|(a, b)| a != b);
    assert_eq!(differs, None, "of 10 000, {} have entered", entered.len());
    let scripts = server.scripts().unwrap() - scripts;
    assert!(scripts < 12_000, "{scripts} scripts to serve 10 000");
    assert_quick_scripts(&server);
}

// Red if the grant block passes over a waiter that others stand behind.
pub(crate) async fn waiters_of_two_clients_enter_in_the_order_of_arrival<M: Single>(site: Site) {
    let clients = [site.client().await, site.client().await];
    let guard = M::of(&clients[0], "x").acquire().await.unwrap();
    let mut line = Line::new(M::of(&clients[0], "x"));
    for place in [0, 0, 1, 0, 1, 1, 1, 0, 0, 1] {
        line.queue(&clients[place]).await;
    }
    // Whoever only tries does not overtake them, not even when it is free for a moment.
    assert!(
        M::of(&clients[1], "x")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    guard.release().await.unwrap();
    eventually_async(SOON, async || line.entered().len() == 10).await;
    assert_eq!(line.entered(), (0..10).collect::<Vec<_>>());
}

// Red with a new ticket for each attempt (core's acquire.rs: `ticket: 0` in the arguments).
pub(crate) async fn a_waiter_whose_connection_blinks_keeps_its_place<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, blinks) = (client(&server.url()).await, client(&proxy.url()).await);
    let guard = M::of(&holder, "x").acquire().await.unwrap();
    let mut line = Line::new(M::of(&holder, "x"));
    line.queue(&blinks).await;
    line.queue(&holder).await;
    line.queue(&blinks).await;
    let tickets = || {
        let entries: Vec<String> = server
            .query(&["ZRANGE", &M::part("queue", "x"), "0", "-1", "WITHSCORES"])
            .unwrap();
        entries.into_iter().skip(1).step_by(2).collect::<Vec<_>>()
    };
    let before = tickets();
    for _ in 0..3 {
        proxy.cut();
        let looks = proxy.always(Script::Renew.calls(), Action::Pass);
        looks.wait_fired_async(1, SOON).await;
        looks.remove();
        assert_eq!(tickets(), before);
    }
    // Even a place that was forgotten meanwhile is taken again under the old ticket.
    server.command(&["DEL", &M::part("queue", "x")]).unwrap();
    eventually_async(SOON, async || tickets() == before).await;
    guard.release().await.unwrap();
    eventually_async(SOON, async || line.entered().len() == 3).await;
    assert_eq!(line.entered(), [0, 1, 2]);
}

// Red if an abandoned id is not released (core's state.rs, `abandon`): the lock is granted to nobody.
pub(crate) async fn cancelled_waiters_in_the_middle_leave_the_order_to_the_others<M: Single>(
    site: Site,
) {
    let clients = [site.patient().await, site.patient().await];
    let guard = M::of(&clients[0], "x").acquire().await.unwrap();
    let mut line = Line::new(M::of(&clients[0], "x"));
    for number in 0..8 {
        line.queue(&clients[number % 2]).await;
    }
    for number in [0, 3, 4, 7] {
        line.waiters[number].abort();
    }
    until_waiting(&line.lock, 4).await;
    guard.release().await.unwrap();
    eventually_async(SOON, async || line.entered().len() == 4).await;
    assert_eq!(line.entered(), [1, 2, 5, 6]);
    eventually_async(SOON, async || site.keys().is_empty()).await;
}

// Red if a grant that nobody takes any more is not released (core's acquire.rs, Drop of Claim).
pub(crate) async fn a_grant_that_nobody_takes_any_more_is_passed_on<M: Single>() {
    let server = Server::start().unwrap();
    let clients = [client(&server.url()).await, client(&server.url()).await];
    let seen_by = M::of(&clients[0], "x");
    let guard = seen_by.acquire().await.unwrap();
    let lock = M::of(&clients[1], "x").with_lease(Lease::Renewed(ms(30_000)));
    let mut first = Box::pin(lock.acquire());
    tokio::select! {
        _ = &mut first => unreachable!("somebody else holds"),
        () = until_waiting(&seen_by, 1) => {}
    }
    let second = wait(&seen_by);
    until_waiting(&seen_by, 2).await;
    guard.release().await.unwrap();
    // Renewed, so the client knows of its grant; whoever waited for it is not asked any more.
    eventually_async(SOON, async || server.ttl_ms(&M::key("x")).unwrap() > 20_000).await;
    assert!(!second.is_finished());
    drop(first);
    soon(second).await.unwrap().release().await.unwrap();
    eventually(SOON, || server.keys("*").unwrap().is_empty());
}

// Red as above, on the odd round.
pub(crate) async fn a_waiter_cancelled_in_the_instant_of_its_grant_passes_it_on<M: Single>(
    site: Site,
) {
    let clients = [site.patient().await, site.patient().await];
    for round in 0..60 {
        let guard = M::of(&clients[0], "x").acquire().await.unwrap();
        let first = wait(&M::of(&clients[1], "x"));
        until_waiting(&M::of(&clients[0], "x"), 1).await;
        let second = wait(&M::of(&clients[round % 2], "x"));
        until_waiting(&M::of(&clients[0], "x"), 2).await;
        let release = tokio::spawn(guard.release());
        for _ in 0..round % 20 {
            tokio::task::yield_now().await;
        }
        first.abort();
        release.await.unwrap().unwrap();
        // It may have been quicker.
        drop(first.await);
        let passed = soon(second).await.unwrap();
        passed.release().await.unwrap();
        eventually_async(SOON, async || {
            let info = M::of(&clients[0], "x").inspect().await.unwrap();
            info.remaining.is_empty()
        })
        .await;
    }
}

// Red if the release of a hold that is gone does not grant (release.lua).
pub(crate) async fn a_key_that_vanished_does_not_keep_the_queue_waiting<M: Single>() {
    let server = Server::start().unwrap();
    let clients = [client(&server.url()).await, client(&server.url()).await];
    for late_release in [true, false] {
        let guard = M::of(&clients[0], "x").acquire().await.unwrap();
        let mut line = Line::new(M::of(&clients[0], "x"));
        line.queue(&clients[1]).await;
        line.queue(&clients[0]).await;
        // Older than any that a client's tasks pass on, which they may do before its next check.
        tokio::time::sleep(ms(12)).await;
        server.command(&["DEL", &M::key("x")]).unwrap();
        let vanished = Instant::now();
        if late_release {
            assert!(guard.release().await.is_err());
        } else {
            drop(guard);
        }
        eventually_async(SOON, async || line.entered().len() == 2).await;
        assert!(vanished.elapsed() < A_LOOK, "{:?}", vanished.elapsed());
        assert_eq!(line.entered(), [0, 1]);
    }
    // Signs of life that vanished cost a turn at most, and never a place in the order.
    let guard = M::of(&clients[0], "x").acquire().await.unwrap();
    let waiter = wait(&M::of(&clients[1], "x"));
    until_waiting(&M::of(&clients[0], "x"), 1).await;
    server.command(&["DEL", &M::part("alive", "x")]).unwrap();
    guard.release().await.unwrap();
    soon(waiter).await.unwrap().release().await.unwrap();
}

// Red if a try takes what is free and neither grants before nor looks at the queue (acquire.lua).
pub(crate) async fn a_newcomer_does_not_overtake_who_waits_for_a_lock_that_fell_free<M: Single>() {
    let server = Server::start().unwrap();
    let (holder, waits) = (patient(&server.url()).await, patient(&server.url()).await);
    let newcomer = patient(&server.url()).await;
    for _ in 0..5 {
        let held = M::of(&holder, "x").acquire().await.unwrap();
        let waiter = wait(&M::of(&waits, "x"));
        until_waiting(&M::of(&holder, "x"), 1).await;
        // Nobody tells the waiter: it would look after minutes.
        server.command(&["DEL", &M::key("x")]).unwrap();
        let tried = M::of(&newcomer, "x").try_acquire().await.unwrap();
        assert!(tried.is_none());
        soon(waiter).await.unwrap().release().await.unwrap();
        drop(held);
    }
}
