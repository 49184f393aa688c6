//! Ids that are gone, but whose acquire might still come late and bring them back.
//!
//! An acquire is valid for one operation timeout, so its id is released once more when that is over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::backend::Moment;
use crate::id::{Id, Spec};

#[derive(Default)]
pub(crate) struct LateQueue(VecDeque<Late>);

pub(crate) struct Late {
    until: Moment,
    /// Whether its acquire was answered, so that only a second copy could bring it back.
    answered: bool,
    pub(crate) spec: Arc<Spec>,
    pub(crate) entry: Bytes,
}

impl LateQueue {
    /// Remembers an id, unless its acquire can no longer come.
    pub(crate) fn push(&mut self, id: &Id, answered: bool, now: Moment, valid: Duration) {
        let until = id.sent.after(valid);
        if until <= now {
            return;
        }
        // Rounded up, so that many are released by one script.
        let grain = (valid.as_nanos() as u64 / 16).max(1);
        let until = Moment::from_nanos(until.as_nanos().next_multiple_of(grain));
        self.0.push_back(Late {
            until,
            answered,
            spec: id.spec.clone(),
            entry: id.entry.clone(),
        });
    }

    /// When the first may be released for the last time.
    pub(crate) fn first(&self) -> Option<Moment> {
        self.0.front().map(|late| late.until)
    }

    /// Takes those whose acquire can come no more; the first of them decides for all behind it.
    pub(crate) fn take(&mut self, now: Moment) -> impl Iterator<Item = Late> {
        let ripe = self
            .0
            .iter()
            .position(|late| late.until > now)
            .unwrap_or(self.0.len());
        self.0.drain(..ripe)
    }

    /// Forgets those whose release is answered: only a second copy of their acquire could undo it.
    pub(crate) fn forget_answered(&mut self) {
        self.0.retain(|late| !late.answered);
    }

    /// The id of this entry, or of an entry that this one begins with, has come back: it is released at once.
    pub(crate) fn came_back(&mut self, entry: &[u8], now: Moment) {
        let at = self
            .0
            .iter()
            .position(|late| entry.starts_with(&late.entry));
        if let Some(mut late) = at.and_then(|at| self.0.remove(at)) {
            late.until = now;
            self.0.push_front(late);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
