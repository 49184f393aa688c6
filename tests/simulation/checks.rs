//! The laws that are about time, checked after each step.

use std::collections::BTreeMap;

use lockyard::HoldState;

use crate::door::{Beside, PERMITS};
use crate::law::{Breach, Law};
use crate::laws::{Guard, Laws, patience, phantom};
use crate::plan::LEASE;

impl Laws {
    pub(crate) fn check(&mut self, server_ms: u64, now: u64) -> Option<Breach> {
        self.see_idle(server_ms, now);
        for (key, view) in &self.locks {
            if let Some(conflict) = view.conflict(server_ms) {
                let how = format!("{key} is {conflict}");
                self.found.get_or_insert(Breach {
                    law: Law::OneHolder,
                    how,
                });
            }
        }
        self.check_beliefs(server_ms, now);
        self.check_idle(now);
        self.check_phantoms(server_ms, now);
        self.found.take()
    }

    /// Whoever believes to hold does so, and is the only one.
    fn check_beliefs(&mut self, server_ms: u64, now: u64) {
        let mut believers: BTreeMap<&str, Vec<&Guard>> = BTreeMap::new();
        let mut found = None;
        for (number, guard) in &self.guards {
            let Guard {
                client,
                lock,
                owner,
                slot,
                ..
            } = guard;
            let slot = slot.lock();
            let believes = slot
                .as_ref()
                .is_some_and(|guard| guard.state() != HoldState::Lost);
            if slot.is_some() && !believes {
                self.lost.insert(*number);
            } else if believes && self.lost.contains(number) {
                found = Some((
                    Law::Lost,
                    format!("{owner} had lost {lock}, and holds it again"),
                ));
            }
            if !believes || self.is_excused(lock, client, now) {
                continue;
            }
            believers.entry(lock).or_default().push(guard);
            let view = self.locks.get(lock);
            if !view.is_some_and(|view| view.owners(server_ms).contains(owner.as_str())) {
                found = Some((Law::Belief, format!("{owner} believes to hold {lock}")));
            }
        }
        if let Some((lock, guards)) = believers.iter().find(|(_, guards)| conflict(guards)) {
            let owners: Vec<&str> = guards.iter().map(|guard| &guard.owner[..]).collect();
            found = Some((
                Law::OneBeliever,
                format!("{owners:?} believe to hold {lock}"),
            ));
        }
        if let Some((law, how)) = found {
            self.find(law, how);
        }
    }

    fn check_idle(&mut self, now: u64) {
        let too_long = self
            .asking
            .values()
            .filter(|asking| asking.waits)
            .find_map(|asking| {
                let (idle, ran_out) = match self.locks.get(&asking.lock) {
                    Some(view) => (view.idle?, view.ran_out),
                    None => (0, false),
                };
                let since = idle.max(asking.since).max(*self.well.get(&asking.client)?);
                (now.saturating_sub(since) > patience(self.calm, ran_out)).then(|| {
                    format!(
                        "{} waits for {}, free since {since} ms",
                        asking.client, asking.lock
                    )
                })
            });
        if let Some(how) = too_long {
            self.find(Law::NoIdleLock, how);
        }
    }

    /// A hold of a client that is well is some guard's, or about to become so, or about to go.
    fn check_phantoms(&mut self, server_ms: u64, now: u64) {
        let mut phantoms = BTreeMap::new();
        for (key, view) in &self.locks {
            for hold in view.live(server_ms) {
                let guarded = self.guards.values().any(|guard| {
                    guard.lock == *key && guard.owner == hold.owner() && guard.slot.lock().is_some()
                });
                let asked = self.asking.values().any(|asking| {
                    asking.client == hold.client()
                        && asking.lock == *key
                        && asking.server_ms <= hold.since
                });
                if let (false, Some(well)) = (guarded || asked, self.well.get(hold.client())) {
                    let since = self
                        .phantoms
                        .get(&hold.id)
                        .copied()
                        .unwrap_or(now)
                        .max(*well);
                    phantoms.insert(hold.id.clone(), since);
                }
            }
        }
        self.phantoms = phantoms;
        let stays = |(_, since): &(&String, &u64)| {
            let lease = LEASE.as_millis() as u64;
            let excused = if **since <= self.stepped_back {
                lease
            } else {
                0
            };
            now.saturating_sub(**since) > phantom() + excused
        };
        if let Some((hold, since)) = self.phantoms.iter().find(stays) {
            let how = format!("nobody wants {hold} since {since} ms");
            self.find(Law::NoPhantom, how);
        }
    }
}

/// Whether two of these must not believe at once.
fn conflict(guards: &[&Guard]) -> bool {
    let permits = |guard: &&Guard| match guard.beside {
        Beside::Permits(permits) => permits,
        Beside::Nobody | Beside::Readers => 0,
    };
    let pairs = guards.iter().enumerate().any(|(at, one)| {
        guards[..at].iter().any(|other| {
            let apart = one.beside == Beside::Nobody || other.beside == Beside::Nobody;
            let same = one.owner == other.owner;
            // A lock that was passed on keeps its owner, and then only one may have it.
            apart && !same || same && one.alone && other.alone
        })
    });
    pairs || guards.iter().map(permits).sum::<u32>() > PERMITS
}
