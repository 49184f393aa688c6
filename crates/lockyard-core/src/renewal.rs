//! Renewals and looks: one script, for up to 100 ids at once.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;

use crate::backend::{Arg, Fault, Lane, Moment};
use crate::breakages::broken;
use crate::cell::Cell;
use crate::core::Core;
use crate::error::{ServerError, ServerErrorKind};
use crate::id::{Id, Outcome, Phase, Spec};
use crate::lease::margin;
use crate::metrics::{self, Loss};
use crate::reply::{self, Renewed};
use crate::state::State;

/// The most ids in one script.
pub(crate) const BATCH: usize = 100;

/// What is asked for one id.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) seq: u64,
    pub(crate) spec: Arc<Spec>,
    entry: Bytes,
    /// The lease to have from now; zero only checks.
    lease: Duration,
    count: usize,
    pub(crate) waits: bool,
    /// How long the hold lasts without it.
    remaining: Duration,
}

impl Renewal {
    /// What an id needs now; `None` if nothing.
    pub(crate) fn of(state: &State, seq: u64, now: Moment) -> Option<Self> {
        let id = state.get(seq)?;
        let (lease, count, waits, remaining) = match &id.phase {
            Phase::Asked(_) | Phase::Queued(..) => {
                (id.terms.lease.duration(), 1, true, Duration::MAX)
            }
            Phase::Held(_) if broken("no renewal") => return None,
            Phase::Held(held) => (
                held.wants(now),
                held.shares.len(),
                false,
                held.cell.remaining(now),
            ),
            Phase::Passed(_) | Phase::Ended | Phase::Lost(_) | Phase::Leaving(_) => return None,
        };
        let (spec, entry) = (id.spec.clone(), id.entry.clone());
        Some(Self {
            seq,
            spec,
            entry,
            lease,
            count,
            waits,
            remaining,
        })
    }
}

/// Splits renewals into batches: one family each, and on a server that wants it one slot.
pub(crate) fn batches(core: &Core, mut renewals: Vec<Renewal>) -> Vec<Vec<Renewal>> {
    let per_slot = core.per_slot.load(SeqCst);
    let group = |renewal: &Renewal| {
        let slot = per_slot.then(|| slot(&renewal.spec.keys[0]));
        (std::ptr::from_ref(renewal.spec.family) as usize, slot)
    };
    // Those that run out soon have little time for an answer, which is not to be that of the others.
    renewals.sort_by_cached_key(|renewal| (group(renewal), renewal.remaining));
    let chunks = renewals.chunk_by(|a, b| group(a) == group(b));
    chunks
        .flat_map(|chunk| chunk.chunks(BATCH))
        .map(<[Renewal]>::to_vec)
        .collect()
}

/// What decides a key's slot: its hash tag.
pub(crate) fn slot(key: &Bytes) -> Bytes {
    let open = key
        .iter()
        .position(|byte| *byte == b'{')
        .map_or(0, |at| at + 1);
    let close = key
        .iter()
        .rposition(|byte| *byte == b'}')
        .unwrap_or(key.len());
    key.slice(open..close)
}

/// Sends one batch and carries out the answers.
pub(crate) async fn send(core: &Core, lane: Lane, batch: &[Renewal]) -> Result<(), Fault> {
    let result = exchange(core, lane, batch).await;
    if let Err(fault) = &result {
        core.with(|state| {
            batch
                .iter()
                .for_each(|renewal| failed(core, state, renewal))
        });
        if let Fault::Refused(error) = fault
            && error.kind() == ServerErrorKind::CrossSlot
        {
            core.per_slot.store(true, SeqCst);
        }
        let name = batch.first().map_or("", |renewal| &renewal.spec.name);
        tracing::warn!(
            lock = name,
            ids = batch.len(),
            ?fault,
            outcome = "unknown",
            "renewal failed, trying on"
        );
    }
    result
}

async fn exchange(core: &Core, lane: Lane, batch: &[Renewal]) -> Result<(), Fault> {
    let Some(family) = batch.first().map(|renewal| renewal.spec.family) else {
        return Ok(());
    };
    let keys: Vec<Bytes> = batch
        .iter()
        .flat_map(|renewal| renewal.spec.keys.iter().cloned())
        .collect();
    let mut args = vec![
        Arg::Text(core.inbox.clone()),
        Arg::Number(core.options.waiter_timeout.as_millis() as u64),
    ];
    for renewal in batch {
        let (lease, count) = (renewal.lease.as_millis() as u64, renewal.count as u64);
        args.extend([
            Arg::Text(renewal.entry.clone()),
            Arg::Number(lease),
            Arg::Number(count),
        ]);
    }
    // A hold that is about to run out cannot wait for the whole operation timeout, but may be saved by another try.
    let shortest = batch
        .iter()
        .map(|renewal| renewal.remaining)
        .min()
        .unwrap_or(Duration::MAX);
    let timeout = core
        .valid()
        .min((shortest / 3).max(Duration::from_millis(20)));
    let (reply, sent) = core
        .call(lane, &family.renew, &keys, &args, timeout)
        .await?;
    let Some((us, more, results)) = reply::renewed(reply, batch.len()) else {
        return Err(Fault::Unreadable);
    };
    core.synced(sent, us);
    let now = core.now();
    core.with(|state| {
        for (renewal, result) in batch.iter().zip(&results) {
            settle(core, state, renewal, result, sent, now);
            if more {
                state.set_due(renewal.seq, now);
            }
        }
        walk(state, batch, &results, now);
    });
    match &results[..] {
        // Whoever asked for this one alone is told.
        [Renewed::Error(message)] => Err(Fault::Refused(ServerError::new(message.clone()))),
        _ => Ok(()),
    }
}

/// After looks, the next waiters of the same key look, until one is found still queued.
fn walk(state: &mut State, batch: &[Renewal], results: &[Renewed], now: Moment) {
    let looked = batch
        .iter()
        .zip(results)
        .filter(|(renewal, _)| renewal.waits);
    let mut lines: Vec<(&Bytes, bool)> = looked
        .map(|(renewal, result)| (&renewal.spec.keys[0], matches!(result, Renewed::Queued(_))))
        .collect();
    lines.sort();
    for line in lines.chunk_by(|a, b| a.0 == b.0) {
        state.walk_on(line[0].0, line.iter().any(|(_, queued)| *queued), now);
    }
}

fn settle(
    core: &Core,
    state: &mut State,
    renewal: &Renewal,
    result: &Renewed,
    sent: Moment,
    now: Moment,
) {
    let seq = renewal.seq;
    let Some(id) = state.get_mut(seq) else { return };
    id.flying = false;
    let again = std::mem::take(&mut id.again);
    let terms = id.terms;
    let waits = matches!(id.phase, Phase::Asked(_) | Phase::Queued(..));
    let sent = if broken("renewed from the reply") {
        now
    } else {
        sent
    };
    let deadline = sent.after(renewal.lease).before(margin(renewal.lease));
    match result {
        Renewed::Held(_) if waits && deadline <= now => state.tell(seq, Outcome::Gone, now),
        Renewed::Held(token) if waits => {
            state.held(
                seq,
                Cell::new(now, deadline, *token),
                sent.after(renewal.lease / 3),
            );
        }
        Renewed::Held(_) => renewed(state, renewal, deadline, sent, now),
        Renewed::Queued(look) if waits && state.looks(seq) => {
            let look = if again {
                Duration::ZERO
            } else {
                core.look_in(*look)
            };
            state.set_due(seq, now.after(look));
        }
        Renewed::Queued(_) if waits && again => state.set_due(seq, now),
        Renewed::Queued(_) => {}
        Renewed::Gone if !waits && broken("a hold that is gone counts as renewed") => {
            renewed(state, renewal, deadline, sent, now);
        }
        Renewed::Gone if waits => state.tell(seq, Outcome::Gone, now),
        Renewed::Gone => {
            if state.lose(seq, now) {
                metrics::lost(&renewal.spec, Loss::Gone);
                tracing::warn!(
                    lock = renewal.spec.name,
                    outcome = "lost",
                    "the hold is gone from the server"
                );
            }
        }
        Renewed::Never(why) => {
            let error = why.error(&renewal.spec.name, terms);
            state.tell(seq, Outcome::Failed(error), now);
        }
        Renewed::Error(message) => {
            let fault = Fault::Refused(ServerError::new(message.clone()));
            tracing::warn!(
                lock = renewal.spec.name,
                ?fault,
                outcome = "unknown",
                "renewal refused"
            );
            match waits && !fault.passes() {
                true => state.tell(
                    seq,
                    Outcome::Failed(core.error(&renewal.spec.name, fault)),
                    now,
                ),
                false => failed(core, state, renewal),
            }
        }
    }
}

fn renewed(state: &mut State, renewal: &Renewal, deadline: Moment, sent: Moment, now: Moment) {
    let Some(Id {
        phase: Phase::Held(held),
        ..
    }) = state.get_mut(renewal.seq)
    else {
        return;
    };
    let behind = renewal.count != held.shares.len();
    if !held.cell.extend(now, deadline) {
        if state.lose(renewal.seq, now) {
            metrics::lost(&renewal.spec, Loss::Expired);
        }
        return;
    }
    held.cell.set_unsure(false);
    let check = if behind {
        now
    } else {
        sent.after(held.period())
    };
    let deadline = held.cell.deadline();
    // What came up while the renewal was under way is not put off.
    let due = check.min(deadline).min(state.due(renewal.seq));
    state.set_due(renewal.seq, due);
}

/// Nothing is known of the id's fate; it is tried again soon.
fn failed(core: &Core, state: &mut State, renewal: &Renewal) {
    let now = core.now();
    let Some(id) = state.get_mut(renewal.seq) else {
        return;
    };
    id.flying = false;
    let due = match &id.phase {
        Phase::Held(held) => {
            held.cell.set_unsure(true);
            metrics::renewal_failed(&id.spec);
            let retry = (held.cell.remaining(now) / 8)
                .clamp(Duration::from_millis(10), Duration::from_secs(1));
            now.after(retry).min(held.cell.deadline())
        }
        Phase::Asked(_) | Phase::Queued(..) => {
            now.after(core.look_interval().min(Duration::from_secs(1)))
        }
        Phase::Passed(_) | Phase::Ended | Phase::Lost(_) | Phase::Leaving(_) => return,
    };
    state.set_due(renewal.seq, due);
}
