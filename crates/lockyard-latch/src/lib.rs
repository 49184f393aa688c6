//! Lockyard's countdown latch.
//!
//! You want the crate `lockyard`; start with its documentation.

mod latch;

pub use crate::latch::Latch;
