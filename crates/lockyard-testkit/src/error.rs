//! What can go wrong with a private server.

use std::io;

/// Why a server, a proxy or a command of the test kit failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No server program was named and none is installed.
    #[error(
        "no redis-server or valkey-server in PATH; set LOCKYARD_SERVER to the path of one, \
         or install one: `apt-get install redis-server` (Debian, Ubuntu), \
         `dnf install valkey` (Fedora), `brew install redis` (macOS)"
    )]
    NoServer,

    /// The server program ended, or did not answer in time, while it was started.
    #[error("server did not start: {reason}; the end of its log:\n{log}")]
    Start {
        /// What was waited for, or how the process ended.
        reason: String,
        /// The last lines that the server wrote.
        log: String,
    },

    /// The operation needs a TCP port, but the server listens on a unix socket.
    #[error("server listens on a unix socket and has no port")]
    NoPort,

    /// The operating system refused something that the test kit needs.
    #[error("{context}")]
    Io {
        /// What was tried.
        context: &'static str,
        /// How the system answered.
        #[source]
        source: io::Error,
    },

    /// The server answered with an error, or the administrative connection failed.
    #[error("administrative command failed")]
    Redis(#[from] redis::RedisError),
}

impl Error {
    /// Says what was tried when the system refused it.
    pub(crate) fn io(context: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { context, source }
    }
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn errors_are_send_sync_and_static() {
        fn check<T: std::error::Error + Send + Sync + 'static>() {}
        check::<Error>();
    }
}
