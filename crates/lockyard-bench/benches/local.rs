//! What is purely local: Lockyard's own code over a backend that answers at once.

#![expect(
    missing_docs,
    reason = "criterion's macros write functions without docs"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use lockyard_core::__private::{
    Arg, Backend, BoxFuture, Call, Fault, Lane, Moment, Reply, Runtime,
};
use lockyard_core::{ClientOptions, Owner};
use lockyard_lock::{Lock, LockGuard};
use lockyard_lua::lock;
use tokio::sync::mpsc;

criterion_group!(benches, owners, handles, pairs);
criterion_main!(benches);

fn owners(criterion: &mut Criterion) {
    let owner: Owner = "67e55044-10b1-426f-9247-bb680e5fe0c8:42"
        .parse()
        .expect("the text is canonical");
    let text = owner.to_string();
    criterion.bench_function("owner/format", |bencher| {
        bencher.iter(|| black_box(&owner).to_string());
    });
    criterion.bench_function("owner/parse", |bencher| {
        bencher.iter(|| black_box(&text).parse::<Owner>());
    });
}

/// Names are checked and keys built when a handle is made.
fn handles(criterion: &mut Criterion) {
    let tokio = tokio();
    let client = client(&tokio);
    for (case, name) in [
        ("plain", "stock:42"),
        ("tagged", "order:{42}:lines"),
        ("invalid", "a{b"),
    ] {
        criterion.bench_function(&format!("handle/{case}"), |bencher| {
            bencher.iter(|| Lock::new(&client, black_box(name)));
        });
    }
}

/// All that a pair costs this process, but for the Redis client and the socket.
fn pairs(criterion: &mut Criterion) {
    let tokio = tokio();
    let client = client(&tokio);
    let stock = Lock::new(&client, "stock:42");
    let owned = stock.clone().with_owner(&client.owner());
    criterion.bench_function("pair/anonymous", |bencher| {
        bencher.iter(|| tokio.block_on(pair(&stock)));
    });
    criterion.bench_function("pair/owner", |bencher| {
        bencher.iter(|| tokio.block_on(pair(&owned)));
    });
    criterion.bench_function("pair/nested", |bencher| {
        let outer = tokio.block_on(acquire(&owned));
        bencher.iter(|| tokio.block_on(pair(&owned)));
        tokio.block_on(release(outer));
    });
    criterion.bench_function("guard/state", |bencher| {
        let guard = tokio.block_on(acquire(&stock));
        bencher.iter(|| black_box(&guard).state());
        tokio.block_on(release(guard));
    });
}

async fn pair(lock: &Lock) {
    release(acquire(lock).await).await;
}

async fn acquire(lock: &Lock) -> LockGuard {
    lock.acquire().await.expect("the backend grants everything")
}

async fn release(guard: LockGuard) {
    guard.release().await.expect("the lease is far from over");
}

/// One thread beside the benchmark's runs the watchdog, as in production.
fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("threads can be started")
}

fn client(tokio: &tokio::runtime::Runtime) -> Arc<Runtime> {
    let options = ClientOptions::from_url("redis://localhost").expect("the URL is good");
    let backend = Arc::new(Instantly(Instant::now()));
    let (events, received) = mpsc::unbounded_channel();
    let (client, watchdog) =
        Runtime::start(backend, received, options).expect("the options are good");
    tokio.spawn(async move {
        watchdog.await;
        drop(events);
    });
    client
}

/// A server without latency that grants whatever is asked; its clock began with it.
#[derive(Debug)]
struct Instantly(Instant);

impl Instantly {
    fn micros(&self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }

    fn reply(&self, call: &Call<'_>) -> Reply {
        let us = Reply::Number(self.micros() as i64);
        match call.script.text() {
            lock::ACQUIRE => us,
            lock::RENEW => {
                let ids = call.keys.len() / 4;
                let held = || [Reply::Number(1), Reply::Text("".into())];
                let header = [us, Reply::Number(0)];
                Reply::Array(
                    header
                        .into_iter()
                        .chain((0..ids).flat_map(|_| held()))
                        .collect(),
                )
            }
            lock::RELEASE => match entries(call.args) {
                1 => Reply::Number(1),
                many => Reply::Array(vec![Reply::Number(0); many + 1]),
            },
            _ => Reply::Other,
        }
    }
}

/// How many entries a release names: their number stands before those of each lock.
fn entries(args: &[Arg]) -> usize {
    let number = |arg: &Arg| match arg {
        Arg::Number(number) => *number as usize,
        Arg::Text(_) => 0,
    };
    args.iter().map(number).sum::<usize>().max(1)
}

impl Backend for Instantly {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.elapsed().as_nanos() as u64)
    }

    fn random(&self) -> u64 {
        4 // Neither names nor jitter matter here.
    }

    fn run<'a>(&'a self, _: Lane, call: Call<'a>) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move { Ok(self.reply(&call)) })
    }

    fn server_time(&self, _: Lane) -> BoxFuture<'_, Result<u64, Fault>> {
        Box::pin(async move { Ok(self.micros()) })
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        tokio::spawn(work);
    }

    fn reconnect(&self, _: Lane) {}

    fn server(&self) -> &str {
        "nowhere"
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
