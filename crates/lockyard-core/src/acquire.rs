//! Acquiring: the one loop of all primitives that queue.
//!
//! One script takes the hold or a place in the queue; whoever frees the hold grants it to the first in the queue by
//! writing it and sending a message.
//!
//! 1. An acquire is sent once, under a hold id never used again, and valid for one operation timeout.
//! 2. Its id is registered before it is sent, and belongs to a [`Claim`]: dropped at any point, it has the watchdog
//!    release whatever the server may have made of it.
//! 3. If the outcome is unknown the id is given up, and a new one takes its ticket.
//! 4. A grant counts as soon as its message is there, be the acquire answered or not.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tracing::Instrument;

use crate::backend::{Arg, Fault, Lane, Moment};
use crate::backoff::Backoff;
use crate::cell::{Cell, HoldState};
use crate::error::Error;
use crate::hold::Hold;
use crate::id::{Id, Outcome, Phase, Spec, Terms};
use crate::lease::margin;
use crate::owner::Owner;
use crate::reply::{Acquired, text_of};
use crate::runtime::Runtime;
use crate::state::Nest;

/// How long an acquire may wait for somebody else.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// Not at all.
    Try,
    /// Not at all, and only to enter what the owner holds already.
    Reenter,
    /// So long.
    For(Duration),
    /// Without limit.
    Forever,
}

/// An answer that comes just after the end of a short wait still counts.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

/// Acquires a hold; `None` if somebody else has it for as long as the caller was ready to wait.
///
/// # Errors
///
/// Bad terms, a server that refuses, or one that could not be reached in time.
pub async fn acquire(
    runtime: &Arc<Runtime>,
    spec: &Arc<Spec>,
    owner: Option<Owner>,
    mut terms: Terms,
    wait: Wait,
) -> Result<Option<Hold>, Error> {
    terms.lease = terms.lease.checked()?;
    let core = runtime.core();
    if let Some(owner) = &owner {
        owner.used_by(core.uuid);
    }
    let now = core.now();
    let (wait, until) = match wait {
        Wait::Try | Wait::Reenter | Wait::For(Duration::ZERO) => (wait, now.after(core.valid())),
        Wait::For(wait) => (Wait::For(wait), now.after(wait)),
        Wait::Forever => (wait, Moment::NEVER),
    };
    let mut acquire = Acquire {
        runtime,
        spec,
        owner,
        terms,
        wait,
        until,
        ticket: 0,
    };
    let span = tracing::debug_span!(
        "acquire",
        lock = spec.name,
        owner = acquire.owner.as_ref().map(Owner::text)
    );
    let hold = acquire.repeat().instrument(span).await?;
    if let Some(hold) = &hold {
        let wait = core.now().since(now);
        tracing::debug!(lock = spec.name, owner = %hold.owner_text(), ?wait, outcome = "acquired", "acquired");
    }
    Ok(hold)
}

struct Acquire<'a> {
    runtime: &'a Arc<Runtime>,
    spec: &'a Arc<Spec>,
    owner: Option<Owner>,
    terms: Terms,
    wait: Wait,
    until: Moment,
    /// The place in the queue that a new id takes over; 0 for none.
    ticket: u64,
}

/// How one attempt ended.
enum Attempt {
    Held(Hold),
    /// Somebody else has it.
    Busy,
    /// Another attempt, at once, may do better.
    Again,
    /// Time is up.
    Over,
    /// Unless time is up, another attempt may do better after a while.
    Failed(Fault),
}

impl Acquire<'_> {
    async fn repeat(&mut self) -> Result<Option<Hold>, Error> {
        let core = self.runtime.core();
        let mut spin = Backoff::new(Duration::from_millis(1), Duration::from_millis(250));
        let mut retry = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
        let mut troubled = false;
        loop {
            match self.attempt().await? {
                Attempt::Held(hold) => return Ok(Some(hold)),
                Attempt::Over => return Ok(None),
                Attempt::Busy if !self.waits() || core.now() >= self.until => return Ok(None),
                Attempt::Busy => spin.sleep(core, self.until).await,
                Attempt::Again => {}
                Attempt::Failed(fault) => {
                    let time_is_up = core.now() >= self.until;
                    let passes = fault.passes();
                    let error = core.error(&self.spec.name, fault);
                    if time_is_up || !passes {
                        return Err(error);
                    }
                    if !std::mem::replace(&mut troubled, true) {
                        tracing::warn!(
                            lock = self.spec.name,
                            error = &error as &dyn std::error::Error,
                            "trying on to acquire"
                        );
                    }
                    retry.sleep(core, self.until).await;
                }
            }
        }
    }

    fn waits(&self) -> bool {
        match self.wait {
            Wait::Try | Wait::Reenter | Wait::For(Duration::ZERO) => false,
            Wait::For(_) | Wait::Forever => true,
        }
    }

    /// How long one command may take.
    fn patience(&self) -> Duration {
        let core = self.runtime.core();
        let now = core.now();
        let until = self.until.max(now.after(GRACE));
        until.since(now).min(core.valid())
    }

    async fn attempt(&mut self) -> Result<Attempt, Error> {
        if let Some(owner) = &self.owner
            && let Some(attempt) = self.nest(owner).await?
        {
            return Ok(attempt);
        }
        let core = self.runtime.core();
        let valid = match core.valid_until(Lane::Caller, self.patience()).await {
            Ok(valid) => valid,
            Err(fault) => return Ok(Attempt::Failed(fault)),
        };
        let mode = match self.wait {
            Wait::Reenter => "reenter",
            _ if self.waits() && core.queues() => "wait",
            _ => "try",
        };
        let (claim, mut told, args) = self.register(mode, valid)?;
        let timeout = self.patience();
        let call = core.call(
            Lane::Caller,
            &self.spec.family.acquire,
            &self.spec.keys,
            &args,
            timeout,
        );
        let (reply, sent) = tokio::select! {
            biased;
            outcome = &mut told => return self.told(claim, outcome.ok()),
            reply = call => match reply {
                Ok(reply) => reply,
                Err(fault) => return Ok(Attempt::Failed(fault)),
            },
        };
        let Some(acquired) = Acquired::parse(&reply) else {
            return Err(Error::UnexpectedReply {
                name: self.spec.name.clone(),
            });
        };
        core.synced(sent, acquired.us());
        match acquired {
            Acquired::Held { token, .. } => {
                let lease = self.terms.lease.duration();
                let deadline = sent.after(lease).before(margin(lease));
                let cell = Cell::new(core.now(), deadline, token);
                // Nobody needs to be told, and telling ourselves would wake another thread for nothing.
                told.close();
                core.with(|state| state.held(claim.seq, cell, sent.after(lease / 3)));
                let hold = claim.into_hold(self)?;
                match hold.state() {
                    HoldState::Lost => Err(Error::LeaseLost {
                        name: self.spec.name.clone(),
                    }),
                    _ => Ok(Attempt::Held(hold)),
                }
            }
            Acquired::Queued { ticket, look, .. } => {
                self.ticket = ticket;
                let look = core.now().after(
                    look.saturating_add(Duration::from_millis(1))
                        .min(core.look_interval()),
                );
                core.with(|state| state.queued(claim.seq, ticket, look));
                tokio::select! {
                    biased;
                    outcome = &mut told => self.told(claim, outcome.ok()),
                    () = core.sleep_until(self.until) => match told.try_recv() {
                        Ok(outcome) => self.told(claim, Some(outcome)),
                        Err(TryRecvError::Empty | TryRecvError::Closed) => Ok(Attempt::Over),
                    },
                }
            }
            Acquired::Busy { .. } => {
                claim.dismiss();
                Ok(Attempt::Busy)
            }
            Acquired::Stale { .. } => {
                claim.dismiss();
                Ok(Attempt::Again)
            }
            Acquired::Unfenced { .. } => {
                claim.dismiss();
                Err(Error::NotFenced {
                    name: self.spec.name.clone(),
                })
            }
        }
    }

    /// Shares the hold that the owner has in this client; `None` if it has none.
    async fn nest(&self, owner: &Owner) -> Result<Option<Attempt>, Error> {
        let core = self.runtime.core();
        let number = core.number();
        let nest = core
            .with(|state| state.nest(&self.spec.keys[0], owner, self.terms, number, core.now()));
        let (seq, cell, renew) = match nest {
            Nest::Fresh => return Ok(None),
            Nest::NotFenced => {
                return Err(Error::NotFenced {
                    name: self.spec.name.clone(),
                });
            }
            Nest::Shared { seq, cell, renew } => (seq, cell, renew),
        };
        let hold = Hold::new(
            self.runtime,
            self.spec,
            Some(owner.clone()),
            seq,
            number,
            cell,
        );
        if !renew {
            return Ok(Some(Attempt::Held(hold)));
        }
        // Dropped on the way, or not served, the hold gives up its share like any guard.
        match core.in_time(hold.renew_now(), self.patience()).await {
            Ok(()) if hold.state() != HoldState::Lost => Ok(Some(Attempt::Held(hold))),
            Ok(()) => Ok(Some(Attempt::Again)),
            Err(fault) => Ok(Some(Attempt::Failed(fault))),
        }
    }

    /// Makes the id, before anything is sent.
    fn register(
        &self,
        mode: &'static str,
        valid: u64,
    ) -> Result<(Claim, oneshot::Receiver<Outcome>, Vec<Arg>), Error> {
        let core = self.runtime.core();
        let seq = core.number();
        let lease = self.terms.lease.duration();
        let grant = lease.min(core.options.waiter_timeout).as_millis() as u64;
        let ms = lease.as_millis() as u64;
        let (entry, hold) = self.entry(seq, ms, grant);
        let terms = format!(
            "{}|{grant}|{}|{}|{}",
            self.terms.kind,
            core.options.waiter_timeout.as_millis(),
            self.ticket,
            text_of(&core.inbox),
        );
        let args = vec![
            Arg::Text(hold),
            Arg::Number(ms),
            Arg::Number(valid),
            Arg::from(mode),
            Arg::Text(terms.into()),
        ];
        let (tell, told) = oneshot::channel();
        let id = Id {
            spec: self.spec.clone(),
            owner: self.owner.clone(),
            terms: self.terms,
            entry,
            sent: core.now(),
            phase: Phase::Asked(tell),
            flying: false,
        };
        core.with(|state| {
            if state.closed {
                return Err(Error::Closed);
            }
            state.register(seq, id);
            Ok(())
        })?;
        Ok((
            Claim {
                runtime: self.runtime.clone(),
                seq,
                open: true,
            },
            told,
            args,
        ))
    }

    /// `hold|kind|weight|lease|grant`, and the hold id at its beginning.
    fn entry(&self, seq: u64, lease: u64, grant: u64) -> (Bytes, Bytes) {
        let client = &self.runtime.core().client;
        let mut entry = String::with_capacity(160);
        let written = match &self.owner {
            Some(owner) => write!(entry, "{}/{client}.{seq}", owner.text()),
            None => write!(entry, "{client}:{seq}/{client}.{seq}"),
        };
        let hold = entry.len();
        let written =
            written.and_then(|()| write!(entry, "|{}|1|{lease}|{grant}", self.terms.kind));
        debug_assert!(written.is_ok(), "writing to a string never fails");
        let entry = Bytes::from(entry);
        (entry.clone(), entry.slice(..hold))
    }

    fn told(&self, claim: Claim, outcome: Option<Outcome>) -> Result<Attempt, Error> {
        match outcome {
            Some(Outcome::Granted) => {
                let hold = claim.into_hold(self)?;
                // Noticed too late, the turn is over, but not the place in the order of arrival.
                Ok(if hold.state() == HoldState::Lost {
                    Attempt::Again
                } else {
                    Attempt::Held(hold)
                })
            }
            Some(Outcome::Gone | Outcome::OwnerHolds) => Ok(Attempt::Again),
            Some(Outcome::Failed(error)) => Err(error),
            None => Err(Error::Closed),
        }
    }
}

/// An id whose outcome nobody has taken yet; dropped, it is abandoned.
struct Claim {
    runtime: Arc<Runtime>,
    seq: u64,
    open: bool,
}

impl Claim {
    /// The id left nothing on the server.
    fn dismiss(mut self) {
        self.open = false;
        let core = self.runtime.core();
        core.with(|state| state.dismiss(self.seq, core.now()));
    }

    /// Takes over the hold that the id has become.
    fn into_hold(mut self, acquire: &Acquire<'_>) -> Result<Hold, Error> {
        let core = self.runtime.core();
        let cell = core.with(|state| match state.get(self.seq).map(|id| &id.phase) {
            Some(Phase::Held(held) | Phase::Lost(held)) => Some(held.cell.clone()),
            _ => None,
        });
        let Some(cell) = cell else {
            return Err(Error::Closed);
        };
        self.open = false;
        Ok(Hold::new(
            &self.runtime,
            acquire.spec,
            acquire.owner.clone(),
            self.seq,
            0,
            cell,
        ))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.open {
            let core = self.runtime.core();
            core.with(|state| state.abandon(self.seq, core.now()));
        }
    }
}
