//! What the messages in a client's inbox do.
//!
//! `granted <server µs> <entry>[:token] …`: a script has written the holds of ids that wait.
//! `revoked <hold id>`: the hold was released by force.
//! A message is a hint: each may be lost, and a later look or check finds the same.

use bytes::Bytes;

use crate::backend::{Event, Moment};
use crate::breakages::broken;
use crate::cell::Cell;
use crate::core::Core;
use crate::id::{Phase, seq_of};
use crate::metrics::{self, Loss};
use crate::reply::token;
use crate::state::State;

pub(crate) fn on_event(core: &Core, event: &Event) {
    let now = core.now();
    if !matches!(event, Event::Message(_) | Event::Heard { .. }) {
        core.openings.disturb();
    }
    match event {
        Event::Message(message) => on_message(core, message, now),
        Event::Heard { channel, message } => core.openings.heard(channel, message),
        Event::Missed => core.with(|state| state.check_all(now)),
        Event::InboxUp => core.with(|state| {
            state.inbox = true;
            state.check_all(now);
        }),
        Event::InboxDown => core.with(|state| state.inbox = false),
        Event::Reconnected => core.with(|state| {
            // It may be another server with another clock.
            state.sync = None;
            state.check_all(now);
        }),
    }
}

/// Messages that came another way as well.
pub(crate) fn on_messages(core: &Core, messages: &[Bytes]) {
    for message in messages {
        on_message(core, message, core.now());
    }
}

fn on_message(core: &Core, message: &[u8], now: Moment) {
    let text = String::from_utf8_lossy(message);
    match text.split(' ').collect::<Vec<_>>()[..] {
        ["granted", us, ref entries @ ..] => {
            let Ok(us) = us.parse() else { return };
            for entry in entries {
                if let Some(seq) = seq_of(entry.as_bytes(), &core.client) {
                    core.with(|state| granted(core, state, seq, us, entry, now));
                }
            }
        }
        ["revoked", hold] => {
            let lost = seq_of(hold.as_bytes(), &core.client).and_then(|seq| {
                core.with(|state| {
                    state
                        .lose(seq, now)
                        .then(|| state.get(seq).map(|id| id.spec.clone()))
                })
            });
            if let Some(Some(spec)) = lost {
                metrics::lost(&spec, Loss::Revoked);
                tracing::warn!(
                    lock = spec.name,
                    outcome = "lost",
                    "the hold was released by force"
                );
            }
        }
        _ => tracing::warn!(%text, "unknown message in the inbox"),
    }
}

fn granted(core: &Core, state: &mut State, seq: u64, us: u64, entry: &str, now: Moment) {
    let Some(id) = state.get(seq) else {
        state.late.came_back(seq, us, now);
        return;
    };
    if !matches!(id.phase, Phase::Asked(_) | Phase::Queued(..)) {
        return;
    }
    let lease = id.first_lease(core.options.waiter_timeout);
    let token = token(
        entry
            .as_bytes()
            .strip_prefix(&id.entry[..])
            .unwrap_or_default(),
    );
    let dated = match broken("a grant is dated by its arrival") {
        true => Some(now.after(lease)),
        false => None,
    };
    let deadline = dated.or_else(|| {
        state
            .sync?
            .granted(us, lease, now, core.options.waiter_timeout)
    });
    match deadline {
        Some(deadline) if deadline > now => {
            if let Some(id) = state.get_mut(seq) {
                id.granted = Some(us);
            }
            // A third after it was written, however late that is noticed.
            let check = deadline.before(lease - lease / 3);
            state.held(seq, Cell::new(now, deadline, token), check);
        }
        // A look tells from when the hold counts.
        _ => state.set_due(seq, now),
    }
}
