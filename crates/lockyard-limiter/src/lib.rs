//! Lockyard's rate limiter.
//!
//! You want the crate `lockyard`; start with its documentation.

mod decision;
mod info;
mod limiter;
mod rate;

pub use crate::decision::{Decision, Quota};
pub use crate::info::RateLimiterInfo;
pub use crate::limiter::RateLimiter;
pub use crate::rate::Rate;
