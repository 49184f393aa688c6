//! Calls of one script that are made while others are under way go together.
//!
//! The first three are sent at once, each by itself.
//! Those that come meanwhile are gathered, and sent as one as soon as one of the first has its answer: the group
//! commit of databases.
//! While the server answers a gathered call waits for a round trip at most, and in no case for more than 10 ms.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
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
const ABREAST: usize = 3;

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

struct Gathered {
    item: Item,
    /// When it wants no answer any more.
    until: Moment,
    /// Who asked, until that is answered.
    asked: Option<oneshot::Sender<Answered>>,
}

impl Gathered {
    fn is_wanted(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| !asked.is_closed())
    }

    fn answer(&mut self, answer: Answered) {
        if let Some(asked) = self.asked.take() {
            // Whoever asked may be gone.
            let _ = asked.send(answer);
        }
    }
}

/// The calls of each script; the key is the script's address.
#[derive(Default)]
pub(crate) struct Gate {
    calls: BTreeMap<usize, Calls>,
    /// Whether nobody sends any more what has waited for too long.
    over: bool,
}

struct Calls {
    script: &'static Script,
    under_way: usize,
    gathered: VecDeque<Gathered>,
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

    /// When the first are sent in any case.
    pub(crate) fn first(&self) -> Option<Moment> {
        self.calls.values().map(|calls| calls.overdue).min()
    }

    /// The watchdog ends: whatever is gathered is given up, and from now on each call goes alone.
    pub(crate) fn end(&mut self) {
        self.over = true;
        self.calls
            .values_mut()
            .for_each(|calls| calls.gathered.clear());
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
        let alone = state.gate.over || core.per_slot.load(SeqCst);
        let calls = state.gate.of(script);
        if calls.under_way < ABREAST || alone {
            calls.under_way += 1;
            return Ok(item);
        }
        let (asked, answered) = oneshot::channel();
        let until = now.after(timeout);
        let asked = Some(asked);
        calls.gather(Gathered { item, until, asked }, now);
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
    batch.retain(Gathered::is_wanted);
    let Some(last) = batch.iter().map(|call| call.until).max() else {
        return;
    };
    let (core, script) = (&turn.core, turn.script);
    let (keys, args) = words(&batch);
    let timeout = last.since(core.now());
    let mut reply = pin!(core.call(Lane::Caller, script, &keys, &args, timeout));
    let reply = loop {
        // One alarm for all of them, and not for each.
        let waiting = batch.iter().filter(|call| call.asked.is_some());
        let first = waiting.map(|call| call.until).min();
        tokio::select! {
            biased;
            reply = &mut reply => break reply,
            () = core.sleep_until(first.unwrap_or(Moment::NEVER)) => {
                let now = core.now();
                let overdue = batch.iter_mut().filter(|call| call.until <= now);
                overdue.for_each(|call| call.answer(Err(Fault::late())));
            }
        }
    };
    match reply {
        Ok((reply, sent)) => {
            let parts = parts(&batch, reply);
            for (call, part) in batch.iter_mut().zip(parts) {
                call.answer(Ok((part, sent)));
            }
        }
        Err(fault) if batch.len() > 1 && fault.may_be_of_one(core) => one_by_one(core, batch).await,
        Err(fault) => batch
            .iter_mut()
            .for_each(|call| call.answer(Err(fault.clone()))),
    }
}

/// Sends each alone, after the server has refused the whole command before running it, perhaps because of one call.
async fn one_by_one(core: &Core, batch: Vec<Gathered>) {
    for mut call in batch {
        if call.is_wanted() {
            let left = call.until.since(core.now());
            let answer = call.item.alone(core, Lane::Caller, left).await;
            call.answer(answer);
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
    let earliest = |at: usize| {
        let args = batch.iter().map(|call| &call.item.args[at]);
        args.min_by_key(|arg| match arg {
            Arg::Number(number) => *number,
            Arg::Text(_) => 0,
        })
    };
    let shared = batch.first().map_or(0, |call| call.item.shared);
    let mut args: Vec<Arg> = (0..shared).filter_map(earliest).cloned().collect();
    let mut keys = Vec::new();
    for Gathered { item, .. } in batch {
        keys.extend_from_slice((*item.keys).as_ref());
        args.extend_from_slice(&item.args[item.shared..]);
    }
    (keys, args)
}

/// Splits a reply into what each would have been answered alone; what is left over goes to the first.
fn parts(batch: &[Gathered], reply: Reply) -> Vec<Reply> {
    let Reply::Array(mut all) = reply else {
        return vec![reply; batch.len()];
    };
    let own = batch.iter().map(|call| call.item.answers);
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
