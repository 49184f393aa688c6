//! What a client counts down, until the server has it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::backend::Fault;
use crate::counter::{Counted, Counting};

/// What this client counts, by main key.
#[derive(Default)]
pub(crate) struct Books(Mutex<BTreeMap<Bytes, Book>>);

struct Book {
    counted: Counted,
    pending: VecDeque<Entry>,
    /// What the first of them come to.
    range: Option<Range>,
    /// Whether a task sends what is pending.
    sends: bool,
}

/// One call.
struct Entry {
    by: u64,
    tell: oneshot::Sender<Result<u64, Fault>>,
}

/// What is to be sent next.
pub(crate) enum Next {
    /// What is counted down, for so many calls: later ones may be for what is set meanwhile.
    Ask(usize),
    Range(Range),
}

/// A part of all that the client has counted down of one counting, which was seen after its calls were made.
#[derive(Clone)]
pub(crate) struct Range {
    pub(crate) incarnation: Bytes,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// How many calls are in it.
    pub(crate) calls: usize,
    /// Whether it has been sent before: the server may have it.
    sent: bool,
}

impl Book {
    /// Answers the first calls.
    fn answer(&mut self, calls: usize, answer: &Result<u64, Fault>) {
        self.range = None;
        for entry in self.pending.drain(..calls.min(self.pending.len())) {
            // Whoever called may be gone.
            let _ = entry.tell.send(answer.clone());
        }
    }
}

impl Books {
    /// Whether nothing is left to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.lock().values().all(|book| book.pending.is_empty())
    }

    pub(crate) fn register(
        &self,
        counted: &Counted,
        by: u64,
    ) -> oneshot::Receiver<Result<u64, Fault>> {
        let (tell, told) = oneshot::channel();
        let mut books = self.0.lock();
        let book = books.entry(counted.key().clone()).or_insert_with(|| Book {
            counted: counted.clone(),
            pending: VecDeque::new(),
            range: None,
            sends: false,
        });
        book.pending.push_back(Entry { by, tell });
        told
    }

    /// The counters for which nothing is under way, though something is pending; from now on it is.
    pub(crate) fn begin(&self) -> Vec<Counted> {
        let mut books = self.0.lock();
        let idle = books.values_mut().filter(|book| !book.sends);
        let begin = |book: &mut Book| {
            book.sends = true;
            book.counted.clone()
        };
        idle.map(begin).collect()
    }

    fn with(&self, key: &Bytes, work: impl FnOnce(&mut Book)) {
        if let Some(book) = self.0.lock().get_mut(key) {
            work(book);
        }
    }

    /// What to send; nothing, if the task that asks is done.
    pub(crate) fn next(&self, key: &Bytes) -> Option<Next> {
        let mut books = self.0.lock();
        let book = books.get_mut(key)?;
        if book.pending.is_empty() {
            books.remove(key);
            return None;
        }
        let Some(range) = &mut book.range else {
            return Some(Next::Ask(book.pending.len()));
        };
        let next = range.clone();
        range.sent = true;
        Some(Next::Range(next))
    }

    /// What was there after the first calls had been made.
    pub(crate) fn seen(&self, key: &Bytes, calls: usize, counting: Counting) {
        self.with(key, |book| {
            let by: u64 = book.pending.iter().take(calls).map(|entry| entry.by).sum();
            book.range = Some(Range {
                incarnation: counting.incarnation,
                from: counting.seen,
                to: counting.seen + by,
                calls,
                sent: false,
            });
        });
    }

    /// Tells the calls of which the server surely has nothing why, and whether these are all.
    pub(crate) fn refuse(&self, key: &Bytes, range: &Range, fault: &Fault) -> bool {
        self.with(key, |book| {
            let unsure = if range.sent { range.calls } else { 0 };
            for entry in book.pending.drain(unsure..) {
                let _ = entry.tell.send(Err(fault.clone()));
            }
            if !range.sent {
                book.range = None;
            }
        });
        !range.sent
    }

    /// Answers the first calls, whatever has been sent of them.
    pub(crate) fn answer(&self, key: &Bytes, calls: usize, answer: &Result<u64, Fault>) {
        self.with(key, |book| book.answer(calls, answer));
    }
}
