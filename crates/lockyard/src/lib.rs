//! Locks, semaphores, latches and rate limits for Rust services on Redis or Valkey: they hold across many processes, can
//! be re-entered in nested service calls, and tell their holder when they are lost.
//!
//! ```no_run
//! use std::time::Duration;
//! use lockyard::Client;
//!
//! # async fn sell(item: u64) {}
//! # #[tokio::main]
//! # async fn main() -> Result<(), lockyard::Error> {
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let sold = sell_twice(&client).await;
//! client.shutdown().await?; // waits for what is released in the background
//! sold
//! # }
//!
//! async fn sell_twice(client: &Client) -> Result<(), lockyard::Error> {
//!     let stock = client.lock("stock:42");
//!
//!     let guard = stock.acquire().await?; // waits its turn; renewed until released
//!     guard.run(sell(42)).await?; // the sale stops if the lease is lost
//!     guard.release().await?;
//!
//!     if let Some(guard) = stock.try_acquire_for(Duration::from_millis(200)).await? {
//!         guard.run(sell(42)).await?; // `.await??` if the section can fail itself
//!     } // dropped: released in the background
//!     Ok(())
//! }
//! ```
//!
//! Bind each guard to a name: `stock.try_acquire().await?;` and `let _ = stock.acquire().await?;` drop it, and so
//! release the lock, at once.
//!
//! # Primitives
//!
//! | | limits |
//! |---|---|
//! | [`Client::lock`], [`Client::fair_lock`] | one owner at a time, which may enter again |
//! | [`Client::rw_lock`] | many readers, or one writer |
//! | [`Client::semaphore`] | so many permits at a time |
//! | [`Client::rate_limiter`] | how many may start in what time |
//! | [`Client::latch`] | nothing: it opens when a count has come to zero |
//!
//! All that is held is leased, renewed by one watchdog, and queued for in one way: who knows one primitive knows the
//! others.
//!
//! # What is not promised
//!
//! * **No lock on one server survives that server's loss.** After a failover, or a restart without its data, two
//!   owners may hold the same lock for up to a lease. The answer is a fencing token: [`Lock::fenced`].
//! * **A lease is a promise for a limited time.** A process that was paused beyond its lease learns that it has lost
//!   the lock before it can use its guard again, but what it has in flight still arrives. Again: fencing.
//! * [`Lock::force_release`], a deleted or evicted key, and a server clock that jumps forward take a lock away at once.
//!   The holder learns of it by message, or at the latest at its next check, a third of its lease later.
//! * A Redis Cluster of several nodes is not supported yet, and is refused.
//!
//! # What is promised
//!
//! * **Exclusion while the lease lasts**: on one server two owners never hold the same lock at once.
//! * **A holder always knows**: [`LockGuard::state`] needs no I/O, counts suspended time, and says [`HoldState::Lost`]
//!   before anybody else can hold, with the exceptions above. Lost stays lost.
//! * **Nothing is left behind**: dropped futures, panics and dropped guards release at once, in the background, for
//!   which [`Client::shutdown`] waits; after a process that was killed, or ended without it, or a lost reply, every hold
//!   is gone one lease later at the latest, and every place in a queue when its turn comes.
//! * **A command that comes twice, or late, does no harm**, and nothing it does outlives the operation timeout; only a
//!   rate's permits, and a semaphore's limit that was set or added to, stay.
//! * **Waiting costs next to nothing**: one small command every third of the waiter timeout for all waiters of a client
//!   and lock. A release grants the lock to the next waiter itself and tells it by one message.
//! * **A message is a hint**: a lost one costs a third of the waiter timeout, never a hang.
//!
//! # Owners and nested calls
//!
//! A hold belongs to an [`Owner`].
//! Outside any scope each acquire has a fresh one: not reentrant, always safe; a second acquire waits for the first to
//! be released, in the same task for ever.
//! Inside [`Owner::scope`] all acquires share one, and acquiring what it already holds raises its hold count:
//!
//! ```no_run
//! # async fn call_service_b(owner: &str) {}
//! # async fn example(client: lockyard::Client) -> Result<(), lockyard::Error> {
//! let order = client.lock("order:42");
//! let owner = client.owner();
//! owner
//!     .scope(async {
//!         let outer = order.acquire().await?;
//!         let inner = order.acquire().await?; // same owner: count 2
//!         inner.release().await?;
//!         call_service_b(&owner.to_string()).await; // there: order.reenter(&header.parse()?)
//!         outer.release().await
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! An owner travels as text; a called service enters its caller's hold with [`Lock::reenter`] and gets a hold of its
//! own, which neither takes the caller's away when it crashes nor ends with it.
//! Whoever knows an owner can enter what it holds, so take one only from callers you trust.
//!
//! # Leases
//!
//! A [`Lease::Renewed`] is renewed by the watchdog, a thread of its own, every third of its length until release; so
//! the lease says how long others wait after a crash, not how long the section may take.
//! A [`Lease::Fixed`] ends by itself, unless [extended](LockGuard::extend).
//!
//! Whoever is granted a hold while it waits has it for the [waiter timeout](ClientOptions::waiter_timeout) at first, if
//! that is less than its lease, so that one who does not hear of it is not waited for any longer; the first renewal, a
//! third of that later, makes it the whole lease.
//!
//! # Waiting
//!
//! By default a client [queues](Waiting::Queue): first come, first served.
//! A client that [spins](Waiting::Spin), or must because it may not subscribe, gets in only at a moment when nobody is
//! queued; do not mix it with queueing clients on a contended lock.
//!
//! # Rate limits
//!
//! A [`RateLimiter`] grants so many permits in a period, evenly and with a burst, over all processes: at once, after a
//! wait, or it tells exactly when they can be had.
//!
//! # Latches
//!
//! A [`Latch`] is a count that processes count down together, each part once however often its command comes, and for
//! whose end any number of them wait; one message wakes them all.
//!
//! # Errors
//!
//! Somebody else holding a lock is an answer: `try_` forms return `None`.
//! Everything else is an [`Error`], which says what to do and [whether acquiring again can
//! help](Error::is_retryable).
//! While a server cannot be reached, waiting forms go on trying until their wait ends, and `try_acquire` for one
//! operation timeout.
//!
//! # Logs
//!
//! Events go to `tracing`, under the crates' names.
//!
//! | level | event | fields |
//! |---|---|---|
//! | debug | `acquired` | `lock`, `owner`, `wait` (duration), `outcome` = `acquired` |
//! | debug | `released` | `lock`, `owner`, `held` (duration), `outcome` = `released`, `dropped`, `failed` |
//! | info | `released by force` | `lock`, `outcome` = `released` |
//! | warn | the hold is lost | `lock`, `outcome` = `lost` |
//! | warn | a renewal or background release failed and goes on | `lock`, `ids`, `fault`, `outcome` = `unknown` |
//! | warn | `trying on to acquire` | `lock`, `error` |
//! | warn | the inbox could not be subscribed | `channel`, `error` |
//! | warn | the channel of a latch could not be subscribed | `latch`, `error` |
//!
//! An acquire runs in a debug span `acquire` with the fields `lock` and `owner`.
//!
//! # Metrics
//!
//! With the feature `metrics`, everything that waits is measured through the facade of the crate
//! [`metrics`](https://docs.rs/metrics), for whatever recorder the program installs.
//!
//! | name | type | what | labels |
//! |---|---|---|---|
//! | `lockyard_acquires_total` | counter | acquires that have ended, nested ones as well | `outcome` = `acquired`, `busy` (somebody else had it for as long as the caller was ready to wait), `failed`, `cancelled` (the future was dropped) |
//! | `lockyard_contended_acquires_total` | counter | acquires that had to wait | |
//! | `lockyard_wait_seconds` | histogram | from an acquire to its hold, or to permits or an open latch | |
//! | `lockyard_hold_seconds` | histogram | from a hold to the end of its guard | |
//! | `lockyard_queue_length` | histogram | as an acquire joins the queue: how many of this client wait for that name, itself included | |
//! | `lockyard_lost_holds_total` | counter | holds that were lost | `reason` = `expired` (the lease ran out), `gone` (from the server), `revoked` (by force) |
//! | `lockyard_failed_renewals_total` | counter | renewals and checks of a hold that had no good answer, and are tried again | |
//!
//! All have two labels more: `kind` = `lock`, `rw`, `semaphore`, `rate`, `latch`, and `label`, which is empty unless
//! [`with_label`](Lock::with_label) sets it; names do not appear, for there may be any number of them.
//! Of rate limiters and latches there are the first and the third only: a call of a limiter counts as an acquire
//! (`busy`: denied), and so does a wait for a latch (`busy`: not open in time); nothing of theirs is held.
//! The example `metrics` exports them to Prometheus, and has a board for Grafana beside it.
//!
//! # Redis
//!
//! Redis 7.0 or Valkey 7.2 and later, built for 64 bits: on 32 bits Lua's `%d` cuts off the server's time.
//! An ACL user needs the keys and channels under the prefix (`~lockyard:* &lockyard:*`) and
//! `+eval +evalsha +subscribe +unsubscribe +publish +ping +hello +time +select +client|setname +client|id`, and what
//! the scripts use:
//! `+del +exists +get +hdel +hget +hgetall +hmget +hset +hsetnx +incr +pexpire +pttl +set +zadd +zcard +zcount
//! +zrange +zrem +zremrangebyrank +zremrangebyscore +zscore`.
//! Without the right to subscribe, waiters spin; without the right to publish, they find their turn by looking.
//!
//! # Features
//!
//! | feature | default | |
//! |---|---|---|
//! | `latch` | yes | [`Latch`] |
//! | `limiter` | yes | [`RateLimiter`] |
//! | `lock` | yes | [`Lock`], [`FairLock`] |
//! | `metrics` | no | [counters and histograms](#metrics) |
//! | `rw-lock` | yes | [`RwLock`] |
//! | `semaphore` | yes | [`Semaphore`] |
//! | `serde` | no | `Serialize` and `Deserialize` for [`Owner`], as text |

mod client;

pub use fred;
pub use lockyard_core::{
    ClientOptions, Error, FencingToken, HoldState, HolderInfo, Lease, Owner, ServerError,
    ServerErrorKind, WaiterInfo, Waiting,
};
#[cfg(feature = "latch")]
pub use lockyard_latch::Latch;
#[cfg(feature = "limiter")]
pub use lockyard_limiter::{Decision, Quota, Rate, RateLimiter, RateLimiterInfo};
#[cfg(feature = "lock")]
pub use lockyard_lock::{FairLock, Lock, LockGuard, LockInfo};
#[cfg(feature = "rw-lock")]
pub use lockyard_rwlock::{
    ReaderInfo, RwLock, RwLockInfo, RwLockReadGuard, RwLockWaiterInfo, RwLockWriteGuard,
};
#[cfg(feature = "semaphore")]
pub use lockyard_semaphore::{
    PermitInfo, Semaphore, SemaphoreInfo, SemaphorePermit, SemaphoreWaiterInfo,
};

pub use crate::client::Client;
