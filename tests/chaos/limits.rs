//! Changes how many permits the semaphores have, up and down, as long as a run lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fastrand::Rng;
use lockyard::{Client, ClientOptions, Error};
use lockyard_testkit::Server;
use tokio::time::sleep;

use super::kind::PERMITS;
use super::recorder::now;
use super::{OPERATION_TIMEOUT, SOON};
use crate::history::Limit;

/// The time between two changes, at most.
const PAUSE: Duration = Duration::from_millis(120);

/// A thread that changes limits until it is asked for what they were.
pub(crate) struct Limits {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Limit>>,
}

impl Limits {
    pub(crate) fn start(server: &Server, prefix: &str, names: Vec<String>, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let options = options(server, prefix).operation_timeout(OPERATION_TIMEOUT);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let client = Client::with_options(options).await.unwrap();
                change(&client, &names, Rng::with_seed(seed), &stopped).await
            })
        });
        Self { stop, thread }
    }

    /// Ends it with as many permits as there were at first.
    pub(crate) fn finish(self) -> Vec<Limit> {
        self.stop.store(true, SeqCst);
        self.thread.join().unwrap()
    }
}

async fn change(
    client: &Client,
    names: &[String],
    mut rng: Rng,
    stopped: &AtomicBool,
) -> Vec<Limit> {
    let at_first = |name: &String| Limit {
        lock: name.clone(),
        from: 0,
        until: 0,
        permits: PERMITS,
    };
    let mut limits: Vec<Limit> = names.iter().map(at_first).collect();
    while !stopped.load(SeqCst) {
        sleep(PAUSE.mul_f64(rng.f64())).await;
        let name = &names[rng.usize(..names.len())];
        set(client, name, rng.u32(0..=2 * PERMITS), &mut limits).await;
    }
    for name in names {
        while !set(client, name, PERMITS, &mut limits).await {}
    }
    limits
}

/// Sets a limit; `false` if it is not known whether it was set.
async fn set(client: &Client, name: &str, permits: u32, limits: &mut Vec<Limit>) -> bool {
    let from = now();
    let semaphore = client.semaphore(name, PERMITS);
    let result = semaphore.set_limit(permits).await;
    if let Err(error) = &result {
        let unknown = matches!(error, Error::OutcomeUnknown { .. });
        assert!(unknown || error.is_retryable(), "{error:?}");
        // The command may still arrive for so long.
        sleep(OPERATION_TIMEOUT).await;
    }
    limits.push(Limit {
        lock: name.to_owned(),
        from,
        until: now(),
        permits,
    });
    result.is_ok()
}

/// Whether as many permits can be had of each semaphore as there are, and nobody stands in the way.
pub(crate) fn all_free(server: &Server, prefix: &str, names: &[String]) -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = options(server, prefix).operation_timeout(SOON);
        let client = Client::with_options(options).await.unwrap();
        for name in names {
            let info = client.semaphore(name, PERMITS).inspect().await.unwrap();
            let untouched = info.permits.is_empty() && info.waiters.is_empty();
            if !untouched || info.limit != PERMITS || info.available() != PERMITS {
                return Err(format!("{name}: {info:?}"));
            }
        }
        Ok(())
    })
}

fn options(server: &Server, prefix: &str) -> ClientOptions {
    let options = ClientOptions::from_url(&server.url()).unwrap();
    options.prefix(prefix)
}
