//! Locks for Rust services on Redis or Valkey.

mod client;

pub use fred;
pub use lockyard_core::{
    ClientOptions, Error, FencingToken, HoldState, Lease, Owner, ServerError, ServerErrorKind, Waiting,
};
#[cfg(feature = "lock")]
pub use lockyard_lock::{HolderInfo, Lock, LockGuard, LockInfo, WaiterInfo};

pub use crate::client::Client;
