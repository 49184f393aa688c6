//! Acquiring: the one loop of all primitives that queue.
//!
//! One script takes the hold or a place in the queue; whoever frees the hold grants it to the first in the queue by
//! writing it and sending a message.
//!
//! 1. An acquire is sent once, under a hold id never used again, and valid for one operation timeout.
//! 2. Its id is registered before it is sent, and belongs to a [`Claim`](crate::ask::Claim): dropped at any point, it
//!    has the watchdog release whatever the server may have made of it.
//! 3. If the outcome is unknown the id is given up, and a new one takes its ticket.
//! 4. A grant counts as soon as its message is there, be the acquire answered or not.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::attempt::Attempt;
use crate::backend::Moment;
use crate::backoff::Backoff;
use crate::error::Error;
use crate::hold::Hold;
use crate::id::{Kind, Passing, Spec, Terms};
use crate::lease::Lease;
use crate::metrics;
use crate::owner::Owner;
use crate::retry::Retry;
use crate::room::Seat;
use crate::runtime::Runtime;

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
    if acquire.owner.is_some() || !is_plain(terms) {
        acquire.terms.passing = Passing::Never;
    }
    if waits && acquire.terms.passing == Passing::InRoom {
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
    pub(crate) until: Moment,
    /// The place in the queue that a new id takes over; 0 for none.
    pub(crate) ticket: u64,
    pub(crate) came: Moment,
    /// Where it waits with others, if it does.
    pub(crate) seat: Option<Seat>,
    /// Whether it has had to wait.
    contended: bool,
    /// The id that was given up last; until it is released, it may itself be in the way.
    pub(crate) given_up: Option<u64>,
}

/// Whether one hold with these terms is as good as another.
fn is_plain(terms: Terms) -> bool {
    matches!(terms.kind, Kind::Exclusive | Kind::Of(_))
        && matches!(terms.lease, Lease::Renewed(_))
        && terms.max_hold.is_none()
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
    pub(crate) fn contend(&mut self) {
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
    pub(crate) fn patience(&self) -> Duration {
        let core = self.runtime.core();
        let now = core.now();
        let until = self.until.max(now.after(GRACE));
        until.since(now).min(core.valid())
    }
}
