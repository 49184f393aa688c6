//! Private Redis and Valkey servers, with faults, for tests.
//!
//! A test starts a [`Server`] of its own within some 20 milliseconds: a real `redis-server` or
//! `valkey-server` on a free port, empty, and gone when the test ends, however it ends. So tests
//! need no other setup, run in parallel, and may do to a server what nobody may do to a shared
//! one: kill, pause or fill it. A [`Proxy`] on the line between client and server disturbs what
//! passes: late, lost, repeated, held and refused commands, replies and messages.
//!
//! The test kit was made for [Lockyard](https://docs.rs/lockyard), but knows nothing of it: any
//! client that takes a URL can be tested, in sync and async tests alike.
//!
//! # Examples
//!
//! Is a counter right if it counts again after an error? It is not, if only the reply was lost:
//!
//! ```
//! use lockyard_testkit::{Action, Proxy, Server, command, redis};
//!
//! /// What is to be tested: one more for the visitors.
//! fn count(url: &str) -> redis::RedisResult<u64> {
//!     let mut client = redis::Client::open(url)?.get_connection()?;
//!     redis::cmd("INCR").arg("visitors").query(&mut client)
//! }
//!
//! let server = Server::start()?;
//! let proxy = Proxy::start(&server)?;
//! proxy.once(command("INCR"), Action::CutBeforeReply);
//!
//! assert!(count(&proxy.url()).is_err());
//! assert_eq!(count(&proxy.url())?, 2);
//!
//! // The test sees the truth over a connection of its own.
//! assert_eq!(server.query::<u64>(&["GET", "visitors"])?, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which server is run
//!
//! The program named by [`ServerBuilder::binary`], else by the environment variable
//! `LOCKYARD_SERVER`, else `redis-server` in `PATH`, else `valkey-server` there.
//! Redis must be 7.0 or later, Valkey 7.2. Linux and macOS are supported.
//!
//! # What happens to a server
//!
//! | a test wants | it calls |
//! |---|---|
//! | a crash, with all data lost | [`kill`](Server::kill), [`restart`](Server::restart) |
//! | a server that stands still | [`pause`](Server::pause), [`resume`](Server::resume) |
//! | OOM | [`fill`](Server::fill), [`unfill`](Server::unfill) |
//! | NOSCRIPT | [`flush_scripts`](Server::flush_scripts) |
//! | BUSY | [`busy`](Server::busy) |
//! | READONLY | [`make_replica`](Server::make_replica), [`make_primary`](Server::make_primary) |
//! | NOPERM | [`ServerBuilder::acl`], [`url_for`](Server::url_for) |
//! | LOADING, or any other answer | [`Action::error`] |
//! | a closed connection | [`kill_clients`](Server::kill_clients), [`Proxy::cut`] |
//! | an unreachable server | [`Proxy::refuse`], [`Proxy::accept`] |
//! | a slow line | [`Proxy::delay`], [`Action::DelayReply`] |
//! | a line that is dead without a word | [`Proxy::hold`], [`Proxy::let_go`] |
//! | a command whose outcome is unknown | [`Action::CutBeforeReply`], [`Action::SwallowReply`] |
//! | a command that comes late, or twice | [`Action::Hold`], [`Action::Copy`] |
//! | lost messages | [`Proxy::drop_messages`] |
//!
//! # What is not promised
//!
//! Servers and proxies listen on 127.0.0.1 without protection from other users of the machine.
//! They are meant for tests, not for measuring: a proxy costs some tenths of a millisecond.

mod address;
mod admin;
mod binary;
mod builder;
mod connection;
mod copies;
mod disturb;
mod error;
mod eventually;
mod faults;
mod frame;
mod inspect;
mod process;
mod proxy;
mod replies;
mod rule;
mod server;
mod traffic;

pub use builder::ServerBuilder;
pub use error::Error;
pub use eventually::{eventually, eventually_async, fresh_prefix};
pub use proxy::Proxy;
pub use redis;
pub use rule::{Action, Rule, command};
pub use server::Server;
pub use traffic::Direction;
