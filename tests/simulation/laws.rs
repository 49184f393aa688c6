//! What is watched after each step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockyard_memory::Entry;
use parking_lot::Mutex;

use crate::door::{Beside, Held};
use crate::law::{Breach, Law};
use crate::plan::{LEASE, OPERATION_TIMEOUT, Plan, WAITER_TIMEOUT};
use crate::view::{self, View};

/// How long a free lock may be left so while somebody waits: a look, a command that is not answered and its
/// repetition, and the longest back-off between them; where all arrives only a look, if a lease ran out, or a message.
pub(crate) fn patience(calm: bool, ran_out: bool) -> u64 {
    let look = (WAITER_TIMEOUT / 3).as_millis() as u64;
    match (calm, ran_out) {
        (false, _) => look + OPERATION_TIMEOUT.as_millis() as u64 * 2 + 2000,
        (true, true) => look + 50,
        (true, false) => 50,
    }
}

/// How long a hold may stay that nobody wants: until its second release, and what that may take.
pub(crate) fn phantom() -> u64 {
    OPERATION_TIMEOUT.as_millis() as u64 * 4 + 1000
}

/// How long after a documented exception holders may not know yet: until their next check, or its repetition.
pub(crate) fn excuse() -> u64 {
    (LEASE / 3 + OPERATION_TIMEOUT * 3).as_millis() as u64
}

/// How long after its last command has arrived a client that stands still may be granted something.
fn dead() -> u64 {
    WAITER_TIMEOUT.as_millis() as u64 + 3000
}

/// Where a task keeps a guard while it believes that it holds.
pub(crate) type Slot = Arc<Mutex<Option<Held>>>;

#[derive(Default)]
pub(crate) struct Laws {
    /// Whether all commands, replies and messages arrive.
    pub(crate) calm: bool,
    /// By key.
    pub(crate) locks: BTreeMap<String, View>,
    pub(crate) guards: BTreeMap<u64, Guard>,
    pub(crate) asking: BTreeMap<u64, Asking>,
    number: u64,
    /// Since and until when the holders of each lock need not know.
    excused: BTreeMap<String, (u64, u64)>,
    /// Since when each client is well, by its name; never, if it has ended.
    pub(crate) well: BTreeMap<String, u64>,
    /// Since when each client that stands still does so.
    pub(crate) frozen: BTreeMap<String, u64>,
    /// Guards that have been seen lost.
    pub(crate) lost: BTreeSet<u64>,
    /// Until when a copy may arrive that only the server's clock, stepped back, takes for valid.
    pub(crate) stepped_back: u64,
    /// The tickets with which ids have asked to queue again.
    pub(crate) kept: BTreeMap<String, u64>,
    /// Since when each hold is wanted by nobody.
    pub(crate) phantoms: BTreeMap<String, u64>,
    /// The greatest token of each lock, and the hold that has it.
    tokens: BTreeMap<String, (u64, String)>,
    pub(crate) found: Option<Breach>,
}

pub(crate) struct Guard {
    pub(crate) client: String,
    pub(crate) lock: String,
    pub(crate) owner: String,
    pub(crate) beside: Beside,
    /// Whether nobody else can have the same owner.
    pub(crate) alone: bool,
    pub(crate) slot: Slot,
}

/// A task that asks for a lock.
pub(crate) struct Asking {
    pub(crate) client: String,
    pub(crate) lock: String,
    pub(crate) waits: bool,
    pub(crate) since: u64,
    /// The same by the server.
    pub(crate) server_ms: u64,
}

/// The main keys of all that tasks enter, but for bursts.
pub(crate) fn keys(plan: &Plan) -> Vec<String> {
    let locks = (0..plan.locks).map(|lock| format!("lockyard:lock:{{{lock}}}"));
    let others = ["lockyard:rw:{rw}", "lockyard:semaphore:{permits}"];
    locks.chain(others.map(str::to_owned)).collect()
}

impl Laws {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            calm: plan.is_calm(),
            ..Self::default()
        }
    }

    pub(crate) fn believe(&mut self, guard: Guard) -> u64 {
        self.number += 1;
        self.guards.insert(self.number, guard);
        self.number
    }

    pub(crate) fn disbelieve(&mut self, number: u64) {
        self.guards.remove(&number);
    }

    pub(crate) fn ask(&mut self, asking: Asking) -> u64 {
        self.number += 1;
        self.asking.insert(self.number, asking);
        self.number
    }

    /// Who asked has permits, so whoever stood in the queue before has been served, or is gone from there.
    pub(crate) fn served(&mut self, number: u64, now: u64) {
        let Some(asking) = self.asking.get(&number) else {
            return;
        };
        let earlier = |(ticket, hold): &&(u64, String)| {
            *ticket < asking.server_ms * 1000
                && view::client(hold) != asking.client
                && !self.kept.contains_key(hold)
        };
        let queue = self.locks.get(&asking.lock).map(|view| view.queue.iter());
        let passed_over = queue.and_then(|mut queue| queue.find(earlier));
        // After a step back of the clock tickets do not tell who came first.
        if now > self.stepped_back
            && let Some((_, hold)) = passed_over
        {
            let how = format!("{}: {hold} is overtaken", asking.lock);
            self.find(Law::Order, how);
        }
    }

    /// Holders of a lock may not know for a while that they are none.
    pub(crate) fn excuse(&mut self, lock: &str, now: u64, until: u64) {
        let (since, excused) = self.excused.entry(lock.to_owned()).or_default();
        *since = now;
        *excused = until.max(*excused);
    }

    /// Whether a client need not know at a time; one that stood still learns when it goes on.
    pub(crate) fn is_excused(&self, lock: &str, client: &str, at: u64) -> bool {
        let well = self.well.get(client).copied().unwrap_or(u64::MAX);
        self.excused.get(lock).is_some_and(|(since, until)| {
            at <= *until || well >= *since && at <= well.saturating_add(excuse())
        })
    }

    /// Every key is gone, and with them the last tokens.
    pub(crate) fn flushed(&mut self) {
        self.tokens.clear();
    }

    /// A message about a hold had so many receivers, the script of which has ended.
    pub(crate) fn granted(&mut self, hold: &str, receivers: u64, now: u64) {
        let frozen = self.frozen.get(view::client(hold));
        if receivers > 0 && frozen.is_some_and(|since| now - since > dead()) {
            self.find(
                Law::Dead,
                format!("{hold} is granted, whose client stands still"),
            );
        }
        let held = self
            .locks
            .values()
            .any(|view| view.all_holds().any(|other| other.id == hold));
        if receivers == 0 && held {
            self.find(
                Law::Dead,
                format!("{hold} is granted, and nobody has heard"),
            );
        }
    }

    /// What the store holds after a script.
    pub(crate) fn observe(&mut self, entries: &[Entry], server_ms: u64, now: u64) {
        let mut views = View::all(entries);
        for entry in entries.iter().filter(|entry| entry.ttl.is_none()) {
            let key = String::from_utf8_lossy(&entry.key).into_owned();
            self.find(Law::Ttl, format!("{key} stays for ever"));
        }
        for (key, view) in &mut views {
            let old = self.locks.get(key).cloned().unwrap_or_default();
            // A queue that had run out may be back after a step of the clock, with those of before at its head.
            if now > self.stepped_back
                && let Some(how) = view.overtaken(&old, &self.kept, server_ms)
            {
                self.find(Law::Order, format!("{key}: {how}"));
            }
            let fenced = view.new_since(&old, server_ms);
            let newest = fenced
                .filter_map(|hold| Some((hold.token?, hold.id.clone())))
                .max();
            if let Some((token, hold)) = newest {
                let last = self.tokens.insert(key.clone(), (token, hold.clone()));
                // A hold that had run out may be back after a step of the clock.
                if let Some((last, other)) = last
                    && token <= last
                    && hold != other
                {
                    self.find(Law::Tokens, format!("{key}: {token} after {last}"));
                }
            }
            (view.idle, view.ran_out) = (old.idle, old.ran_out);
        }
        for (key, old) in &self.locks {
            let view = views.entry(key.clone()).or_default();
            (view.idle, view.ran_out) = (old.idle, old.ran_out);
        }
        self.locks = views;
        self.see_idle(server_ms, now);
    }

    pub(crate) fn see_idle(&mut self, server_ms: u64, now: u64) {
        for view in self.locks.values_mut() {
            if view.is_busy(server_ms) {
                view.idle = None;
            } else if view.idle.is_none() {
                view.idle = Some(now);
                let ran_out = view.all_holds().next().is_some();
                view.ran_out = ran_out;
            }
        }
    }

    pub(crate) fn find(&mut self, law: Law, how: String) {
        self.found.get_or_insert(Breach { law, how });
    }
}
