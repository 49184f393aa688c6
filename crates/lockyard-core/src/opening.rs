//! Waiting until a counter is at zero.
//!
//! Of all who wait in one client for one counter, one task asks, for all: it subscribes to the counter's channel, looks,
//! and then waits for the message that whoever counts down to zero sends to all clients at once.
//!
//! 1. Each wait is answered by a look that begins after it, so it never hears of something older than itself.
//! 2. A wait is for the incarnation that its first look finds; when that is counted no more, for whatever reason, the
//!    wait is over.
//! 3. A message is a hint: a look at the latest every third of the waiter timeout finds the same. Where there is no
//!    subscription it comes with back-off instead.
//! 4. The channel is left when nobody waits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::acquire::GRACE;
use crate::backend::{Fault, Moment};
use crate::backoff::Backoff;
use crate::core::Core;
use crate::counter::Counted;
use crate::error::Error;
use crate::openings::State;
use crate::runtime::Runtime;

/// How long a client without a subscription waits between two looks.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(250);

/// Begins to look where nobody looks yet; called by the watchdog.
pub(crate) fn begin(core: &Arc<Core>) {
    for counted in core.openings.begin() {
        tokio::spawn(watch(core.clone(), counted));
    }
}

/// Looks for all who wait, until nobody does.
async fn watch(core: Arc<Core>, counted: Counted) {
    let channel = counted.channel();
    loop {
        serve(&core, &counted).await;
        let left = core.backend.unsubscribe(channel.clone());
        // At worst it stays subscribed to what nobody listens to.
        let _ = core.in_time(left, core.valid()).await;
        if core.openings.end(channel) {
            return;
        }
    }
}

async fn serve(core: &Core, counted: &Counted) {
    let (openings, channel) = (&core.openings, counted.channel());
    let mut subscribed = subscribe(core, counted).await;
    let mut backoff = Backoff::new(SHORTEST, LONGEST);
    loop {
        // Whatever prevented a subscription, its end is told.
        if openings.take_disturbance(channel) {
            subscribed = subscribe(core, counted).await;
        }
        let Some(asked) = openings.look(channel) else {
            return;
        };
        let found = counted.look(core).await;
        let answered = found.is_ok();
        let ends = match &found {
            Ok(Some(counting)) => counting.ends.saturating_add(Duration::from_millis(1)),
            _ => Duration::MAX,
        };
        openings.looked(channel, asked, found.map(|it| it.map(|it| it.incarnation)));
        let due = match subscribed && answered {
            true => {
                backoff = Backoff::new(SHORTEST, LONGEST);
                core.now().after(core.look_interval())
            }
            false => backoff.next(core),
        };
        pause(core, channel, asked, due.min(core.now().after(ends))).await;
    }
}

/// Whether the channel is heard.
async fn subscribe(core: &Core, counted: &Counted) -> bool {
    if !core.options.queues() {
        return false;
    }
    let subscription = core.backend.subscribe(counted.channel().clone());
    let result = core.in_time(subscription, core.valid()).await;
    if let Err(fault) = result {
        let name = &counted.named.name;
        let error = core.error(name, fault);
        tracing::warn!(
            latch = name,
            error = &error as &dyn std::error::Error,
            "the channel could not be subscribed; waiters look meanwhile"
        );
        return false;
    }
    true
}

/// Waits until a look is due, or there is something else to do.
async fn pause(core: &Core, channel: &Bytes, asked: u64, due: Moment) {
    let Some(news) = core.openings.news(channel) else {
        return;
    };
    while !core.openings.stirs(channel, asked) {
        tokio::select! {
            biased;
            () = news.notified() => {}
            () = core.sleep_until(due) => return,
        }
    }
}

/// One who waits, until it is dropped.
struct Waiter<'a> {
    core: &'a Core,
    channel: &'a Bytes,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.core.openings.leave(self.channel);
    }
}

impl Runtime {
    /// Waits until a counter is at zero, or until a moment; whether it was.
    ///
    /// # Errors
    ///
    /// Why it cannot be known.
    pub async fn opened(&self, counted: &Counted, until: Moment) -> Result<bool, Error> {
        let core = self.core();
        let name = &counted.named.name;
        let (number, mut answers) = core.openings.join(counted);
        let channel = counted.channel();
        let _waiter = Waiter { core, channel };
        // Asked only now: a shutdown ends the waits that there are, and this one is among them or comes after.
        self.open()?;
        core.wake.notify_one();
        let patience = until.max(core.now().after(GRACE));
        let mut awaited: Option<Bytes> = None;
        loop {
            let seen = answers.borrow_and_update().clone();
            match seen.state {
                State::Closed => return Err(Error::Closed),
                _ if seen.asked < number => {}
                State::Open => return Ok(true),
                State::Failed(fault) => return Err(core.error(name, fault)),
                State::Counting(incarnation) => match &awaited {
                    Some(awaited) if *awaited != incarnation => return Ok(true),
                    Some(_) => {}
                    None => awaited = Some(incarnation),
                },
            }
            // However short the wait, the first look has time for its answer.
            let limit = match awaited {
                None => patience,
                Some(_) => until,
            };
            if core.now() >= limit {
                return match awaited {
                    None => Err(core.error(name, seen.trouble.unwrap_or_else(Fault::unanswered))),
                    Some(_) => Ok(false),
                };
            }
            tokio::select! {
                biased;
                changed = answers.changed() => if changed.is_err() { return Err(Error::Closed) },
                () = core.sleep_until(limit) => {}
            }
        }
    }
}
