//! One attempt of an acquire, and what becomes of it.

use std::sync::Arc;

use fred::error::ErrorKind;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::acquire::Acquire;
use crate::ask::Claim;
use crate::backend::{Fault, Lane};
use crate::breakages::broken;
use crate::cell::{Cell, FencingToken, HoldState};
use crate::error::{Error, ServerError};
use crate::gather;
use crate::hold::Hold;
use crate::id::Outcome;
use crate::lease::margin;
use crate::nests::Nest;
use crate::owner::Owner;
use crate::reply::{self, Acquired};
use crate::room::{Seat, Turn};
use crate::sync::Sync;

/// How one attempt ended.
pub(crate) enum Attempt {
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
    pub(crate) async fn attempt(&mut self) -> Result<Attempt, Error> {
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
            Acquired::Queued { place, look } => {
                self.ticket = place.ticket;
                let look = core.look_in(look);
                core.with(|state| {
                    state.answered(sync);
                    let due = sync.received.after(look);
                    state.queued(ask.claim.seq, place, due, sync.received);
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
                seat.served(state, sync.received);
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
                    let seat = Seat::take(core, self.spec, self.terms, self.came);
                    self.ticket = seat.ticket();
                    self.seat = Some(seat);
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
                Ok(served(self.take(claim, cell)?))
            }
            Some(Outcome::Passed) => {
                let core = self.runtime.core();
                let passed = core.with(|state| state.take_passed(claim.seq, core.now()));
                let (seq, cell) = passed.ok_or(Error::Closed)?;
                let hold = Hold::new(self.runtime, self.spec, None, seq, 0, cell);
                Ok(served(hold))
            }
            Some(Outcome::Gone | Outcome::OwnerHolds) => Ok(Attempt::Again),
            Some(Outcome::Failed(error)) => Err(error),
            None => Err(Error::Closed),
        }
    }
}

/// Noticed too late, the turn is over, but not the place in the order of arrival.
fn served(hold: Hold) -> Attempt {
    match hold.state() {
        HoldState::Lost => Attempt::Again,
        _ => Attempt::Held(hold),
    }
}

/// Why a command that came after its validity did nothing.
pub(crate) fn late() -> fred::error::Error {
    fred::error::Error::new(ErrorKind::Timeout, "the server got to the command too late")
}
