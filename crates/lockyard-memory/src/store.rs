//! The store: data, and scripts that run on it one after another.

use std::fmt;
use std::sync::Arc;

use lockyard_core::__private::{Call, Reply};
use lockyard_core::ServerError;
use parking_lot::Mutex;

use crate::channels::Message;
use crate::entry::Entry;
use crate::interpreter::Interpreter;
use crate::session::Session;

/// Keys, values and subscriptions, with the interpreter that runs scripts on them.
///
/// It has no clock, no thread and no random source: what it does follows from its calls.
pub struct Store {
    interpreter: Interpreter,
    session: Arc<Mutex<Session>>,
}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        let session = Arc::<Mutex<Session>>::default();
        let interpreter = Interpreter::new(session.clone())
            .expect("an interpreter needs nothing but a little memory");
        Self {
            interpreter,
            session,
        }
    }

    /// Runs a script at a server time, in µs; answers its reply and, in order, what it published.
    ///
    /// An error undoes nothing of what the script did before, as on a server.
    pub fn run(
        &mut self,
        call: Call<'_>,
        now_us: u64,
    ) -> (Result<Reply, ServerError>, Vec<Message>) {
        self.session.lock().world.keyspace.set_now(now_us);
        let reply = self.interpreter.run(call);
        (reply, self.session.lock().world.channels.take())
    }

    /// Adds a subscriber to a channel.
    pub fn subscribe(&mut self, channel: &[u8]) {
        self.session.lock().world.channels.subscribe(channel);
    }

    /// Takes a subscriber off a channel.
    pub fn unsubscribe(&mut self, channel: &[u8]) {
        self.session.lock().world.channels.unsubscribe(channel);
    }

    /// Removes all keys.
    pub fn flush_all(&mut self) {
        self.session.lock().world.keyspace.clear();
    }

    /// Every key at a server time, in µs, in order.
    #[must_use]
    pub fn dump(&self, now_us: u64) -> Vec<Entry> {
        let keyspace = &self.session.lock().world.keyspace;
        keyspace.iter(now_us).map(Entry::of).collect()
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
