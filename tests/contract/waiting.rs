use std::sync::{Arc, Mutex};
use std::time::Instant;

use lockyard::{Client, HoldState, Waiting};
use lockyard_testkit::{Action, Direction, Proxy, Server, command, eventually};

use crate::contract::exclusive::{Guard, Single};
use crate::scripts::bare::Inbox;
use crate::support::{
    A_LOOK, SOON, Script, WAITER_TIMEOUT, cache_scripts, client, ms, options, patient, soon,
    until_waiting, wait,
};

fn publishes(server: &Server) -> u64 {
    server
        .commandstats()
        .unwrap()
        .get("publish")
        .copied()
        .unwrap_or_default()
}

// Red if a look lets the next in instead of a message (no PUBLISH in the grant block): a hand-over takes T/3 then.
pub(crate) async fn a_thousand_hand_overs_take_a_message_each_and_no_look<M: Single>() {
    let server = Server::start().unwrap();
    let clients = [client(&server.url()).await, client(&server.url()).await];
    let (scripts, messages) = (server.scripts().unwrap(), publishes(&server));
    let released = Arc::new(Mutex::new(None::<Instant>));
    let took = Arc::new(Mutex::new(Vec::new()));
    // Two wait while one holds, so that each release meets a waiter.
    let contenders = [0, 1, 0].map(|place: usize| {
        let (lock, released, took) = (M::of(&clients[place], "x"), released.clone(), took.clone());
        tokio::spawn(async move {
            for _ in 0..350 {
                let guard = lock.acquire().await.unwrap();
                if let Some(released) = released.lock().unwrap().take() {
                    took.lock().unwrap().push(released.elapsed());
                }
                released.lock().unwrap().replace(Instant::now());
                guard.release().await.unwrap();
            }
        })
    });
    for contender in contenders {
        tokio::time::timeout(SOON * 3, contender)
            .await
            .unwrap()
            .unwrap();
    }
    let mut took = std::mem::take(&mut *took.lock().unwrap());
    took.sort();
    assert!(took.len() > 1000, "{}", took.len());
    let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
    assert!(
        median < ms(100) && worst < ms(1000),
        "median {median:?}, worst {worst:?}"
    );
    let acquisitions = 3 * 350;
    let (scripts, messages) = (
        server.scripts().unwrap() - scripts,
        publishes(&server) - messages,
    );
    assert!(scripts <= 3 * acquisitions, "{scripts} scripts");
    assert!(messages <= acquisitions, "{messages} messages");
}

// Red if the grant block goes on after the first grant.
pub(crate) async fn one_message_wakes_exactly_one_in_order<M: Single>() {
    let server = Server::start().unwrap();
    let clients = [patient(&server.url()).await, patient(&server.url()).await];
    let lock = M::of(&clients[0], "x");
    let mut guard = lock.acquire().await.unwrap();
    let mut waiters = Vec::new();
    for number in 0..10 {
        waiters.push(wait(&M::of(&clients[number % 2], "x")));
        until_waiting(&lock, number as u64 + 1).await;
    }
    for number in 0..10 {
        let messages = publishes(&server);
        guard.release().await.unwrap();
        guard = soon(&mut waiters[number]).await.unwrap();
        assert_eq!(publishes(&server) - messages, 1);
        let waiting = lock.inspect().await.unwrap().waiting;
        assert_eq!(waiting, 9 - number as u64);
        assert!(
            waiters[number + 1..]
                .iter()
                .all(|waiter| !waiter.is_finished())
        );
    }
}

// Red if a waiter does not look (`queued` in core's line.rs sets nothing due).
pub(crate) async fn a_lost_message_costs_one_look<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, waits) = (client(&server.url()).await, client(&proxy.url()).await);
    for _ in 0..3 {
        let guard = M::of(&holder, "x").acquire().await.unwrap();
        let dropped = proxy.messages_dropped();
        proxy.drop_messages(1);
        let waiter = wait(&M::of(&waits, "x"));
        until_waiting(&M::of(&holder, "x"), 1).await;
        let released = Instant::now();
        guard.release().await.unwrap();
        let entered = soon(waiter).await.unwrap();
        assert!(released.elapsed() < A_LOOK, "{:?}", released.elapsed());
        assert_eq!(proxy.messages_dropped() - dropped, 1);
        assert_eq!(entered.state(), HoldState::Held);
        entered.release().await.unwrap();
    }
}

// A burst overruns the client's buffer of messages, and the grant is among what is lost.
// Red if `Missed` does nothing (core's inbox.rs).
pub(crate) async fn messages_that_overrun_the_inbox_cost_one_look<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, waits) = (patient(&server.url()).await, patient(&proxy.url()).await);
    let guard = M::of(&holder, "x").acquire().await.unwrap();
    let waiter = wait(&M::of(&waits, "x"));
    until_waiting(&M::of(&holder, "x"), 1).await;
    let waiters = M::of(&holder, "x").inspect().await.unwrap().waiters;
    let inbox = format!("lockyard:inbox:{}", waiters[0]);
    let burst = "for i = 1, 5000 do redis.call('PUBLISH', ARGV[1], 'x') end";
    // All of it arrives at once.
    proxy.hold(Direction::ToClient);
    server.command(&["EVAL", burst, "0", &inbox]).unwrap();
    guard.release().await.unwrap();
    server.command(&["EVAL", burst, "0", &inbox]).unwrap();
    eventually(SOON, || proxy.messages_seen() == 10_001);
    proxy.let_go();
    soon(waiter).await.unwrap().release().await.unwrap();
}

// Red if nobody looks after a connection was away (`check_all` for `InboxUp` in core's inbox.rs).
pub(crate) async fn a_reconnect_costs_one_look<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    // Their next look by the clock would come after minutes.
    let (holder, waits) = (patient(&server.url()).await, patient(&proxy.url()).await);
    let troubles: [&dyn Fn(); 4] = [
        &|| assert!(server.kill_clients("pubsub").unwrap() > 0),
        &|| assert!(server.kill_clients("normal").unwrap() > 0),
        &|| proxy.cut(),
        &|| (0..40).for_each(|_| proxy.cut()),
    ];
    for trouble in troubles {
        let guard = soon(M::of(&holder, "x").acquire()).await.unwrap();
        let waiter = wait(&M::of(&waits, "x"));
        until_waiting(&M::of(&holder, "x"), 1).await;
        trouble();
        guard.release().await.unwrap();
        let entered = soon(waiter).await.unwrap();
        soon(entered.release()).await.unwrap();
    }
}

// Red if nobody looks after a connection was away (`check_all` for `InboxUp` in core's inbox.rs).
pub(crate) async fn waiters_outlast_a_server_that_comes_back_empty<M: Single>() {
    let server = Server::start().unwrap();
    let waits = [patient(&server.url()).await, patient(&server.url()).await];
    let holder = client(&server.url()).await;
    let lost = M::of(&holder, "x").acquire().await.unwrap();
    let enter = |number: usize| {
        let lock = M::of(&waits[number % 2], "x");
        tokio::spawn(async move { lock.acquire().await?.release().await })
    };
    let waiters: Vec<_> = (0..6).map(enter).collect();
    until_waiting(&M::of(&holder, "x"), 6).await;
    server.restart().unwrap();
    soon(lost.lost()).await;
    for waiter in waiters {
        soon(waiter).await.unwrap().unwrap();
    }
    eventually(SOON, || server.keys("*").unwrap().is_empty());
}

// Red if `grant` raises the error of PUBLISH.
pub(crate) async fn a_refused_publish_costs_one_look<M: Single>() {
    let server = Server::builder()
        .acl("user mute on >pw ~* &* +@all -publish")
        .start()
        .unwrap();
    let mute = client(&server.url_for("mute", "pw")).await;
    let other = client(&server.url()).await;
    for waits in [&other, &mute] {
        let guard = M::of(&mute, "x").acquire().await.unwrap();
        let waiter = wait(&M::of(waits, "x"));
        until_waiting(&M::of(&other, "x"), 1).await;
        let released = Instant::now();
        guard.release().await.unwrap();
        soon(waiter).await.unwrap().release().await.unwrap();
        assert!(released.elapsed() < A_LOOK, "{:?}", released.elapsed());
    }
}

// Red if the next in line inherits only what was due (`leave_line` in core's line.rs): while a look is under way that
// is nothing, the next never looks, and after a waiter timeout it counts as gone.
pub(crate) async fn a_waiter_cancelled_during_its_look_leaves_the_looking_to_the_next<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, waits) = (client(&server.url()).await, client(&proxy.url()).await);
    let guard = M::of(&holder, "x").acquire().await.unwrap();
    let first = wait(&M::of(&waits, "x"));
    until_waiting(&M::of(&holder, "x"), 1).await;
    let second = wait(&M::of(&waits, "x"));
    until_waiting(&M::of(&holder, "x"), 2).await;
    // The first look may have been sent twice, as the server did not know the script.
    let looks = proxy.always(Script::Renew.calls(), Action::Pass);
    looks.wait_fired_async(2, SOON).await;
    looks.remove();
    let look = proxy.once(Script::Renew.calls(), Action::Hold);
    look.wait_fired_async(1, SOON).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let more = proxy.always(Script::Renew.calls(), Action::Pass);
    look.let_go();
    more.wait_fired_async(1, SOON).await;
    guard.release().await.unwrap();
    soon(second).await.unwrap().release().await.unwrap();
}

// A grantee that hears nothing stands in the way for a waiter timeout, not for its lease.
// Red if release.lua writes the full lease for a waiter.
pub(crate) async fn a_grantee_that_is_cut_off_stands_in_the_way_for_a_waiter_timeout<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (holder, deaf) = (client(&server.url()).await, client(&proxy.url()).await);
    let guard = M::of(&holder, "x").acquire().await.unwrap();
    let cut_off = wait(&M::of(&deaf, "x"));
    until_waiting(&M::of(&holder, "x"), 1).await;
    let next = wait(&M::of(&holder, "x"));
    until_waiting(&M::of(&holder, "x"), 2).await;
    proxy.hold(Direction::Both);
    guard.release().await.unwrap();
    let released = Instant::now();
    let entered = soon(next).await.unwrap();
    assert!(
        released.elapsed() < WAITER_TIMEOUT + A_LOOK,
        "{:?}",
        released.elapsed()
    );
    // When it hears of its grant it must not believe it.
    proxy.let_go();
    tokio::time::sleep(ms(300)).await;
    assert!(!cut_off.is_finished());
    assert_eq!(entered.state(), HoldState::Held);
    entered.release().await.unwrap();
    soon(cut_off).await.unwrap().release().await.unwrap();
}

// Red without the back-off between tries (core's acquire.rs).
pub(crate) async fn a_spinning_client_backs_off_and_gets_in<M: Single>() {
    let server = Server::start().unwrap();
    let holder = client(&server.url()).await;
    let spins = Client::with_options(options(&server.url()).waiting(Waiting::Spin))
        .await
        .unwrap();
    let channels: Vec<String> = server.query(&["PUBSUB", "CHANNELS", "*"]).unwrap();
    assert_eq!(channels.len(), 1, "who spins subscribes to nothing");
    let guard = M::of(&holder, "x").acquire().await.unwrap();
    let waiter = wait(&M::of(&spins, "x"));
    let before = server.scripts().unwrap();
    tokio::time::sleep(ms(2000)).await;
    let tries = server.scripts().unwrap() - before;
    assert!((5..=40).contains(&tries), "{tries} tries in 2 s");
    assert_eq!(M::of(&holder, "x").inspect().await.unwrap().waiting, 0);
    guard.release().await.unwrap();
    let released = Instant::now();
    let entered = soon(waiter).await.unwrap();
    assert!(released.elapsed() < ms(1250), "{:?}", released.elapsed());
    assert!(M::of(&holder, "x").try_acquire().await.unwrap().is_none());
    entered.release().await.unwrap();
}

// Red if it sleeps after the try that comes at the end (core's acquire.rs, `repeat`).
pub(crate) async fn a_spinning_client_does_not_sleep_after_its_last_try<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let holder = client(&server.url()).await;
    let spins = Client::with_options(options(&proxy.url()).waiting(Waiting::Spin))
        .await
        .unwrap();
    let _guard = M::of(&holder, "x").acquire().await.unwrap();
    let last = Arc::new(Mutex::new(None));
    let seen = last.clone();
    let is_try = Script::Acquire.calls();
    let tries = move |words: &[Vec<u8>]| {
        is_try(words)
            && seen
                .lock()
                .unwrap()
                .replace(Instant::now())
                .is_none_or(|_| true)
    };
    proxy.always(tries, Action::Pass);
    for wait in [ms(0), ms(1), ms(700)] {
        let start = Instant::now();
        assert!(
            M::of(&spins, "x")
                .try_acquire_for(wait)
                .await
                .unwrap()
                .is_none()
        );
        let (took, after) = (
            start.elapsed(),
            last.lock().unwrap().take().unwrap().elapsed(),
        );
        assert!(
            took >= wait && took < wait + ms(700),
            "{took:?} for {wait:?}"
        );
        assert!(after < ms(100), "{after:?} after the last try of {wait:?}");
    }
    // The first try takes what is free.
    let start = Instant::now();
    M::of(&spins, "y")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    assert!(start.elapsed() < ms(1000));
}

// Red if every waiter looks (`queued` in core's line.rs).
pub(crate) async fn many_waiters_of_a_client_cost_one_look_at_a_time<M: Single>() {
    let server = Server::start().unwrap();
    let (holder, waits) = (client(&server.url()).await, client(&server.url()).await);
    let guard = M::of(&holder, "x").acquire().await.unwrap();
    let waiters: Vec<_> = (0..32).map(|_| wait(&M::of(&waits, "x"))).collect();
    until_waiting(&M::of(&holder, "x"), 32).await;
    let before = server.scripts().unwrap();
    tokio::time::sleep(WAITER_TIMEOUT * 2).await;
    let looks = server.scripts().unwrap() - before;
    // At T/3 or up to a tenth earlier.
    assert!(
        (3..=8).contains(&looks),
        "{looks} looks in two waiter timeouts"
    );
    guard.release().await.unwrap();
    for waiter in waiters {
        soon(waiter).await.unwrap().release().await.unwrap();
    }
}

// Red if each waiter looks by itself: what is due soon goes along (`take_due` in core's state.rs).
pub(crate) async fn waiters_of_many_keys_look_together<M: Single>() {
    let server = Server::start().unwrap();
    let (holder, waits) = (client(&server.url()).await, client(&server.url()).await);
    let names: Vec<String> = (0..60).map(|number| format!("x{number}")).collect();
    let (mut guards, mut waiters) = (Vec::new(), Vec::new());
    for name in &names {
        guards.push(M::of(&holder, name).acquire().await.unwrap());
        waiters.push(wait(&M::of(&waits, name)));
    }
    for name in &names {
        until_waiting(&M::of(&holder, name), 1).await;
    }
    tokio::time::sleep(WAITER_TIMEOUT).await;
    let before = server.scripts().unwrap();
    tokio::time::sleep(WAITER_TIMEOUT).await;
    let looks = server.scripts().unwrap() - before;
    assert!(looks <= 30, "{looks} looks for 60 keys in a waiter timeout");
    drop(guards);
    for waiter in waiters {
        soon(waiter).await.unwrap().release().await.unwrap();
    }
}

// Red if a waiter whose place is gone waits on (core's renewal.rs, `Gone`), or tries again without a pause.
pub(crate) async fn after_a_flush_each_waiter_queues_again_and_none_storms<M: Single>() {
    let server = Server::start().unwrap();
    let clients = [client(&server.url()).await, client(&server.url()).await];
    let name = |lock: usize| format!("x{lock}");
    let mut guards = Vec::new();
    for lock in 0..5 {
        guards.push(M::of(&clients[0], name(lock)).acquire().await.unwrap());
    }
    let inside: Arc<Mutex<[u32; 5]>> = Arc::default();
    let waiters: Vec<_> = (0..20)
        .map(|number| {
            let (lock, inside) = (
                M::of(&clients[number % 2], name(number / 4)),
                inside.clone(),
            );
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                inside.lock().unwrap()[number / 4] += 1;
                assert_eq!(inside.lock().unwrap()[number / 4], 1);
                tokio::time::sleep(ms(20)).await;
                inside.lock().unwrap()[number / 4] -= 1;
                guard.release().await.unwrap();
            })
        })
        .collect();
    for lock in 0..5 {
        until_waiting(&M::of(&clients[0], name(lock)), 4).await;
    }
    let before = server.scripts().unwrap();
    server.flush_all().unwrap();
    for waiter in waiters {
        soon(waiter).await.unwrap();
    }
    let scripts = server.scripts().unwrap() - before;
    assert!(scripts <= 200, "{scripts} scripts for 20 waiters");
    drop(guards);
    eventually(SOON, || server.keys("*").unwrap().is_empty());
}

// Red if a waiter that could not queue does not come back to the queue (core's `queues`).
pub(crate) async fn a_client_whose_inbox_is_refused_spins_until_it_stands<M: Single>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let holder = client(&server.url()).await;
    let refused = proxy.always(command("SUBSCRIBE"), Action::error("NOPERM no channels"));
    let waits = client(&proxy.url()).await;
    let guard = M::of(&holder, "x").acquire().await.unwrap();
    let waiter = wait(&M::of(&waits, "x"));
    let tries = proxy.always(Script::Acquire.calls(), Action::Pass);
    tries.wait_fired_async(5, SOON).await;
    assert_eq!(M::of(&holder, "x").inspect().await.unwrap().waiting, 0);
    refused.remove();
    until_waiting(&M::of(&holder, "x"), 1).await;
    guard.release().await.unwrap();
    soon(waiter).await.unwrap().release().await.unwrap();
}

// A release tells its client whom it has let in, and the message comes as well, perhaps when that one has gone again.
// Red if `came_back` in core's late.rs takes each grant of an id that is gone for a second one.
pub(crate) async fn hand_overs_within_a_client_cost_an_acquire_and_a_release_each<M: Single>() {
    const HAND_OVERS: u64 = 20;
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    cache_scripts(&server);
    // Long enough that no late release comes before the end.
    let options = options(&proxy.url()).operation_timeout(4 * SOON);
    let client = Client::with_options(options.waiter_timeout(60 * SOON))
        .await
        .unwrap();
    let other = patient(&server.url()).await;
    let lock = M::of(&client, "x");
    let count = |script: Script| proxy.always(script.calls(), Action::Pass);
    let scripts = [Script::Acquire, Script::Release, Script::Renew].map(count);
    let mut guard = lock.acquire().await.unwrap();
    let waiter = wait(&lock);
    until_waiting(&lock, 1).await;
    let waiters = lock.inspect().await.unwrap().waiters;
    let channel = format!("lockyard:inbox:{}", waiters[0]);
    let mut inbox = Inbox::open(&server.url(), &channel);
    guard.release().await.unwrap();
    guard = soon(waiter).await.unwrap();
    for _ in 1..HAND_OVERS {
        let waiter = wait(&lock);
        until_waiting(&lock, 1).await;
        guard.release().await.unwrap();
        guard = soon(waiter).await.unwrap();
    }
    guard.release().await.unwrap();
    // Those that were in time say nothing new; now each is late.
    for _ in 0..HAND_OVERS {
        server
            .command(&["PUBLISH", &channel, &inbox.next()])
            .unwrap();
    }
    // The next message is read after all these, and what the watchdog releases now goes after what it released then.
    let held = M::of(&other, "y").acquire().await.unwrap();
    let waiter = wait(&M::of(&client, "y"));
    until_waiting(&M::of(&other, "y"), 1).await;
    held.release().await.unwrap();
    drop(soon(waiter).await.unwrap());
    let each = HAND_OVERS + 2;
    scripts[1].wait_fired_async(each, SOON).await;
    eventually(SOON, || server.keys("*").unwrap().is_empty());
    assert_eq!(scripts.map(|script| script.fired()), [each, each, 0]);
}
