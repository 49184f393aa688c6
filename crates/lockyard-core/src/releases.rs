//! Releases in the background: of dropped guards, of ids that were given up, and once more of those whose acquire
//! might still come late.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::backend::{Arg, Fault, Lane, Moment};
use crate::core::Core;
use crate::error::ServerError;
use crate::id::{Phase, Spec};
use crate::late::Late;
use crate::renewal::slot;
use crate::reply::{self, Answer, Released};
use crate::state::State;

/// The most entries in one script; each may bring four keys.
pub(crate) const BATCH: usize = 500;

/// An entry to release, and what for.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(crate) of: Of,
    pub(crate) spec: Arc<Spec>,
    pub(crate) entry: Bytes,
    pub(crate) lane: Lane,
}

/// What a release is for.
#[derive(Clone, Debug)]
pub(crate) enum Of {
    /// An id that is given up.
    Id(u64),
    /// An id that is gone, but may have come back.
    Late(Late),
}

impl Release {
    pub(crate) fn of(state: &State, seq: u64) -> Option<Self> {
        let id = state.get(seq)?;
        let Phase::Leaving(leaving) = &id.phase else {
            return None;
        };
        Some(Self {
            of: Of::Id(seq),
            spec: id.spec.clone(),
            entry: id.entry.clone(),
            lane: leaving.lane,
        })
    }

    /// Of an id whose acquire can come no more.
    pub(crate) fn late(core: &Core, late: Late) -> Self {
        Self {
            spec: late.spec.clone(),
            entry: late.entry(core),
            of: Of::Late(late),
            lane: Lane::Watchdog,
        }
    }

    fn is_news(&self) -> bool {
        match &self.of {
            Of::Id(_) => true,
            Of::Late(late) => late.tries == 0,
        }
    }
}

/// Splits releases into batches: one family and one lane each, grouped by key, and where the server wants it by slot.
pub(crate) fn batches(per_slot: bool, mut releases: Vec<Release>) -> Vec<Vec<Release>> {
    let group = |release: &Release| {
        let slot = per_slot.then(|| slot(&release.spec.keys[0]));
        (
            std::ptr::from_ref(release.spec.family) as usize,
            release.lane == Lane::Caller,
            slot,
        )
    };
    releases.sort_by_cached_key(|release| (group(release), release.spec.keys[0].clone()));
    let chunks = releases.chunk_by(|a, b| group(a) == group(b));
    chunks
        .flat_map(|chunk| chunk.chunks(BATCH))
        .map(<[Release]>::to_vec)
        .collect()
}

/// Sends one batch and carries out the answers.
pub(crate) async fn send(core: &Core, batch: &[Release]) {
    let result = exchange(core, batch).await;
    if let Err(fault) = &result
        && batch.len() > 1
        && fault.may_be_of_one(core)
    {
        for release in batch {
            Box::pin(send(core, std::slice::from_ref(release))).await;
        }
        return;
    }
    let now = core.now();
    core.with(|state| match &result {
        Ok(released) => {
            for (release, result) in batch.iter().zip(&released.answers) {
                match (&release.of, result) {
                    (of, Answer::Error(text)) => {
                        let passes = ServerError::new(text.clone()).kind().is_transient();
                        again(state, of, passes, now);
                    }
                    (Of::Id(seq), _) if released.more => state.set_due(*seq, now),
                    (Of::Id(seq), _) => state.finish(*seq),
                    (Of::Late(_), _) => {}
                }
            }
        }
        Err(fault) => {
            for release in batch {
                again(state, &release.of, fault.passes(), now);
            }
        }
    });
    if let Err(fault) = &result {
        // Late releases are tried for as long as a lease; once is enough to tell.
        let is_news = batch.iter().any(|release| release.is_news());
        let name = batch.first().map_or("", |release| &release.spec.name);
        if is_news {
            tracing::warn!(
                lock = name,
                ids = batch.len(),
                ?fault,
                outcome = "unknown",
                "release failed, retrying"
            );
        }
    }
    core.finished.notify_waiters();
}

async fn exchange(core: &Core, batch: &[Release]) -> Result<Released, Fault> {
    let Some(first) = batch.first() else {
        return Ok(Released::default());
    };
    let mut keys = Vec::new();
    let mut args = vec![Arg::Text(core.inbox.clone())];
    for lock in batch.chunk_by(|a, b| a.spec.keys[0] == b.spec.keys[0]) {
        keys.extend(lock[0].spec.keys.iter().cloned());
        args.push(Arg::Number(lock.len() as u64));
        args.extend(lock.iter().map(|release| Arg::Text(release.entry.clone())));
    }
    let (reply, _) = core
        .call(
            first.lane,
            &first.spec.family.release,
            &keys,
            &args,
            core.valid(),
        )
        .await?;
    reply::released(&reply, batch.len()).ok_or(Fault::Unreadable)
}

/// The release has to be tried again, unless the hold has run out meanwhile or trying cannot help.
fn again(state: &mut State, of: &Of, passes: bool, now: Moment) {
    let seq = match of {
        Of::Id(seq) => *seq,
        Of::Late(late) if passes => return state.late.again(late.clone(), now),
        Of::Late(_) => return,
    };
    let Some(id) = state.get_mut(seq) else { return };
    let Phase::Leaving(leaving) = &mut id.phase else {
        return;
    };
    if now >= leaving.until || !passes {
        state.finish(seq);
        return;
    }
    leaving.lane = Lane::Watchdog;
    let delay = Duration::from_millis(10) * 2u32.pow(leaving.tries.min(7));
    leaving.tries += 1;
    state.set_due(seq, now.after(delay));
}
