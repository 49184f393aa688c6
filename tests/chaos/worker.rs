//! A process whose tasks take locks in all ways there are.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use lockyard::{Client, ClientOptions, Error, Lease, Owner};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::kind::{Handle, any_share};
use super::recorder::{Held, Leave, Recorder};
use super::{OPERATION_TIMEOUT, WAITER_TIMEOUT, lease};
use crate::history::Share;
use crate::process::Part;

/// How long the last attempts may take: others may hold locks for the whole of a lease, one after another.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) process: u32,
    pub(crate) url: String,
    pub(crate) prefix: String,
    pub(crate) notes: PathBuf,
    pub(crate) seed: u64,
    pub(crate) tasks: u64,
    pub(crate) locks: Vec<String>,
    /// An owner that it shares with another process.
    pub(crate) kin: String,
    pub(crate) seat: Seat,
}

/// A lock that one more task takes, and holds for long.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seat {
    pub(crate) lock: String,
    pub(crate) lease: Duration,
    /// For how long at most it is held; without it, until it is lost.
    pub(crate) longest: Option<Duration>,
}

/// Works until it is told to stop.
pub(crate) fn run(part: Part) {
    let plan: Plan = serde_json::from_str(&part.arguments[0]).unwrap();
    let (stop, stopped) = watch::channel(false);
    thread::spawn(move || {
        let _ = part.next();
        stop.send_replace(true);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work(plan, stopped));
}

async fn work(plan: Plan, mut stopped: watch::Receiver<bool>) {
    let recorder = Recorder::create(&plan.notes, plan.process);
    let client = tokio::select! {
        client = connect(&plan) => client,
        _ = stopped.wait_for(|stopped| *stopped) => return,
    };
    recorder.connected(&client.owner());
    let mut tasks = JoinSet::new();
    for number in 0..plan.tasks {
        let worker = Worker {
            locks: plan.locks.clone(),
            kin: (number == 0).then(|| plan.kin.parse().unwrap()),
            client: client.clone(),
            recorder: recorder.clone(),
        };
        let rng = Rng::with_seed(plan.seed ^ (u64::from(plan.process) << 32) ^ number);
        tasks.spawn(worker.repeat(rng, stopped.clone()));
    }
    let rng = Rng::with_seed(plan.seed ^ u64::from(plan.process));
    tasks.spawn(sit(
        client.clone(),
        recorder,
        plan.seat,
        rng,
        stopped.clone(),
    ));
    let _ = stopped.wait_for(|stopped| *stopped).await;
    let ended = async {
        while let Some(result) = tasks.join_next().await {
            result.unwrap();
        }
    };
    if timeout(PATIENCE, ended).await.is_err() {
        // What has not ended is told by the notes.
        std::process::exit(2);
    }
    // On a busy machine the operation timeout is short; whether anything is left, the server tells.
    if let Err(error) = client.shutdown().await {
        assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error:?}");
    }
}

/// Connects, as often as it takes.
async fn connect(plan: &Plan) -> Client {
    loop {
        let options = ClientOptions::from_url(&plan.url).unwrap();
        let options = options
            .prefix(&plan.prefix)
            .waiter_timeout(WAITER_TIMEOUT)
            .operation_timeout(OPERATION_TIMEOUT);
        match Client::with_options(options).await {
            Ok(client) => return client,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Holds a lock for long, and takes it again when it is lost or time is up.
async fn sit(
    client: Client,
    recorder: Arc<Recorder>,
    seat: Seat,
    mut rng: Rng,
    stopped: watch::Receiver<bool>,
) {
    let lock = Handle::new(&client, &seat.lock, Share::All).fenced();
    let lock = lock.with_lease(Lease::Renewed(seat.lease));
    while !*stopped.borrow() {
        let attempt = recorder.ask(&lock, None);
        let Some(held) = attempt.answered(lock.acquire(None).await) else {
            continue;
        };
        let longest = seat.longest.map(|longest| longest.mul_f64(rng.f64()));
        let since = Instant::now();
        let over = || longest.is_some_and(|longest| since.elapsed() > longest);
        while !held.look() && !over() && !*stopped.borrow() {
            let _ = timeout(Duration::from_millis(5), held.lost()).await;
        }
        held.leave(Leave::Release).await;
    }
}

/// One task's view of its process.
#[derive(Clone)]
struct Worker {
    client: Client,
    recorder: Arc<Recorder>,
    locks: Vec<String>,
    kin: Option<Owner>,
}

impl Worker {
    async fn repeat(self, mut rng: Rng, stopped: watch::Receiver<bool>) {
        while !*stopped.borrow() {
            let (worker, mut own) = (self.clone(), rng.fork());
            match rng.u8(..100) {
                // Dropped wherever it is.
                0..15 => {
                    let patience = millis(rng.f64() * 60.0);
                    let _ = timeout(patience, worker.round(&mut own)).await;
                }
                // Unwinding, after a while.
                15..18 => {
                    let panics = async move {
                        let patience = millis(own.f64() * 60.0);
                        let _ = timeout(patience, worker.round(&mut own)).await;
                        let lock = worker.lock(0, &mut own);
                        let attempt = worker.recorder.ask(&lock, None);
                        let _held = attempt.answered(lock.try_acquire().await);
                        std::panic::resume_unwind(Box::new("as planned"));
                    };
                    let result: Result<(), _> = tokio::spawn(panics).await;
                    assert!(result.is_err_and(|error| error.is_panic()));
                }
                _ => worker.round(&mut own).await,
            }
            if rng.bool() {
                sleep(millis(rng.f64() * 10.0)).await;
            }
        }
    }

    /// Tries to acquire a lock in one of the ways, and works under it.
    async fn round(&self, rng: &mut Rng) {
        let number = rng.usize(..self.locks.len());
        let lock = self.lock(number, rng);
        match (rng.u8(..100), &self.kin) {
            (0..25, Some(kin)) => {
                let held = self.acquire(&lock.with_owner(kin), Some(kin), rng).await;
                self.section(held, rng).await;
                // Two of one owner that never both pause would keep all others out.
                sleep(millis(50.0 + rng.f64() * 50.0)).await;
            }
            (0..20, _) => {
                let owner = self.client.owner();
                owner.scope(self.nested(&lock, &owner, rng)).await;
            }
            _ => {
                let held = self.acquire(&lock, None, rng).await;
                self.section(held, rng).await;
            }
        }
    }

    /// A lock, with a lease of its own; the last of several is not fenced.
    fn lock(&self, number: usize, rng: &mut Rng) -> Handle {
        let length = lease(rng.f64());
        let lease = match rng.u8(..4) {
            0 => Lease::Fixed(length),
            _ => Lease::Renewed(length),
        };
        let name = &self.locks[number];
        let lock = Handle::new(&self.client, name, any_share(name, rng)).with_lease(lease);
        match number > 0 && number + 1 == self.locks.len() {
            true => lock,
            false => lock.fenced(),
        }
    }

    async fn nested(&self, lock: &Handle, owner: &Owner, rng: &mut Rng) {
        let Some(mut outer) = self.acquire(lock, Some(owner), rng).await else {
            return;
        };
        work_under(&outer, millis(rng.f64() * 15.0), rng).await;
        let other_side = lock.other_side();
        let inner = match (rng.u8(..3), &other_side) {
            (0, Some(reading @ Handle::Read(_))) => {
                let attempt = self.recorder.ask(reading, Some(owner));
                let Some(reader) = outer.downgrade(attempt).await else {
                    return;
                };
                outer = reader;
                None
            }
            (0, Some(writing)) => {
                let attempt = self.recorder.ask(writing, Some(owner));
                attempt.answered(outer.try_upgrade().await)
            }
            (1, _) => {
                let attempt = self.recorder.ask(lock, Some(owner));
                attempt.answered(lock.reenter(owner).await)
            }
            _ => {
                let attempt = self.recorder.ask(lock, Some(owner));
                attempt.answered(lock.try_acquire().await)
            }
        };
        if rng.bool() {
            self.section(inner, rng).await;
            self.section(Some(outer), rng).await;
        } else {
            self.section(Some(outer), rng).await;
            self.section(inner, rng).await;
        }
    }

    async fn acquire(&self, lock: &Handle, owner: Option<&Owner>, rng: &mut Rng) -> Option<Held> {
        let attempt = self.recorder.ask(lock, owner);
        let wait = match rng.u8(..4) {
            0 => Some(Duration::ZERO),
            1 => Some(millis(rng.f64() * 300.0)),
            _ => None,
        };
        attempt.answered(lock.acquire(wait).await)
    }

    /// Works under a guard, mostly for a moment, and gives it away.
    async fn section(&self, held: Option<Held>, rng: &mut Rng) {
        let Some(held) = held else { return };
        let length = match rng.u8(..60) {
            // Longer than a lease.
            0 => lease(rng.f64()).mul_f64(1.3),
            _ => millis(rng.f64() * 30.0),
        };
        work_under(&held, length, rng).await;
        let how = match rng.u8(..10) {
            0 => Leave::ReleaseFor(millis(rng.f64() * 2.0)),
            1..4 => Leave::Drop,
            _ => Leave::Release,
        };
        held.leave(how).await;
    }
}

/// Looks at a guard at random moments, until a time is over or it is lost.
async fn work_under(held: &Held, length: Duration, rng: &mut Rng) {
    let over = sleep(length);
    tokio::pin!(over);
    while !held.look() {
        let pause = millis(rng.f64() * 6.0);
        tokio::select! {
            () = &mut over => return,
            () = sleep(pause) => {}
        }
    }
}

fn millis(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1000.0)
}
