//! How an id ends: lost, released, given up, or all at once.

use std::mem;

use bytes::Bytes;

use crate::backend::{Lane, Moment};
use crate::breakages::broken;
use crate::cell::HoldState;
use crate::error::Error;
use crate::id::{Leaving, Outcome, Phase};
use crate::metrics::{self, Loss};
use crate::state::State;

/// How a guard's release meets its hold.
pub(crate) enum Parting {
    /// Other guards keep the hold.
    Shared(HoldState),
    /// It was the last, and another task has the hold now.
    Passed,
    /// It was the last; the hold is to be released on the server.
    Last(Last),
}

/// A hold without guards.
pub(crate) struct Last {
    pub(crate) state: HoldState,
    pub(crate) deadline: Moment,
    /// Numbers and entries of what is to be released: the hold, and before it a place that nobody needs any more.
    pub(crate) leaving: Vec<(u64, Bytes)>,
}

impl State {
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
                self.late.push(seq, id, true, now);
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

    /// A guard gives up its share.
    pub(crate) fn part(&mut self, seq: u64, number: u64, now: Moment) -> Option<Parting> {
        let id = self.ids.get_mut(&seq)?;
        let (Phase::Held(held) | Phase::Lost(held)) = &mut id.phase else {
            return None;
        };
        held.shares.retain(|share| share.number != number);
        let (state, deadline) = (held.cell.state(now), held.cell.deadline());
        if held.shares.is_empty() {
            if state == HoldState::Lost && matches!(id.phase, Phase::Held(_)) {
                // The watchdog has not seen it yet, and will not any more.
                metrics::lost(&id.spec, Loss::Expired);
            }
            if self.pass(seq, now) {
                return Some(Parting::Passed);
            }
            let mut leaving = Vec::new();
            for seq in self.take_spare(seq).into_iter().chain([seq]) {
                leaving.extend(self.ids.get(&seq).map(|id| (seq, id.entry.clone())));
                self.leave(seq, Lane::Watchdog, now);
            }
            return Some(Parting::Last(Last {
                state,
                deadline,
                leaving,
            }));
        }
        self.tell_count(seq, now);
        Some(Parting::Shared(state))
    }

    /// A guard gives up its share, and leaves a release to the watchdog.
    pub(crate) fn part_in_background(&mut self, seq: u64, number: u64, now: Moment) {
        if let Some(Parting::Last(last)) = self.part(seq, number, now) {
            self.release_in_background(&last.leaving, now);
        }
    }

    pub(crate) fn release_in_background(&mut self, leaving: &[(u64, Bytes)], now: Moment) {
        for (seq, _) in leaving {
            self.set_due(*seq, now);
        }
    }

    /// Whoever asked for the id does not want it any more, whatever has become of it.
    pub(crate) fn abandon(&mut self, seq: u64, now: Moment) {
        let Some(id) = self.ids.get(&seq) else { return };
        let all = broken("a dropped acquire takes others along");
        if matches!(id.phase, Phase::Held(_) | Phase::Lost(_)) && !all {
            // Granted without anybody's taking it; but others of the owner may share the hold by now.
            return self.part_in_background(seq, 0, now);
        }
        if let Some((passed, _)) = self.take_passed(seq, now) {
            if !broken("a dropped task keeps what it was passed") {
                self.part_in_background(passed, 0, now);
            }
            return;
        }
        self.give_up(seq, now);
    }

    pub(crate) fn give_up(&mut self, seq: u64, now: Moment) {
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

    pub(crate) fn leave(&mut self, seq: u64, lane: Lane, now: Moment) {
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
        self.late.push(seq, id, answered, now);
    }

    /// The acquire left nothing, unless a second copy of it is under way.
    pub(crate) fn dismiss(&mut self, seq: u64, now: Moment) {
        if let Some(id) = self.ids.get(&seq) {
            self.late.push(seq, id, true, now);
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
        self.close_rooms();
        for seq in self.ids.keys().copied().collect::<Vec<_>>() {
            self.tell(seq, Outcome::Failed(Error::Closed), now);
            self.lose(seq, now);
            if !broken("a shutdown releases nothing") {
                self.give_up(seq, now);
            }
        }
    }
}
