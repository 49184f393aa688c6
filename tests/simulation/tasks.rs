//! What users do: lock, hold, nest, release, give up, force.

use std::sync::Arc;
use std::time::Duration;

use lockyard::{Client, Error, HoldState, Lease, Lock, LockGuard, Owner};
use tokio::time::{sleep, timeout};

use crate::faults::Fault;
use crate::law::Law;
use crate::laws::{Slot, excuse};
use crate::plan::{LEASE, Plan};
use crate::world::World;

/// One task of one client.
pub(crate) struct Task {
    pub(crate) world: Arc<World>,
    pub(crate) clients: Arc<Vec<Client>>,
    pub(crate) client: usize,
    pub(crate) number: usize,
    /// An owner that tasks of several clients use.
    pub(crate) traveller: String,
}

/// How an acquire waits.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Forever,
    Try,
    For(Duration),
}

impl Task {
    fn dice(&self, sides: u64) -> u64 {
        self.world.inner().rng.u64(0..sides)
    }

    fn strikes(&self, fault: Fault, of_1000: u32) -> bool {
        self.world.inner().strikes(fault, of_1000)
    }

    fn ms(&self, below: u64) -> Duration {
        Duration::from_millis(self.dice(below))
    }

    fn note(&self, what: impl FnOnce() -> String) {
        let who = format!("{}.{}", self.client, self.number);
        self.world.with(|world, now| world.note(now, who, what));
    }

    pub(crate) async fn run(self, plan: Plan) {
        for _ in 0..plan.rounds {
            sleep(self.ms(150)).await;
            let lock = self.dice(plan.locks as u64) as usize;
            self.round(lock).await;
        }
    }

    async fn round(&self, number: usize) {
        let client = &self.clients[self.client];
        if self.strikes(Fault::Force, 60) {
            return self.force(number).await;
        }
        let lease = match self.dice(10) {
            0..7 => Lease::Renewed(LEASE),
            _ => Lease::Fixed(Duration::from_millis(200) + self.ms(2800)),
        };
        let lock = client.lock(number.to_string()).with_lease(lease);
        // One lock has tokens, the others have none.
        let lock = if number == 0 { lock.fenced() } else { lock };
        let lock = match self.dice(10) {
            0..6 => lock,
            6..8 => lock.with_owner(&client.owner()),
            _ => lock.with_owner(&self.travelled()),
        };
        let wait = match self.dice(10) {
            0..6 => Wait::Forever,
            6..8 => Wait::Try,
            _ => Wait::For(self.ms(3000)),
        };
        if let Some(guard) = self.acquire(&lock, number, wait).await {
            self.hold(&lock, number, guard).await;
        }
    }

    fn travelled(&self) -> Owner {
        self.traveller.parse().unwrap()
    }

    async fn acquire(&self, lock: &Lock, number: usize, wait: Wait) -> Option<LockGuard> {
        self.note(|| format!("acquires {number}, {wait:?}"));
        let waiting = Waiting::new(self, number, wait);
        let acquire = async {
            match wait {
                Wait::Forever => lock.acquire().await.map(Some),
                Wait::Try => lock.try_acquire().await,
                Wait::For(wait) => lock.try_acquire_for(wait).await,
            }
        };
        let patience = match self.strikes(Fault::Cancel, 150) {
            true => self.ms(1500),
            false => Duration::from_secs(3600),
        };
        let result = timeout(patience, acquire).await;
        drop(waiting);
        match result {
            Err(_) => {
                self.note(|| format!("gives up {number}"));
                None
            }
            Ok(Ok(guard)) => {
                let got = guard.is_some();
                self.note(|| format!("{} {number}", if got { "holds" } else { "does not get" }));
                guard
            }
            Ok(Err(error)) => {
                self.note(|| format!("fails on {number}: {error}"));
                let may_be = match error {
                    Error::LeaseLost { .. } => true,
                    Error::Unreachable { .. } => !matches!(wait, Wait::Forever),
                    _ => false,
                };
                if !may_be {
                    self.wrong(format!("{wait:?} of {number}: {error:?}"));
                }
                None
            }
        }
    }

    async fn hold(&self, lock: &Lock, number: usize, guard: LockGuard) {
        let owner = format!("{:?}", guard.owner());
        let slot = Slot::default();
        *slot.lock() = Some(guard);
        let _belief = Belief::new(self, number, owner, slot.clone());
        let long = match self.dice(10) {
            0..8 => self.ms(250),
            _ => self.ms(2 * LEASE.as_millis() as u64),
        };
        if self.dice(5) == 0 {
            self.nest(lock, number, &slot).await;
        }
        sleep(long).await;
        match self.dice(10) {
            0..7 => self.release(number, &slot).await,
            7..9 => drop(slot.lock().take()),
            _ => {
                // Forgotten until it is lost, or for long enough to be renewed often.
                sleep(LEASE * 2).await;
                drop(slot.lock().take());
            }
        }
    }

    /// The same owner enters once more, here or in another client.
    async fn nest(&self, lock: &Lock, number: usize, slot: &Slot) {
        let owner = slot.lock().as_ref().map(|guard| guard.owner());
        let Some(owner) = owner else { return };
        let inner = match self.dice(2) {
            0 => lock.clone().with_owner(&owner).try_acquire().await,
            _ => {
                let other = self.dice(self.clients.len() as u64) as usize;
                let travelled: Owner = owner.to_string().parse().unwrap();
                self.clients[other]
                    .lock(number.to_string())
                    .reenter(&travelled)
                    .await
            }
        };
        self.note(|| format!("re-enters {number}: {}", inner.is_ok()));
        if let Ok(Some(inner)) = inner {
            sleep(self.ms(100)).await;
            drop(inner);
        }
    }

    async fn release(&self, number: usize, slot: &Slot) {
        let guard = slot.lock().take();
        let Some(guard) = guard else { return };
        let lost = guard.state() == HoldState::Lost;
        self.note(|| format!("releases {number}"));
        let patience = match self.strikes(Fault::Cancel, 80) {
            true => self.ms(5),
            false => Duration::from_secs(3600),
        };
        if let Ok(result) = timeout(patience, guard.release()).await {
            self.note(|| format!("has released {number}: {result:?}"));
            match result {
                Ok(()) if lost => self.wrong(format!("{number} was lost, and is released")),
                Ok(()) | Err(Error::LeaseLost { .. } | Error::OutcomeUnknown { .. }) => {}
                Err(error) => self.wrong(format!("release of {number}: {error:?}")),
            }
        }
    }

    async fn force(&self, number: usize) {
        self.note(|| format!("forces {number}"));
        let forced = self.clients[self.client].lock(number.to_string());
        // It may take two operation timeouts.
        self.world
            .with(|world, now| world.laws.excuse(number, now + 2 * excuse()));
        let _ = forced.force_release().await;
    }

    fn wrong(&self, how: String) {
        self.world
            .with(|world, _| world.break_law(Law::Answers, how));
    }
}

/// While it is there somebody waits.
struct Waiting<'a>(&'a Task, Option<u64>);

impl<'a> Waiting<'a> {
    fn new(task: &'a Task, lock: usize, wait: Wait) -> Self {
        let number = matches!(wait, Wait::Forever).then(|| {
            task.world
                .with(|world, now| world.laws.waits(task.client, lock, now))
        });
        Self(task, number)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.1 {
            self.0
                .world
                .with(|world, _| world.laws.waits_no_more(number));
        }
    }
}

/// While it is there a guard is asked whether it believes.
struct Belief<'a>(&'a Task, u64, Slot);

impl<'a> Belief<'a> {
    fn new(task: &'a Task, lock: usize, owner: String, slot: Slot) -> Self {
        let number = task
            .world
            .with(|world, _| world.laws.believe(lock, owner, slot.clone()));
        Self(task, number, slot)
    }
}

impl Drop for Belief<'_> {
    fn drop(&mut self) {
        self.0.world.with(|world, _| world.laws.disbelieve(self.1));
        drop(self.2.lock().take());
    }
}
