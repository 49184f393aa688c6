//! Lockyard without a server: a client for the unit tests of a service, in microseconds and on virtual time.
//!
//! A [`MemoryServer`] lives in the process and runs the very scripts that a Redis server runs, on a store of its own.
//! Its time is tokio's, so in a test with a paused clock a lease runs out, and a wait ends, in no real time:
//!
//! ```
//! use std::time::Duration;
//!
//! use lockyard::{Client, Error, Lease, LockGuard};
//! use lockyard_memory::MemoryServer;
//! use tokio::time::{Instant, sleep};
//!
//! /// The service: whoever gets the term leads for 30 s.
//! async fn lead(client: &Client) -> Result<LockGuard, Error> {
//!     let term = Lease::Fixed(Duration::from_secs(30));
//!     client.lock("leader").with_lease(term).acquire().await
//! }
//!
//! # async fn hidden() -> Result<(), Error> {
//! #[tokio::test(start_paused = true)]
//! # async fn unused() {}
//! async fn a_term_ends_and_a_leader_that_steps_down_is_followed_at_once() -> Result<(), Error> {
//!     let server = MemoryServer::new();
//!     let (one, two) = (server.client(), server.client());
//!     let start = Instant::now();
//!
//!     let first = lead(&one).await?;
//!     let second = lead(&two).await?; // waits until the term of the first is over
//!     assert!(first.is_lost());
//!     assert!(start.elapsed() >= Duration::from_secs(30));
//!
//!     let waiting = tokio::spawn(async move { lead(&one).await });
//!     sleep(Duration::from_secs(5)).await;
//!     assert!(!waiting.is_finished());
//!     let released = Instant::now();
//!     second.release().await?;
//!     waiting.await.expect("it does not panic")?; // woken by the release
//!     assert!(released.elapsed() < Duration::from_millis(1));
//!     Ok(())
//! }
//! # a_term_ends_and_a_leader_that_steps_down_is_followed_at_once().await
//! # }
//! #
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Error> {
//! #     let real = std::time::Instant::now();
//! #     hidden().await?;
//! #     assert!(real.elapsed() < Duration::from_secs(10));
//! #     Ok(())
//! # }
//! ```
//!
//! # How to use it
//!
//! A service takes a [`Client`](lockyard::Client) from outside, and does not connect by itself; in a test it gets one
//! from [`MemoryServer::client`].
//! Several clients of one server are what several processes are in production.
//! [`MemoryServer::dump`] shows all keys, and [`MemoryServer::flush_all`] takes all holds away, as an operator may.
//!
//! For a paused clock tokio needs the feature `test-util`, in `[dev-dependencies]`.
//! With a clock that runs, everything is the same, in real time.
//!
//! # What is as on a server, and what is not
//!
//! Scripts, atomicity, expiry, messages, owners, queues and leases are the same; a test in Lockyard's repository
//! compares keys, values, replies and messages with those of a real server.
//! There is no network: nothing is lost or late, no server is unreachable or refuses.
//! For tests of that kind there is the crate `lockyard-testkit`, with real servers and faults.
//! Nothing outlives the process, and other processes cannot connect.

mod backend;
mod channels;
mod commands;
mod entry;
mod failure;
mod interpreter;
mod keyspace;
mod number;
mod refusal;
mod reply;
mod server;
mod session;
mod shared;
mod shebang;
mod sorted_set;
mod store;
mod value;
mod words;

pub use crate::entry::{Entry, Value};
pub use crate::server::MemoryServer;

/// For simulations; not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::channels::Message;
    pub use crate::store::Store;
}
