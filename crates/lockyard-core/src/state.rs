//! Every hold and waiter of a client, and when the watchdog has to see to each.
//!
//! An id is here from before its acquire is sent until its release is answered:
//! asked → queued → held → leaving, with shortcuts; lost instead of held while guards are left.
//!
//! 1. Whatever makes an id leave also releases it on the server, once more after the acquire's validity.
//! 2. Of those who wait for one key the first looks, and each whose owner has travelled.
//! 3. Lost stays lost, and nothing re-enters a lost hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::agenda::Agenda;
use crate::alarm::Alarms;
use crate::backend::Moment;
use crate::breakages::broken;
use crate::cell::Cell;
use crate::gather::Gate;
use crate::id::{Held, Id, Outcome, Phase, Share, Waiter};
use crate::late::LateQueue;
use crate::lines::Lines;
use crate::nests::NestKey;
use crate::owner::Owner;
use crate::reply::Place;
use crate::room::Rooms;
use crate::sync::Sync;

pub(crate) struct State {
    pub(crate) ids: BTreeMap<u64, Id>,
    pub(crate) lines: Lines,
    /// The id through which a named owner holds.
    pub(crate) nests: BTreeMap<NestKey, u64>,
    /// Main key, named owner and number of each who waits under a name.
    pub(crate) named: BTreeSet<(Bytes, Owner, u64)>,
    pub(crate) agenda: Agenda,
    pub(crate) late: LateQueue,
    pub(crate) alarms: Alarms,
    pub(crate) gate: Gate,
    pub(crate) rooms: Rooms,
    pub(crate) sync: Option<Sync>,
    /// Whether grants can be heard.
    pub(crate) inbox: bool,
    pub(crate) closed: bool,
    /// T, after which a silent waiting client counts as gone.
    pub(crate) waiter_timeout: Duration,
    /// Until when the watchdog sleeps.
    pub(crate) sleeps_until: Option<Moment>,
}

impl State {
    /// Empty, for a client whose acquires are valid so long.
    pub(crate) fn new(valid: Duration, waiter_timeout: Duration) -> Self {
        Self {
            ids: BTreeMap::new(),
            lines: Lines::default(),
            nests: BTreeMap::new(),
            named: BTreeSet::new(),
            agenda: Agenda::default(),
            late: LateQueue::new(valid),
            alarms: Alarms::default(),
            gate: Gate::default(),
            rooms: Rooms::default(),
            sync: None,
            inbox: false,
            closed: false,
            waiter_timeout,
            sleeps_until: None,
        }
    }

    pub(crate) fn register(&mut self, seq: u64, id: Id) {
        self.ids.insert(seq, id);
    }

    pub(crate) fn get(&self, seq: u64) -> Option<&Id> {
        self.ids.get(&seq)
    }

    pub(crate) fn get_mut(&mut self, seq: u64) -> Option<&mut Id> {
        self.ids.get_mut(&seq)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(crate) fn holds(&self) -> Vec<u64> {
        let held = |id: &Id| matches!(id.phase, Phase::Held(_));
        self.ids
            .iter()
            .filter(|(_, id)| held(id))
            .map(|(seq, _)| *seq)
            .collect()
    }

    pub(crate) fn answered(&mut self, sync: Sync) {
        if self.sync.is_none_or(|old| old.sent <= sync.sent) {
            self.sync = Some(sync);
        }
    }

    /// Sets when the watchdog sees to an id next.
    pub(crate) fn set_due(&mut self, seq: u64, due: Moment) {
        if self.ids.contains_key(&seq) {
            self.agenda.set(seq, due);
        }
    }

    pub(crate) fn due(&self, seq: u64) -> Moment {
        self.agenda.get(seq)
    }

    /// How many tasks of this client wait for a key.
    pub(crate) fn waiting(&self, key: &Bytes) -> usize {
        let (tasks, places) = self.rooms.waiting(key);
        // Behind a place that is shared stand the tasks of its room.
        (self.lines.len(key) + tasks).saturating_sub(places)
    }

    /// When the watchdog has something to do next.
    pub(crate) fn next_wake(&self) -> Option<Moment> {
        let first = [
            self.agenda.first(),
            self.late.first(),
            self.alarms.first(),
            self.gate.first(),
        ];
        first.into_iter().flatten().min()
    }

    /// Takes what is due by now, and with it what would be so a little later: what is renewed together stays together.
    pub(crate) fn take_due(&mut self, now: Moment, look: Duration) -> Vec<u64> {
        let mut taken: Vec<u64> = self.agenda.due_by(now).collect();
        let early = |seq: &u64| self.early(*seq, look);
        if let Some(longest) = taken.iter().filter_map(early).max() {
            let soon = |(due, seq): &(Moment, u64)| {
                early(seq).is_some_and(|early| due.since(now) <= early)
            };
            taken.extend(
                self.agenda
                    .between(now, now.after(longest))
                    .filter(soon)
                    .map(|(_, seq)| seq),
            );
        }
        for seq in &taken {
            self.agenda.set(*seq, Moment::NEVER);
        }
        taken
    }

    /// How much too early an id may be renewed to go along with others: half its period, or for a look as much as
    /// looks differ by chance. `None` if it is not at rest.
    fn early(&self, seq: u64, look: Duration) -> Option<Duration> {
        match self.ids.get(&seq)? {
            Id { flying: true, .. } => None,
            Id {
                phase: Phase::Held(held),
                ..
            } => Some(held.period() / 2),
            Id {
                phase: Phase::Queued(..),
                ..
            } => Some(look / 10),
            _ => None,
        }
    }

    /// The id has its place in the queue.
    pub(crate) fn queued(&mut self, seq: u64, place: Place, look: Moment, now: Moment) {
        let Some(id) = self.ids.get_mut(&seq) else {
            return;
        };
        if !matches!(id.phase, Phase::Asked(_)) {
            return;
        }
        if let Some(waiter) = id.take_waiter() {
            id.phase = Phase::Queued(waiter, place.ticket);
        }
        let key = id.spec.keys[0].clone();
        self.lines.join(&key, place.ticket, seq, place.behind);
        let owner = id.owner.clone();
        if self.looks(seq) {
            self.set_due(seq, look);
        }
        if let Some(owner) = owner {
            self.named.insert((key.clone(), owner.clone(), seq));
            self.joins_its_owner(seq, &key, &owner, now);
        }
    }

    /// The id holds; whoever waits for it is told.
    pub(crate) fn held(&mut self, seq: u64, cell: Cell, check: Moment) {
        self.enter(seq);
        let Some(id) = self.ids.get_mut(&seq) else {
            return;
        };
        let Some(waiter) = id.take_waiter() else {
            return;
        };
        let (since, deadline) = (cell.since, cell.deadline());
        id.phase = Phase::Held(Held {
            cell: Arc::new(cell),
            shares: vec![Share::new(0, id.terms, since)],
        });
        match waiter {
            // Nobody listens if the caller is going to read the reply itself, or is gone; then its claim releases the id.
            Waiter::Task(waiter) => drop(waiter.send(Outcome::Granted)),
            Waiter::Room => {
                self.set_due(seq, check.min(deadline));
                return self.place_held(seq, since);
            }
        }
        let nest = id
            .owner
            .clone()
            .map(|owner| (id.spec.keys[0].clone(), owner, id.terms.kind.is_shared()));
        self.set_due(seq, check.min(deadline));
        if let Some(nest) = nest {
            self.nests.insert(nest.clone(), seq);
            self.let_in(&nest, since);
        }
    }

    /// What the guards of an id see, if it has been held.
    pub(crate) fn cell(&self, seq: u64) -> Option<Arc<Cell>> {
        match &self.ids.get(&seq)?.phase {
            Phase::Held(held) | Phase::Lost(held) => Some(held.cell.clone()),
            _ => None,
        }
    }

    /// Ends waiting with an outcome other than a hold; the waiter's claim then releases the id.
    pub(crate) fn tell(&mut self, seq: u64, outcome: Outcome, now: Moment) {
        self.leave_line(seq);
        let Some(id) = self.ids.get_mut(&seq) else {
            return;
        };
        match id.take_waiter() {
            // Whoever waited may be gone; then its claim releases the id.
            Some(Waiter::Task(waiter)) => drop(waiter.send(outcome)),
            Some(Waiter::Room) => self.place_ended(seq, outcome, now),
            None => {}
        }
    }

    /// An id is let in, which takes it out of its line.
    pub(crate) fn enter(&mut self, seq: u64) {
        if let Some(id) = self.ids.get(&seq) {
            self.lines.enter(&id.spec.keys[0], seq);
        }
        self.leave_line(seq);
    }

    /// Takes an id out of its line; the next in it looks when this one would have.
    pub(crate) fn leave_line(&mut self, seq: u64) {
        let Some(id) = self.ids.get(&seq) else { return };
        let Phase::Queued(_, ticket) = id.phase else {
            return;
        };
        let looks = self.lines.first(&id.spec.keys[0]) == Some(seq);
        let due = match self.agenda.get(seq) {
            // Its look is under way, and whatever comes of it will not find it here any more.
            Moment::NEVER if looks => Moment::from_nanos(0),
            due => due,
        };
        self.agenda.set(seq, Moment::NEVER);
        if let Some(owner) = &id.owner {
            self.named
                .remove(&(id.spec.keys[0].clone(), owner.clone(), seq));
        }
        if let Some(next) = self.lines.leave(&id.spec.keys[0], ticket, seq) {
            self.agenda.set(next, self.agenda.get(next).min(due));
        }
    }

    /// The first of each line and all whose owner has travelled look now, and each hold is checked.
    pub(crate) fn check_all(&mut self, now: Moment) {
        let mut due = self.holds();
        due.extend(self.lines.begin_walks());
        due.extend(
            self.ids
                .iter()
                .filter(|(_, id)| id.waits_for_a_traveller())
                .map(|(seq, _)| *seq),
        );
        for seq in due {
            self.agenda.set(seq, now);
        }
    }

    /// After looks at one key: unless one of them was still queued, the next look.
    pub(crate) fn walk_on(&mut self, key: &Bytes, queued: bool, now: Moment) {
        for seq in self.lines.walk_on(key, queued) {
            self.agenda.set(seq, now);
        }
    }

    /// Whether the id is one that looks for its line, or for itself.
    pub(crate) fn looks(&self, seq: u64) -> bool {
        if broken("nobody looks") {
            return false;
        }
        let Some(id) = self.ids.get(&seq) else {
            return false;
        };
        self.lines.first(&id.spec.keys[0]) == Some(seq) || id.waits_for_a_traveller()
    }
}
