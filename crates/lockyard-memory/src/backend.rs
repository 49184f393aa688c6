//! The backend of a client in memory.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lockyard_core::__private::{Backend, BoxFuture, Call, Event, Fault, Lane, Moment, Reply};
use lockyard_core::ServerError;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::yield_now;

use crate::shared::Shared;

/// One client's way to its server.
///
/// A command is done at the first poll, as one that is sent is done whatever becomes of whoever sent it; and before its
/// reply comes others have their turn, as with a connection.
pub(crate) struct MemoryBackend {
    shared: Arc<Shared>,
    client: u64,
    /// Where messages go; nowhere for a client that spins.
    events: Option<UnboundedSender<Event>>,
    runtime: Handle,
}

impl MemoryBackend {
    pub(crate) fn new(
        shared: Arc<Shared>,
        client: u64,
        events: Option<UnboundedSender<Event>>,
    ) -> Self {
        Self {
            shared,
            client,
            events,
            runtime: Handle::current(),
        }
    }
}

impl Backend for MemoryBackend {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.shared.elapsed().as_nanos() as u64)
    }

    fn random(&self) -> u64 {
        self.shared.random()
    }

    fn run<'a>(&'a self, _: Lane, call: Call<'a>) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            let reply = self.shared.run(call);
            yield_now().await;
            reply.map_err(Fault::Refused)
        })
    }

    fn server_time(&self, _: Lane) -> BoxFuture<'_, Result<u64, Fault>> {
        Box::pin(async move {
            let time = self.shared.now_us();
            yield_now().await;
            Ok(time)
        })
    }

    fn reconnect(&self, _: Lane) {}

    fn subscribe(&self, channel: Bytes) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            let events = self.events.clone().ok_or_else(deaf)?;
            self.shared.subscribe(self.client, &channel, events, false);
            yield_now().await;
            Ok(())
        })
    }

    fn unsubscribe(&self, channel: Bytes) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            self.shared.unsubscribe(self.client, &channel);
            yield_now().await;
            Ok(())
        })
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        self.runtime.spawn(work);
    }

    fn server(&self) -> &str {
        "in memory"
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        // The subscription ends with the watchdog, and there is nothing else.
        Box::pin(async {})
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend").finish_non_exhaustive()
    }
}

fn deaf() -> Fault {
    Fault::Refused(ServerError::new("a client that spins hears no messages"))
}

/// All that a client hears, its inbox to begin with, until it is dropped.
pub(crate) struct Subscriptions {
    shared: Arc<Shared>,
    client: u64,
}

impl Subscriptions {
    pub(crate) fn new(
        shared: Arc<Shared>,
        client: u64,
        inbox: String,
        events: UnboundedSender<Event>,
    ) -> Self {
        shared.subscribe(client, &inbox.into(), events, true);
        Self { shared, client }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        self.shared.forget(self.client);
    }
}
