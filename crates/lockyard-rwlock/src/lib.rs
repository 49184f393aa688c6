//! Lockyard's read-write lock.
//!
//! You want the crate `lockyard`; start with its documentation.

mod info;
mod read_guard;
mod rwlock;
mod write_guard;

pub use crate::info::{ReaderInfo, RwLockInfo, RwLockWaiterInfo};
pub use crate::read_guard::RwLockReadGuard;
pub use crate::rwlock::RwLock;
pub use crate::write_guard::RwLockWriteGuard;
