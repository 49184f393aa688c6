//! How many permits are held, while the limit changes.
//!
//! A lower limit takes nothing away, so what is held is measured by the limit that was in force when the last of the
//! permits came.

use super::finding::Finding;
use super::{Claim, History, Nanos, Sample, Share};

/// When new permits are seen, all that are held then are no more than the limit since the sample before.
pub(crate) fn granted_beyond(history: &History, samples: &[&Sample]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pair in samples.windows(2) {
        let [before, after] = pair else { continue };
        let mut holders = after.holders.iter();
        let nobody_came = holders.all(|holder| before.holders.contains(holder));
        if nobody_came || history.excuses(before.from, after.until) {
            continue;
        }
        let held = sum(after.holders.iter().map(|holder| holder.share));
        let limit = history.greatest_limit(&after.lock, before.from, after.until);
        if held > limit.into() {
            findings.push(Finding::Beyond {
                sample: (*after).clone(),
                held,
                limit,
            });
        }
    }
    findings
}

/// The last of the permits that are held at once came after all of these were asked for, and all others were held then.
pub(crate) fn believed_beyond(history: &History, claims: &[&Claim]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut at_once: Vec<&Claim> = Vec::new();
    for claim in claims {
        at_once.retain(|other| other.until > claim.from);
        at_once.push(claim);
        let held = sum(at_once.iter().map(|claim| claim.share));
        let asked = at_once.iter().map(|claim| claim.asked).max();
        let limit = history.greatest_limit(&claim.lock, asked.unwrap_or_default(), claim.from);
        if held > limit.into() && !history.excuses(claim.from, claim.from) {
            findings.push(Finding::BelievedBeyond {
                claim: (*claim).clone(),
                held,
                limit,
            });
        }
    }
    findings
}

pub(crate) fn miscounted(samples: &[&Sample]) -> Vec<Finding> {
    let wrong = samples.iter().filter(|sample| sample.miscounted != 0);
    wrong
        .map(|sample| Finding::Miscounted((*sample).clone()))
        .collect()
}

fn sum(shares: impl Iterator<Item = Share>) -> u64 {
    let permits = shares.map(|share| match share {
        Share::Permits(permits) => permits.into(),
        Share::All | Share::Read => 0,
    });
    permits.sum()
}

impl History {
    /// The greatest limit that may have been in force at some moment of this time.
    fn greatest_limit(&self, lock: &str, from: Nanos, until: Nanos) -> u32 {
        let limits: Vec<_> = self
            .limits
            .iter()
            .filter(|limit| limit.lock == lock)
            .collect();
        let ends = limits.iter().skip(1).map(|next| next.until);
        let ends = ends.chain([Nanos::MAX]);
        let in_force = limits
            .iter()
            .zip(ends)
            .filter(|(limit, end)| limit.from <= until && *end >= from);
        let permits = in_force.map(|(limit, _)| limit.permits);
        permits.max().unwrap_or_default()
    }
}
