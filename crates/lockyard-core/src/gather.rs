//! Calls of one script that are made while others are under way go together.
//!
//! The first two are sent at once, each by itself.
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
const ABREAST: usize = 2;

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

type Gathered = (Item, oneshot::Sender<Answered>);

/// The calls of each script; the key is the script's address.
#[derive(Default)]
pub(crate) struct Gate(BTreeMap<usize, Calls>);

struct Calls {
    script: &'static Script,
    under_way: usize,
    gathered: VecDeque<Gathered>,
    /// When those that are gathered are sent in any case.
    overdue: Moment,
}

impl Gate {
    fn of(&mut self, script: &'static Script) -> &mut Calls {
        let calls = self.0.entry(std::ptr::from_ref(script) as usize);
        calls.or_insert_with(|| Calls {
            script,
            under_way: 0,
            gathered: VecDeque::new(),
            overdue: Moment::NEVER,
        })
    }

    /// When the first are sent in any case.
    pub(crate) fn first(&self) -> Option<Moment> {
        self.0.values().map(|calls| calls.overdue).min()
    }

    /// Begins one more command of each script whose calls have waited for too long.
    fn begin_overdue(&mut self, now: Moment) -> Vec<&'static Script> {
        let overdue = self.0.values_mut().filter(|calls| calls.overdue <= now);
        let begin = |calls: &mut Calls| {
            calls.under_way += 1;
            calls.script
        };
        overdue.map(begin).collect()
    }
}

impl Calls {
    fn gather(&mut self, call: Gathered, now: Moment) {
        if self.gathered.is_empty() {
            self.overdue = now.after(LONGEST);
        }
        self.gathered.push_back(call);
    }

    /// One command is answered; what takes its place.
    fn next(&mut self, now: Moment) -> Vec<Gathered> {
        let most = BATCH.min(self.gathered.len());
        let next: Vec<Gathered> = self.gathered.drain(..most).collect();
        self.overdue = match self.gathered.is_empty() {
            true => Moment::NEVER,
            false => now.after(LONGEST),
        };
        if next.is_empty() {
            self.under_way -= 1;
        }
        next
    }
}

/// Runs a call, alone or with others.
pub(crate) async fn call(core: &Arc<Core>, item: Item, timeout: Duration) -> Answered {
    let script = item.script;
    let now = core.now();
    let entered = core.with(|state| {
        let calls = state.gate.of(script);
        if calls.under_way < ABREAST || core.per_slot.load(SeqCst) {
            calls.under_way += 1;
            return Ok(item);
        }
        let (answer, answered) = oneshot::channel();
        calls.gather((item, answer), now);
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
        Err(answered) => {
            let answer = async { answered.await.unwrap_or_else(|_| Err(given_up())) };
            core.in_time(answer, timeout).await
        }
    }
}

/// Sends what has waited for too long: a turn ends when its caller is polled, and some callers are not.
pub(crate) fn send_overdue(core: &Arc<Core>, now: Moment) {
    for script in core.with(|state| state.gate.begin_overdue(now)) {
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
        let next = core.with(|state| state.gate.of(script).next(now));
        if !next.is_empty() {
            let turn = Self {
                core: core.clone(),
                script,
            };
            core.backend.spawn(Box::pin(together(turn, next)));
        }
    }
}

async fn together(turn: Turn, mut batch: Vec<Gathered>) {
    // Whose caller is gone has been given up already, and is not to come after its release.
    batch.retain(|(_, asked)| !asked.is_closed());
    if batch.is_empty() {
        return;
    }
    let (core, script) = (&turn.core, turn.script);
    let (keys, args) = words(&batch);
    let reply = core.call(Lane::Caller, script, &keys, &args, core.valid());
    let answers = match reply.await {
        Ok((reply, sent)) => parts(&batch, reply)
            .into_iter()
            .map(|part| Ok((part, sent)))
            .collect(),
        Err(fault) if batch.len() > 1 && fault.may_be_of_one(core) => {
            return one_by_one(core, batch).await;
        }
        Err(fault) => vec![Err(fault); batch.len()],
    };
    for ((_, asked), answer) in batch.into_iter().zip(answers) {
        // Whoever asked may be gone.
        let _ = asked.send(answer);
    }
}

/// Sends each alone, after the server has refused the whole command before running it, perhaps because of one call.
async fn one_by_one(core: &Core, batch: Vec<Gathered>) {
    for (item, asked) in batch {
        if !asked.is_closed() {
            let answer = item.alone(core, Lane::Caller, core.valid()).await;
            let _ = asked.send(answer);
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
fn words(batch: &[Gathered]) -> (Vec<Bytes>, Vec<Arg>) {
    let keys = batch
        .iter()
        .flat_map(|(item, _)| (*item.keys).as_ref().iter().cloned());
    let earliest = |at: usize| {
        let args = batch.iter().map(|(item, _)| &item.args[at]);
        args.min_by_key(|arg| match arg {
            Arg::Number(number) => *number,
            Arg::Text(_) => 0,
        })
    };
    let shared = batch.first().map_or(0, |(item, _)| item.shared);
    let shared = (0..shared).filter_map(earliest);
    let own = batch.iter().flat_map(|(item, _)| &item.args[item.shared..]);
    (keys.collect(), shared.chain(own).cloned().collect())
}

/// Splits a reply into what each would have been answered alone; what is left over goes to the first.
fn parts(batch: &[Gathered], reply: Reply) -> Vec<Reply> {
    let Reply::Array(mut all) = reply else {
        return vec![reply; batch.len()];
    };
    let own = batch.iter().map(|(item, _)| item.answers);
    let mut extra = all.split_off(all.len().min(1 + own.clone().sum::<usize>()));
    let mut all = all.into_iter();
    let first: Vec<Reply> = all.by_ref().take(1).collect();
    let part = |answers| {
        let mut part = first.clone();
        part.extend(all.by_ref().take(answers));
        part.append(&mut extra);
        Reply::Array(part)
    };
    own.map(part).collect()
}

fn given_up() -> Fault {
    Fault::Unanswered(FredError::new(ErrorKind::Canceled, "the call was given up"))
}
