//! A process that can be stopped: what it runs is not polled meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Stops and resumes all that runs behind it.
#[derive(Clone, Default)]
pub(crate) struct Freezer(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    frozen: bool,
    dead: bool,
    wakers: Vec<Waker>,
}

impl Freezer {
    pub(crate) fn freeze(&self) {
        self.0.lock().frozen = true;
    }

    pub(crate) fn thaw(&self) {
        self.set(|inner| inner.frozen = false);
    }

    /// Nothing behind it is polled any more; it is dropped.
    pub(crate) fn kill(&self) {
        self.set(|inner| inner.dead = true);
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.0.lock().frozen
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.lock().dead
    }

    fn set(&self, change: impl FnOnce(&mut Inner)) {
        let wakers = {
            let mut inner = self.0.lock();
            change(&mut inner);
            std::mem::take(&mut inner.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Runs a future behind it; `None` if killed.
    pub(crate) fn run<F: Future>(&self, future: F) -> Frozen<F> {
        Frozen {
            freezer: self.clone(),
            future: Some(Box::pin(future)),
        }
    }
}

pub(crate) struct Frozen<F> {
    freezer: Freezer,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Frozen<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let state = {
            let mut inner = self.freezer.0.lock();
            // Whatever it waits for, a kill or a thaw has to wake it as well.
            inner
                .wakers
                .retain(|waker| !waker.will_wake(context.waker()));
            inner.wakers.push(context.waker().clone());
            (inner.dead, inner.frozen)
        };
        match state {
            (true, _) => {
                self.future = None;
                Poll::Ready(None)
            }
            (false, true) => Poll::Pending,
            (false, false) => match &mut self.future {
                Some(future) => future.as_mut().poll(context).map(Some),
                None => Poll::Ready(None),
            },
        }
    }
}
