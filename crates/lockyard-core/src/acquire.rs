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

use std::sync::Arc;
use std::time::Duration;

use fred::error::ErrorKind;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tracing::Instrument;

use crate::ask::Claim;
use crate::backend::{Fault, Lane, Moment};
use crate::backoff::Backoff;
use crate::breakages::broken;
use crate::cell::{Cell, FencingToken, HoldState};
use crate::error::{Error, ServerError};
use crate::gather;
use crate::hold::Hold;
use crate::id::{Kind, Outcome, Spec, Terms};
use crate::lease::{Lease, margin};
use crate::metrics;
use crate::nests::Nest;
use crate::owner::Owner;
use crate::reply::{self, Acquired};
use crate::retry::Retry;
use crate::room::{Seat, Turn};
use crate::runtime::Runtime;
use crate::sync::Sync;

/// How long an acquire may wait for somebody else.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// Not at all.
    Try,
    /// Not at all, and only to enter what the owner holds already.
    Reenter,
    /// Not at all, and only beside holds of the same owner.
    Upgrade,
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
pub(crate) async fn acquire(
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
        Wait::Try | Wait::Reenter | Wait::Upgrade | Wait::For(Duration::ZERO) => {
            (wait, now.after(core.valid()))
        }
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
        came: now,
        seat: None,
        contended: false,
        given_up: None,
    };
    let waits = acquire.waits();
    acquire.terms.passes &= acquire.owner.is_none() && is_plain(terms);
    if waits && acquire.terms.passes {
        acquire.seat = Some(Seat::take(core, spec, terms, now));
    }
    let span = tracing::debug_span!(
        "acquire",
        lock = spec.name,
        owner = acquire.owner.as_ref().map(Owner::text)
    );
    let measured = metrics::Attempt::new(&**spec);
    let hold = acquire.repeat().instrument(span).await;
    let wait = core.now().since(now);
    measured.ended(hold.as_ref().ok().map(Option::is_some), wait);
    let hold = hold?;
    if let Some(hold) = &hold {
        tracing::debug!(lock = spec.name, owner = %hold.owner_text(), ?wait, outcome = "acquired", "acquired");
    }
    Ok(hold)
}

pub(crate) struct Acquire<'a> {
    pub(crate) runtime: &'a Arc<Runtime>,
    pub(crate) spec: &'a Arc<Spec>,
    pub(crate) owner: Option<Owner>,
    pub(crate) terms: Terms,
    pub(crate) wait: Wait,
    until: Moment,
    /// The place in the queue that a new id takes over; 0 for none.
    pub(crate) ticket: u64,
    came: Moment,
    /// Where it waits with others, if it does.
    seat: Option<Seat>,
    /// Whether it has had to wait.
    contended: bool,
    /// The id that was given up last; until it is released, it may itself be in the way.
    given_up: Option<u64>,
}

/// Whether one hold with these terms is as good as another.
fn is_plain(terms: Terms) -> bool {
    terms.kind == Kind::Exclusive
        && matches!(terms.lease, Lease::Renewed(_))
        && terms.max_hold.is_none()
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
        let mut retry = Retry::new(core, self.until);
        let mut troubled = false;
        loop {
            match self.attempt().await? {
                Attempt::Held(hold) => return Ok(Some(hold)),
                Attempt::Over => return Ok(None),
                Attempt::Busy if core.now() >= self.until => return Ok(None),
                Attempt::Busy if !self.waits() && !self.is_in_its_own_way() => return Ok(None),
                Attempt::Busy => {
                    self.contend();
                    spin.sleep(core, self.until).await;
                }
                Attempt::Again => {}
                Attempt::Failed(fault) => {
                    if let Some(seat) = &self.seat {
                        seat.troubled(&fault);
                    }
                    let fault = retry
                        .may_go_on(fault)
                        .map_err(|fault| core.error(&self.spec.name, fault))?;
                    if !std::mem::replace(&mut troubled, true) {
                        tracing::warn!(
                            lock = self.spec.name,
                            error = &core.error(&self.spec.name, fault) as &dyn std::error::Error,
                            "trying on to acquire"
                        );
                    }
                    retry.sleep().await;
                }
            }
        }
    }

    /// It has to wait, which is measured the first time.
    fn contend(&mut self) {
        if !std::mem::replace(&mut self.contended, true) {
            metrics::contended(self.runtime.core(), self.spec);
        }
    }

    fn is_in_its_own_way(&self) -> bool {
        self.given_up
            .is_some_and(|seq| self.runtime.core().with(|state| state.get(seq).is_some()))
    }

    pub(crate) fn waits(&self) -> bool {
        match self.wait {
            Wait::Try | Wait::Reenter | Wait::Upgrade | Wait::For(Duration::ZERO) => false,
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
        if self.seat.as_ref().is_some_and(Seat::waits) {
            return self.turn().await;
        }
        if let Some(owner) = &self.owner
            && let Some(attempt) = self.nest(owner).await?
        {
            return Ok(attempt);
        }
        let core = self.runtime.core();
        let Some(mut ask) = self.ask()? else {
            return Ok(match core.sync(Lane::Caller, self.patience()).await {
                Ok(()) => Attempt::Again,
                Err(fault) => Attempt::Failed(fault),
            });
        };
        let call = gather::call(core, ask.item, self.patience());
        let (reply, sent) = tokio::select! {
            biased;
            outcome = &mut ask.told => return self.told(ask.claim, outcome.ok()),
            reply = call => match reply {
                Ok(reply) => reply,
                Err(fault) => {
                    self.given_up = Some(ask.claim.seq);
                    return Ok(Attempt::Failed(fault));
                }
            },
        };
        let unexpected = || Error::UnexpectedReply {
            name: self.spec.name.clone(),
        };
        let (us, acquired) = reply::acquired(&reply).ok_or_else(unexpected)?;
        let sync = Sync {
            sent,
            received: core.now(),
            us,
        };
        match acquired {
            Acquired::Held(token) => self.held(ask.claim, ask.told, sync, token),
            Acquired::Queued { ticket, look } => {
                self.ticket = ticket;
                let look = core.look_in(look);
                core.with(|state| {
                    state.answered(sync);
                    let due = sync.received.after(look);
                    state.queued(ask.claim.seq, ticket, due, sync.received);
                });
                self.contend();
                if let Some(seat) = &mut self.seat
                    && let Some(placed) = seat.queued(ask.claim.seq)
                {
                    if placed {
                        // The place is no longer this task's alone.
                        ask.claim.taken();
                    }
                    return Ok(Attempt::Again);
                }
                self.stand(ask.claim, ask.told).await
            }
            refused => {
                core.with(|state| state.answered(sync));
                self.refused(ask.claim, refused)
            }
        }
    }

    fn held(
        &mut self,
        claim: Claim,
        mut told: oneshot::Receiver<Outcome>,
        sync: Sync,
        token: Option<FencingToken>,
    ) -> Result<Attempt, Error> {
        let (mut sent, lease) = (sync.sent, self.terms.lease.duration());
        if broken("deadline from the reply") {
            sent = sync.received;
        }
        let deadline = sent.after(lease).before(margin(lease));
        let cell = Cell::new(sync.received, deadline, token);
        // Nobody needs to be told, and telling ourselves would wake another thread for nothing.
        told.close();
        let seat = &mut self.seat;
        let cell = self.runtime.core().with(|state| {
            state.answered(sync);
            state.held(claim.seq, cell, sent.after(lease / 3));
            if let Some(seat) = seat {
                seat.served(state);
            }
            state.cell(claim.seq)
        });
        let hold = self.take(claim, cell)?;
        match hold.state() {
            HoldState::Lost => Err(Error::LeaseLost {
                name: self.spec.name.clone(),
            }),
            _ => Ok(Attempt::Held(hold)),
        }
    }

    /// Waits with others until it is its turn, or until time is up.
    async fn turn(&mut self) -> Result<Attempt, Error> {
        self.contend();
        let Some(seat) = &mut self.seat else {
            return Ok(Attempt::Again);
        };
        match seat.turn(self.until, &self.spec.name).await? {
            None => Ok(Attempt::Over),
            Some(Turn::Failed(error)) => Err(error),
            Some(Turn::Ask) => {
                self.ticket = seat.ticket();
                Ok(Attempt::Again)
            }
            Some(Turn::Hold(seq, cell)) => {
                self.seat = None;
                let hold = Hold::new(self.runtime, self.spec, None, seq, 0, cell);
                if hold.state() == HoldState::Lost {
                    // Noticed too late; it waits on where it stood.
                    let core = self.runtime.core();
                    self.seat = Some(Seat::take(core, self.spec, self.terms, self.came));
                    return Ok(Attempt::Again);
                }
                Ok(Attempt::Held(hold))
            }
        }
    }

    /// Stands in the queue until told, or until time is up.
    async fn stand(
        &self,
        claim: Claim,
        mut told: oneshot::Receiver<Outcome>,
    ) -> Result<Attempt, Error> {
        let core = self.runtime.core();
        tokio::select! {
            biased;
            outcome = &mut told => self.told(claim, outcome.ok()),
            () = core.sleep_until(self.until) => match told.try_recv() {
                Ok(outcome) => self.told(claim, Some(outcome)),
                Err(TryRecvError::Empty | TryRecvError::Closed) => Ok(Attempt::Over),
            },
        }
    }

    fn refused(&self, claim: Claim, why: Acquired) -> Result<Attempt, Error> {
        if let Acquired::Error(message) = why {
            // It may have come as far as the queue, so the claim is left to its drop.
            return Ok(Attempt::Failed(Fault::Refused(ServerError::new(message))));
        }
        claim.dismiss();
        match why {
            Acquired::Busy => Ok(Attempt::Busy),
            Acquired::Stale => Ok(Attempt::Failed(Fault::Unanswered(late()))),
            Acquired::Never(why) => Err(why.error(&self.spec.name, self.terms)),
            _ => Ok(Attempt::Again),
        }
    }

    /// Takes over the hold that the id has become.
    fn take(&self, claim: Claim, cell: Option<Arc<Cell>>) -> Result<Hold, Error> {
        let cell = cell.ok_or(Error::Closed)?;
        let (spec, owner) = (self.spec, self.owner.clone());
        let hold = Hold::new(self.runtime, spec, owner, claim.seq, 0, cell);
        claim.taken();
        Ok(hold)
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

    fn told(&self, claim: Claim, outcome: Option<Outcome>) -> Result<Attempt, Error> {
        match outcome {
            Some(Outcome::Granted) => {
                let cell = self.runtime.core().with(|state| state.cell(claim.seq));
                let hold = self.take(claim, cell)?;
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

/// Why a command that came after its validity did nothing.
pub(crate) fn late() -> fred::error::Error {
    fred::error::Error::new(ErrorKind::Timeout, "the server got to the command too late")
}
