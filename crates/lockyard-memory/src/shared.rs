//! What a server and its clients share: the store, the clock, the random source and the inboxes.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use lockyard_core::__private::{Call, Event, Reply};
use lockyard_core::ServerError;
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::store::Store;

pub(crate) struct Shared {
    pub(crate) store: Mutex<Store>,
    started: Instant,
    random: Mutex<fastrand::Rng>,
    inboxes: Mutex<BTreeMap<Bytes, UnboundedSender<Event>>>,
}

/// The server's time when it starts: the beginning of 2025, in µs.
const EPOCH: u64 = 1_735_689_600_000_000;

impl Shared {
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn now_us(&self) -> u64 {
        EPOCH + self.elapsed().as_micros() as u64
    }

    pub(crate) fn random(&self) -> u64 {
        self.random.lock().u64(..)
    }

    /// Runs a script and delivers its messages.
    pub(crate) fn run(&self, call: Call<'_>) -> Result<Reply, ServerError> {
        let (reply, messages) = self.store.lock().run(call, self.now_us());
        for message in messages {
            if let Some(inbox) = self.inboxes.lock().get(&message.channel) {
                // A client that has just ended hears nothing more.
                let _ = inbox.send(Event::Message(message.text));
            }
        }
        reply
    }

    pub(crate) fn subscribe(&self, channel: Bytes, events: UnboundedSender<Event>) {
        self.store.lock().subscribe(&channel);
        self.inboxes.lock().insert(channel, events);
    }

    /// How many clients hear messages.
    #[cfg(test)]
    pub(crate) fn inboxes(&self) -> usize {
        self.inboxes.lock().len()
    }

    pub(crate) fn unsubscribe(&self, channel: &Bytes) {
        self.store.lock().unsubscribe(channel);
        self.inboxes.lock().remove(channel);
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            store: Mutex::default(),
            started: Instant::now(),
            random: Mutex::new(fastrand::Rng::with_seed(0)),
            inboxes: Mutex::default(),
        }
    }
}
