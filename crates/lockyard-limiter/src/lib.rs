//! Lockyard's rate limiter.
//!
//! You want the crate `lockyard`; start with its documentation.

mod decision;
mod limiter;
mod rate;

pub use crate::decision::{Decision, Quota};
pub use crate::limiter::RateLimiter;
pub use crate::rate::Rate;
