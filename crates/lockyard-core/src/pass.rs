//! Passing a hold on from one task of a client to another, without a command.
//!
//! 1. It is passed on while it is sure, and at most 10 ms long; then the server says who is next.
//! 2. A hold whose owner anybody has asked for is not passed on: another process may have entered it.
//! 3. Tasks that share a place pass it on among themselves: see `room.rs`.
//! 4. Others pass it to the head of the queue, so nobody is overtaken: with each place the server says right behind
//!    which of the same client's it is, if that asks for the same; so whoever is right behind the last that was let in
//!    is at the head. Its place is given up.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Moment;
use crate::cell::{Cell, HoldState};
use crate::id::{Held, Outcome, Passing, Phase, Share, Terms, Waiter};
use crate::state::State;

/// How long tasks pass a hold on before the server says who is next.
const LONGEST: Duration = Duration::from_millis(10);

impl State {
    /// Passes a hold without guards on, if a task waits and that is as good as a release; whether it did.
    pub(crate) fn pass(&mut self, seq: u64, now: Moment) -> bool {
        let Some((terms, cell)) = self.may_pass(seq, now) else {
            return false;
        };
        let passed = match terms.passing {
            Passing::Never => false,
            Passing::InRoom => self.pass_in_room(seq, cell, now),
            Passing::InLine => self.pass_in_line(seq, terms),
        };
        if passed
            && let Some(id) = self.ids.get_mut(&seq)
            && let Phase::Held(held) = &mut id.phase
        {
            held.shares = vec![Share::new(0, terms, now)];
        }
        passed
    }

    fn may_pass(&self, seq: u64, now: Moment) -> Option<(Terms, Arc<Cell>)> {
        if self.rooms.is_empty() && self.lines.is_empty() {
            return None;
        }
        let id = self.ids.get(&seq)?;
        let Phase::Held(Held { cell, .. }) = &id.phase else {
            return None;
        };
        let enough = id.first_lease(self.waiter_timeout) / 3;
        let sure = cell.state(now) == HoldState::Held && cell.remaining(now) >= enough;
        let mine = !cell.is_named() && now.since(cell.since) < LONGEST;
        (sure && mine).then(|| (id.terms, cell.clone()))
    }

    fn pass_in_line(&mut self, seq: u64, terms: Terms) -> bool {
        let Some(key) = self.ids.get(&seq).map(|id| id.spec.keys[0].clone()) else {
            return false;
        };
        while let Some(next) = self.lines.head(&key) {
            if self.ids.get(&next).is_none_or(|id| id.terms != terms) {
                return false;
            }
            self.enter(next);
            let Some(id) = self.ids.get_mut(&next) else {
                return false;
            };
            // Who has stopped waiting meanwhile is about to abandon its id, and the next is at the head.
            if let Some(Waiter::Task(waiter)) = id.take_waiter()
                && waiter.send(Outcome::Passed).is_ok()
            {
                id.phase = Phase::Passed(seq);
                return true;
            }
        }
        false
    }

    /// The hold that the task of an id has been passed, if it has; the place of the id is given up.
    pub(crate) fn take_passed(&mut self, seq: u64, now: Moment) -> Option<(u64, Arc<Cell>)> {
        let Phase::Passed(passed) = self.ids.get(&seq)?.phase else {
            return None;
        };
        self.give_up(seq, now);
        Some((passed, self.cell(passed)?))
    }
}
