//! What users do: lock, hold, nest, release, give up, force.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use lockyard::{Client, Error, Lease, Lock, LockGuard, Owner};
use tokio::time::{sleep, timeout};

use crate::door::{Door, Held, PERMITS};
use crate::faults::Fault;
use crate::law::Law;
use crate::laws::Slot;
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
                1..4 => self.read_or_write().await,
                4..7 => self.take_permits().await,
                7..9 => self.crowd(plan.locks).await,
                _ => self.lock(&name).await,
            }
        }
    }

    fn lease(&self) -> Lease {
        match self.dice(10) {
            0..7 => Lease::Renewed(LEASE),
            _ => Lease::Fixed(Duration::from_millis(200) + self.ms(2800)),
        }
    }

    /// Nobody's, one's own, or one that other clients use.
    fn owner(&self) -> Option<Owner> {
        match self.dice(10) {
            0..5 => None,
            5..7 => Some(self.clients[self.client].owner()),
            _ => Some(self.travelled()),
        }
    }

    async fn lock(&self, name: &str) {
        let client = &self.clients[self.client];
        if self.strikes(Fault::Force, 60) {
            return self.force(name).await;
        }
        let lease = self.lease();
        let mut lock = client.lock(name).with_lease(lease);
        // One lock has tokens, the others have none.
        if name == "0" {
            lock = lock.fenced();
        }
        let owner = self.owner();
        if let Some(owner) = &owner {
            lock = lock.with_owner(owner);
        }
        self.enter(&Door::Lock(lock), lease, owner.is_none()).await;
    }

    async fn read_or_write(&self) {
        let lease = self.lease();
        let mut lock = self.clients[self.client].rw_lock("rw").with_lease(lease);
        let owner = self.owner();
        if let Some(owner) = &owner {
            lock = lock.with_owner(owner);
        }
        let door = match self.dice(5) {
            0..3 => Door::Read(lock),
            _ => Door::Write(lock),
        };
        self.enter(&door, lease, owner.is_none()).await;
    }

    async fn take_permits(&self) {
        let lease = self.lease();
        self.enter(&self.permits(lease), lease, true).await;
    }

    /// As many as chance says.
    fn permits(&self, lease: Lease) -> Door {
        let semaphore = self.clients[self.client].semaphore("permits", PERMITS);
        let permits = 1 + self.dice(u64::from(PERMITS)) as u32;
        Door::Permits(semaphore.with_lease(lease), permits)
    }

    async fn enter(&self, door: &Door, lease: Lease, alone: bool) {
        let wait = match self.dice(10) {
            0..6 => Wait::Forever,
            6..8 => Wait::Try,
            _ => Wait::For(self.ms(3000)),
        };
        if let Some(held) = self.acquire(door, wait).await {
            self.hold(door, held, lease, alone).await;
        }
    }

    fn travelled(&self) -> Owner {
        self.traveller.parse().unwrap()
    }

    async fn acquire(&self, door: &Door, wait: Wait) -> Option<Held> {
        self.note(|| format!("acquires {door}, {wait:?}"));
        let asks = Asks::new(self, door, wait);
        let acquire = async {
            match wait {
                Wait::Forever if self.dice(4) == 0 => self.twins(door).await.map(Some),
                Wait::Forever => door.acquire().await.map(Some),
                Wait::Try => door.try_acquire().await,
                Wait::For(wait) => door.try_acquire_for(wait).await,
            }
        };
        let patience = match self.strikes(Fault::Cancel, 150) {
            true => self.ms(1500),
            false => Duration::from_secs(3600),
        };
        let result = timeout(patience, acquire).await;
        if matches!(result, Ok(Ok(Some(Held::Permits(_))))) {
            asks.served();
        }
        drop(asks);
        match result {
            Err(_) => {
                self.note(|| format!("gives up {door}"));
                None
            }
            Ok(Ok(held)) => {
                let got = held.is_some();
                self.note(|| format!("{} {door}", if got { "holds" } else { "does not get" }));
                held
            }
            Ok(Err(error)) => {
                self.note(|| format!("fails on {door}: {error}"));
                let may_be = match error {
                    Error::LeaseLost { .. } => true,
                    Error::Unreachable { .. } => !matches!(wait, Wait::Forever),
                    Error::WouldDeadlock { .. } => matches!(door, Door::Write(_)),
                    _ => false,
                };
                if !may_be {
                    self.wrong(format!("{wait:?} of {door}: {error:?}"));
                }
                None
            }
        }
    }

    async fn hold(&self, door: &Door, held: Held, lease: Lease, alone: bool) {
        let since = self.world.ms();
        let belief = Belief::new(self, door.key(), alone, held);
        let slot = &belief.2;
        let long = match self.dice(10) {
            0..8 => self.ms(250),
            _ => self.ms(2 * LEASE.as_millis() as u64),
        };
        if self.dice(5) == 0 {
            match door {
                Door::Lock(lock) => self.nest(lock, slot).await,
                _ => self.change(door, &belief).await,
            }
        }
        sleep(long).await;
        let lost = slot.lock().as_ref().is_some_and(Held::is_lost);
        if lost && matches!(lease, Lease::Renewed(_)) {
            self.may_be_lost(door, since);
        }
        match self.dice(10) {
            0..7 => self.release(door, slot).await,
            7..9 => drop(slot.lock().take()),
            _ => {
                // Forgotten until it is lost, or for long enough to be renewed often.
                sleep(LEASE * 2).await;
                drop(slot.lock().take());
            }
        }
    }

    /// Upgrades, downgrades, or splits, and holds what comes of it for a while.
    async fn change(&self, door: &Door, belief: &Belief<'_>) {
        let slot = &belief.2;
        let held = slot.lock().take();
        let changed = match held {
            Some(Held::Read(reading)) => match reading.try_upgrade().await {
                Ok(writing) => {
                    let writing = writing.map(Held::Write);
                    self.note(|| format!("upgrades {door}: {}", writing.is_some()));
                    *slot.lock() = Some(Held::Read(reading));
                    writing
                }
                Err(_) => return,
            },
            Some(Held::Write(writing)) => {
                let reading = writing.downgrade().await;
                self.note(|| format!("downgrades {door}: {}", reading.is_ok()));
                reading.ok().map(Held::Read)
            }
            Some(Held::Permits(permit)) if permit.permits() > 1 => match permit.split(1).await {
                Ok((one, rest)) => {
                    self.note(|| format!("splits {door}"));
                    belief.become_less(Held::Permits(rest));
                    Some(Held::Permits(one))
                }
                Err(error) => {
                    self.note(|| format!("does not split {door}: {error}"));
                    None
                }
            },
            held => {
                *slot.lock() = held;
                return;
            }
        };
        if let Some(changed) = changed {
            let belief = Belief::new(self, door.key(), false, changed);
            sleep(self.ms(100)).await;
            self.release(door, &belief.2).await;
        }
    }

    /// A hold that is renewed is lost only by what happened since.
    fn may_be_lost(&self, door: &Door, since: u64) {
        self.world.with(|world, _| {
            let client = &world.links[self.client].name;
            let well = world
                .laws
                .well
                .get(client)
                .is_some_and(|well| *well < since);
            if well && !world.laws.is_excused(&door.key(), client, since) {
                let how = format!("{client} has lost {door}, held since {since} ms");
                world.break_law(Law::Kept, how);
            }
        });
    }

    /// The same owner enters once more, here or in another client; or somebody tries who holds nothing.
    async fn nest(&self, lock: &Lock, slot: &Slot) {
        let owner = match &*slot.lock() {
            Some(Held::Lock(guard)) => guard.owner(),
            _ => return,
        };
        let name = lock.name();
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
        let holds = slot.lock().as_ref().is_some_and(|held| !held.is_lost());
        let wrong = match &inner {
            Ok(Some(_)) => *who == stranger,
            Ok(None) => *who == owner && holds && !self.is_excused(lock),
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

    fn is_excused(&self, lock: &Lock) -> bool {
        self.world.with(|world, now| {
            let client = world.links[self.client].name.clone();
            let key = Door::Lock(lock.clone()).key();
            world.laws.is_excused(&key, &client, now)
        })
    }

    async fn release(&self, door: &Door, slot: &Slot) {
        let held = slot.lock().take();
        let Some(held) = held else { return };
        let lost = held.is_lost();
        self.note(|| format!("releases {door}"));
        let patience = match self.strikes(Fault::Cancel, 80) {
            true => self.ms(5),
            false => Duration::from_secs(3600),
        };
        if let Ok(result) = timeout(patience, held.release()).await {
            self.note(|| format!("has released {door}: {result:?}"));
            match result {
                Ok(()) if lost => self.wrong(format!("{door} was lost, and is released")),
                Ok(()) | Err(Error::LeaseLost { .. } | Error::OutcomeUnknown { .. }) => {}
                Err(error) => self.wrong(format!("release of {door}: {error:?}")),
            }
        }
    }

    async fn force(&self, name: &str) {
        self.note(|| format!("forces {name}"));
        let forced = self.clients[self.client].lock(name);
        let _ = forced.force_release().await;
    }

    /// Asks twice and takes what comes first, in either order.
    async fn twins(&self, door: &Door) -> Result<Held, Error> {
        let (mut one, mut two) = (pin!(door.acquire()), pin!(door.acquire()));
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

    /// Several at once that hold the last lock, or permits, so briefly that they pass them on.
    async fn crowd(&self, locks: usize) {
        let lease = Lease::Renewed(LEASE);
        let door = match self.dice(2) {
            0 => {
                let lock = self.clients[self.client].lock((locks - 1).to_string());
                Door::Lock(lock.with_lease(lease))
            }
            _ => self.permits(lease),
        };
        let brief = async || {
            if let Some(held) = self.acquire(&door, Wait::Forever).await {
                let belief = Belief::new(self, door.key(), true, held);
                sleep(self.ms(5)).await;
                self.release(&door, &belief.2).await;
            }
        };
        join_all([(); 4].map(|()| brief())).await;
    }

    fn wrong(&self, how: String) {
        self.world
            .with(|world, _| world.break_law(Law::Answers, how));
    }
}
