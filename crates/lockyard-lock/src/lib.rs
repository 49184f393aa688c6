//! Lockyard's reentrant lock.
//!
//! You want the crate `lockyard`; start with its documentation.

mod guard;
mod info;
mod lock;

pub use crate::guard::LockGuard;
pub use crate::info::LockInfo;
pub use crate::lock::Lock;
