//! Timers on the watchdog's agenda.
//!
//! Almost every command has a deadline that is never reached. A timer of tokio would wake the driver of the caller's
//! runtime for each; an entry in a map that the watchdog looks into anyhow costs a tenth of a microsecond.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::backend::Moment;
use crate::core::Core;

/// Who is to be woken when.
#[derive(Default)]
pub(crate) struct Alarms {
    pending: BTreeMap<(Moment, u64), Waker>,
    /// Whether nobody rings them any more.
    over: bool,
}

impl Alarms {
    pub(crate) fn first(&self) -> Option<Moment> {
        self.pending.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes those whose time has come.
    pub(crate) fn take(&mut self, now: Moment) -> Vec<Waker> {
        let later = self.pending.split_off(&(now, u64::MAX));
        std::mem::replace(&mut self.pending, later)
            .into_values()
            .collect()
    }

    /// Takes all, for the watchdog ends; from now on each alarm rings at once.
    pub(crate) fn end(&mut self) -> Vec<Waker> {
        self.over = true;
        std::mem::take(&mut self.pending).into_values().collect()
    }
}

/// Waits for a moment by the backend's clock.
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Alarm<'a> {
    core: &'a Core,
    at: Moment,
    number: u64,
    set: bool,
}

impl<'a> Alarm<'a> {
    pub(crate) fn new(core: &'a Core, at: Moment) -> Self {
        Self {
            core,
            at,
            number: core.number(),
            set: false,
        }
    }
}

impl Future for Alarm<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.core.now() >= self.at {
            return Poll::Ready(());
        }
        if self.at == Moment::NEVER {
            return Poll::Pending;
        }
        self.set = true;
        let key = (self.at, self.number);
        self.core.with(|state| {
            if state.alarms.over {
                return Poll::Ready(());
            }
            match state.alarms.pending.get_mut(&key) {
                Some(waker) => waker.clone_from(context.waker()),
                None => drop(state.alarms.pending.insert(key, context.waker().clone())),
            }
            Poll::Pending
        })
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if self.set {
            let key = (self.at, self.number);
            drop(self.core.with(|state| state.alarms.pending.remove(&key)));
        }
    }
}
