//! The promises, each as a function over a history.

use std::collections::BTreeMap;

use super::claim::{Attempt, Claim};
use super::finding::Finding;
use super::permits::{believed_beyond, granted_beyond, miscounted};
use super::{History, Holder, Nanos, Sample, Share, What};

/// Finds what breaks a promise.
pub(crate) fn judge(history: &History) -> Vec<Finding> {
    let (attempts, mut findings) = Attempt::all(history);
    findings.extend(unended(history, &attempts));
    findings.extend(lost_early(history, &attempts));
    let claims = of(&attempts);
    let samples = by_lock(&history.samples, |sample| &sample.lock);
    for (lock, claims) in by_lock(&claims, |claim| &claim.lock) {
        findings.extend(overlaps(history, &claims));
        findings.extend(believed_beyond(history, &claims));
        findings.extend(tokens_back(history, &claims));
        if let Some(samples) = samples.get(lock) {
            findings.extend(unfounded(history, &claims, samples));
        }
    }
    for samples in samples.values() {
        findings.extend(two_holders(samples));
        findings.extend(granted_beyond(history, samples));
        findings.extend(overtaken(samples));
        findings.extend(forever(samples));
        findings.extend(miscounted(samples));
    }
    findings.extend(phantoms(history, &attempts));
    findings.extend(history.left_behind.iter().cloned().map(Finding::LeftBehind));
    findings
}

/// What was claimed, in order of time.
pub(crate) fn claims(history: &History) -> Vec<Claim> {
    of(&Attempt::all(history).0)
}

fn of(attempts: &[Attempt]) -> Vec<Claim> {
    let claims = attempts.iter().filter_map(Attempt::claim);
    // Who had lost it before it was there claims nothing.
    let mut claims: Vec<Claim> = claims.filter(|claim| claim.from < claim.until).collect();
    claims.sort_by_key(|claim| claim.from);
    claims
}

fn by_lock<T>(all: &[T], lock: impl Fn(&T) -> &String) -> BTreeMap<&String, Vec<&T>> {
    let mut by_lock: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for one in all {
        by_lock.entry(lock(one)).or_default().push(one);
    }
    by_lock
}

fn unended<'a>(
    history: &'a History,
    attempts: &'a [Attempt],
) -> impl Iterator<Item = Finding> + use<'a> {
    let unended = |attempt: &&Attempt| {
        attempt.over.is_none() && !history.killed.contains_key(&attempt.process)
    };
    attempts
        .iter()
        .filter(unended)
        .map(|attempt| Finding::Unended {
            process: attempt.process,
            attempt: attempt.number,
            lock: attempt.lock.clone(),
        })
}

/// Each claim is held against the one of another owner that lasts longest of those that began before it: of all if it
/// writes, of writers if it reads.
fn overlaps(history: &History, claims: &[&Claim]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut all, mut writers) = (Longest::default(), Longest::default());
    for claim in claims {
        let rivals = match claim.share {
            Share::All => &all,
            Share::Read => &writers,
            Share::Permits(_) => continue,
        };
        if let Some(rival) = rivals.rival_of(claim)
            && claim.from < rival.until
            && !history.excuses(claim.from, rival.until.min(claim.until))
        {
            findings.push(Finding::Overlap(rival.clone(), (*claim).clone()));
        }
        all.add(claim);
        if claim.share == Share::All {
            writers.add(claim);
        }
    }
    findings
}

/// The claim that lasts longest, and the one of another owner that does.
#[derive(Default)]
struct Longest<'a> {
    of_all: Option<&'a Claim>,
    of_another: Option<&'a Claim>,
}

impl<'a> Longest<'a> {
    fn rival_of(&self, claim: &Claim) -> Option<&'a Claim> {
        let rival = self.of_all.filter(|rival| rival.owner != claim.owner);
        rival.or(self.of_another)
    }

    fn add(&mut self, claim: &'a Claim) {
        let Some(old) = self.of_all else {
            self.of_all = Some(claim);
            return;
        };
        let (first, second) = if claim.until > old.until {
            (claim, old)
        } else {
            (old, claim)
        };
        self.of_all = Some(first);
        let others = self.of_another.into_iter().chain([second]);
        self.of_another = others
            .filter(|other| other.owner != first.owner)
            .max_by_key(|other| other.until);
    }
}

/// Also of guards that were lost before anybody looked twice.
fn lost_early(history: &History, attempts: &[Attempt]) -> Vec<Finding> {
    let early = |claim: &Claim| {
        let lost = claim.lost.filter(|lost| *lost < claim.deadline);
        lost.is_some_and(|lost| !history.excuses(lost, lost))
    };
    let claims = attempts.iter().filter_map(Attempt::claim);
    claims.filter(early).map(Finding::LostEarly).collect()
}

/// Claims of different owners do not overlap, so the order in which they begin is that in which they were acquired.
fn tokens_back(history: &History, claims: &[&Claim]) -> Vec<Finding> {
    let claimed = claims
        .iter()
        .filter(|claim| !history.excuses(claim.from, claim.from));
    grow(claimed.filter_map(|claim| Some((&*claim.lock, &*claim.owner, claim.token?))))
}

/// Finds the tokens that are not greater than one that another owner had before.
fn grow<'a>(tokens: impl Iterator<Item = (&'a str, &'a str, u64)>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut greatest: Option<(&str, u64)> = None;
    for (lock, owner, token) in tokens {
        if let Some((before_owner, before)) = greatest
            && (token < before || token == before && owner != before_owner)
        {
            findings.push(Finding::TokenBack {
                lock: lock.to_owned(),
                owner: owner.to_owned(),
                token,
                before,
            });
        } else {
            greatest = Some((owner, token));
        }
    }
    findings
}

/// Each claim with the first sample, taken wholly within it, in which its owner does not hold.
fn unfounded(history: &History, claims: &[&Claim], samples: &[&Sample]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for claim in claims {
        let first = samples.partition_point(|sample| sample.from < claim.from);
        let within = samples[first..]
            .iter()
            .take_while(|sample| sample.until < claim.until);
        let stands = |sample: &&Sample| {
            let mut holders = sample.holders.iter();
            holders.any(|holder| holder.owner == claim.owner && holder.share == claim.share)
        };
        let mut without = within
            .filter(|sample| !stands(sample))
            .filter(|sample| !history.excuses(sample.from, sample.until));
        if let Some(sample) = without.next() {
            findings.push(Finding::Unfounded((*claim).clone(), (*sample).clone()));
        }
    }
    findings
}

fn two_holders(samples: &[&Sample]) -> Vec<Finding> {
    let two = |sample: &&&Sample| {
        let beside = |writer: &Holder| {
            let mut others = sample.holders.iter();
            others.any(|other| other.owner != writer.owner)
        };
        let mut writers = sample
            .holders
            .iter()
            .filter(|holder| holder.share == Share::All);
        writers.any(beside)
    };
    let mut findings: Vec<Finding> = samples
        .iter()
        .filter(two)
        .map(|sample| Finding::TwoHolders((*sample).clone()))
        .collect();
    let holders = samples
        .iter()
        .flat_map(|sample| sample.holders.iter().map(|holder| (&sample.lock, holder)));
    findings.extend(grow(holders.filter_map(|(lock, holder)| {
        Some((&**lock, &*holder.owner, holder.token?))
    })));
    findings
}

/// Whoever holds in one sample and waited in the one before must not have had anybody in front who waits in both.
///
/// An owner that holds enters again whatever the queue.
fn overtaken(samples: &[&Sample]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pair in samples.windows(2) {
        let [before, after] = pair else { continue };
        let held = |owner: &str, hold: &str| {
            let mut holders = before.holders.iter().chain(&after.holders);
            holders.any(|other| other.owner == owner && other.hold() != hold)
        };
        for holder in &after.holders {
            let hold = holder.hold();
            let place = before.queue.iter().position(|waiter| *waiter == hold);
            let in_front = &before.queue[..place.unwrap_or_default()];
            let stays = in_front.iter().find(|waiter| after.queue.contains(waiter));
            if let Some(waiter) = stays.filter(|_| !held(&holder.owner, &hold)) {
                findings.push(Finding::Overtaken {
                    sample: (*after).clone(),
                    waiter: waiter.clone(),
                    holder: holder.clone(),
                });
            }
        }
    }
    findings
}

fn forever(samples: &[&Sample]) -> Vec<Finding> {
    let forever = samples.iter().filter(|sample| !sample.forever.is_empty());
    forever
        .map(|sample| Finding::Forever((*sample).clone()))
        .collect()
}

/// Each hold, once, that is seen when nobody can have it any more.
fn phantoms(history: &History, attempts: &[Attempt]) -> Vec<Finding> {
    let connected = history.events.iter().filter_map(|event| match &event.what {
        What::Connected { client } => Some((client.as_str(), event.process)),
        _ => None,
    });
    let clients: BTreeMap<&str, u32> = connected.collect();
    let mut known: BTreeMap<(u32, &str), Vec<&Attempt>> = BTreeMap::new();
    for attempt in attempts {
        if let Some(owner) = &attempt.owner {
            known
                .entry((attempt.process, owner))
                .or_default()
                .push(attempt);
        }
    }
    let grace = history.grace.as_nanos() as Nanos;
    let mut first_seen: BTreeMap<&Holder, Nanos> = BTreeMap::new();
    let mut found: BTreeMap<&Holder, Finding> = BTreeMap::new();
    for sample in &history.samples {
        for holder in &sample.holders {
            let seen = *first_seen.entry(holder).or_insert(sample.until);
            let Some(process) = clients.get(holder.client()) else {
                found
                    .entry(holder)
                    .or_insert_with(|| Finding::Stranger(sample.clone(), holder.clone()));
                continue;
            };
            let still = |end: Nanos| sample.from <= end + grace;
            let asked =
                |attempt: &&Attempt| attempt.lock == sample.lock && attempt.asked < sample.until;
            let theirs = match known.get(&(*process, holder.owner.as_str())) {
                Some(attempts) => attempts
                    .iter()
                    .copied()
                    .filter(asked)
                    .any(|attempt| attempt.over.is_none_or(still)),
                // An owner that never came to a guard.
                None => still(seen),
            };
            let alive = history
                .killed
                .get(process)
                .is_none_or(|killed| still(*killed));
            if !theirs || !alive {
                found
                    .entry(holder)
                    .or_insert_with(|| Finding::Phantom(sample.clone(), holder.clone()));
            }
        }
    }
    found.into_values().collect()
}
