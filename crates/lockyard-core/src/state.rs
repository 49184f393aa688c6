//! Every hold and waiter of a client, and when the watchdog has to see to each.
//!
//! An id is here from before its acquire is sent until its release is answered:
//! asked → queued → held → leaving, with shortcuts; lost instead of held while guards are left.
//!
//! 1. Whatever makes an id leave also releases it on the server, once more after the acquire's validity.
//! 2. Of those who wait for one key the first looks, and each whose owner has travelled.
//! 3. Lost stays lost, and nothing re-enters a lost hold.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::agenda::Agenda;
use crate::alarm::Alarms;
use crate::backend::{Lane, Moment};
use crate::breakages::broken;
use crate::cell::{Cell, HoldState};
use crate::error::Error;
use crate::gather::Gate;
use crate::id::{Held, Id, Leaving, Outcome, Phase, Share, Terms};
use crate::late::LateQueue;
use crate::lines::Lines;
use crate::owner::Owner;
use crate::sync::Sync;

pub(crate) struct State {
    ids: BTreeMap<u64, Id>,
    lines: Lines,
    /// Main key and named owner → the id through which it holds.
    nests: BTreeMap<(Bytes, Owner), u64>,
    /// Main key, named owner and number of each who waits under a name.
    named: BTreeSet<(Bytes, Owner, u64)>,
    agenda: Agenda,
    pub(crate) late: LateQueue,
    pub(crate) alarms: Alarms,
    pub(crate) gate: Gate,
    pub(crate) sync: Option<Sync>,
    /// Whether grants can be heard.
    pub(crate) inbox: bool,
    pub(crate) closed: bool,
    /// Until when the watchdog sleeps.
    pub(crate) sleeps_until: Option<Moment>,
}

/// How an acquire of a named owner meets the hold that the owner has in this client.
pub(crate) enum Nest {
    /// The owner holds nothing here.
    Fresh,
    /// The hold is shared; `renew` if it has to be renewed first.
    Shared {
        seq: u64,
        cell: Arc<Cell>,
        renew: bool,
    },
    /// The hold has no token, and one is asked for.
    NotFenced,
}

/// How a guard's release meets its hold.
pub(crate) enum Parting {
    /// Other guards keep the hold.
    Shared(HoldState),
    /// It was the last; the hold of this entry is to be released on the server, before its deadline.
    Last(HoldState, Moment, Bytes),
}

impl State {
    /// Empty, for a client whose acquires are valid so long.
    pub(crate) fn new(valid: Duration) -> Self {
        Self {
            ids: BTreeMap::new(),
            lines: Lines::default(),
            nests: BTreeMap::new(),
            named: BTreeSet::new(),
            agenda: Agenda::default(),
            late: LateQueue::new(valid),
            alarms: Alarms::default(),
            gate: Gate::default(),
            sync: None,
            inbox: false,
            closed: false,
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
    pub(crate) fn queued(&mut self, seq: u64, ticket: u64, look: Moment) {
        let Some(id) = self.ids.get_mut(&seq) else {
            return;
        };
        if !matches!(id.phase, Phase::Asked(_)) {
            return;
        }
        if let Some(waiter) = id.take_waiter() {
            id.phase = Phase::Queued(waiter, ticket);
        }
        let key = id.spec.keys[0].clone();
        self.lines.join(&key, ticket, seq);
        if let Some(owner) = id.owner.clone() {
            let nest = (key.clone(), owner.clone());
            self.named.insert((key, owner, seq));
            // The owner may have been granted the lock while the answer was under way.
            if self.nests.contains_key(&nest) {
                return self.tell(seq, Outcome::OwnerHolds);
            }
        }
        if self.looks(seq) {
            self.set_due(seq, look);
        }
    }

    /// The id holds; whoever waits for it is told.
    pub(crate) fn held(&mut self, seq: u64, cell: Cell, check: Moment) {
        self.leave_line(seq);
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
        // Nobody listens if the caller is going to read the reply itself, or is gone; then its claim releases the id.
        let _ = waiter.send(Outcome::Granted);
        let nest = id
            .owner
            .clone()
            .map(|owner| (id.spec.keys[0].clone(), owner));
        self.set_due(seq, check.min(deadline));
        if let Some(nest) = nest {
            self.nests.insert(nest.clone(), seq);
            self.let_in(&nest);
        }
    }

    /// What the guards of an id see, if it has been held.
    pub(crate) fn cell(&self, seq: u64) -> Option<Arc<Cell>> {
        match &self.ids.get(&seq)?.phase {
            Phase::Held(held) | Phase::Lost(held) => Some(held.cell.clone()),
            _ => None,
        }
    }

    /// Tells the other waiters of an owner that it holds now.
    fn let_in(&mut self, (key, owner): &(Bytes, Owner)) {
        let bound = |seq| (key.clone(), owner.clone(), seq);
        let same = self.named.range(bound(0)..=bound(u64::MAX));
        for seq in same.map(|(_, _, seq)| *seq).collect::<Vec<_>>() {
            self.tell(seq, Outcome::OwnerHolds);
        }
    }

    /// Ends waiting with an outcome other than a hold; the waiter's claim then releases the id.
    pub(crate) fn tell(&mut self, seq: u64, outcome: Outcome) {
        self.leave_line(seq);
        let Some(id) = self.ids.get_mut(&seq) else {
            return;
        };
        if let Some(waiter) = id.take_waiter() {
            // Whoever waited may be gone; then its claim releases the id.
            let _ = waiter.send(outcome);
        }
    }

    /// Takes an id out of its line; the next in it looks when this one would have.
    fn leave_line(&mut self, seq: u64) {
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

    /// Lets an acquire of a named owner share the hold that the owner has here.
    pub(crate) fn nest(
        &mut self,
        key: &Bytes,
        owner: &Owner,
        terms: Terms,
        number: u64,
        now: Moment,
    ) -> Nest {
        let Some(&seq) = self.nests.get(&(key.clone(), owner.clone())) else {
            return Nest::Fresh;
        };
        let Some(Id {
            phase: Phase::Held(held),
            ..
        }) = self.ids.get_mut(&seq)
        else {
            return Nest::Fresh;
        };
        let state = held.cell.state(now);
        if state == HoldState::Lost {
            return Nest::Fresh;
        }
        if terms.kind == 'f' && held.cell.token.is_none() {
            return Nest::NotFenced;
        }
        let share = Share::new(number, terms, now);
        let renew = state == HoldState::Unsure || !share.is_served_by(held, now);
        held.shares.push(share);
        let cell = held.cell.clone();
        self.tell_count(seq, now);
        Nest::Shared { seq, cell, renew }
    }

    /// Has a renewal write the new count soon; it may be some changes at once.
    fn tell_count(&mut self, seq: u64, now: Moment) {
        if matches!(
            self.ids.get(&seq),
            Some(Id {
                phase: Phase::Held(_),
                ..
            })
        ) {
            let soon = now.after(Duration::from_millis(10));
            self.agenda.set(seq, self.agenda.get(seq).min(soon));
        }
    }

    /// The hold is gone: its guards learn it now, and nothing re-enters it.
    pub(crate) fn lose(&mut self, seq: u64, now: Moment) -> bool {
        let Some(id) = self.ids.get_mut(&seq) else {
            return false;
        };
        match mem::replace(&mut id.phase, Phase::Ended) {
            Phase::Held(held) => {
                held.cell.lose();
                id.phase = Phase::Lost(held);
                // While guards are left nobody releases what a late copy of its acquire brings back.
                self.late.push(id, true, now);
            }
            phase => {
                id.phase = phase;
                return false;
            }
        }
        self.forget_nest(seq);
        self.set_due(seq, Moment::NEVER);
        true
    }

    fn forget_nest(&mut self, seq: u64) {
        let Some(Id {
            spec,
            owner: Some(owner),
            ..
        }) = self.ids.get(&seq)
        else {
            return;
        };
        let nest = (spec.keys[0].clone(), owner.clone());
        if self.nests.get(&nest) == Some(&seq) {
            self.nests.remove(&nest);
        }
    }

    /// A guard gives up its share.
    pub(crate) fn part(&mut self, seq: u64, number: u64, now: Moment) -> Option<Parting> {
        let id = self.ids.get_mut(&seq)?;
        let (Phase::Held(held) | Phase::Lost(held)) = &mut id.phase else {
            return None;
        };
        held.shares.retain(|share| share.number != number);
        let (state, deadline) = (held.cell.state(now), held.cell.deadline());
        if held.shares.is_empty() {
            let entry = id.entry.clone();
            self.leave(seq, Lane::Watchdog, now);
            return Some(Parting::Last(state, deadline, entry));
        }
        self.tell_count(seq, now);
        Some(Parting::Shared(state))
    }

    /// Whoever asked for the id does not want it any more, whatever has become of it.
    pub(crate) fn abandon(&mut self, seq: u64, now: Moment) {
        let Some(id) = self.ids.get(&seq) else { return };
        let all = broken("a dropped acquire takes others along");
        if matches!(id.phase, Phase::Held(_) | Phase::Lost(_)) && !all {
            // Granted without anybody's taking it; but others of the owner may share the hold by now.
            if let Some(Parting::Last(..)) = self.part(seq, 0, now) {
                self.set_due(seq, now);
            }
            return;
        }
        self.give_up(seq, now);
    }

    fn give_up(&mut self, seq: u64, now: Moment) {
        let Some(id) = self.ids.get(&seq) else { return };
        if matches!(id.phase, Phase::Leaving(_)) {
            return;
        }
        // On the caller's connection the release cannot overtake an acquire that is still under way there.
        let lane = if matches!(id.phase, Phase::Asked(_)) {
            Lane::Caller
        } else {
            Lane::Watchdog
        };
        self.leave(seq, lane, now);
        self.set_due(seq, now);
    }

    fn leave(&mut self, seq: u64, lane: Lane, now: Moment) {
        self.leave_line(seq);
        self.forget_nest(seq);
        self.set_due(seq, Moment::NEVER);
        let Some(id) = self.ids.get_mut(&seq) else {
            return;
        };
        let until = match &id.phase {
            Phase::Held(held) => held.cell.deadline(),
            _ => now.after(id.terms.lease.duration()),
        };
        let answered = !matches!(id.phase, Phase::Asked(_) | Phase::Ended);
        id.phase = Phase::Leaving(Leaving {
            until: until.max(now.after(self.late.valid())),
            tries: 0,
            lane,
        });
        self.late.push(id, answered, now);
    }

    /// The acquire left nothing, unless a second copy of it is under way.
    pub(crate) fn dismiss(&mut self, seq: u64, now: Moment) {
        if let Some(id) = self.ids.get(&seq) {
            self.late.push(id, true, now);
        }
        self.finish(seq);
    }

    /// The id's release is answered.
    pub(crate) fn finish(&mut self, seq: u64) {
        self.set_due(seq, Moment::NEVER);
        self.ids.remove(&seq);
    }

    /// Ends every hold and all waiting, for the client is shut down.
    pub(crate) fn close(&mut self, now: Moment) {
        self.closed = true;
        for seq in self.ids.keys().copied().collect::<Vec<_>>() {
            self.tell(seq, Outcome::Failed(Error::Closed));
            self.lose(seq, now);
            if !broken("a shutdown releases nothing") {
                self.give_up(seq, now);
            }
        }
    }
}
