use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use lockyard::{Client, ClientOptions, Rate, Waiting};
use lockyard_core::__private::{Backend, BoxFuture, Call, Fault, Lane, Moment, Reply, Runtime};
use lockyard_memory::__private::Store;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

/// A server in memory on tokio's clock, which can be stepped for the server alone.
struct Stepped {
    store: Mutex<Store>,
    started: Instant,
    step: AtomicI64,
}

impl Stepped {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            store: Mutex::default(),
            started: Instant::now(),
            step: AtomicI64::new(0),
        })
    }

    fn step(&self, seconds: i64) {
        self.step.fetch_add(seconds * 1_000_000, SeqCst);
    }

    fn us(&self) -> u64 {
        let us = 1_733_000_000_000_000 + self.started.elapsed().as_micros() as u64;
        us.saturating_add_signed(self.step.load(SeqCst))
    }

    fn client(self: &Arc<Self>) -> Client {
        let options = ClientOptions::default().waiting(Waiting::Spin);
        let (_, events) = mpsc::unbounded_channel();
        let (runtime, watchdog) = Runtime::start(self.clone(), events, options).unwrap();
        tokio::spawn(watchdog);
        Client::from_runtime(runtime)
    }
}

impl std::fmt::Debug for Stepped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepped").finish_non_exhaustive()
    }
}

impl Backend for Stepped {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.started.elapsed().as_nanos() as u64)
    }

    fn random(&self) -> u64 {
        4
    }

    fn run<'a>(&'a self, _: Lane, call: Call<'a>) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            let (reply, _) = self.store.lock().run(call, self.us());
            yield_now().await;
            reply.map_err(Fault::Refused)
        })
    }

    fn server_time(&self, _: Lane) -> BoxFuture<'_, Result<u64, Fault>> {
        Box::pin(async { Ok(self.us()) })
    }

    fn reconnect(&self, _: Lane) {}

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        tokio::spawn(work);
    }

    fn server(&self) -> &str {
        "stepped"
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Steps, in s.
const STEPS: [i64; 6] = [-1, 1, -60, 60, -3600, 3600];

// Red when a wait is counted by the server's clock.
#[tokio::test(start_paused = true)]
async fn a_step_of_the_clock_touches_nobody_who_waits() {
    for step in STEPS {
        let server = Stepped::new();
        let limiter = server.client().rate_limiter("x", Rate::per_second(1));
        limiter.acquire(1).await.unwrap();
        let start = Instant::now();
        let waiting = limiter.clone();
        let waiting = tokio::spawn(async move { waiting.acquire(1).await });
        sleep(SECOND / 10).await;
        server.step(step);
        waiting.await.unwrap().unwrap();
        let waited = start.elapsed();
        assert!(
            waited >= SECOND && waited < SECOND * 11 / 10,
            "{step}: {waited:?}"
        );
    }
}

// Red when a command that came too late ends the call, and when the client does not learn the time from it.
#[tokio::test(start_paused = true)]
async fn a_call_after_a_step_is_served() {
    for step in STEPS {
        let server = Stepped::new();
        let client = server.client();
        client
            .rate_limiter("x", Rate::per_second(1))
            .acquire(1)
            .await
            .unwrap();
        server.step(step);
        let other = client.rate_limiter("y", Rate::per_second(1));
        assert!(other.try_acquire(1).await.unwrap().is_allowed());
    }
}

// Red when a clock that went back has to catch up before anything is paid back.
#[tokio::test(start_paused = true)]
async fn after_a_step_the_rate_is_the_same() {
    for step in STEPS {
        let server = Stepped::new();
        let limiter = server
            .client()
            .rate_limiter("x", Rate::per_second(1).burst(2));
        limiter.acquire(2).await.unwrap();
        server.step(step);
        let (start, mut granted) = (Instant::now(), 0);
        while start.elapsed() < SECOND * 100 {
            match limiter.try_acquire(1).await.unwrap().retry_after() {
                None => granted += 1,
                Some(after) => sleep(after).await,
            }
        }
        // A step forward pays back at most what is owed.
        let extra = if step > 0 { 2 } else { 0 };
        assert!((99..=100 + extra).contains(&granted), "{step}: {granted}");
    }
}
