//! Clients of a server in memory, on virtual time.

#![expect(clippy::unwrap_used, reason = "what must not fail in a test fails it")]

use std::time::Duration;

use lockyard::{Client, ClientOptions, Error, Lease, LockGuard, Waiting};
use lockyard_memory::{MemoryServer, Value};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The output of a future that is to be ready within a day of virtual time.
async fn once<F: Future>(future: F) -> F::Output {
    let day = Duration::from_secs(86_400);
    tokio::time::timeout(day, future)
        .await
        .expect("it waits for ever")
}

/// Has a task wait for the lock `x`.
fn wait(client: &Client) -> JoinHandle<LockGuard> {
    let lock = client.lock("x");
    tokio::spawn(async move { lock.acquire().await.unwrap() })
}

// Red when the server's clock stands still.
#[tokio::test(start_paused = true)]
async fn a_fixed_lease_runs_out_in_no_real_time() {
    let real = std::time::Instant::now();
    let server = MemoryServer::new();
    let (one, two) = (server.client(), server.client());
    let fixed = Lease::Fixed(Duration::from_secs(3600));
    let guard = one.lock("x").with_lease(fixed).acquire().await.unwrap();
    assert!(two.lock("x").try_acquire().await.unwrap().is_none());
    let start = Instant::now();
    let _guard = once(two.lock("x").acquire()).await.unwrap();
    let waited = start.elapsed();
    assert!(guard.is_lost());
    assert!(
        waited >= Duration::from_secs(3599) && waited < Duration::from_secs(3620),
        "{waited:?}"
    );
    assert!(real.elapsed() < Duration::from_secs(30));
}

// Red when the watchdog is not run: then the lock is lost after 30 s.
#[tokio::test(start_paused = true)]
async fn a_renewed_lease_is_kept_for_an_hour() {
    let server = MemoryServer::new();
    let (one, two) = (server.client(), server.client());
    let guard = one.lock("x").acquire().await.unwrap();
    sleep(Duration::from_secs(3600)).await;
    assert!(!guard.is_lost());
    assert!(two.lock("x").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(two.lock("x").try_acquire().await.unwrap().is_some());
}

// Red when the server's clock stands still, and when waits are not slept on tokio's clock.
#[tokio::test(start_paused = true)]
async fn a_rate_limiter_keeps_its_rate_for_an_hour_in_no_real_time() {
    let real = std::time::Instant::now();
    let server = MemoryServer::new();
    let rate = lockyard::Rate::per_minute(1).burst(3);
    let limiters = [server.client(), server.client()].map(|client| client.rate_limiter("x", rate));
    let start = Instant::now();
    for turn in 0..63 {
        once(limiters[turn % 2].acquire(1)).await.unwrap();
    }
    let waited = start.elapsed();
    let hour = Duration::from_secs(3600);
    assert!(waited >= hour && waited < hour + ms(100), "{waited:?}");
    sleep(ms(180_010)).await;
    assert!(server.dump().is_empty());
    assert!(real.elapsed() < Duration::from_secs(30));
}

// Red when a message reaches but one of those who hear a channel, or none.
#[tokio::test(start_paused = true)]
async fn a_latch_opens_for_all_at_once() {
    let server = MemoryServer::new();
    let clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    let latches: Vec<_> = clients.iter().map(|client| client.latch("x")).collect();
    assert!(latches[0].try_set_count(2).await.unwrap());
    let wait = |latch: &lockyard::Latch| {
        let latch = latch.clone();
        tokio::spawn(async move { latch.wait().await.unwrap() })
    };
    let waits: Vec<_> = latches.iter().chain(&latches).map(wait).collect();
    sleep(ms(1)).await;
    latches[1].count_down().await.unwrap();
    sleep(ms(1)).await;
    assert!(!waits.iter().any(JoinHandle::is_finished));
    let start = Instant::now();
    latches[2].count_down().await.unwrap();
    for wait in waits {
        once(wait).await.unwrap();
    }
    assert!(start.elapsed() <= ms(2), "{:?}", start.elapsed());
    let spinning = ClientOptions::default().waiting(Waiting::Spin);
    let spinning = server.client_with(spinning).unwrap().latch("x");
    assert!(latches[0].try_set_count(1).await.unwrap());
    let wait = wait(&spinning);
    sleep(ms(1)).await;
    latches[0].count_down().await.unwrap();
    once(wait).await.unwrap();
}

// Red when messages are not delivered: then a waiter finds its turn by looking, three seconds later.
#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order_and_at_once() {
    let server = MemoryServer::new();
    let clients: Vec<Client> = (0..5).map(|_| server.client()).collect();
    let mut guard = clients[0].lock("x").acquire().await.unwrap();
    let mut waiting = Vec::new();
    for client in &clients[1..] {
        waiting.push(wait(client));
        sleep(ms(10)).await;
    }
    for next in waiting {
        assert!(!next.is_finished());
        let released = Instant::now();
        guard.release().await.unwrap();
        guard = once(next).await.unwrap();
        assert!(released.elapsed() <= ms(1), "{:?}", released.elapsed());
    }
}

// Red when a client is not told that its inbox is up: then it spins.
#[tokio::test(start_paused = true)]
async fn the_very_first_to_wait_stands_in_the_queue() {
    let server = MemoryServer::new();
    let _guard = server.client().lock("x").acquire().await.unwrap();
    let client = server.client();
    let _waiting = wait(&client);
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    assert_eq!(
        server.client().lock("x").inspect().await.unwrap().waiting,
        1
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_client_leaves_is_released_and_its_inbox_closed() {
    let server = MemoryServer::new();
    let (one, two) = (server.client(), server.client());
    let guard = one.lock("x").acquire().await.unwrap();
    let waiting = wait(&two);
    sleep(ms(10)).await;
    drop((guard, one));
    let guard = once(waiting).await.unwrap();
    two.shutdown().await.unwrap();
    assert!(guard.is_lost());
    assert!(matches!(
        two.lock("x").try_acquire().await,
        Err(Error::Closed)
    ));
    assert_eq!(server.dump(), []);
}

#[tokio::test(start_paused = true)]
async fn a_dump_shows_holds_and_a_flush_takes_them_away() {
    let server = MemoryServer::new();
    let client = server.client();
    let guard = client.lock("x").acquire().await.unwrap();
    let [entry] = &server.dump()[..] else {
        panic!("{:?}", server.dump());
    };
    assert_eq!(entry.key, "lockyard:lock:{x}");
    assert_eq!(entry.ttl, Some(Duration::from_secs(30)));
    assert!(matches!(&entry.value, Value::Hash(fields) if fields.len() == 1));
    server.flush_all();
    assert_eq!(server.dump(), []);
    let start = Instant::now();
    once(guard.lost()).await;
    assert!(start.elapsed() <= Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn options_are_those_of_any_client() {
    let server = MemoryServer::new();
    let options = ClientOptions::default()
        .prefix("shop:")
        .lease(Lease::Fixed(ms(500)))
        .waiting(Waiting::Spin);
    let client = server.client_with(options.clone()).unwrap();
    let guard = client.lock("x").acquire().await.unwrap();
    assert_eq!(server.dump()[0].key, "shop:lock:{x}");
    assert_eq!(server.dump()[0].ttl, Some(ms(500)));
    // Another prefix, another lock.
    assert!(
        server
            .client()
            .lock("x")
            .try_acquire()
            .await
            .unwrap()
            .is_some()
    );
    // Waiting without a queue works as well.
    let _guard = once(client.lock("x").acquire()).await.unwrap();
    assert!(guard.is_lost());
    let wrong = server.client_with(options.prefix("{"));
    assert!(matches!(
        wrong,
        Err(Error::InvalidOption {
            option: "prefix",
            ..
        })
    ));
}

// A command goes on when whoever sent it is gone; red when it is only done at the second poll.
#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_in_flight_is_released() {
    let server = MemoryServer::new();
    let client = server.client();
    // The first command of a client is another one.
    client.lock("y").is_locked().await.unwrap();
    let lock = client.lock("x");
    drop(client.lock("z").acquire().await.unwrap());
    sleep(ms(10)).await;
    let mut acquire = Box::pin(lock.acquire());
    let first =
        std::future::poll_fn(|context| std::task::Poll::Ready(acquire.as_mut().poll(context)));
    assert!(first.await.is_pending());
    assert_eq!(server.dump().len(), 1);
    drop(acquire);
    sleep(ms(10)).await;
    assert_eq!(server.dump(), []);
}

// Red when commands are done without a yield: then nobody else has a turn, and the watchdog none.
#[tokio::test(start_paused = true)]
async fn a_busy_task_leaves_others_their_turn() {
    let server = MemoryServer::new();
    let client = server.client();
    let kept = client.lock("kept").acquire().await.unwrap();
    let other = tokio::spawn(async {});
    for _ in 0..10 {
        client
            .lock("x")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
    assert!(other.is_finished() && !kept.is_lost());
}

#[test]
fn servers_and_entries_are_send_sync_and_static() {
    fn check<T: Send + Sync + Unpin + 'static>() {}
    check::<MemoryServer>();
    check::<lockyard_memory::Entry>();
    check::<lockyard_memory::__private::Store>();
}
