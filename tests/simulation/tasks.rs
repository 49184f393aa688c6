//! What users do: lock, hold, nest, release, give up, force.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use lockyard::{Client, Error, HoldState, Lease, Lock, LockGuard, Owner};
use tokio::time::{sleep, timeout};

use crate::faults::Fault;
use crate::law::Law;
use crate::laws::{Slot, key};
use crate::plan::{LEASE, OPERATION_TIMEOUT, Plan};
use crate::watched::{Asks, Belief};
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
pub(crate) enum Wait {
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
            let name = self.dice(plan.locks as u64).to_string();
            match self.dice(20) {
                0 => self.burst().await,
                _ => self.round(&name).await,
            }
        }
    }

    async fn round(&self, name: &str) {
        let client = &self.clients[self.client];
        if self.strikes(Fault::Force, 60) {
            return self.force(name).await;
        }
        let lease = match self.dice(10) {
            0..7 => Lease::Renewed(LEASE),
            _ => Lease::Fixed(Duration::from_millis(200) + self.ms(2800)),
        };
        let lock = client.lock(name).with_lease(lease);
        // One lock has tokens, the others have none.
        let lock = if name == "0" { lock.fenced() } else { lock };
        let lock = match self.dice(10) {
            0..5 => lock,
            5..7 => lock.with_owner(&client.owner()),
            _ => lock.with_owner(&self.travelled()),
        };
        let wait = match self.dice(10) {
            0..6 => Wait::Forever,
            6..8 => Wait::Try,
            _ => Wait::For(self.ms(3000)),
        };
        if let Some(guard) = self.acquire(&lock, name, wait).await {
            self.hold(&lock, name, guard, lease).await;
        }
    }

    fn travelled(&self) -> Owner {
        self.traveller.parse().unwrap()
    }

    async fn acquire(&self, lock: &Lock, name: &str, wait: Wait) -> Option<LockGuard> {
        self.note(|| format!("acquires {name}, {wait:?}"));
        let asks = Asks::new(self, name, wait);
        let acquire = async {
            match wait {
                Wait::Forever if self.dice(4) == 0 => self.twins(lock).await.map(Some),
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
        drop(asks);
        match result {
            Err(_) => {
                self.note(|| format!("gives up {name}"));
                None
            }
            Ok(Ok(guard)) => {
                let got = guard.is_some();
                self.note(|| format!("{} {name}", if got { "holds" } else { "does not get" }));
                guard
            }
            Ok(Err(error)) => {
                self.note(|| format!("fails on {name}: {error}"));
                let may_be = match error {
                    Error::LeaseLost { .. } => true,
                    Error::Unreachable { .. } => !matches!(wait, Wait::Forever),
                    _ => false,
                };
                if !may_be {
                    self.wrong(format!("{wait:?} of {name}: {error:?}"));
                }
                None
            }
        }
    }

    async fn hold(&self, lock: &Lock, name: &str, guard: LockGuard, lease: Lease) {
        // Not as text, which would make a traveller of it.
        let owner = format!("{:?}", guard.owner());
        let owner = owner
            .trim_start_matches("Owner(")
            .trim_end_matches(')')
            .to_owned();
        let since = self.world.ms();
        let slot = Slot::default();
        *slot.lock() = Some(guard);
        let _belief = Belief::new(self, name, owner, slot.clone());
        let long = match self.dice(10) {
            0..8 => self.ms(250),
            _ => self.ms(2 * LEASE.as_millis() as u64),
        };
        if self.dice(5) == 0 {
            self.nest(lock, name, &slot).await;
        }
        sleep(long).await;
        let lost = slot.lock().as_ref().is_some_and(LockGuard::is_lost);
        if lost && matches!(lease, Lease::Renewed(_)) {
            self.may_be_lost(name, since);
        }
        match self.dice(10) {
            0..7 => self.release(name, &slot).await,
            7..9 => drop(slot.lock().take()),
            _ => {
                // Forgotten until it is lost, or for long enough to be renewed often.
                sleep(LEASE * 2).await;
                drop(slot.lock().take());
            }
        }
    }

    /// A hold that is renewed is lost only by what happened since.
    fn may_be_lost(&self, name: &str, since: u64) {
        self.world.with(|world, _| {
            let client = &world.links[self.client].name;
            let well = world
                .laws
                .well
                .get(client)
                .is_some_and(|well| *well < since);
            if well && !world.laws.is_excused(&key(name), client, since) {
                let how = format!("{client} has lost {name}, held since {since} ms");
                world.break_law(Law::Kept, how);
            }
        });
    }

    /// The same owner enters once more, here or in another client; or somebody tries who holds nothing.
    async fn nest(&self, lock: &Lock, name: &str, slot: &Slot) {
        let Some(owner) = slot.lock().as_ref().map(LockGuard::owner) else {
            return;
        };
        let stranger = self.clients[self.client].owner();
        let (who, inner) = match self.dice(3) {
            0 => (&owner, lock.clone().with_owner(&owner).try_acquire().await),
            1 => (&owner, self.elsewhere(name, &owner).await),
            _ => (&stranger, self.elsewhere(name, &stranger).await),
        };
        self.note(|| {
            format!(
                "re-enters {name}: {:?}",
                inner.as_ref().map(Option::is_some)
            )
        });
        let holds = slot.lock().as_ref().is_some_and(|guard| !guard.is_lost());
        let wrong = match &inner {
            Ok(Some(_)) => *who == stranger,
            Ok(None) => *who == owner && holds && !self.is_excused(name),
            Err(_) => false,
        };
        if wrong {
            let how = format!(
                "{who:?} re-enters {name}: {}",
                inner.is_ok_and(|inner| inner.is_some())
            );
            return self
                .world
                .with(|world, _| world.break_law(Law::ReEntry, how));
        }
        if let Ok(Some(_inner)) = inner {
            sleep(self.ms(100)).await;
        }
    }

    /// Re-enters through any client, as a called service does.
    async fn elsewhere(&self, name: &str, owner: &Owner) -> Result<Option<LockGuard>, Error> {
        let other = self.dice(self.clients.len() as u64) as usize;
        let travelled: Owner = owner.to_string().parse().unwrap();
        let lock = self.clients[other].lock(name);
        // The client may end meanwhile, and then nobody answers.
        let entered = timeout(OPERATION_TIMEOUT * 3, lock.reenter(&travelled)).await;
        entered.unwrap_or_else(|_| Err(Error::Closed))
    }

    fn is_excused(&self, name: &str) -> bool {
        self.world.with(|world, now| {
            let client = world.links[self.client].name.clone();
            world.laws.is_excused(&key(name), &client, now)
        })
    }

    async fn release(&self, name: &str, slot: &Slot) {
        let guard = slot.lock().take();
        let Some(guard) = guard else { return };
        let lost = guard.state() == HoldState::Lost;
        self.note(|| format!("releases {name}"));
        let patience = match self.strikes(Fault::Cancel, 80) {
            true => self.ms(5),
            false => Duration::from_secs(3600),
        };
        if let Ok(result) = timeout(patience, guard.release()).await {
            self.note(|| format!("has released {name}: {result:?}"));
            match result {
                Ok(()) if lost => self.wrong(format!("{name} was lost, and is released")),
                Ok(()) | Err(Error::LeaseLost { .. } | Error::OutcomeUnknown { .. }) => {}
                Err(error) => self.wrong(format!("release of {name}: {error:?}")),
            }
        }
    }

    async fn force(&self, name: &str) {
        self.note(|| format!("forces {name}"));
        let forced = self.clients[self.client].lock(name);
        let _ = forced.force_release().await;
    }

    /// Asks twice and takes what comes first, in either order.
    async fn twins(&self, lock: &Lock) -> Result<LockGuard, Error> {
        let (mut one, mut two) = (pin!(lock.acquire()), pin!(lock.acquire()));
        if self.dice(2) == 0 {
            tokio::select! { biased; guard = &mut one => guard, guard = &mut two => guard }
        } else {
            // Polled in one order before they wait, in the other when told.
            let first = poll_fn(|context| Poll::Ready(one.as_mut().poll(context))).await;
            if let Poll::Ready(guard) = first {
                return guard;
            }
            tokio::select! { biased; guard = &mut two => guard, guard = &mut one => guard }
        }
    }

    /// Many acquires at once, given up together.
    async fn burst(&self) {
        self.note(|| "bursts".to_owned());
        let client = &self.clients[self.client];
        let locks: Vec<Lock> = (0..6)
            .map(|number| client.lock(format!("burst-{number}")))
            .collect();
        let patience = self.ms(12);
        let _ = timeout(patience, join_all(locks.iter().map(Lock::acquire))).await;
    }

    fn wrong(&self, how: String) {
        self.world
            .with(|world, _| world.break_law(Law::Answers, how));
    }
}
