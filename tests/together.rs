//! Many calls at once: they go together, and none suffers from another.

use futures_util::future::join_all;
use lockyard::{Client, Error, HoldState, Lock, LockGuard};
use lockyard_testkit::{Action, Proxy, Rule, Server, eventually_async};

use crate::support::{
    SOON, Script, begin, cache_scripts, connect_in_the_end, drop_after, ms, options, patient, soon,
    variant,
};

/// More than go alone at once.
const MANY: usize = 40;

fn locks(client: &Client) -> Vec<Lock> {
    (0..MANY)
        .map(|number| client.lock(format!("many-{number}")))
        .collect()
}

async fn acquire_all(locks: &[Lock]) -> Vec<Result<LockGuard, Error>> {
    soon(join_all(locks.iter().map(Lock::acquire))).await
}

async fn release_all(guards: Vec<LockGuard>) {
    for released in soon(join_all(guards.into_iter().map(LockGuard::release))).await {
        released.unwrap();
    }
}

/// A client that fails by a timeout only after the test has.
async fn unhurried(url: &str) -> Client {
    let options = options(url).operation_timeout(4 * SOON);
    Client::with_options(options.waiter_timeout(60 * SOON))
        .await
        .unwrap()
}

/// Matches the acquires of more locks than one.
fn acquires_several() -> impl Fn(&[Vec<u8>]) -> bool + Send + 'static {
    let acquires = Script::Acquire.calls();
    move |words| acquires(words) && words[2] != b"4"
}

/// Keeps the next acquire, and with it the line behind it, from the server.
async fn hold_next(proxy: &Proxy) -> Rule {
    proxy.once(Script::Acquire.calls(), Action::Hold)
}

// Red when each call goes alone.
#[tokio::test]
async fn many_calls_at_once_go_in_a_few_commands() {
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let client = patient(&server.url()).await;
    let locks = locks(&client);
    let before = server.scripts().unwrap();
    let guards: Result<Vec<_>, _> = acquire_all(&locks).await.into_iter().collect();
    let guards = guards.unwrap();
    assert!(guards.iter().all(|guard| guard.state() == HoldState::Held));
    let held: usize = server.query(&["DBSIZE"]).unwrap();
    assert_eq!(held, MANY);
    release_all(guards).await;
    let scripts = server.scripts().unwrap() - before;
    assert!(scripts <= MANY as u64 / 2, "{scripts} scripts");
    assert_eq!(server.query::<usize>(&["DBSIZE"]).unwrap(), 0);
}

// Red when a batch asks for one lock less, or hands out replies in another order; or when the short way in acquire.lua
// is open to fenced locks in a batch.
#[tokio::test]
async fn each_of_many_gets_its_own_answer() {
    let server = Server::start().unwrap();
    let client = patient(&server.url()).await;
    let other = patient(&server.url()).await;
    let locks = locks(&client);
    let taken = other.lock("many-20").acquire().await.unwrap();
    let spoilt = "lockyard:lock:{many-30}";
    server.command(&["RPUSH", spoilt, "another type"]).unwrap();
    let fenced: Vec<Lock> = locks.iter().map(|lock| lock.clone().fenced()).collect();
    let tries = fenced.iter().map(Lock::try_acquire);
    let mut guards = Vec::new();
    for (number, result) in soon(join_all(tries)).await.into_iter().enumerate() {
        match (number, result) {
            (20, Ok(None)) => {}
            (30, Err(error)) => assert_eq!(variant(&error), "WrongType"),
            (_, Ok(Some(guard))) => {
                assert_eq!(guard.name(), format!("many-{number}"));
                guards.push(guard);
            }
            (_, result) => panic!("{number}: {result:?}"),
        }
    }
    assert_eq!(guards.len(), MANY - 2);
    assert!(guards.iter().all(|guard| guard.token().is_some()));
    release_all(guards).await;
    taken.release().await.unwrap();
}

// Red when a refusal of all because of one is told to all.
#[tokio::test]
async fn a_forbidden_name_among_many_is_refused_alone() {
    let server = Server::builder()
        .acl("user some on >pw ~lockyard:lock*many-1* ~lockyard:lock*many-2* &* +@all")
        .start()
        .unwrap();
    let client = patient(&server.url_for("some", "pw")).await;
    let locks = locks(&client);
    let mut guards = Vec::new();
    for (number, result) in acquire_all(&locks).await.into_iter().enumerate() {
        match result {
            Ok(guard) => guards.push(guard),
            Err(Error::Refused { .. }) => {
                let digit = number.to_string();
                assert!(!digit.starts_with(['1', '2']), "{number}");
            }
            Err(error) => panic!("{number}: {error:?}"),
        }
    }
    assert_eq!(guards.len(), 22);
    release_all(guards).await;
}

// Red when names of several slots go together for ever: without `per_slot` in `call` of core's gather.rs.
#[tokio::test]
async fn many_names_of_a_cluster_node_are_locked_at_once() {
    let server = Server::builder().cluster().start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = patient(&proxy.url()).await;
    let locks = locks(&client);
    let together = proxy.always(acquires_several(), Action::Pass);
    let mut refused = 0;
    for round in 0..2 {
        let guards: Result<Vec<_>, _> = acquire_all(&locks).await.into_iter().collect();
        release_all(guards.unwrap()).await;
        if round == 0 {
            refused = together.fired();
            assert!(refused > 0);
        }
    }
    assert_eq!(together.fired(), refused);
    assert_eq!(server.query::<usize>(&["DBSIZE"]).unwrap(), 0);
}

// Red without `retain` in core's gather.rs: those whose callers are gone are sent all the same.
#[tokio::test]
async fn calls_dropped_before_they_were_sent_take_nothing() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    cache_scripts(&server);
    let client = unhurried(&proxy.url()).await;
    let locks = locks(&client);
    let held = hold_next(&proxy).await;
    let together = proxy.always(acquires_several(), Action::Pass);
    let calls = drop_after(1, join_all(locks.iter().map(Lock::acquire))).await;
    assert!(calls.is_none());
    held.wait_fired_async(1, SOON).await;
    proxy.let_go();
    // What the client has sent by now arrives before this.
    let guard = soon(client.lock("last").acquire()).await.unwrap();
    guard.release().await.unwrap();
    eventually_async(SOON, async || {
        server.query::<usize>(&["DBSIZE"]).unwrap() == 0
    })
    .await;
    assert_eq!(together.fired(), 0);
}

// Red without `send_overdue` in core's watchdog.rs.
#[tokio::test]
async fn calls_whose_answers_nobody_takes_hold_up_no_other() {
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let client = unhurried(&server.url()).await;
    let locks = locks(&client);
    let mut first = Box::pin(locks[0].acquire());
    let mut second = Box::pin(locks[1].acquire());
    begin(first.as_mut()).await;
    begin(second.as_mut()).await;
    eventually_async(SOON, async || {
        server.query::<usize>(&["DBSIZE"]).unwrap() == 2
    })
    .await;
    let mut guards = vec![soon(locks[2].acquire()).await.unwrap()];
    for guard in soon(join_all(locks[3..].iter().map(Lock::acquire))).await {
        guards.push(guard.unwrap());
    }
    guards.push(soon(first).await.unwrap());
    guards.push(soon(second).await.unwrap());
    release_all(guards).await;
}

// Red when the reply to a batch that is lost is not noticed, or an id is used again.
#[tokio::test]
async fn many_whose_reply_is_lost_succeed_and_hold_once() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = patient(&proxy.url()).await;
    let lost = proxy.once(acquires_several(), Action::CutBeforeReply);
    let locks = locks(&client);
    let guards: Result<Vec<_>, _> = acquire_all(&locks).await.into_iter().collect();
    let guards = guards.unwrap();
    assert_eq!(lost.fired(), 1);
    for lock in &locks {
        let holders = async || lock.inspect().await.unwrap().holders.len();
        eventually_async(SOON, async || holders().await == 1).await;
    }
    release_all(guards).await;
}

// Red when a turn that ends in a dying runtime is not passed on.
#[test]
fn a_runtime_that_ends_holds_up_nobody_in_another() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (main, dying) = (runtime(), runtime());
    let client = main.block_on(patient(&proxy.url()));
    let held = main.block_on(hold_next(&proxy));
    for lock in locks(&client) {
        dying.spawn(async move { lock.acquire().await });
    }
    held.wait_fired(1, SOON);
    let lock = client.lock("survivor");
    let survivor = main.spawn(async move { lock.acquire().await });
    dying.shutdown_timeout(ms(1000));
    proxy.let_go();
    let guard = main.block_on(soon(survivor)).unwrap().unwrap();
    main.block_on(guard.release()).unwrap();
}

// Red when what was gathered is sent on the runtime of the one whose turn has ended (`spawn` in core's
// fred_backend.rs).
#[test]
fn a_runtime_that_is_driven_no_more_holds_up_nobody_in_another() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    cache_scripts(&server);
    let main = tokio::runtime::Runtime::new().unwrap();
    let client = main.block_on(unhurried(&proxy.url()));
    let locks = locks(&client);
    // What is gathered for too long is sent another way, so one round is not enough on a busy machine.
    for _ in 0..5 {
        let held = main.block_on(hold_next(&proxy));
        let lock = client.lock("brief");
        let brief = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            let guard = runtime.block_on(lock.acquire());
            (runtime, guard)
        });
        held.wait_fired(1, SOON);
        let lock = client.lock("unasked");
        let mut unasked = Box::pin(lock.acquire());
        main.block_on(begin(unasked.as_mut()));
        let mut calls = Box::pin(join_all(locks.iter().map(Lock::acquire)));
        main.block_on(begin(calls.as_mut()));
        proxy.let_go();
        let (driven_no_more, guard) = brief.join().unwrap();
        let mut guards = vec![guard.unwrap()];
        for guard in main.block_on(soon(calls)) {
            guards.push(guard.unwrap());
        }
        guards.push(main.block_on(soon(unasked)).unwrap());
        main.block_on(release_all(guards));
        drop(driven_no_more);
    }
}

// Red when only the task that sends what is gathered ends the calls whose time is over.
#[test]
fn calls_end_in_time_though_the_runtime_that_connected_stands_still() {
    let server = Server::start().unwrap();
    let still = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let options = options(&server.url()).operation_timeout(ms(300));
    let client = still.block_on(connect_in_the_end(options));
    let main = tokio::runtime::Runtime::new().unwrap();
    let locks = locks(&client);
    let calls = join_all(locks.iter().map(Lock::try_acquire));
    for result in main.block_on(soon(calls)) {
        assert_eq!(variant(&result.unwrap_err()), "Unreachable");
    }
}
