//! Holds that are exchanged for others of the same owner, in one script.
//!
//! 1. What comes is registered before anything is sent, and what goes stays with its guards until the answer.
//! 2. Without a good answer both are given up; a late copy is refused after its validity, and what comes is released
//!    once more after that.

use std::sync::Arc;

use bytes::Bytes;

use crate::ask::{Claim, entry};
use crate::backend::{Arg, Moment};
use crate::cell::Cell;
use crate::error::Error;
use crate::hold::Hold;
use crate::id::{Id, Phase, Share, Terms};
use crate::lease::Lease;
use crate::named::Named;
use crate::once::{Once, Until};
use crate::runtime::Runtime;
use crate::script::Script;
use crate::state::State;

/// What is left of holds that are to go.
struct Rest {
    terms: Terms,
    since: Moment,
    deadline: Moment,
    due: Moment,
    share: Share,
}

/// Exchanges holds of one spec for others with these weights, which are as much in all.
///
/// # Errors
///
/// [`Error::LeaseLost`] if one of the holds is lost, or why the server did not answer well; all are released then.
pub async fn exchange(
    runtime: &Arc<Runtime>,
    script: &'static Script,
    named: &Arc<Named>,
    go: Vec<Hold>,
    weights: &[u32],
) -> Result<Vec<Hold>, Error> {
    let core = runtime.core();
    let lost = || Error::LeaseLost {
        name: named.name.clone(),
    };
    let spec = go.first().ok_or_else(lost)?.spec.clone();
    let now = core.now();
    let rest = core.with(|state| go.iter().map(|hold| rest(state, hold, now)).collect());
    let rest: Option<Vec<Rest>> = rest;
    let rest = rest.and_then(|all| all.into_iter().reduce(|one, other| one.least(&other)));
    let rest = rest.ok_or_else(lost)?;
    let members: Option<Vec<Bytes>> = go.iter().map(Hold::member).collect();

    let mut words: Vec<Arg> = vec![(go.len() as u64).into()];
    words.extend(members.ok_or_else(lost)?.into_iter().map(Arg::Text));
    let mut claims = Vec::new();
    for weight in weights {
        let seq = core.number();
        let weight = *weight;
        let terms = Terms {
            weight,
            ..rest.terms
        };
        let (entry, hold) = entry(core, seq, None, terms);
        let (id, _) = Id::new(&spec, None, terms, &entry, core.now());
        core.with(|state| state.register(seq, id));
        claims.push(Claim::new(runtime, seq));
        words.push(Arg::Text(member(&hold, weight)));
    }
    let once = Once {
        script,
        named,
        until: Until::Try,
        alone: true,
    };
    let (value, _) = runtime.once(once, |_| words.clone()).await?;
    if value != 1 {
        return Err(lost());
    }
    let now = core.now();
    let come = claims.into_iter().map(|claim| {
        let cell = Cell::new(rest.since, rest.deadline, None);
        let cell = core.with(|state| {
            state.held(claim.seq, cell, rest.due.max(now));
            if let Some(Id {
                phase: Phase::Held(held),
                ..
            }) = state.get_mut(claim.seq)
            {
                held.shares = vec![Share {
                    number: 0,
                    ..rest.share
                }];
            }
            state.cell(claim.seq)
        });
        let hold = Hold::new(
            runtime,
            &spec,
            None,
            claim.seq,
            0,
            cell.ok_or(Error::Closed)?,
        );
        claim.taken();
        Ok(hold)
    });
    let come = come.collect();
    go.into_iter().for_each(Hold::forget);
    come
}

fn rest(state: &State, hold: &Hold, now: Moment) -> Option<Rest> {
    let id = state.get(hold.seq)?;
    let Phase::Held(held) = &id.phase else {
        return None;
    };
    Some(Rest {
        terms: id.terms,
        since: held.cell.since,
        deadline: held.cell.deadline(),
        // The answer to a renewal that is under way comes too late for what comes.
        due: if id.flying { now } else { state.due(hold.seq) },
        share: *held.shares.first()?,
    })
}

impl Rest {
    /// The terms of the first but for the lease; of all times the earliest.
    fn least(self, other: &Self) -> Self {
        let lease = shorter(self.share.lease, other.share.lease);
        Self {
            terms: Terms {
                lease,
                ..self.terms
            },
            since: self.since.min(other.since),
            deadline: self.deadline.min(other.deadline),
            due: self.due.min(other.due),
            share: Share {
                ends: self.share.ends.min(other.share.ends),
                lease,
                ..self.share
            },
        }
    }
}

/// A lease that nobody renews is shorter than one that the watchdog does.
fn shorter(one: Lease, other: Lease) -> Lease {
    match (one, other) {
        (Lease::Fixed(_), Lease::Renewed(_)) => one,
        (Lease::Renewed(_), Lease::Fixed(_)) => other,
        _ if one.duration() <= other.duration() => one,
        _ => other,
    }
}

impl Hold {
    /// `hold|weight`, as it stands on the server.
    #[must_use]
    pub fn member(&self) -> Option<Bytes> {
        self.core().with(|state| {
            let id = state.get(self.seq)?;
            let hold = id.entry.split(|byte| *byte == b'|').next()?;
            Some(member(hold, id.terms.weight))
        })
    }
}

fn member(hold: &[u8], weight: u32) -> Bytes {
    [hold, format!("|{weight}").as_bytes()].concat().into()
}
