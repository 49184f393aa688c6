//! Lockyard's reentrant lock.
//!
//! You want the crate `lockyard`; start with its documentation.

mod fair;
mod guard;
mod info;
mod lock;

pub use crate::fair::FairLock;
pub use crate::guard::LockGuard;
pub use crate::info::LockInfo;
pub use crate::lock::Lock;
