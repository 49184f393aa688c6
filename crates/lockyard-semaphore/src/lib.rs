//! Lockyard's semaphore.
//!
//! You want the crate `lockyard`; start with its documentation.

mod info;
mod limit;
mod permit;
mod semaphore;

pub use crate::info::{PermitInfo, SemaphoreInfo, SemaphoreWaiterInfo};
pub use crate::permit::SemaphorePermit;
pub use crate::semaphore::Semaphore;
