//! Nothing stays behind: no key, place or count, whatever ends in the middle.

// Futures that are dropped at any of their await points.
pub(crate) mod cancelled;

// Futures that are dropped before the server's answer.
pub(crate) mod unanswered;

// Waits that end by themselves, at the worst moment too.
pub(crate) mod given_up;

// Tasks, runtimes and clients that end while they hold or wait.
pub(crate) mod ended;

// Processes that are killed.
pub(crate) mod killed;

// Clients that are shut down.
pub(crate) mod shut_down;

use std::marker::PhantomData;
use std::time::Duration;

use lockyard::{Client, ClientOptions};
use lockyard_testkit::{Server, eventually_async};

use crate::contract::exclusive::{Guard, Single};
use crate::contract::site::{Keys, Site};
use crate::support::{SOON, soon};

/// A server and two of its clients, whose leases and timeouts are all too long to clean up for anybody.
pub(crate) struct Scene<M> {
    pub(crate) site: Site,
    pub(crate) client: Client,
    pub(crate) other: Client,
    exclusive: PhantomData<M>,
}

impl<M: Single> Scene<M> {
    pub(crate) async fn new() -> Self {
        Self::at(Site::server()).await
    }

    pub(crate) async fn at(site: Site) -> Self {
        let client = site.client_with(at_leisure).await;
        let other = site.client_with(at_leisure).await;
        Self {
            site,
            client,
            other,
            exclusive: PhantomData,
        }
    }

    /// Waits until no key is left, and sees that another client gets the lock at once.
    pub(crate) async fn nothing_is_left(&self) {
        self.all_has_arrived().await;
        nothing_is_left::<M>(&self.site, &self.other).await;
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
        M::of(&self.client, "x").inspect().await.unwrap();
    }

    /// The server, which tests with faults have.
    pub(crate) fn server(&self) -> &Server {
        match &self.site {
            Site::Server(server) => server,
            Site::Memory(_) => panic!("in memory there is none"),
        }
    }
}

pub(crate) fn options(url: &str) -> ClientOptions {
    at_leisure(ClientOptions::from_url(url).unwrap())
}

pub(crate) fn at_leisure(options: ClientOptions) -> ClientOptions {
    options.operation_timeout(2 * SOON).waiter_timeout(6 * SOON)
}

/// Waits until no key of any lock is left, and sees that a client gets the lock at once.
///
/// The last fencing token stays for a day, so that tokens grow.
pub(crate) async fn nothing_is_left<M: Single>(site: &impl Keys, client: &Client) {
    no_key_is_left(site).await;
    let guard = M::of(client, "x")
        .try_acquire()
        .await
        .unwrap()
        .expect("the lock is free");
    guard.release().await.unwrap();
    no_key_is_left(site).await;
}

async fn no_key_is_left(site: &impl Keys) {
    eventually_async(SOON, async || keys(site).is_empty()).await;
}

/// The keys of locks, but for their last fencing tokens.
pub(crate) fn keys(site: &impl Keys) -> Vec<String> {
    let mut keys = site.all_keys();
    keys.retain(|key| !key.contains(".fence:"));
    keys
}

/// Waits until so many wait for the lock.
pub(crate) async fn until_waiting<M: Single>(client: &Client, waiting: u64) {
    eventually_async(SOON, async || {
        M::of(client, "x").inspect().await.unwrap().waiting == waiting
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
