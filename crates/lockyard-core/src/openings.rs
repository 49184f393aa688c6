//! Who waits for which counter, and what was seen of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::backend::Fault;
use crate::counter::Counted;

/// The counters at which this client waits, by channel.
#[derive(Default)]
pub(crate) struct Openings(Mutex<BTreeMap<Bytes, Opening>>);

struct Opening {
    counted: Counted,
    waiters: usize,
    /// The number of the latest wait.
    asked: u64,
    /// What was opened since the present look began, which that may not have seen.
    opened: Vec<Bytes>,
    /// Whether messages may have been lost, or the subscription.
    disturbed: bool,
    /// Whether a task looks.
    looks: bool,
    news: Arc<Notify>,
    seen: watch::Sender<Seen>,
}

/// What was seen last.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The latest wait that it answers.
    pub(crate) asked: u64,
    pub(crate) state: State,
    /// Why there is no look at present.
    pub(crate) trouble: Option<Fault>,
}

#[derive(Clone, Debug)]
pub(crate) enum State {
    Open,
    Counting(Bytes),
    Failed(Fault),
    /// The client is shut down.
    Closed,
}

impl Openings {
    /// Adds one who waits; answers its number and where the answer will be.
    pub(crate) fn join(&self, counted: &Counted) -> (u64, watch::Receiver<Seen>) {
        let mut openings = self.0.lock();
        let channel = counted.channel().clone();
        let opening = openings.entry(channel).or_insert_with(|| Opening {
            counted: counted.clone(),
            waiters: 0,
            asked: 0,
            opened: Vec::new(),
            disturbed: false,
            looks: false,
            news: Arc::default(),
            seen: watch::Sender::new(Seen {
                asked: 0,
                state: State::Open,
                trouble: None,
            }),
        });
        opening.waiters += 1;
        opening.asked += 1;
        opening.news.notify_one();
        (opening.asked, opening.seen.subscribe())
    }

    pub(crate) fn leave(&self, channel: &Bytes) {
        self.with(channel, |opening| {
            opening.waiters -= 1;
            opening.news.notify_one();
        });
    }

    fn with<T>(&self, channel: &Bytes, work: impl FnOnce(&mut Opening) -> T) -> Option<T> {
        self.0.lock().get_mut(channel).map(work)
    }

    /// The counters at which nobody looks yet; from now on somebody does.
    pub(crate) fn begin(&self) -> Vec<Counted> {
        let mut openings = self.0.lock();
        let idle = openings.values_mut().filter(|opening| !opening.looks);
        let begin = |opening: &mut Opening| {
            opening.looks = true;
            opening.counted.clone()
        };
        idle.map(begin).collect()
    }

    /// A message on a channel: `open <incarnation>`.
    pub(crate) fn heard(&self, channel: &Bytes, message: &[u8]) {
        let Some(incarnation) = message.strip_prefix(b"open ") else {
            return tracing::warn!(channel = ?channel, "unknown message on the channel of a latch");
        };
        self.with(channel, |opening| {
            opening.opened.push(Bytes::copy_from_slice(incarnation));
            opening.seen.send_if_modified(|seen| {
                let opens = matches!(&seen.state, State::Counting(it) if it == incarnation);
                if opens {
                    seen.state = State::Open;
                }
                opens
            });
        });
    }

    /// Messages may have been lost, or the subscription.
    pub(crate) fn disturb(&self) {
        for opening in self.0.lock().values_mut() {
            opening.disturbed = true;
            opening.news.notify_one();
        }
    }

    /// Ends all waits.
    pub(crate) fn close(&self) {
        for opening in self.0.lock().values_mut() {
            opening.seen.send_modify(|seen| seen.state = State::Closed);
        }
    }

    /// Begins a look; answers the wait that it is for, or nothing if nobody waits.
    pub(crate) fn look(&self, channel: &Bytes) -> Option<u64> {
        self.with(channel, |opening| {
            opening.opened.clear();
            (opening.waiters > 0).then_some(opening.asked)
        })
        .flatten()
    }

    /// A look has ended.
    pub(crate) fn looked(&self, channel: &Bytes, asked: u64, found: Result<Option<Bytes>, Fault>) {
        self.with(channel, |opening| {
            let opened = &opening.opened;
            opening.seen.send_modify(|seen| {
                if matches!(seen.state, State::Closed) {
                    return;
                }
                seen.state = match found {
                    Ok(Some(incarnation)) if !opened.contains(&incarnation) => {
                        State::Counting(incarnation)
                    }
                    Ok(_) => State::Open,
                    Err(fault) if fault.passes() => return seen.trouble = Some(fault),
                    Err(fault) => State::Failed(fault),
                };
                (seen.asked, seen.trouble) = (asked, None);
            });
        });
    }

    /// Where the one who looks is woken.
    pub(crate) fn news(&self, channel: &Bytes) -> Option<Arc<Notify>> {
        self.with(channel, |opening| opening.news.clone())
    }

    /// Whether there is something to do before a look is due: somebody new waits, or nobody, or the peace is disturbed.
    pub(crate) fn stirs(&self, channel: &Bytes, asked: u64) -> bool {
        let stirs = self.with(channel, |opening| {
            opening.disturbed || opening.waiters == 0 || opening.asked != asked
        });
        stirs.unwrap_or(true)
    }

    pub(crate) fn take_disturbance(&self, channel: &Bytes) -> bool {
        let disturbed = self.with(channel, |opening| std::mem::take(&mut opening.disturbed));
        disturbed.unwrap_or_default()
    }

    /// Forgets a counter at which nobody waits; whether that is so.
    pub(crate) fn end(&self, channel: &Bytes) -> bool {
        let mut openings = self.0.lock();
        let unused = |opening: &Opening| opening.waiters == 0;
        let ends = openings.get(channel).is_none_or(unused);
        if ends {
            openings.remove(channel);
        }
        ends
    }
}
