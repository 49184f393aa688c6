//! Tower layers over [Lockyard](lockyard): services limit how many requests run at once, or may start in what time, over
//! the whole fleet; and the owner of a lock travels with requests, so that a called service enters what its caller holds.
//!
//! ```no_run
//! use axum::{Router, routing::get};
//! use lockyard::{Client, Rate};
//! use lockyard_tower::{ConcurrencyLimitLayer, RateLimitLayer};
//!
//! # async fn example() -> Result<Router, lockyard::Error> {
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let api = Router::new()
//!     .route("/", get(async || "hello"))
//!     .layer(ConcurrencyLimitLayer::new(client.semaphore("api", 10)))
//!     .layer(RateLimitLayer::new(client.rate_limiter("api", Rate::per_second(100))));
//! # Ok(api)
//! # }
//! ```
//!
//! | layer | what it does | refuses with |
//! |---|---|---|
//! | [`ConcurrencyLimitLayer`] | a permit of a semaphore for each request, until the body of its response has ended | 503 |
//! | [`RateLimitLayer`] | a permit of a rate limiter for each request | 429, `Retry-After` |
//! | [`OwnerLayer`] | for servers: the call runs in the scope of the owner in the request's header | 400, 403 |
//! | [`OwnerClientLayer`] | for clients: the owner of the scope goes out in the header | – |
//!
//! The layer that comes last in axum's chain sees a request first: above, the rate is asked before the semaphore.
//!
//! # Which limit
//!
//! `new` takes one semaphore or rate limiter for all requests; `by` takes a function that makes one of the request: by
//! tenant, by route, with a limit of its own for each.
//!
//! # Refusals are responses
//!
//! A layer that refuses answers in place of the service, so errors of the service stay as they are, and axum needs no
//! handler of errors.
//! What the layer meant is a typed [`Refusal`] in the extensions of the response; `respond` sets another answer.
//!
//! # When Redis is away
//!
//! Each limiting layer is [open or closed](WhenAway) then, as it is told, and [counts](Counts) whom it let through or
//! refused so.
//! A request that finds the server away has waited for its answer, for the layer's wait or the client's operation
//! timeout; to spare the next ones that, they are not asked for a pause of a second.
//!
//! # Logs
//!
//! Events go to `tracing`.
//!
//! | level | event | fields |
//! |---|---|---|
//! | warn | `the limit cannot be asked`, when that begins | `name`, `error`, `when_away` |
//! | info | `the limit can be asked again` | `name` |
//! | warn | `the limit is set up wrongly` | `name`, `error` |
//! | warn | `refused`, by an owner's layer | `header`, `refusal` |
//! | debug | `refused`, by a limit | `refusal`, or `error` for an invalid name |
//!
//! # Requirements
//!
//! Requests and responses are those of the crate `http`; the data of bodies can be made of [`Bytes`](bytes::Bytes), as
//! that of hyper, axum and tonic.
//! The limiting layers need services that are `Clone`, and tokio's clock.

mod body;
mod concurrency;
mod counts;
mod gate;
mod headers;
mod limited;
mod outage;
mod owner;
mod owner_client;
mod rate;
mod refusal;

pub use crate::body::ResponseBody;
pub use crate::concurrency::{ConcurrencyLimit, ConcurrencyLimitLayer};
pub use crate::counts::Counts;
pub use crate::limited::LimitedFuture;
pub use crate::outage::WhenAway;
pub use crate::owner::{OwnerLayer, OwnerScope, ScopedFuture};
pub use crate::owner_client::{OwnerClient, OwnerClientLayer};
pub use crate::rate::{RateLimit, RateLimitLayer};
pub use crate::refusal::Refusal;
