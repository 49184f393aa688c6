//! Owners that enter again what they hold in this client, without asking the server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::backend::Moment;
use crate::cell::{Cell, HoldState};
use crate::id::{Id, Kind, Outcome, Phase, Share, Terms};
use crate::owner::Owner;
use crate::state::State;

/// Main key, owner, and whether the hold is of the shared sort.
pub(crate) type NestKey = (Bytes, Owner, bool);

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

impl State {
    /// Tells the other waiters of an owner that it holds now.
    pub(crate) fn let_in(&mut self, (key, owner, shared): &NestKey, now: Moment) {
        let bound = |seq| (key.clone(), owner.clone(), seq);
        let same = self.named.range(bound(0)..=bound(u64::MAX));
        for seq in same.map(|(_, _, seq)| *seq).collect::<Vec<_>>() {
            self.let_one_in(seq, *shared, now);
        }
    }

    /// Has a waiter share what its owner holds; if that is of the other sort, the server says what becomes of it.
    fn let_one_in(&mut self, seq: u64, shared: bool, now: Moment) {
        match self.ids.get(&seq) {
            Some(id) if id.terms.kind.is_shared() == shared => {
                self.tell(seq, Outcome::OwnerHolds, now)
            }
            _ => self.set_due(seq, now),
        }
    }

    /// The owner of a new waiter may have been granted a hold while the answer was under way.
    pub(crate) fn joins_its_owner(&mut self, seq: u64, key: &Bytes, owner: &Owner, now: Moment) {
        for shared in [false, true] {
            if self
                .nests
                .contains_key(&(key.clone(), owner.clone(), shared))
            {
                self.let_one_in(seq, shared, now);
            }
        }
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
        let shared = terms.kind.is_shared();
        let Some(&seq) = self.nests.get(&(key.clone(), owner.clone(), shared)) else {
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
        match terms.kind {
            Kind::Fenced if held.cell.token.is_none() => return Nest::NotFenced,
            // The server knows the token of the last write.
            Kind::SharedFenced if held.cell.token.is_none() => return Nest::Fresh,
            _ => {}
        }
        let share = Share::new(number, terms, now);
        let renew = state == HoldState::Unsure || !share.is_served_by(held, now);
        held.shares.push(share);
        let cell = held.cell.clone();
        self.tell_count(seq, now);
        Nest::Shared { seq, cell, renew }
    }

    /// Has a renewal write the new count soon; it may be some changes at once.
    pub(crate) fn tell_count(&mut self, seq: u64, now: Moment) {
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

    pub(crate) fn forget_nest(&mut self, seq: u64) {
        let Some(Id {
            spec,
            owner: Some(owner),
            terms,
            ..
        }) = self.ids.get(&seq)
        else {
            return;
        };
        let nest = (spec.keys[0].clone(), owner.clone(), terms.kind.is_shared());
        if self.nests.get(&nest) == Some(&seq) {
            self.nests.remove(&nest);
        }
    }
}
