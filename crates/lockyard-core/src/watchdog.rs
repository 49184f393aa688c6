//! The watchdog: renews holds, looks for waiters, and carries out releases in the background.
//!
//! In production it runs on an OS thread with a runtime and a connection of its own, so that neither a blocked
//! executor nor a busy command queue stops it; a simulation runs it as a task.
//!
//! 1. A hold is lost to its guards when its deadline comes, whatever the network does.
//! 2. Batches are sent one after another; once one had no answer the others no longer wait for it.
//! 3. It ends when the client has ended and nothing is left to release.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use crate::backend::{Event, Lane, Moment};
use crate::cell::HoldState;
use crate::core::Core;
use crate::countdown;
use crate::gather;
use crate::id::Phase;
use crate::inbox;
use crate::late::Late;
use crate::metrics::{self, Loss};
use crate::opening;
use crate::releases::{self, Release};
use crate::renewal::{self, Renewal};
use crate::state::State;

/// tokio's timers do not count suspended time, so the clock is asked at least so often.
const TICK: Duration = Duration::from_secs(1);

/// What is due at one moment.
#[derive(Default)]
struct Work {
    renewals: Vec<Renewal>,
    releases: Vec<Release>,
    late: BTreeMap<Moment, Vec<Late>>,
}

/// Runs until the client has ended.
pub(crate) async fn run(core: Arc<Core>, mut events: UnboundedReceiver<Event>) {
    let mut tasks: JoinSet<Vec<Vec<Renewal>>> = JoinSet::new();
    loop {
        let now = core.now();
        let closing = core.closing.load(SeqCst);
        let (work, idle, alarms) = core.with(|state| {
            if closing {
                state.late.forget_answered();
            }
            let work = collect(state, now, core.options.waiter_timeout / 3);
            let idle = state.is_empty() && state.late.is_empty() && core.books.is_idle();
            (work, idle, state.alarms.take(now))
        });
        alarms.into_iter().for_each(Waker::wake);
        gather::send_overdue(&core, now);
        spawn(&core, &mut tasks, work);
        countdown::begin(&core);
        opening::begin(&core);
        if closing && idle && tasks.is_empty() {
            break;
        }
        let wake = core.with(|state| {
            let wake = state
                .next_wake()
                .unwrap_or(Moment::NEVER)
                .min(now.after(TICK));
            state.sleeps_until = Some(wake);
            wake
        });
        tokio::select! {
            biased;
            Some(event) = events.recv() => inbox::on_event(&core, &event),
            Some(stuck) = tasks.join_next() => {
                for batch in stuck.unwrap_or_default() {
                    tasks.spawn(renew(core.clone(), vec![batch]));
                }
            }
            () = core.wake.notified() => {}
            () = tokio::time::sleep(wake.since(core.now())) => {}
        }
    }
    let alarms = core.with(|state| {
        state.gate.end();
        state.alarms.end()
    });
    alarms.into_iter().for_each(Waker::wake);
    core.backend.close().await;
    core.finished.notify_waiters();
}

fn collect(state: &mut State, now: Moment, look: Duration) -> Work {
    let mut work = Work {
        late: state.late.take(now),
        ..Work::default()
    };
    for seq in state.take_due(now, look) {
        let Some(id) = state.get(seq) else {
            state.ask_another(seq, now);
            continue;
        };
        if let Phase::Held(held) = &id.phase
            && held.cell.state(now) == HoldState::Lost
        {
            tracing::warn!(lock = id.spec.name, outcome = "lost", "the lease ran out");
            metrics::lost(&id.spec, Loss::Expired);
            state.lose(seq, now);
            continue;
        }
        let deadline = match &id.phase {
            Phase::Held(held) => held.cell.deadline(),
            _ => Moment::NEVER,
        };
        let renewal = Renewal::of(state, seq, now);
        if let (Some(renewal), Some(id)) = (renewal, state.get_mut(seq)) {
            if id.flying {
                // Its answer may be older than what it is to look for.
                id.again = renewal.waits;
            } else {
                id.flying = true;
                work.renewals.push(renewal);
            }
        }
        // Whatever becomes of the renewal, the loss is noticed in time.
        state.set_due(seq, deadline);
        work.releases.extend(Release::of(state, seq));
    }
    work
}

fn spawn(core: &Arc<Core>, tasks: &mut JoinSet<Vec<Vec<Renewal>>>, mut work: Work) {
    let late = work.late.into_values().flatten();
    let late = late.map(|late| Release::late(core, late));
    work.releases.extend(late);
    let batches = renewal::batches(core, work.renewals);
    if !batches.is_empty() {
        tasks.spawn(renew(core.clone(), batches));
    }
    for batch in releases::batches(core.per_slot.load(SeqCst), work.releases) {
        let core = core.clone();
        tasks.spawn(async move {
            releases::send(&core, &batch).await;
            Vec::new()
        });
    }
}

/// Sends batches one after another; if one had no answer, gives back those that are left.
async fn renew(core: Arc<Core>, batches: Vec<Vec<Renewal>>) -> Vec<Vec<Renewal>> {
    let mut batches = batches.into_iter();
    for batch in batches.by_ref() {
        if renewal::send(&core, Lane::Watchdog, &batch).await.is_err() {
            break;
        }
    }
    batches.collect()
}
