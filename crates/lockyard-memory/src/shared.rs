//! What a server and its clients share: the store, the clock, the random source and who hears what.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
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
    ears: Mutex<BTreeMap<(Bytes, u64), Ear>>,
    clients: AtomicU64,
}

/// Where a client hears a channel.
struct Ear {
    events: UnboundedSender<Event>,
    is_inbox: bool,
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
        let ears = self.ears.lock();
        for message in messages {
            let everybody = (message.channel.clone(), 0)..=(message.channel.clone(), u64::MAX);
            for (_, ear) in ears.range(everybody) {
                let event = match ear.is_inbox {
                    true => Event::Message(message.text.clone()),
                    false => Event::Heard {
                        channel: message.channel.clone(),
                        message: message.text.clone(),
                    },
                };
                // A client that has just ended hears nothing more.
                let _ = ear.events.send(event);
            }
        }
        reply
    }

    /// A number for a new client.
    pub(crate) fn client(&self) -> u64 {
        self.clients.fetch_add(1, SeqCst)
    }

    pub(crate) fn subscribe(
        &self,
        client: u64,
        channel: &Bytes,
        events: UnboundedSender<Event>,
        is_inbox: bool,
    ) {
        let ear = Ear { events, is_inbox };
        let old = self.ears.lock().insert((channel.clone(), client), ear);
        if old.is_none() {
            self.store.lock().subscribe(channel);
        }
    }

    /// How many channels are heard, by all clients together.
    #[cfg(test)]
    pub(crate) fn ears(&self) -> usize {
        self.ears.lock().len()
    }

    pub(crate) fn unsubscribe(&self, client: u64, channel: &Bytes) {
        let old = self.ears.lock().remove(&(channel.clone(), client));
        if old.is_some() {
            self.store.lock().unsubscribe(channel);
        }
    }

    /// A client has ended.
    pub(crate) fn forget(&self, client: u64) {
        let ears = self.ears.lock();
        let its = ears.keys().filter(|(_, other)| *other == client);
        let channels: Vec<Bytes> = its.map(|(channel, _)| channel.clone()).collect();
        drop(ears);
        for channel in channels {
            self.unsubscribe(client, &channel);
        }
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            store: Mutex::default(),
            started: Instant::now(),
            random: Mutex::new(fastrand::Rng::with_seed(0)),
            ears: Mutex::default(),
            clients: AtomicU64::new(1),
        }
    }
}
