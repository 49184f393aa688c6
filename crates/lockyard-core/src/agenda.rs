//! When the watchdog has to see to each id, and to each task that asks for others.

use std::collections::{BTreeMap, BTreeSet};

use crate::backend::Moment;

#[derive(Default)]
pub(crate) struct Agenda {
    order: BTreeSet<(Moment, u64)>,
    due: BTreeMap<u64, Moment>,
}

impl Agenda {
    /// Sets when an id is due; [`Moment::NEVER`] takes it off.
    pub(crate) fn set(&mut self, seq: u64, due: Moment) {
        let old = match due {
            Moment::NEVER => self.due.remove(&seq),
            _ => self.due.insert(seq, due),
        };
        if let Some(old) = old {
            self.order.remove(&(old, seq));
        }
        if due != Moment::NEVER {
            self.order.insert((due, seq));
        }
    }

    pub(crate) fn get(&self, seq: u64) -> Moment {
        self.due.get(&seq).copied().unwrap_or(Moment::NEVER)
    }

    pub(crate) fn first(&self) -> Option<Moment> {
        self.order.first().map(|(due, _)| *due)
    }

    /// What is due by a moment, in order.
    pub(crate) fn due_by(&self, now: Moment) -> impl Iterator<Item = u64> {
        self.order.range(..=(now, u64::MAX)).map(|(_, seq)| *seq)
    }

    /// What is due after a moment and until another, and when.
    pub(crate) fn between(
        &self,
        after: Moment,
        until: Moment,
    ) -> impl Iterator<Item = (Moment, u64)> {
        self.order
            .range((after, u64::MAX)..=(until.max(after), u64::MAX))
            .copied()
    }
}
