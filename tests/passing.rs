//! The tasks of a client that wait for one lock share a place in its queue and pass the lock on.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockyard::{ClientOptions, Error, HoldState, Lease, Lock};
use lockyard_memory::MemoryServer;
use lockyard_testkit::{Proxy, Server, eventually_async};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::{
    SOON, begin, client, connect, ms, no_keys, patient, soon, travelled, until_waiting, variant,
    wait,
};

// Red when each task queues for itself: then an acquisition costs two commands and more.
#[tokio::test]
async fn tasks_share_a_place_and_most_of_their_acquisitions_cost_no_command() {
    const TASKS: u64 = 40;
    const ROUNDS: u64 = 25;
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = patient(&proxy.url()).await;
    let lock = client.lock("x");
    let guard = lock.acquire().await.unwrap();
    let inside = Arc::new(AtomicU32::new(0));
    let work = || {
        let (lock, inside) = (lock.clone(), inside.clone());
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = lock.acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, SeqCst);
                guard.release().await.unwrap();
            }
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(|_| work()).collect();
    until_waiting(&lock, 1).await;
    let before = proxy.commands_seen();
    guard.release().await.unwrap();
    for task in tasks {
        soon(task).await.unwrap();
    }
    let commands = proxy.commands_seen() - before;
    assert!(commands < TASKS * ROUNDS, "{commands} commands");
    client.shutdown().await.unwrap();
    no_keys(&server);
}

/// How long acquisitions had to wait.
#[derive(Clone, Default)]
struct Waits(Arc<Mutex<Vec<Duration>>>);

impl Waits {
    /// A task that works in sections of a millisecond, again and again.
    fn worker(&self, lock: Lock) -> JoinHandle<()> {
        let waits = self.0.clone();
        tokio::spawn(async move {
            loop {
                let start = Instant::now();
                let guard = lock.acquire().await.unwrap();
                waits.lock().unwrap().push(start.elapsed());
                tokio::time::sleep(ms(1)).await;
                guard.release().await.unwrap();
            }
        })
    }

    fn mean(&self) -> Duration {
        let waits = self.0.lock().unwrap();
        waits.iter().sum::<Duration>() / waits.len() as u32
    }

    fn longest(&self) -> Duration {
        *self.0.lock().unwrap().iter().max().unwrap()
    }
}

// Red when a hold is passed on without end, and when a place has a new ticket instead of its task's arrival.
#[tokio::test(start_paused = true)]
async fn a_crowd_in_one_client_and_lone_tasks_in_others_wait_alike() {
    const CROWD: usize = 50;
    const LONE: usize = 10;
    let server = MemoryServer::new();
    let (crowd, lone) = (Waits::default(), Waits::default());
    let crowded = server.client().lock("x");
    for _ in 0..CROWD {
        crowd.worker(crowded.clone());
    }
    for _ in 0..LONE {
        lone.worker(server.client().lock("x"));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    // With strict order, each would wait for a section of all others.
    let strict = ms((CROWD + LONE) as u64);
    for waits in [&crowd, &lone] {
        let mean = waits.mean();
        assert!(mean > strict / 2 && mean < strict * 3 / 2, "{mean:?}");
        // Who came later may be served first for 10 ms in each turn of a client in front.
        let longest = waits.longest();
        assert!(longest < strict * 5 / 2, "{longest:?}");
    }
}

// Red when a dropped task keeps what it was passed (core's room.rs, `Drop for Seat`).
#[tokio::test]
async fn a_task_dropped_when_it_is_passed_the_lock_loses_nothing() {
    let server = Server::start().unwrap();
    let client = patient(&server.url()).await;
    let lock = client.lock("x");
    for (others, dropped) in [(1, 1), (3, 1), (3, 3)] {
        let guard = lock.acquire().await.unwrap();
        let acquire = || {
            let lock = lock.clone();
            Box::pin(async move { lock.acquire().await })
        };
        let mut futures = vec![acquire()];
        begin(futures[0].as_mut()).await;
        until_waiting(&lock, 1).await;
        // Told of its place, it waits like the others, which share it.
        begin(futures[0].as_mut()).await;
        for _ in 0..others {
            futures.push(acquire());
            let last = futures.last_mut().unwrap();
            begin(last.as_mut()).await;
        }
        guard.release().await.unwrap();
        futures.drain(..dropped);
        let left = futures
            .into_iter()
            .map(|future| tokio::spawn(async move { future.await?.release().await }));
        for task in left.collect::<Vec<_>>() {
            soon(task).await.unwrap().unwrap();
        }
        eventually_async(SOON, async || server.keys("*").unwrap().is_empty()).await;
    }
}

// Red when `Drop for Seat` does not end the asking.
#[tokio::test]
async fn a_task_dropped_while_it_asks_for_the_place_leaves_the_asking_to_the_next() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = patient(&proxy.url()).await;
    let lock = client.lock("x");
    let guard = client.fair_lock("x").acquire().await.unwrap();
    let mut first = pin!(lock.acquire());
    begin(first.as_mut()).await;
    until_waiting(&lock, 1).await;
    begin(first.as_mut()).await;
    let mut second = Box::pin(lock.acquire());
    begin(second.as_mut()).await;
    let mut third = pin!(lock.acquire());
    begin(third.as_mut()).await;
    guard.release().await.unwrap();
    let guard = soon(first).await.unwrap();
    // It is told to ask, and has asked.
    begin(second.as_mut()).await;
    drop(second);
    begin(third.as_mut()).await;
    until_waiting(&lock, 1).await;
    guard.release().await.unwrap();
    soon(third).await.unwrap().release().await.unwrap();
    client.shutdown().await.unwrap();
    no_keys(&server);
}

// Red when nobody else asks (core's room.rs, `ask_another`).
#[tokio::test]
async fn a_task_that_is_not_polled_while_it_is_to_ask_holds_up_the_others_for_a_third_of_the_waiter_timeout()
 {
    let server = Server::start().unwrap();
    let change = |options: ClientOptions| options.waiter_timeout(ms(3000));
    let client = connect(&server.url(), change).await.unwrap();
    let lock = client.lock("x");
    let guard = client.fair_lock("x").acquire().await.unwrap();
    let mut first = pin!(lock.acquire());
    begin(first.as_mut()).await;
    until_waiting(&lock, 1).await;
    begin(first.as_mut()).await;
    let mut second = pin!(lock.acquire());
    begin(second.as_mut()).await;
    let mut third = pin!(lock.acquire());
    begin(third.as_mut()).await;
    guard.release().await.unwrap();
    let guard = soon(first).await.unwrap();
    // Held for so long that it is not passed on.
    tokio::time::sleep(ms(20)).await;
    guard.release().await.unwrap();
    soon(third).await.unwrap().release().await.unwrap();
    soon(second).await.unwrap().release().await.unwrap();
    client.shutdown().await.unwrap();
    no_keys(&server);
}

// Red when whoever comes to a room with a place of its own keeps both.
#[tokio::test]
async fn tasks_that_ask_at_once_share_the_place_of_the_first_to_stand() {
    let server = Server::start().unwrap();
    let client = patient(&server.url()).await;
    let lock = client.lock("x");
    let guard = lock.acquire().await.unwrap();
    let mut futures = [(); 5].map(|()| {
        let lock = lock.clone();
        Box::pin(async move { lock.acquire().await?.release().await })
    });
    for future in &mut futures {
        begin(future.as_mut()).await;
    }
    until_waiting(&lock, 5).await;
    for future in &mut futures {
        begin(future.as_mut()).await;
    }
    until_waiting(&lock, 1).await;
    guard.release().await.unwrap();
    for task in futures.map(tokio::spawn) {
        soon(task).await.unwrap().unwrap();
    }
    eventually_async(SOON, async || server.keys("*").unwrap().is_empty()).await;
}

#[tokio::test]
async fn a_task_that_panics_with_the_lock_passes_it_on() {
    let server = Server::start().unwrap();
    let client = patient(&server.url()).await;
    let lock = client.lock("x");
    let guard = lock.acquire().await.unwrap();
    let panicking = lock.clone();
    let panics = tokio::spawn(async move {
        let _guard = panicking.acquire().await.unwrap();
        panic!("on purpose");
    });
    until_waiting(&lock, 1).await;
    let next = wait(&lock);
    guard.release().await.unwrap();
    assert!(soon(panics).await.unwrap_err().is_panic());
    soon(next).await.unwrap().release().await.unwrap();
    client.shutdown().await.unwrap();
    no_keys(&server);
}

// Red when the place is dropped with the first who gives up.
#[tokio::test]
async fn tasks_that_give_up_leave_the_place_to_the_others_and_the_last_takes_it_along() {
    let server = Server::start().unwrap();
    let client = patient(&server.url()).await;
    let lock = client.lock("x");
    let guard = client.fair_lock("x").acquire().await.unwrap();
    let (first, second, third) = tokio::join!(
        lock.try_acquire_for(ms(50)),
        lock.try_acquire_for(ms(100)),
        lock.try_acquire_for(ms(150)),
    );
    assert!(first.unwrap().is_none() && second.unwrap().is_none() && third.unwrap().is_none());
    until_waiting(&lock, 0).await;

    let waiting = wait(&lock);
    until_waiting(&lock, 1).await;
    assert!(lock.try_acquire_for(ms(50)).await.unwrap().is_none());
    assert_eq!(lock.inspect().await.unwrap().waiting, 1);
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
    client.shutdown().await.unwrap();
    no_keys(&server);
}

#[tokio::test]
async fn a_loss_reaches_the_task_that_holds_then() {
    let server = Server::start().unwrap();
    let client = patient(&server.url()).await;
    let lock = client.lock("x");
    let guard = lock.acquire().await.unwrap();
    let (second, third) = (wait(&lock), wait(&lock));
    until_waiting(&lock, 1).await;
    guard.release().await.unwrap();
    let second = soon(second).await.unwrap();
    assert!(client.fair_lock("x").force_release().await.unwrap());
    soon(second.lost()).await;
    let third = soon(third).await.unwrap();
    assert_eq!(
        (second.state(), third.state()),
        (HoldState::Lost, HoldState::Held)
    );
    assert!(matches!(
        second.release().await,
        Err(Error::LeaseLost { .. })
    ));
    third.release().await.unwrap();
    client.shutdown().await.unwrap();
    no_keys(&server);
}

// Red when a hold is passed on although its owner has been told to somebody.
#[tokio::test]
async fn a_hold_that_a_called_service_has_entered_is_not_passed_on() {
    let server = Server::start().unwrap();
    let (client, service) = (patient(&server.url()).await, client(&server.url()).await);
    let lock = client.lock("x");
    let guard = lock.acquire().await.unwrap();
    let waiting = wait(&lock);
    until_waiting(&lock, 1).await;
    let owner = travelled(&guard.owner());
    let called = service.lock("x").reenter(&owner).await.unwrap().unwrap();
    guard.release().await.unwrap();
    assert!(!waiting.is_finished());
    let holders = lock.inspect().await.unwrap().holders;
    assert!(holders.len() == 1 && holders[0].owner == owner);
    called.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
    no_keys(&server);
}

#[tokio::test]
async fn only_tasks_with_the_same_lease_share() {
    let server = Server::start().unwrap();
    let client = patient(&server.url()).await;
    let lock = client.lock("x");
    let guard = client.fair_lock("x").acquire().await.unwrap();
    let others = [
        lock.clone(),
        lock.clone().with_lease(Lease::Renewed(ms(9000))),
        lock.clone().with_lease(Lease::Fixed(ms(30_000))),
        lock.clone().with_max_hold(ms(30_000)),
        lock.clone().fenced(),
        lock.clone().with_owner(&client.owner()),
    ];
    let mut waiting = Vec::new();
    for (places, lock) in (1..).zip(&others) {
        waiting.push(wait(lock));
        until_waiting(lock, places).await;
    }
    waiting.push(wait(&lock));
    guard.release().await.unwrap();
    for waiter in waiting {
        let guard = soon(waiter).await.unwrap();
        guard.release().await.unwrap();
    }
    client.shutdown().await.unwrap();
    eventually_async(SOON, async || {
        server.keys("*").unwrap() == ["lockyard:lock.fence:{x}"]
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_ends_the_wait_of_all_tasks() {
    let server = Server::start().unwrap();
    let (client, other) = (patient(&server.url()).await, client(&server.url()).await);
    let guard = other.lock("x").acquire().await.unwrap();
    let lock = client.lock("x");
    let tasks = [0; 3].map(|_| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire().await.map(drop) })
    });
    until_waiting(&other.lock("x"), 1).await;
    client.shutdown().await.unwrap();
    for task in tasks {
        assert!(matches!(soon(task).await.unwrap(), Err(Error::Closed)));
    }
    guard.release().await.unwrap();
    no_keys(&server);
}

#[tokio::test]
async fn all_tasks_are_told_that_the_server_is_gone() {
    let server = Server::start().unwrap();
    let client = connect(&server.url(), |options| options.operation_timeout(ms(500)))
        .await
        .unwrap();
    let lock = client.lock("x");
    server.kill();
    let (first, second) = tokio::join!(
        lock.try_acquire_for(ms(1200)),
        lock.try_acquire_for(ms(1200))
    );
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!(variant(&error), "Unreachable", "{error:?}");
    }
}
