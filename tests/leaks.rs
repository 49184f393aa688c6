//! Nothing stays behind: no key, place or count, whatever ends in the middle.

// Futures that are dropped at any of their await points.
mod cancelled;

// Futures that are dropped before the server's answer.
mod unanswered;

// Waits that end by themselves, at the worst moment too.
mod given_up;

// Tasks, runtimes and clients that end while they hold or wait.
mod ended;

// Processes that are killed.
mod killed;

// Clients that are shut down.
mod shut_down;

// What clients cost the process and the server, back to nothing when they are gone.
mod costs;

use std::time::Duration;

use lockyard::{Client, ClientOptions};
use lockyard_testkit::{Server, eventually_async};

use crate::support::{SOON, soon};

/// A server and two of its clients, whose leases and timeouts are all too long to clean up for anybody.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) other: Client,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let server = Server::start().unwrap();
        let client = Client::with_options(options(&server.url())).await.unwrap();
        let other = Client::with_options(options(&server.url())).await.unwrap();
        Self {
            server,
            client,
            other,
        }
    }

    /// Waits until no key is left, and sees that another client gets the lock at once.
    pub(crate) async fn nothing_is_left(&self) {
        self.all_has_arrived().await;
        nothing_is_left(&self.server, &self.other).await;
    }

    /// Waits until no key is left, and sees that the clients keep nothing either.
    pub(crate) async fn ends(self) {
        self.nothing_is_left().await;
        soon(self.client.shutdown()).await.unwrap();
        soon(self.other.shutdown()).await.unwrap();
    }

    /// Waits until the server has all that the client has sent by now.
    pub(crate) async fn all_has_arrived(&self) {
        // The reply to what goes last over the same connection says so.
        self.client.lock("x").inspect().await.unwrap();
    }
}

pub(crate) fn options(url: &str) -> ClientOptions {
    ClientOptions::from_url(url)
        .unwrap()
        .operation_timeout(2 * SOON)
        .waiter_timeout(6 * SOON)
}

/// Waits until no key of any lock is left, and sees that a client gets the lock at once.
///
/// The last fencing token stays for a day, so that tokens grow.
pub(crate) async fn nothing_is_left(server: &Server, client: &Client) {
    no_key_is_left(server).await;
    let guard = client
        .lock("x")
        .try_acquire()
        .await
        .unwrap()
        .expect("the lock is free");
    guard.release().await.unwrap();
    no_key_is_left(server).await;
}

async fn no_key_is_left(server: &Server) {
    eventually_async(SOON, async || keys(server).is_empty()).await;
}

/// The keys of locks, but for their last fencing tokens.
pub(crate) fn keys(server: &Server) -> Vec<String> {
    let mut keys = server.keys("*").unwrap();
    keys.retain(|key| !key.contains("lock.fence:"));
    keys
}

/// Waits until so many wait for the lock.
pub(crate) async fn until_waiting(client: &Client, waiting: u64) {
    eventually_async(SOON, async || {
        client.lock("x").inspect().await.unwrap().waiting == waiting
    })
    .await;
}

/// How many connections the server has.
pub(crate) fn connections(server: &Server) -> usize {
    server
        .query::<String>(&["CLIENT", "LIST"])
        .unwrap()
        .lines()
        .count()
}

/// So short that it makes no difference.
const MOMENT: Duration = Duration::from_millis(10);
