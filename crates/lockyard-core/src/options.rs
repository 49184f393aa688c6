//! How a client connects, waits, and leases what it holds.

use std::fmt;
use std::time::Duration;

use fred::error::{Error as FredError, ErrorKind};
use fred::types::config::{Config, ServerConfig};

use crate::error::Error;
use crate::lease::Lease;

/// How a client connects, waits, and leases what it holds.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// # mod lockyard { pub use lockyard_core::*; }
/// use lockyard::{ClientOptions, Lease};
///
/// let options = ClientOptions::from_url("redis://127.0.0.1:6379")?
///     .prefix("shop:")
///     .lease(Lease::Renewed(Duration::from_secs(10)));
/// # Ok::<(), lockyard::Error>(())
/// ```
#[derive(Clone)]
pub struct ClientOptions {
    pub(crate) config: Config,
    pub(crate) prefix: String,
    pub(crate) lease: Lease,
    pub(crate) waiter_timeout: Duration,
    pub(crate) operation_timeout: Duration,
    pub(crate) waiting: Waiting,
}

/// What a client does while a lock is held by somebody else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// It stands in the lock's queue and is told when its turn has come: in order, and at next to no cost.
    ///
    /// Where the server does not let it subscribe, and while a subscription is being renewed, it spins.
    #[default]
    Queue,
    /// It tries again and again, with exponential back-off between 1 ms and 250 ms and jitter: out of order, and at
    /// the cost of one script per try, but without a subscription.
    ///
    /// It gets in only at a moment when nobody is queued, so do not mix it with queueing clients on a contended lock.
    Spin,
}

impl ClientOptions {
    /// Connects to the server at a URL: `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS,
    /// `redis+unix:///path` for a unix socket.
    ///
    /// With TLS, what the system trusts is trusted; for other certificates, or one of the client's own, use
    /// [`from_config`](Self::from_config) with a [`TlsConfig`](fred::types::config::TlsConfig).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`], which does not repeat the URL as it may contain a password.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let config = match url.split_once(':') {
            Some((scheme, _)) if SCHEMES.contains(&scheme) => Config::from_url(url),
            _ => Err(invalid("unknown scheme")),
        };
        config
            .and_then(usable)
            .map(Self::from_config)
            .map_err(|source| Error::InvalidUrl { source })
    }

    /// Connects as a [`fred`] configuration says.
    ///
    /// It takes a configuration and not a client, because Lockyard itself decides how often a command is sent, and
    /// makes three connections.
    #[must_use]
    pub fn from_config(config: Config) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Sets what every key and channel begins with, so that several applications share a server.
    ///
    /// All clients that are to exclude each other need the same prefix.
    /// Choose prefixes of which none begins with another: the lock `lock:{x}` under `a:` and the lock `x` under
    /// `a:lock:` have the same key.
    /// At most 256 bytes, without braces.
    /// Defaults to `lockyard:`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the lease of every lock that is not given one by `with_lease`.
    ///
    /// More outlasts longer pauses and outages; less frees the lock of a killed process sooner.
    /// Defaults to 30 s, renewed.
    #[must_use]
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long a waiting client may stay silent before the server treats it as gone; it looks every third of that
    /// time.
    ///
    /// More saves commands; less passes over killed waiters sooner and shortens the delay that a lost message causes.
    /// It is also the longest that a hold lasts which is granted to a waiter, until its first renewal.
    /// Between 100 ms and an hour.
    /// Defaults to 10 s.
    #[must_use]
    pub fn waiter_timeout(mut self, timeout: Duration) -> Self {
        self.waiter_timeout = timeout;
        self
    }

    /// Sets how long a single command may take, and how long a call that does not wait may take with all its retries.
    ///
    /// More outlasts slower networks; less reports trouble sooner.
    /// Between 10 ms and 5 min, and best well below the leases in use.
    /// Defaults to 3 s.
    #[must_use]
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout;
        self
    }

    /// Sets what the client does while a lock is held by somebody else.
    ///
    /// Defaults to [`Waiting::Queue`].
    #[must_use]
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub fn queues(&self) -> bool {
        self.waiting == Waiting::Queue
    }

    #[doc(hidden)]
    #[must_use]
    pub fn default_lease(&self) -> Lease {
        self.lease
    }

    pub(crate) fn checked(mut self) -> Result<Self, Error> {
        let invalid = |option, reason| Err(Error::InvalidOption { option, reason });
        if self.prefix.len() > 256 || self.prefix.contains(['{', '}']) {
            return invalid("prefix", "a prefix has at most 256 bytes and no braces");
        }
        if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&self.waiter_timeout)
        {
            return invalid(
                "waiter_timeout",
                "a waiter timeout is between 100 ms and an hour",
            );
        }
        if !(Duration::from_millis(10)..=Duration::from_secs(300)).contains(&self.operation_timeout)
        {
            return invalid(
                "operation_timeout",
                "an operation timeout is between 10 ms and 5 min",
            );
        }
        if self.config.server.is_clustered() {
            return invalid(
                "server",
                "clusters of several nodes are not supported yet; connect to one server",
            );
        }
        self.lease = self.lease.checked()?;
        Ok(self)
    }
}

impl Default for ClientOptions {
    /// Connects to `redis://127.0.0.1:6379`; for a server in memory the address means nothing.
    fn default() -> Self {
        Self {
            config: Config::default(),
            prefix: "lockyard:".to_owned(),
            lease: Lease::default(),
            waiter_timeout: Duration::from_secs(10),
            operation_timeout: Duration::from_secs(3),
            waiting: Waiting::default(),
        }
    }
}

/// What a URL may begin with; fred takes anything else for `redis`.
const SCHEMES: [&str; 8] = [
    "redis",
    "rediss",
    "redis+unix",
    "redis-cluster",
    "rediss-cluster",
    "valkey",
    "valkeys",
    "valkey+unix",
];

/// Refuses what fred would silently take for something else.
fn usable(config: Config) -> Result<Config, FredError> {
    if config.username.is_some() && config.password.is_none() {
        return Err(invalid(
            "a user without a password; for one that needs none give any",
        ));
    }
    match &config.server {
        ServerConfig::Unix { path } if !path.is_absolute() => Err(invalid("no path of a socket")),
        _ => Ok(config),
    }
}

fn invalid(reason: &'static str) -> FredError {
    FredError::new(ErrorKind::Url, reason)
}

impl fmt::Debug for ClientOptions {
    /// Leaves out the configuration of the connection, which contains the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("prefix", &self.prefix)
            .field("lease", &self.lease)
            .field("waiter_timeout", &self.waiter_timeout)
            .field("operation_timeout", &self.operation_timeout)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}
