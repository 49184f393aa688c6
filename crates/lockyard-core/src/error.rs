//! The one error type, and what the server says when it refuses.

use std::fmt;
use std::time::Duration;

/// Why an operation of Lockyard failed.
///
/// Somebody else holding a lock is no error: `try_` forms return `None`.
/// [`is_retryable`](Self::is_retryable) tells whether trying again can help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name is empty, too long, or has braces that are not exactly one non-empty hash tag.
    #[error("invalid name {name:?}: {reason}")]
    InvalidName {
        /// The name, cut after 80 characters.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A lease is out of bounds.
    #[error("invalid lease {lease:?}: a lease is between 10 ms and 10 years")]
    InvalidLease {
        /// The lease asked for.
        lease: Duration,
    },
    /// A number of permits could never be granted.
    #[error("invalid number of permits for {name:?}: {permits} (at least 1, at most {most})")]
    InvalidPermits {
        /// The primitive's name.
        name: String,
        /// How many were asked for.
        permits: u64,
        /// How many there can be at most.
        most: u64,
    },
    /// A rate makes no sense.
    #[error("invalid rate of {name:?}: {reason}")]
    InvalidRate {
        /// The rate limiter's name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A text does not name an owner.
    #[error("invalid owner {text:?}: an owner is <uuid>:<number>")]
    InvalidOwner {
        /// The text, cut after 80 characters.
        text: String,
    },
    /// An option's value makes no sense.
    #[error("invalid {option}: {reason}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// What is wrong with the value.
        reason: &'static str,
    },
    /// A server URL cannot be read.
    #[error(
        "invalid server URL: expected redis://[user:password@]host[:port][/database], rediss://… or redis+unix:///path"
    )]
    InvalidUrl {
        /// The Redis client's reason.
        #[source]
        source: fred::error::Error,
    },
    /// The server did not answer in time.
    #[error("server {server} is unreachable: check that it is running and reachable from here")]
    Unreachable {
        /// The server's address, without a password.
        server: String,
        /// The Redis client's reason.
        #[source]
        source: fred::error::Error,
    },
    /// The server answered with an error.
    #[error("server {server} refused: {}", source.kind().advice())]
    Refused {
        /// The server's address, without a password.
        server: String,
        /// What the server said.
        #[source]
        source: ServerError,
    },
    /// A key that this primitive would use holds data of another type; it was left as it is.
    #[error("a key of {name:?} holds data of another type: use another name or prefix")]
    WrongType {
        /// The primitive's name.
        name: String,
        /// What the server said.
        #[source]
        source: ServerError,
    },
    /// The lease ran out, or the hold was taken away, before release.
    #[error("the hold of {name:?} is lost: its lease ran out or it was released by force")]
    LeaseLost {
        /// The primitive's name.
        name: String,
    },
    /// Nobody knows whether a command was carried out that is not to be repeated: a release or a count-down goes on in the
    /// background, and anything else may be done twice if it is asked for again.
    #[error(
        "it is unknown whether the server did what was asked of it for {name:?}: a release or a count-down goes on in the background, anything else may be done twice if it is repeated"
    )]
    OutcomeUnknown {
        /// The primitive's name.
        name: String,
        /// Why there is no answer.
        #[source]
        source: Box<Self>,
    },
    /// A fenced acquire met a hold of its own owner that has no fencing token.
    #[error(
        "the owner already holds {name:?} without a fencing token: acquire the outer hold fenced as well"
    )]
    NotFenced {
        /// The primitive's name.
        name: String,
    },
    /// The owner asks to write while it reads: it would wait for itself.
    #[error(
        "the owner of {name:?} reads already and would wait for itself: upgrade the read guard, or release it first"
    )]
    WouldDeadlock {
        /// The primitive's name.
        name: String,
    },
    /// The hold's lease is renewed by the watchdog, so there is nothing to extend by hand.
    #[error(
        "the hold of {name:?} is renewed by the watchdog: only a fixed lease is extended by hand"
    )]
    NotFixed {
        /// The primitive's name.
        name: String,
    },
    /// The client has been shut down.
    #[error("the client is shut down")]
    Closed,
    /// A script answered what this version does not know, as after a change of the layout by another version.
    #[error("unexpected reply for {name:?}: do all clients run compatible versions of lockyard?")]
    UnexpectedReply {
        /// The primitive's name.
        name: String,
    },
}

impl Error {
    /// Whether acquiring again, or repeating the call, can help.
    ///
    /// For [`LeaseLost`](Self::LeaseLost) only acquiring again can: a lost guard stays lost.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::LeaseLost { .. } => true,
            Self::Refused { source, .. } => {
                source.kind().is_transient() || source.kind() == ServerErrorKind::OutOfMemory
            }
            _ => false,
        }
    }
}

/// An error reply of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    message: String,
}

impl ServerError {
    /// Takes the text of an error reply, which begins with its code.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }

    /// What the server said.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What kind of refusal it is.
    #[must_use]
    pub fn kind(&self) -> ServerErrorKind {
        use ServerErrorKind as Kind;
        match self.message.split_whitespace().next().unwrap_or_default() {
            "OOM" => Kind::OutOfMemory,
            "WRONGTYPE" => Kind::WrongType,
            "NOPERM" => Kind::NoPermission,
            "NOAUTH" | "WRONGPASS" => Kind::Unauthenticated,
            "READONLY" => Kind::ReadOnly,
            "LOADING" => Kind::Loading,
            "BUSY" => Kind::Busy,
            "CROSSSLOT" => Kind::CrossSlot,
            "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "NOREPLICAS" | "MISCONF" | "UNKILLABLE" => {
                Kind::Unavailable
            }
            "ERR" if self.message.starts_with("ERR max number of clients") => Kind::Unavailable,
            _ if self.is_denied_in_a_script() => Kind::NoPermission,
            _ => Kind::Other,
        }
    }

    /// Whether a right was missing inside a script, which has no code of its own: Redis 7, then Redis 8 and Valkey.
    fn is_denied_in_a_script(&self) -> bool {
        self.message
            .starts_with("ERR The user executing the script can't")
            || self.message.starts_with("ERR ACL failure in script")
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ServerError {}

/// What kind of refusal a [`ServerError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerErrorKind {
    /// `maxmemory` is reached.
    OutOfMemory,
    /// A key holds another type.
    WrongType,
    /// The user lacks a right.
    NoPermission,
    /// The user or the password is wrong or missing.
    Unauthenticated,
    /// The server is a replica.
    ReadOnly,
    /// The server is still reading its data from disk.
    Loading,
    /// A slow script blocks the server.
    Busy,
    /// Keys of one script lie in several slots.
    CrossSlot,
    /// The server cannot write for now.
    Unavailable,
    /// Anything else.
    Other,
}

impl ServerErrorKind {
    /// Whether the refusal will pass by itself, so that a waiting call goes on trying.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::ReadOnly | Self::Loading | Self::Busy | Self::Unavailable
        )
    }

    /// What to do about it.
    fn advice(self) -> &'static str {
        match self {
            Self::OutOfMemory => {
                "it is out of memory; raise maxmemory or free keys, then try again"
            }
            Self::WrongType => "a key holds data of another type; use another name or prefix",
            Self::NoPermission => {
                "the user lacks a right; the documentation lists the rights needed"
            }
            Self::Unauthenticated => "the user or the password is wrong or missing",
            Self::ReadOnly => "it is a read-only replica; connect to the primary",
            Self::Loading => "it is still loading its data; try again",
            Self::Busy => "a slow script blocks it; try again, or see SCRIPT KILL",
            Self::CrossSlot => "keys of one script lie in several slots; please report this",
            Self::Unavailable => "it cannot write for now; try again",
            Self::Other => "see the source for what it said",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_send_sync_and_static() {
        fn check<T: std::error::Error + Send + Sync + 'static>() {}
        check::<Error>();
        check::<ServerError>();
    }
}
