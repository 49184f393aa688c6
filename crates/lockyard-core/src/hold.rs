//! A guard's share of a hold: what all guard types have in common.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::acquire::{Wait, acquire};
use crate::backend::{Fault, Lane, Moment};
use crate::breakages::broken;
use crate::cell::{Cell, FencingToken, HoldState};
use crate::core::Core;
use crate::error::Error;
use crate::id::{Phase, Spec};
use crate::lease::{Lease, checked};
use crate::leaving::Parting;
use crate::metrics;
use crate::owner::Owner;
use crate::renewal::{self, Renewal};
use crate::retry::Retry;
use crate::runtime::Runtime;

/// A guard's share of a hold; dropped, it is released in the background.
#[derive(Debug)]
pub struct Hold {
    runtime: Arc<Runtime>,
    pub(crate) spec: Arc<Spec>,
    owner: Option<Owner>,
    pub(crate) seq: u64,
    share: u64,
    cell: Arc<Cell>,
    open: bool,
    /// When it began, if that is measured.
    began: Option<Moment>,
}

impl Hold {
    pub(crate) fn new(
        runtime: &Arc<Runtime>,
        spec: &Arc<Spec>,
        owner: Option<Owner>,
        seq: u64,
        share: u64,
        cell: Arc<Cell>,
    ) -> Self {
        Self {
            runtime: runtime.clone(),
            spec: spec.clone(),
            owner,
            seq,
            share,
            cell,
            open: true,
            began: metrics::now(runtime.core()),
        }
    }

    /// The name of what is held.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Whether it is still held, without I/O.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.cell.state(self.core().now())
    }

    /// What is left of the lease; zero once lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.cell.remaining(self.core().now())
    }

    /// The fencing token, if it was asked for.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        self.cell.token
    }

    /// The owner that holds; from now on others may know it.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.cell.set_named();
        self.own()
    }

    fn own(&self) -> Owner {
        self.owner
            .clone()
            .unwrap_or_else(|| Owner::new(self.core().uuid, self.seq))
    }

    pub(crate) fn owner_text(&self) -> String {
        self.own().text()
    }

    /// Waits until the hold is lost.
    pub async fn lost(&self) {
        self.cell.lost().await;
    }

    /// Runs a future, and stops polling it when the hold is lost.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`]; the future is dropped then.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        let mut future = pin!(future);
        let mut lost = pin!(self.lost());
        std::future::poll_fn(|context| {
            // The state is asked as well, for the work is not to go on before the news of the loss arrives.
            if lost.as_mut().poll(context).is_ready() || self.state() == HoldState::Lost {
                return Poll::Ready(Err(self.lease_lost()));
            }
            future.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Acquires for the same owner and on the same terms, but to write beside reading, or to read beside writing.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if nothing is held any more, or as any acquire.
    pub async fn counterpart(&self, wait: Wait) -> Result<Option<Self>, Error> {
        let terms = self.core().with(|state| Some(state.get(self.seq)?.terms));
        let mut terms = terms.ok_or_else(|| self.lease_lost())?;
        terms.kind = terms.kind.counterpart();
        acquire(&self.runtime, &self.spec, Some(self.owner()), terms, wait).await
    }

    /// Gives a fixed lease so much from now, if that is more than what is left.
    ///
    /// # Errors
    ///
    /// [`Error::NotFixed`] if the watchdog renews it, [`Error::InvalidLease`], [`Error::LeaseLost`], or what kept the
    /// server from answering.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        let lease = checked(lease)?;
        let ends = self.core().now().after(lease);
        let fixed = self.core().with(|state| {
            let Phase::Held(held) = &mut state.get_mut(self.seq)?.phase else {
                return None;
            };
            let share = held
                .shares
                .iter_mut()
                .find(|share| share.number == self.share)?;
            let fixed = matches!(share.lease, Lease::Fixed(_));
            if fixed && ends > share.ends {
                share.ends = ends;
                // It is checked as often as a hold that had this lease from the beginning.
                share.lease = Lease::Fixed(lease);
            }
            Some(fixed)
        });
        match fixed {
            None => return Err(self.lease_lost()),
            Some(false) => {
                return Err(Error::NotFixed {
                    name: self.spec.name.clone(),
                });
            }
            Some(true) => {}
        }
        match self.renew_now().await {
            _ if self.state() == HoldState::Lost => Err(self.lease_lost()),
            Ok(()) => Ok(()),
            Err(fault) => Err(self.core().error(&self.spec.name, fault)),
        }
    }

    /// Renews on the caller's path, until it is answered or the operation timeout is over.
    pub(crate) async fn renew_now(&self) -> Result<(), Fault> {
        let core = self.core();
        let mut retry = Retry::new(core, core.now().after(core.valid()));
        loop {
            let Some(renewal) = core.with(|state| Renewal::of(state, self.seq, core.now())) else {
                return Ok(());
            };
            match renewal::send(core, Lane::Caller, std::slice::from_ref(&renewal)).await {
                Err(fault) => retry.after(fault).await?,
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Releases the share; the last one releases the hold on the server.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if it was lost before, [`Error::OutcomeUnknown`] if the server cannot be reached, or what
    /// the server said; a release that failed goes on in the background until the lease is over.
    pub async fn release(mut self) -> Result<(), Error> {
        self.open = false;
        let core = self.core();
        let parting = core.with(|state| state.part(self.seq, self.share, core.now()));
        let result = match parting {
            None | Some(Parting::Shared(HoldState::Lost)) => Err(self.lease_lost()),
            Some(Parting::Shared(_) | Parting::Passed) => Ok(()),
            Some(Parting::Last(last)) if last.state == HoldState::Lost => {
                core.with(|state| state.release_in_background(&last.leaving, core.now()));
                Err(self.lease_lost())
            }
            Some(Parting::Last(last)) => self.release_last(&last).await,
        };
        self.log_release(result.as_ref().map_or("failed", |()| "released"));
        result
    }

    /// Gives up the share without a release: the hold is gone from the server, unless a copy of its acquire comes late.
    pub fn forget(mut self) {
        self.open = false;
        self.core()
            .with(|state| state.dismiss(self.seq, self.core().now()));
        self.core().finished.notify_waiters();
    }

    fn log_release(&self, outcome: &'static str) {
        let held = self.core().now().since(self.cell.since);
        tracing::debug!(lock = self.spec.name, owner = %self.owner_text(), ?held, outcome, "released");
        metrics::held(self.core(), &self.spec, self.began);
    }

    /// What is told of a hold that is lost.
    #[must_use]
    pub fn lease_lost(&self) -> Error {
        Error::LeaseLost {
            name: self.spec.name.clone(),
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.runtime.core()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.open || broken("a dropped guard is not released") {
            return;
        }
        let core = self.runtime.core();
        core.with(|state| state.part_in_background(self.seq, self.share, core.now()));
        self.log_release("dropped");
    }
}
