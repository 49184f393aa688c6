//! A command that comes twice, or late, or whose reply is lost, does no harm, and nothing that it does outlives the
//! operation timeout.

// Acquires that arrive a second time, and what they bring back.
pub(crate) mod phantom;

// Renewals and releases that arrive a second time.
pub(crate) mod copied;

// Commands that arrive long after they were sent.
pub(crate) mod held_back;

// Commands whose outcome the client does not learn.
pub(crate) mod lost;

// Each guard's release counts once.
pub(crate) mod releases;

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use lockyard::{Client, ClientOptions};
use lockyard_testkit::{Proxy, Server, eventually_async};

use crate::contract::exclusive::{Guard, Single};
use crate::support::{SOON, cache_scripts, connect_in_the_end};

/// The operation timeout of the client behind the proxy: what comes later than that is refused.
pub(crate) const VALID: Duration = Duration::from_millis(700);

/// A server with a client behind a proxy and another straight to it.
///
/// Leases are far longer than anything here, so that none that runs out hides a fault.
pub(crate) struct Line<M> {
    pub(crate) server: Server,
    pub(crate) proxy: Proxy,
    pub(crate) client: Client,
    pub(crate) other: Client,
    exclusive: PhantomData<M>,
}

impl<M: Single> Line<M> {
    pub(crate) async fn new() -> Self {
        Self::with(VALID).await
    }

    /// A line on which nothing is over before the test is.
    pub(crate) async fn patient() -> Self {
        Self::with(4 * SOON).await
    }

    pub(crate) async fn with(valid: Duration) -> Self {
        let server = Server::start().unwrap();
        let proxy = Proxy::start(&server).unwrap();
        cache_scripts(&server);
        let client = connect_in_the_end(options(&proxy.url()).operation_timeout(valid)).await;
        let other = connect_in_the_end(options(&server.url()).operation_timeout(2 * SOON)).await;
        Self {
            server,
            proxy,
            client,
            other,
            exclusive: PhantomData,
        }
    }

    /// Who holds, and how: the fields of a lock's hash, or permits and their deadlines.
    pub(crate) fn holds(&self, name: &str) -> Vec<(String, String)> {
        let key = M::key(name);
        let kind: String = self.server.query(&["TYPE", &key]).unwrap();
        let words: &[&str] = match kind.as_str() {
            "zset" => &["ZRANGE", &key, "0", "-1", "WITHSCORES"],
            _ => &["HGETALL", &key],
        };
        let mut fields = self.server.query::<Vec<String>>(words).unwrap().into_iter();
        std::iter::from_fn(|| Some((fields.next()?, fields.next()?))).collect()
    }

    /// Waits until no key of any lock is left, and sees that another client gets the lock at once.
    pub(crate) async fn nothing_is_left(&self) {
        eventually_async(SOON, async || self.keys().is_empty()).await;
        let guard = M::of(&self.other, "x").try_acquire().await.unwrap();
        guard.expect("the lock is free").release().await.unwrap();
    }

    /// The keys of locks, but for their last fencing tokens.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys = self.server.keys("*").unwrap();
        keys.retain(|key| !key.contains(".fence:"));
        keys
    }

    pub(crate) async fn until_waiting(&self, waiting: u64) {
        let lock = M::of(&self.other, "x");
        eventually_async(SOON, async || {
            lock.inspect().await.unwrap().waiting == waiting
        })
        .await;
    }
}

fn options(url: &str) -> ClientOptions {
    let options = ClientOptions::from_url(url).unwrap();
    options.waiter_timeout(6 * SOON)
}

/// Waits until so much time has passed since a moment.
async fn until_after(start: Instant, time: Duration) {
    eventually_async(2 * time, async || start.elapsed() > time).await;
}
