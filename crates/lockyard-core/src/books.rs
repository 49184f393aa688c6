//! What a client has counted down, and how much of it the server has.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::backend::Fault;
use crate::counter::Counted;

/// What this client counts, by main key.
#[derive(Default)]
pub(crate) struct Books(Mutex<BTreeMap<Bytes, Book>>);

/// With how many books those go that have nothing to send: the server knows what is in them.
const KEPT: usize = 1024;

struct Book {
    counted: Counted,
    /// What is counted down, and how much of it is acknowledged; asked for first.
    known: Option<(Bytes, u64)>,
    pending: VecDeque<Entry>,
    /// Whether a task sends what is pending.
    sends: bool,
}

/// One call.
struct Entry {
    by: u64,
    /// Whether the server may have it.
    sent: bool,
    tell: oneshot::Sender<Result<u64, Fault>>,
}

/// What is to be sent next.
pub(crate) enum Next {
    /// What is counted down, for so many calls: later ones may be for what is set meanwhile.
    Ask(usize),
    Range(Range),
}

pub(crate) struct Range {
    pub(crate) incarnation: Bytes,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// How many calls are in it.
    pub(crate) calls: usize,
    /// And how many of these the server may have already.
    pub(crate) earlier: usize,
}

impl Book {
    /// Answers the first calls.
    fn answer(&mut self, calls: usize, answer: &Result<u64, Fault>) {
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
        if books.len() >= KEPT {
            books.retain(|_, book| book.sends || !book.pending.is_empty());
        }
        let book = books.entry(counted.key().clone()).or_insert_with(|| Book {
            counted: counted.clone(),
            known: None,
            pending: VecDeque::new(),
            sends: false,
        });
        let sent = false;
        book.pending.push_back(Entry { by, sent, tell });
        told
    }

    /// The counters for which nothing is under way, though something is pending; from now on it is.
    pub(crate) fn begin(&self) -> Vec<Counted> {
        let mut books = self.0.lock();
        let idle = books
            .values_mut()
            .filter(|book| !book.sends && !book.pending.is_empty());
        let begin = |book: &mut Book| {
            book.sends = true;
            book.counted.clone()
        };
        idle.map(begin).collect()
    }

    fn with<T>(&self, key: &Bytes, work: impl FnOnce(&mut Book) -> T) -> Option<T> {
        self.0.lock().get_mut(key).map(work)
    }

    /// What to send; nothing, if the task that asks is done.
    pub(crate) fn next(&self, key: &Bytes) -> Option<Next> {
        self.with(key, |book| {
            if book.pending.is_empty() {
                book.sends = false;
                return None;
            }
            let Some((incarnation, from)) = book.known.clone() else {
                return Some(Next::Ask(book.pending.len()));
            };
            let earlier = book.pending.iter().take_while(|entry| entry.sent).count();
            let by: u64 = book.pending.iter().map(|entry| entry.by).sum();
            book.pending.iter_mut().for_each(|entry| entry.sent = true);
            Some(Next::Range(Range {
                incarnation,
                from,
                to: from + by,
                calls: book.pending.len(),
                earlier,
            }))
        })
        .flatten()
    }

    /// What is counted down, and how much of it the server has.
    pub(crate) fn know(&self, key: &Bytes, incarnation: Bytes, seen: u64) {
        self.with(key, |book| book.known = Some((incarnation, seen)));
    }

    /// The server has a range, and so much is left.
    pub(crate) fn acknowledge(&self, key: &Bytes, range: Range, left: u64) {
        self.with(key, |book| {
            book.answer(range.calls, &Ok(left));
            book.known = Some((range.incarnation, range.to));
        });
    }

    /// What was known is counted no more: what the server may have of it is done with, the rest is for what comes next.
    pub(crate) fn over(&self, key: &Bytes, earlier: usize) {
        self.with(key, |book| {
            book.answer(earlier, &Ok(0));
            book.pending.iter_mut().for_each(|entry| entry.sent = false);
            book.known = None;
        });
    }

    /// Tells all calls of which the server surely has nothing why, and whether others are left.
    pub(crate) fn refuse(&self, key: &Bytes, earlier: usize, fault: &Fault) -> bool {
        let left = self.with(key, |book| {
            for entry in book.pending.drain(earlier..) {
                let _ = entry.tell.send(Err(fault.clone()));
            }
            let left = !book.pending.is_empty();
            if !left {
                // Whatever became of it, the server is asked anew.
                book.known = None;
            }
            left
        });
        left.unwrap_or_default()
    }

    /// Answers the first calls.
    pub(crate) fn answer(&self, key: &Bytes, calls: usize, answer: &Result<u64, Fault>) {
        self.with(key, |book| book.answer(calls, answer));
    }
}
