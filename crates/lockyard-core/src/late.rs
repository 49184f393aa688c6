//! Ids that are gone, but whose acquire might still come late and bring them back.
//!
//! An acquire is valid for one operation timeout, so its id is released once more when that is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::ask;
use crate::backend::Moment;
use crate::breakages::broken;
use crate::core::Core;
use crate::id::{Id, Spec, Terms};
use crate::owner::Owner;

/// What is to be released when, in steps of a sixteenth of the validity, so that many go in one script.
pub(crate) struct LateQueue {
    /// How long an acquire is valid.
    valid: Duration,
    ripe: BTreeMap<Moment, Vec<Late>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Late {
    /// Whether its acquire was answered, so that only a second copy could bring it back.
    answered: bool,
    /// When whatever came back has run out by itself.
    ends: Moment,
    /// The server µs of the grant that made its hold, if one did.
    granted: Option<u64>,
    /// How often its release has failed.
    pub(crate) tries: u32,
    pub(crate) spec: Arc<Spec>,
    // Its entry is written anew when it is needed: a busy client keeps a hundred thousand of these.
    seq: u64,
    owner: Option<Owner>,
    terms: Terms,
}

impl Late {
    pub(crate) fn entry(&self, core: &Core) -> Bytes {
        ask::entry(core, self.seq, self.owner.as_ref(), self.terms).0
    }
}

impl LateQueue {
    pub(crate) fn new(valid: Duration) -> Self {
        Self {
            valid,
            ripe: BTreeMap::new(),
        }
    }

    pub(crate) fn valid(&self) -> Duration {
        self.valid
    }

    /// Remembers an id, unless its acquire can no longer come.
    pub(crate) fn push(&mut self, seq: u64, id: &Id, answered: bool, now: Moment) {
        let until = id.sent.after(self.valid);
        if until <= now || broken("no second release") {
            return;
        }
        let late = Late {
            answered,
            ends: until.after(id.terms.lease.duration()),
            granted: id.granted,
            tries: 0,
            spec: id.spec.clone(),
            seq,
            owner: id.owner.clone(),
            terms: id.terms,
        };
        self.put(late, until);
    }

    /// The release had no answer: it goes again, while it can do something.
    pub(crate) fn again(&mut self, mut late: Late, now: Moment) {
        if now < late.ends {
            let delay = self.valid / 16 * 2u32.pow(late.tries.min(7));
            late.tries += 1;
            self.put(late, now.after(delay));
        }
    }

    fn put(&mut self, late: Late, until: Moment) {
        let grain = (self.valid.as_nanos() as u64 / 16).max(1);
        let until = (until.as_nanos() + 1).next_multiple_of(grain);
        self.ripe
            .entry(Moment::from_nanos(until))
            .or_default()
            .push(late);
    }

    /// When the first may be released for the last time.
    pub(crate) fn first(&self) -> Option<Moment> {
        self.ripe.first_key_value().map(|(until, _)| *until)
    }

    /// Takes those whose acquire can come no more, as they are kept, for there may be thousands.
    pub(crate) fn take(&mut self, now: Moment) -> BTreeMap<Moment, Vec<Late>> {
        let later = self.ripe.split_off(&now.after(Duration::from_nanos(1)));
        std::mem::replace(&mut self.ripe, later)
    }

    /// Forgets those whose release is answered: only a second copy of their acquire could undo it.
    pub(crate) fn forget_answered(&mut self) {
        self.ripe.retain(|_, late| {
            late.retain(|late| !late.answered);
            !late.is_empty()
        });
    }

    /// The id was granted at a server time: it has come back, and is released at once, unless that is the grant by which
    /// it held.
    pub(crate) fn came_back(&mut self, seq: u64, us: u64, now: Moment) {
        let found = self.ripe.values_mut().find_map(|late| {
            let at = late
                .iter()
                .position(|late| late.seq == seq && late.granted != Some(us))?;
            // It stays, for it may come back again until its validity is over.
            Some(late[at].clone())
        });
        if let Some(late) = found {
            self.ripe.entry(now).or_default().push(late);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ripe.is_empty()
    }
}
