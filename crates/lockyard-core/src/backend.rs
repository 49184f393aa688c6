//! The narrow interface behind which the Redis client stands: run a script, hear of messages and connections, tell
//! the time.
//!
//! A second backend is one implementation of [`Backend`].
//! Core reads no clock and no random source but the backend's, so a backend decides everything that is not ours.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

use crate::error::ServerError;
use crate::script::Script;

/// A boxed future, as [`Backend`] is used behind a pointer.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What Lockyard needs of a Redis client.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// The time by a clock that never goes back and counts suspended time.
    fn now(&self) -> Moment;

    /// A random number from the backend's one source.
    fn random(&self) -> u64;

    /// Runs a script once; it is never sent again.
    fn run<'a>(&'a self, lane: Lane, call: Call<'a>) -> BoxFuture<'a, Result<Reply, Fault>>;

    /// Asks the server for its time, in µs.
    fn server_time(&self, lane: Lane) -> BoxFuture<'_, Result<u64, Fault>>;

    /// Whether a lane has a connection, so that a command is not refused before it is sent.
    fn is_connected(&self, _: Lane) -> bool {
        true
    }

    /// Drops the connection and connects anew, for the server at its end has become a replica.
    fn reconnect(&self, lane: Lane);

    /// Hears a channel's messages from now on, as long as the inbox stands; returns when the server has confirmed it.
    ///
    /// A backend that does not is one whose clients look instead.
    fn subscribe(&self, _: Bytes) -> BoxFuture<'_, Result<(), Fault>> {
        let deaf = ServerError::new("this backend hears no channels");
        Box::pin(async { Err(Fault::Refused(deaf)) })
    }

    /// Hears a channel's messages no more.
    fn unsubscribe(&self, _: Bytes) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }

    /// Runs a future beside the callers' connection, and as long as anything runs at all.
    fn spawn(&self, work: BoxFuture<'static, ()>);

    /// The server's address, without a password.
    fn server(&self) -> &str;

    /// Closes all connections.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Which connection a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The command connection, on the caller's runtime.
    Caller,
    /// The watchdog's own, which a blocked executor does not stop.
    Watchdog,
}

/// One script with its keys and arguments.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What runs.
    pub script: &'a Script,
    /// `KEYS`.
    pub keys: &'a [Bytes],
    /// `ARGV`.
    pub args: &'a [Arg],
}

/// An element of `ARGV`.
#[derive(Clone, Debug)]
pub enum Arg {
    /// Text.
    Text(Bytes),
    /// A whole number.
    Number(u64),
}

impl From<u64> for Arg {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<Bytes> for Arg {
    fn from(text: Bytes) -> Self {
        Self::Text(text)
    }
}

impl From<&'static str> for Arg {
    fn from(text: &'static str) -> Self {
        Self::Text(Bytes::from_static(text.as_bytes()))
    }
}

/// What a script answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An integer.
    Number(i64),
    /// A bulk string.
    Text(Bytes),
    /// An array.
    Array(Vec<Self>),
    /// Anything else, which no script of ours answers.
    Other,
}

/// Why a command has no reply.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The server refused it, and nothing of it was done unless the error came in the middle of the script.
    Refused(ServerError),
    /// It may have been done or not.
    Unanswered(fred::error::Error),
    /// The reply is none that the script gives.
    Unreadable,
}

/// What a backend tells the runtime by itself.
#[derive(Debug)]
pub enum Event {
    /// A message in the inbox.
    Message(Bytes),
    /// A message on a channel of which the client wanted to hear.
    Heard {
        /// Where.
        channel: Bytes,
        /// What.
        message: Bytes,
    },
    /// Messages were lost.
    Missed,
    /// The inbox is subscribed, and the server has confirmed it.
    InboxUp,
    /// The inbox has no subscription.
    InboxDown,
    /// A lane has a new connection, perhaps to another server.
    Reconnected,
}

/// A moment by [`Backend::now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// A moment after which nothing comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment so many nanoseconds after the clock's zero.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's zero.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time since an earlier moment; zero if it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment so much later; [`NEVER`](Self::NEVER) if that is out of reach.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(
            u64::try_from(duration.as_nanos())
                .map_or(u64::MAX, |nanos| self.0.saturating_add(nanos)),
        )
    }

    /// The moment so much earlier.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).map_or(0, |nanos| self.0.saturating_sub(nanos)))
    }
}
