//! Attempts, put together from their events, and what they claim.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::{Event, History, Nanos, Outcome, Share, What};

/// By how much a deadline has to move until it counts: it is noted inexactly.
const RENEWED: Nanos = 50_000_000;

/// An attempt to acquire, from question to end.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) process: u32,
    pub(crate) number: u64,
    pub(crate) lock: String,
    pub(crate) share: Share,
    /// Who asked, or who got it; unknown while an anonymous owner waits.
    pub(crate) owner: Option<String>,
    pub(crate) asked: Nanos,
    pub(crate) over: Option<Nanos>,
    guard: Option<Guard>,
}

/// What was noted of a guard.
#[derive(Clone, Debug)]
struct Guard {
    token: Option<u64>,
    acquired: Nanos,
    /// The last moment for which it was seen not to be lost.
    believed: Nanos,
    /// The first and the latest deadline that it named.
    first_deadline: Nanos,
    deadline: Nanos,
    lost: Option<Nanos>,
    leaving: Option<Nanos>,
}

/// A time during which an owner believed to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) lock: String,
    pub(crate) owner: String,
    pub(crate) share: Share,
    pub(crate) process: u32,
    pub(crate) attempt: u64,
    pub(crate) token: Option<u64>,
    pub(crate) asked: Nanos,
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
    /// The latest deadline, however it ended.
    pub(crate) deadline: Nanos,
    /// Whether the deadline was moved.
    pub(crate) renewed: bool,
    pub(crate) lost: Option<Nanos>,
}

impl Attempt {
    /// Puts all attempts together, and tells what cannot be.
    pub(crate) fn all(history: &History) -> (Vec<Self>, Vec<Finding>) {
        let mut attempts: BTreeMap<(u32, u64), Self> = BTreeMap::new();
        let mut findings = Vec::new();
        for event in &history.events {
            let key = (event.process, event.attempt);
            let fits = match &event.what {
                What::Connected { .. } => true,
                What::Asked { lock, owner, share } => {
                    let attempt = Self {
                        process: event.process,
                        number: event.attempt,
                        lock: lock.clone(),
                        share: *share,
                        owner: owner.clone(),
                        asked: event.at,
                        over: None,
                        guard: None,
                    };
                    attempts.insert(key, attempt).is_none()
                }
                _ => attempts
                    .get_mut(&key)
                    .is_some_and(|attempt| attempt.go_on(event)),
            };
            if !fits {
                findings.push(Finding::Disorder(event.clone()));
            }
            if let What::Over(Outcome::Broken(_)) = event.what {
                findings.push(Finding::Broken(event.clone()));
            }
        }
        (attempts.into_values().collect(), findings)
    }

    /// Takes the next event; `false` if it cannot come now.
    fn go_on(&mut self, event: &Event) -> bool {
        if self.over.is_some() {
            return false;
        }
        match (&event.what, &mut self.guard) {
            (
                What::Acquired {
                    owner,
                    token,
                    until,
                },
                guard @ None,
            ) => {
                self.owner = Some(owner.clone());
                *guard = Some(Guard {
                    token: *token,
                    acquired: event.at,
                    believed: event.at,
                    first_deadline: *until,
                    deadline: *until,
                    lost: None,
                    leaving: None,
                });
                true
            }
            // Lost stays lost, and what is given away is no longer looked at.
            (What::Believed { until }, Some(guard)) => {
                guard.believed = event.at;
                guard.deadline = guard.deadline.max(*until);
                guard.lost.is_none() && guard.leaving.is_none()
            }
            (What::Lost, Some(guard)) => guard.lost.replace(event.at).is_none(),
            (What::Leaving, Some(guard)) => guard.leaving.replace(event.at).is_none(),
            (What::Over(_), Some(guard)) => {
                self.over = Some(event.at);
                guard.leaving.is_some()
            }
            (What::Over(outcome), None) => {
                self.over = Some(event.at);
                *outcome != Outcome::Released
            }
            _ => false,
        }
    }

    /// What its guard claimed, if it came to one.
    pub(crate) fn claim(&self) -> Option<Claim> {
        let guard = self.guard.as_ref()?;
        // What was taken away ended somewhere after the last look.
        let taken = guard.lost.is_some_and(|lost| lost < guard.deadline);
        let until = if taken {
            guard.believed
        } else {
            guard.deadline
        };
        Some(Claim {
            lock: self.lock.clone(),
            owner: self.owner.clone().unwrap_or_default(),
            share: self.share,
            process: self.process,
            attempt: self.number,
            token: guard.token,
            asked: self.asked,
            from: guard.acquired,
            until: guard.leaving.map_or(until, |leaving| until.min(leaving)),
            deadline: guard.deadline,
            renewed: guard.deadline > guard.first_deadline + RENEWED,
            lost: guard.lost,
        })
    }
}
