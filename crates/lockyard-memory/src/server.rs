//! The server in memory, and its clients.

use std::fmt;
use std::sync::Arc;

use lockyard::{Client, ClientOptions, Error};
use lockyard_core::__private::{Event, Runtime};
use tokio::sync::mpsc;

use crate::backend::{MemoryBackend, Subscriptions};
use crate::entry::Entry;
use crate::shared::Shared;

/// A server that lives in this process: it keeps what clients hold, and runs the scripts that a Redis server runs.
///
/// It is cheap to clone; all clones are one server, and its clients exclude each other as those of one Redis server do.
/// Its time is that of tokio's clock, so it stands still and jumps with
/// [`tokio::time::pause`](https://docs.rs/tokio/latest/tokio/time/fn.pause.html).
/// Make it in the runtime whose clock it is to follow, and use it in that runtime only.
///
/// Random numbers come from a fixed seed, so that a test does the same each time.
///
/// # Examples
///
/// See [the crate](crate).
#[derive(Clone)]
pub struct MemoryServer {
    shared: Arc<Shared>,
}

impl MemoryServer {
    /// Makes a server without any keys.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::default(),
        }
    }

    /// Makes a client with the [default options](ClientOptions::default).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime: the client runs a task, where one with a connection runs a thread.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_with(ClientOptions::default())
            .expect("the default options are valid")
    }

    /// Makes a client with other options; the address in them means nothing.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] and [`Error::InvalidLease`].
    ///
    /// # Panics
    ///
    /// As [`client`](Self::client).
    pub fn client_with(&self, options: ClientOptions) -> Result<Client, Error> {
        let queues = options.queues();
        let (events, received) = mpsc::unbounded_channel();
        let (shared, client) = (self.shared.clone(), self.shared.client());
        let told = queues.then(|| events.clone());
        let backend = Arc::new(MemoryBackend::new(shared.clone(), client, told));
        let (runtime, watchdog) = Runtime::start(backend, received, options)?;
        let subscriptions = queues.then(|| {
            // It cannot fail: `watchdog` has the other end.
            let _ = events.send(Event::InboxUp);
            Subscriptions::new(shared, client, runtime.inbox(), events)
        });
        tokio::spawn(async move {
            let _subscriptions = subscriptions;
            watchdog.await;
        });
        Ok(Client::from_runtime(runtime))
    }

    /// Removes all keys, as `FLUSHALL` does: holders learn of it at their next check.
    pub fn flush_all(&self) {
        self.shared.store.lock().flush_all();
    }

    /// Every key that exists now, in order.
    #[must_use]
    pub fn dump(&self) -> Vec<Entry> {
        let now = self.shared.now_us();
        self.shared.store.lock().dump(now)
    }
}

impl Default for MemoryServer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryServer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Red when `Subscriptions` does nothing as it is dropped.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_ended_is_no_subscriber() {
        let server = MemoryServer::new();
        let client = server.client();
        let [one, other] = [client.lock("x"), client.lock("y")];
        drop(client);
        assert!(one.try_acquire().await.is_ok_and(|guard| guard.is_some()));
        assert_eq!(server.shared.ears(), 1);
        drop((one, other));
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        assert_eq!(server.shared.ears(), 0);
    }
}
