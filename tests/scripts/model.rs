//! What the scripts do, told once more in Rust: who holds, who waits, who lives.
//!
//! Nothing ends by itself in it, for leases are long.

use std::collections::{BTreeMap, BTreeSet};

use super::bare::Id;

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) holds: BTreeMap<Id, Hold>,
    /// By ticket.
    pub(crate) queue: BTreeMap<u64, Id>,
    pub(crate) silent: BTreeSet<String>,
    pub(crate) deaf: BTreeSet<String>,
    fences: usize,
    pub(crate) told: Vec<Told>,
}

#[derive(Clone, Copy)]
pub(crate) struct Hold {
    /// Which fencing token it has, by order of minting.
    pub(crate) fence: Option<usize>,
    /// Whether its lease is over.
    pub(crate) over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Told {
    Granted(Id),
    Revoked(Id),
}

/// The answer to an acquire or for one id of a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Held(Option<usize>),
    Queued,
    Busy,
    Gone,
    Unfenced,
    /// Its owner reads, and would wait for itself.
    Deadlock,
}

impl Model {
    pub(crate) fn acquire(&mut self, id: &Id, mode: &str, ticket: u64) -> Answer {
        self.prune();
        if let Some(answer) = self.again(id, mode) {
            self.queue.retain(|_, other| other != id);
            return answer;
        }
        if mode == "try" {
            self.grant(None);
        }
        if ["try", "wait"].contains(&mode) && self.fits(id) && self.queue.is_empty() {
            return self.hold(id);
        }
        if mode != "wait" {
            return Answer::Busy;
        }
        if !self.waits(id) {
            self.queue.insert(ticket, id.clone());
        }
        self.look(id)
    }

    pub(crate) fn renew(&mut self, id: &Id) -> Answer {
        self.prune();
        if let Some(hold) = self.holds.get(id) {
            return Answer::Held(hold.fence);
        }
        if !self.waits(id) {
            self.grant(None);
            return Answer::Gone;
        }
        if let Some(answer) = self.again(id, "wait") {
            self.queue.retain(|_, other| other != id);
            self.grant(None);
            return answer;
        }
        self.look(id)
    }

    pub(crate) fn release(&mut self, ids: &[&Id]) -> Vec<i64> {
        let queued = !self.queue.is_empty();
        let gone = |id: &&Id| {
            let waiting = self.queue.len();
            self.queue.retain(|_, other| other != *id);
            i64::from(self.holds.remove(*id).is_some() || self.queue.len() < waiting)
        };
        let gone = ids.iter().map(gone).collect();
        // A release where nobody waits has no look at others.
        if queued {
            self.prune();
            self.grant(None);
        }
        gone
    }

    /// Releases all holds by force.
    pub(crate) fn force(&mut self) -> Vec<i64> {
        let held = std::mem::take(&mut self.holds);
        let revoked = held.into_keys().map(Told::Revoked);
        self.told.extend(revoked);
        self.grant(None);
        vec![
            1;
            self.told
                .iter()
                .filter(|told| matches!(told, Told::Revoked(_)))
                .count()
        ]
    }

    pub(crate) fn waits(&self, id: &Id) -> bool {
        self.queue.values().any(|other| other == id)
    }

    fn look(&mut self, id: &Id) -> Answer {
        self.silent.remove(&id.client);
        self.grant(Some(id));
        self.holds
            .get(id)
            .map_or(Answer::Queued, |hold| Answer::Held(hold.fence))
    }

    fn grant(&mut self, own: Option<&Id>) {
        while let Some(first) = self.queue.first_entry()
            && let id = first.get().clone()
            && self.fits(&id)
        {
            self.queue.pop_first();
            if own == Some(&id) {
                self.hold(&id);
            } else if !self.silent.contains(&id.client) && !self.deaf.contains(&id.client) {
                self.hold(&id);
                self.told.push(Told::Granted(id));
            }
        }
    }

    /// Readers together, a writer alone.
    fn fits(&self, id: &Id) -> bool {
        self.holds.keys().all(|held| held.reads && id.reads)
    }

    fn hold(&mut self, id: &Id) -> Answer {
        let mints = id.fenced && !id.reads;
        self.fences += usize::from(mints);
        self.re_enter(id, mints.then_some(self.fences))
    }

    /// What becomes of an owner that holds already: whoever writes does as it likes, and whoever reads may read on.
    fn again(&mut self, id: &Id, mode: &str) -> Option<Answer> {
        if let Some(fence) = self.fence_of(&id.owner) {
            return Some(self.re_enter(id, fence));
        }
        let own = |held: &Id| held.owner == id.owner;
        if !self.holds.keys().any(own) {
            return None;
        }
        let alone = self.holds.keys().all(own);
        Some(match (id.reads, mode) {
            (true, _) => self.hold(id),
            (false, "upgrade") if alone => self.hold(id),
            (false, "upgrade") => Answer::Busy,
            (false, _) => Answer::Deadlock,
        })
    }

    fn re_enter(&mut self, id: &Id, fence: Option<usize>) -> Answer {
        if id.fenced && !id.reads && fence.is_none() {
            return Answer::Unfenced;
        }
        let fence = fence.filter(|_| !id.reads);
        self.holds
            .entry(id.clone())
            .or_insert(Hold { fence, over: false });
        Answer::Held(fence)
    }

    fn fence_of(&self, owner: &str) -> Option<Option<usize>> {
        self.holds
            .iter()
            .find(|(id, _)| id.owner == owner && !id.reads)
            .map(|(_, hold)| hold.fence)
    }

    fn prune(&mut self) {
        self.holds.retain(|_, hold| !hold.over);
    }
}
