//! The client: where every handle comes from.

use std::sync::Arc;

use lockyard_core::__private::Runtime;
use lockyard_core::{ClientOptions, Error, Owner};
#[cfg(feature = "latch")]
use lockyard_latch::Latch;
#[cfg(feature = "limiter")]
use lockyard_limiter::{Rate, RateLimiter};
#[cfg(feature = "lock")]
use lockyard_lock::{FairLock, Lock};
#[cfg(feature = "rw-lock")]
use lockyard_rwlock::RwLock;
#[cfg(feature = "semaphore")]
use lockyard_semaphore::Semaphore;

/// A connection to one server, with a watchdog that renews what is held.
///
/// It is cheap to clone, and one per process is enough.
/// It has three connections and one thread, `lockyard-watchdog`, and ends with its last handle and guard.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), lockyard::Error> {
/// let client = lockyard::Client::connect("redis://127.0.0.1:6379").await?;
/// let guard = client.lock("stock:42").acquire().await?;
/// guard.release().await?;
/// client.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    runtime: Arc<Runtime>,
}

impl Client {
    /// Connects to the server at a URL, within the operation timeout of 3 s.
    ///
    /// It tries once: while the server is away there is no client, and a service that is to start then tries again.
    /// From then on connections that end are made anew in the background.
    ///
    /// See [`ClientOptions::from_url`] for what a URL may be.
    ///
    /// # Cancel safety
    ///
    /// Connections that were made are closed again.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`]; [`Error::Unreachable`] or [`Error::Refused`] with why the server cannot be used.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::with_options(ClientOptions::from_url(url)?).await
    }

    /// Connects as the options say, within their operation timeout.
    ///
    /// # Cancel safety
    ///
    /// Connections that were made are closed again.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and [`Error::InvalidOption`].
    pub async fn with_options(options: ClientOptions) -> Result<Self, Error> {
        Ok(Self {
            runtime: Runtime::connect(options).await?,
        })
    }

    /// For backends other than a connection.
    #[doc(hidden)]
    #[must_use]
    pub fn from_runtime(runtime: Arc<Runtime>) -> Self {
        Self { runtime }
    }

    /// The reentrant lock of this name.
    ///
    /// Nothing is sent; an invalid name is an error at the first use.
    /// A name has 1 to 1024 bytes, and braces only as one non-empty hash tag, as in `order:{42}`.
    /// A name without braces is its own hash tag, so `x` and `{x}` are one lock.
    #[cfg(feature = "lock")]
    #[must_use]
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(&self.runtime, name.as_ref())
    }

    /// The lock of this name, for those who want it strictly in order of arrival; it is the same lock as
    /// [`lock`](Self::lock) has under this name.
    ///
    /// Nothing is sent; an invalid name is an error at the first use.
    /// What a name may be: see [`lock`](Self::lock).
    #[cfg(feature = "lock")]
    #[must_use]
    pub fn fair_lock(&self, name: impl AsRef<str>) -> FairLock {
        FairLock::new(&self.runtime, name.as_ref())
    }

    /// The read-write lock of this name; it has nothing to do with the [`lock`](Self::lock) of the same name.
    ///
    /// Nothing is sent; an invalid name is an error at the first use.
    /// What a name may be: see [`lock`](Self::lock).
    #[cfg(feature = "rw-lock")]
    #[must_use]
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(&self.runtime, name.as_ref())
    }

    /// The latch of this name.
    ///
    /// Nothing is sent; an invalid name is an error at the first use.
    /// What a name may be: see [`lock`](Self::lock).
    #[cfg(feature = "latch")]
    #[must_use]
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        Latch::new(&self.runtime, name.as_ref())
    }

    /// The rate limiter of this name, with a rate.
    ///
    /// Nothing is sent; an invalid name or rate is an error at the first use.
    /// For names see [`lock`](Self::lock); a limiter and a lock of one name have nothing to do with each other.
    #[cfg(feature = "limiter")]
    #[must_use]
    pub fn rate_limiter(&self, name: impl AsRef<str>, rate: Rate) -> RateLimiter {
        RateLimiter::new(&self.runtime, name.as_ref(), rate)
    }

    /// The semaphore of this name, which has so many permits unless another [limit](Semaphore::set_limit) is stored.
    ///
    /// Nothing is sent; an invalid name is an error at the first use.
    /// What a name may be: see [`lock`](Self::lock).
    #[cfg(feature = "semaphore")]
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(&self.runtime, name.as_ref(), permits)
    }

    /// A new owner, which can re-enter what it holds and travel to other processes.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.runtime.owner()
    }

    /// Releases every hold of this client, ends every wait with [`Error::Closed`], and begins to close the connections.
    ///
    /// The connections may be closed only after it has returned.
    /// Guards that are left are lost.
    /// Without it, the same happens in the background when the last handle and guard are dropped, unless the process
    /// ends first; then the leases run out.
    ///
    /// # Cancel safety
    ///
    /// It goes on in the background.
    ///
    /// # Errors
    ///
    /// [`Error::OutcomeUnknown`] if not all releases were answered within the operation timeout.
    pub async fn shutdown(&self) -> Result<(), Error> {
        self.runtime.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_their_futures_cross_threads() {
        fn check<T: Send + Sync + 'static>() {}
        fn sent(_: impl Send) {}
        check::<Client>();
        // Not run: that it compiles is the test.
        let _ = |client: &Client| {
            sent(Client::connect(""));
            sent(Client::with_options(ClientOptions::default()));
            sent(client.shutdown());
        };
    }
}
