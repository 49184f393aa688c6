//! Calls of one script that are made while others are under way go together.
//!
//! The first six are sent at once, each by itself.
//! Those that come meanwhile are gathered, and sent as one as soon as one of the first has its answer: the group
//! commit of databases.
//! While the server answers a gathered call waits for a round trip at most, and in no case for more than 10 ms.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use fred::error::{Error as FredError, ErrorKind};
use tokio::sync::oneshot;

use crate::backend::{Arg, Fault, Lane, Moment, Reply};
use crate::core::Core;
use crate::error::ServerErrorKind;
use crate::id::Spec;
use crate::script::Script;

/// How many commands of one script are under way before calls are gathered.
const ABREAST: usize = 6;

/// The most calls in one command.
const BATCH: usize = 100;

/// How long a call is gathered at most before it is sent.
const LONGEST: Duration = Duration::from_millis(10);

/// The keys of one handle, built once and shared with its calls.
pub(crate) type Keys = Arc<dyn AsRef<[Bytes]> + Send + Sync>;

impl AsRef<[Bytes]> for Spec {
    fn as_ref(&self) -> &[Bytes] {
        &self.keys
    }
}

/// A call of a script that takes several items at once.
pub(crate) struct Item {
    pub(crate) script: &'static Script,
    pub(crate) keys: Keys,
    /// As it would be alone.
    pub(crate) args: Vec<Arg>,
    /// How many of the first are the same for all items; of a number among these the smallest counts.
    pub(crate) shared: usize,
    /// How many elements of the reply are its own, behind the first, which is for all.
    pub(crate) answers: usize,
}

impl Item {
    /// Runs it by itself.
    pub(crate) async fn alone(&self, core: &Core, lane: Lane, timeout: Duration) -> Answered {
        let keys = (*self.keys).as_ref();
        core.call(lane, self.script, keys, &self.args, timeout)
            .await
    }
}

/// What a call is answered: a reply as if it had been alone, and just before when it was sent.
type Answered = Result<(Reply, Moment), Fault>;

/// Who asked, and until when there is any use in an answer.
struct Asked {
    until: Moment,
    tell: oneshot::Sender<Answered>,
}

impl Asked {
    fn is_gone(&self) -> bool {
        self.tell.is_closed()
    }

    fn answer(self, answer: Answered) {
        // Whoever asked may be gone.
        let _ = self.tell.send(answer);
    }
}

/// Who asked for each call of a command, until that is answered.
struct Sent {
    asked: Vec<Option<Asked>>,
    /// When the time of the first is over.
    first: Moment,
}

impl Sent {
    fn new(asked: Vec<Option<Asked>>) -> Self {
        let first = asked.iter().flatten().map(|asked| asked.until).min();
        Self {
            asked,
            first: first.unwrap_or(Moment::NEVER),
        }
    }
}

/// The calls of each script; the key is the script's address.
#[derive(Default)]
pub(crate) struct Gate {
    calls: BTreeMap<usize, Calls>,
    /// Who waits for each gathered command that is under way; the watchdog tells them when their time is over, for
    /// the task that sends it may not be polled.
    sent: BTreeMap<u64, Sent>,
    /// Whether nobody sends any more what has waited for too long.
    over: bool,
}

struct Calls {
    script: &'static Script,
    under_way: usize,
    gathered: VecDeque<(Item, Asked)>,
    /// When those that are gathered are sent in any case.
    overdue: Moment,
}

impl Gate {
    fn of(&mut self, script: &'static Script) -> &mut Calls {
        let calls = self.calls.entry(std::ptr::from_ref(script) as usize);
        calls.or_insert_with(|| Calls {
            script,
            under_way: 0,
            gathered: VecDeque::new(),
            overdue: Moment::NEVER,
        })
    }

    /// When the first are sent in any case, or have waited for their answer for too long.
    pub(crate) fn first(&self) -> Option<Moment> {
        let overdue = self.calls.values().map(|calls| calls.overdue);
        overdue
            .chain(self.sent.values().map(|sent| sent.first))
            .min()
    }

    /// The watchdog ends: whatever is gathered is given up, and from now on each call goes alone.
    pub(crate) fn end(&mut self) {
        self.over = true;
        self.calls
            .values_mut()
            .for_each(|calls| calls.gathered.clear());
        self.sent.clear();
    }

    /// Begins one more command of each script whose calls have waited for too long.
    fn begin_overdue(&mut self, now: Moment) -> Vec<&'static Script> {
        let overdue = self.calls.values_mut().filter(|calls| calls.overdue <= now);
        let begin = |calls: &mut Calls| {
            calls.under_way += 1;
            calls.script
        };
        overdue.map(begin).collect()
    }

    /// Tells those whose time is over.
    fn end_late(&mut self, now: Moment) {
        for sent in self.sent.values_mut().filter(|sent| sent.first <= now) {
            for asked in &mut sent.asked {
                if let Some(asked) = asked.take_if(|asked| asked.until <= now) {
                    asked.answer(Err(Fault::unanswered()));
                }
            }
            *sent = Sent::new(std::mem::take(&mut sent.asked));
        }
        self.sent.retain(|_, sent| sent.first != Moment::NEVER);
    }

    /// Until when the last of them wants the answer to a command that is about to be sent; forgets whose caller is
    /// gone: that has been given up already, and is not to come after its release.
    fn wanted(&mut self, number: u64, batch: &mut Vec<Item>) -> Option<Moment> {
        let asked = self.sent.remove(&number)?.asked;
        let wanted = |asked: &Asked| !asked.is_gone();
        let both = batch.drain(..).zip(asked);
        let (left, asked): (_, Vec<_>) = both
            .filter(|(_, asked)| asked.as_ref().is_some_and(wanted))
            .unzip();
        *batch = left;
        let last = asked.iter().flatten().map(|asked| asked.until).max()?;
        self.sent.insert(number, Sent::new(asked));
        Some(last)
    }
}

impl Calls {
    fn gather(&mut self, item: Item, asked: Asked, now: Moment) {
        if self.gathered.is_empty() {
            self.overdue = now.after(LONGEST);
        }
        self.gathered.push_back((item, asked));
    }

    /// One command is answered; what takes its place, and who asked for it.
    fn next(&mut self, now: Moment) -> (Vec<Item>, Vec<Option<Asked>>) {
        let most = BATCH.min(self.gathered.len());
        let next = self.gathered.drain(..most);
        let next = next.map(|(item, asked)| (item, Some(asked))).unzip();
        self.overdue = match self.gathered.is_empty() {
            true => Moment::NEVER,
            false => now.after(LONGEST),
        };
        next
    }
}

/// Runs a call, alone or with others.
pub(crate) async fn call(core: &Arc<Core>, item: Item, timeout: Duration) -> Answered {
    let script = item.script;
    let now = core.now();
    let entered = core.with(|state| {
        let alone = state.gate.over || core.per_slot.load(SeqCst);
        let calls = state.gate.of(script);
        if calls.under_way < ABREAST || alone {
            calls.under_way += 1;
            return Ok(item);
        }
        let (tell, answered) = oneshot::channel();
        let until = now.after(timeout);
        calls.gather(item, Asked { until, tell }, now);
        Err(answered)
    });
    match entered {
        Ok(item) => {
            let _turn = Turn {
                core: core.clone(),
                script,
            };
            item.alone(core, Lane::Caller, timeout).await
        }
        Err(answered) => answered.await.unwrap_or_else(|_| Err(given_up())),
    }
}

/// Sends what has waited for too long, for a turn ends when its caller is polled, and some callers are not; and ends
/// the calls whose time is over.
pub(crate) fn send_overdue(core: &Arc<Core>, now: Moment) {
    let overdue = core.with(|state| {
        state.gate.end_late(now);
        state.gate.begin_overdue(now)
    });
    for script in overdue {
        drop(Turn {
            core: core.clone(),
            script,
        });
    }
}

/// One of the commands under way; when it ends, what has been gathered is sent.
struct Turn {
    core: Arc<Core>,
    script: &'static Script,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (core, script) = (self.core.clone(), self.script);
        let now = core.now();
        let next = core.with(|state| {
            let calls = state.gate.of(script);
            let (next, asked) = calls.next(now);
            if next.is_empty() {
                calls.under_way -= 1;
                return None;
            }
            let number = core.number();
            state.gate.sent.insert(number, Sent::new(asked));
            Some((number, next))
        });
        if let Some((number, next)) = next {
            let turn = Self {
                core: core.clone(),
                script,
            };
            core.backend.spawn(Box::pin(together(turn, number, next)));
        }
    }
}

async fn together(turn: Turn, number: u64, mut batch: Vec<Item>) {
    let (core, script) = (&turn.core, turn.script);
    let Some(last) = core.with(|state| state.gate.wanted(number, &mut batch)) else {
        return;
    };
    let (keys, args) = words(&batch);
    let timeout = last.since(core.now());
    let reply = core.call(Lane::Caller, script, &keys, &args, timeout).await;
    let asked = core.with(|state| state.gate.sent.remove(&number));
    let asked = asked.map_or_else(Vec::new, |sent| sent.asked);
    match reply {
        Ok((reply, sent)) => {
            for (asked, part) in asked.into_iter().zip(parts(&batch, reply)) {
                if let Some(asked) = asked {
                    asked.answer(Ok((part, sent)));
                }
            }
        }
        Err(fault) if batch.len() > 1 && fault.may_be_of_one(core) => {
            one_by_one(core, batch, asked).await;
        }
        Err(fault) => {
            for asked in asked.into_iter().flatten() {
                asked.answer(Err(fault.clone()));
            }
        }
    }
}

/// Sends each alone, after the server has refused the whole command before running it, perhaps because of one call.
async fn one_by_one(core: &Core, batch: Vec<Item>, asked: Vec<Option<Asked>>) {
    for (item, asked) in batch.into_iter().zip(asked) {
        if let Some(asked) = asked
            && !asked.is_gone()
        {
            let left = asked.until.since(core.now());
            let reply = item.alone(core, Lane::Caller, left).await;
            asked.answer(reply);
        }
    }
}

impl Fault {
    /// Whether it may be the key of one call that had all refused.
    pub(crate) fn may_be_of_one(&self, core: &Core) -> bool {
        let Self::Refused(error) = self else {
            return false;
        };
        if error.kind() == ServerErrorKind::CrossSlot {
            // From now on none go together.
            core.per_slot.store(true, SeqCst);
        }
        matches!(
            error.kind(),
            ServerErrorKind::CrossSlot | ServerErrorKind::NoPermission
        )
    }
}

/// Keys and arguments of one command for all; the earliest validity counts.
fn words(batch: &[Item]) -> (Vec<Bytes>, Vec<Arg>) {
    let earliest = |at: usize| {
        let args = batch.iter().map(|item| &item.args[at]);
        args.min_by_key(|arg| match arg {
            Arg::Number(number) => *number,
            Arg::Text(_) => 0,
        })
    };
    let shared = batch.first().map_or(0, |item| item.shared);
    let mut args: Vec<Arg> = (0..shared).filter_map(earliest).cloned().collect();
    let mut keys = Vec::new();
    for item in batch {
        keys.extend_from_slice((*item.keys).as_ref());
        args.extend_from_slice(&item.args[item.shared..]);
    }
    (keys, args)
}

/// Splits a reply into what each would have been answered alone; what is left over goes to the first.
fn parts(batch: &[Item], reply: Reply) -> Vec<Reply> {
    let Reply::Array(mut all) = reply else {
        return vec![reply; batch.len()];
    };
    let own = batch.iter().map(|item| item.answers);
    let mut extra = all.split_off(all.len().min(1 + own.clone().sum::<usize>()));
    let mut all = all.into_iter();
    let first: Vec<Reply> = all.by_ref().take(1).collect();
    let part = |answers| {
        let mut part = Vec::with_capacity(first.len() + answers + extra.len());
        part.extend_from_slice(&first);
        part.extend(all.by_ref().take(answers));
        part.append(&mut extra);
        Reply::Array(part)
    };
    own.map(part).collect()
}

fn given_up() -> Fault {
    Fault::Unanswered(FredError::new(ErrorKind::Canceled, "the call was given up"))
}
