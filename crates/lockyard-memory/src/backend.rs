//! The backend of a client in memory.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lockyard_core::__private::{Backend, BoxFuture, Call, Event, Fault, Lane, Moment, Reply};
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
    runtime: Handle,
}

impl MemoryBackend {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
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

/// A client's inbox, until it is dropped.
pub(crate) struct Subscription {
    shared: Arc<Shared>,
    channel: Bytes,
}

impl Subscription {
    pub(crate) fn new(
        shared: Arc<Shared>,
        channel: String,
        events: UnboundedSender<Event>,
    ) -> Self {
        let channel = Bytes::from(channel);
        shared.subscribe(channel.clone(), events);
        Self { shared, channel }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.unsubscribe(&self.channel);
    }
}
