//! What is watched after each step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockyard::{HoldState, LockGuard};
use lockyard_memory::{Entry, Value};
use parking_lot::Mutex;

use crate::law::{Breach, Law};
use crate::plan::{LEASE, OPERATION_TIMEOUT, WAITER_TIMEOUT};

/// How long a free lock may be left so while somebody waits: a look, a command that is not answered and its
/// repetition, and the longest back-off between them.
fn patience() -> u64 {
    (WAITER_TIMEOUT / 3 + OPERATION_TIMEOUT * 2).as_millis() as u64 + 2000
}

/// How long after a documented exception holders may not know yet: until their next check, or its repetition.
pub(crate) fn excuse() -> u64 {
    (LEASE + OPERATION_TIMEOUT).as_millis() as u64
}

/// Where a task keeps a guard while it believes that it holds.
pub(crate) type Slot = Arc<Mutex<Option<LockGuard>>>;

#[derive(Default)]
pub(crate) struct Laws {
    /// By key.
    locks: BTreeMap<String, View>,
    guards: BTreeMap<u64, (usize, String, Slot)>,
    /// Client, lock, and since when.
    waiting: BTreeMap<u64, (usize, usize, u64)>,
    number: u64,
    /// Until when each lock's holders need not know.
    excused: BTreeMap<usize, u64>,
    /// Since when each client is well.
    pub(crate) well: Vec<u64>,
    found: Option<Breach>,
}

/// A lock as Redis has it.
#[derive(Default)]
struct View {
    /// Hold id and deadline.
    holds: Vec<(String, u64)>,
    /// Ticket and hold id.
    queue: Vec<(u64, String)>,
    idle: Option<u64>,
}

pub(crate) fn key(lock: usize) -> String {
    format!("lockyard:lock:{{{lock}}}")
}

impl View {
    fn owners(&self, server_ms: u64) -> BTreeSet<&str> {
        let live = self
            .holds
            .iter()
            .filter(|(_, deadline)| *deadline > server_ms);
        live.map(|(hold, _)| owner(hold)).collect()
    }
}

fn owner(hold: &str) -> &str {
    hold.split('/').next().unwrap_or_default()
}

impl Laws {
    pub(crate) fn believe(&mut self, lock: usize, owner: String, slot: Slot) -> u64 {
        self.number += 1;
        self.guards.insert(self.number, (lock, owner, slot));
        self.number
    }

    pub(crate) fn disbelieve(&mut self, number: u64) {
        self.guards.remove(&number);
    }

    pub(crate) fn waits(&mut self, client: usize, lock: usize, now: u64) -> u64 {
        self.number += 1;
        self.waiting.insert(self.number, (client, lock, now));
        self.number
    }

    pub(crate) fn waits_no_more(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// Holders of a lock may not know for a while that they are none.
    pub(crate) fn excuse(&mut self, lock: usize, until: u64) {
        let excused = self.excused.entry(lock).or_default();
        *excused = until.max(*excused);
    }

    /// What the store holds after a script.
    pub(crate) fn observe(&mut self, entries: &[Entry], server_ms: u64, now: u64) {
        let mut views: BTreeMap<String, View> = BTreeMap::new();
        for entry in entries {
            let key = String::from_utf8_lossy(&entry.key).into_owned();
            if entry.ttl.is_none() {
                self.find(Law::Ttl, format!("{key} stays for ever"));
            }
            match &entry.value {
                Value::Hash(fields) => {
                    views.entry(key).or_default().holds = fields.iter().map(hold).collect();
                }
                Value::SortedSet(places) if key.contains(".queue:") => {
                    let place = |(entry, ticket): &(bytes::Bytes, f64)| {
                        let entry = String::from_utf8_lossy(entry);
                        let hold = entry.split('|').next().unwrap_or_default();
                        (*ticket as u64, hold.to_owned())
                    };
                    let lock = key.replace(".queue:", ":");
                    views.entry(lock).or_default().queue = places.iter().map(place).collect();
                }
                _ => {}
            }
        }
        for (key, view) in &views {
            if let Some(how) = self
                .locks
                .get(key)
                .and_then(|old| overtaken(old, view, server_ms))
            {
                self.find(Law::Order, format!("{key}: {how}"));
            }
        }
        for (key, old) in &mut self.locks {
            views.entry(key.clone()).or_default().idle = old.idle;
        }
        self.locks = views;
        self.see_idle(server_ms, now);
    }

    fn see_idle(&mut self, server_ms: u64, now: u64) {
        for view in self.locks.values_mut() {
            view.idle = match view.owners(server_ms).is_empty() {
                true => view.idle.or(Some(now)),
                false => None,
            };
        }
    }

    fn find(&mut self, law: Law, how: String) {
        self.found.get_or_insert(Breach { law, how });
    }

    pub(crate) fn check(&mut self, server_ms: u64, now: u64) -> Option<Breach> {
        self.see_idle(server_ms, now);
        for (key, view) in &self.locks {
            let owners = view.owners(server_ms);
            if owners.len() > 1 {
                let how = format!("{key} is held by {owners:?}");
                self.found.get_or_insert(Breach {
                    law: Law::OneHolder,
                    how,
                });
            }
        }
        self.check_believers(now);
        self.check_idle(now);
        self.found.take()
    }

    fn check_believers(&mut self, now: u64) {
        let mut believers: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        for (lock, owner, slot) in self.guards.values() {
            let slot = slot.lock();
            let believes = slot
                .as_ref()
                .is_some_and(|guard| guard.state() != HoldState::Lost);
            if believes && self.excused.get(lock).is_none_or(|until| now > *until) {
                believers.entry(*lock).or_default().insert(owner);
            }
        }
        if let Some((lock, owners)) = believers.iter().find(|(_, owners)| owners.len() > 1) {
            let how = format!("{owners:?} believe to hold {lock}");
            self.found.get_or_insert(Breach {
                law: Law::OneBeliever,
                how,
            });
        }
    }

    fn check_idle(&mut self, now: u64) {
        for (client, lock, since) in self.waiting.values() {
            let idle = match self.locks.get(&key(*lock)) {
                Some(view) => view.idle,
                None => Some(0),
            };
            let Some(idle) = idle else { continue };
            let since = idle.max(*since).max(self.well[*client]);
            if now.saturating_sub(since) > patience() {
                let how = format!("client {client} waits for {lock}, free since {since} ms");
                self.found.get_or_insert(Breach {
                    law: Law::NoIdleLock,
                    how,
                });
            }
        }
    }
}

fn hold((hold, value): &(bytes::Bytes, bytes::Bytes)) -> (String, u64) {
    let value = String::from_utf8_lossy(value);
    let deadline = value
        .split(':')
        .nth(1)
        .and_then(|deadline| deadline.parse().ok());
    (
        String::from_utf8_lossy(hold).into_owned(),
        deadline.unwrap_or_default(),
    )
}

/// Whether a hold is new although an earlier waiter is left.
fn overtaken(old: &View, new: &View, server_ms: u64) -> Option<String> {
    let owners = old.owners(server_ms);
    let is_new = |hold: &&str| {
        !old.holds.iter().any(|(other, _)| other == hold) && !owners.contains(owner(hold))
    };
    let holds = new.holds.iter().map(|(hold, _)| hold.as_str());
    for hold in holds.filter(is_new) {
        let place = old.queue.iter().find(|(_, waiter)| waiter == hold);
        let ticket = place.map_or(u64::MAX, |(ticket, _)| *ticket);
        let left = new
            .queue
            .iter()
            .find(|waiter| waiter.0 < ticket && old.queue.contains(waiter));
        if let Some((earlier, waiter)) = left {
            return Some(format!(
                "{hold} with ticket {ticket} overtakes {waiter} with {earlier}"
            ));
        }
    }
    None
}
