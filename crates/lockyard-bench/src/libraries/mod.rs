//! What is measured: Lockyard, and the floor it is measured against.

pub(crate) mod floor;
pub(crate) mod lockyard;

use crate::Result;

/// A connected client of a library.
pub(crate) trait Library {
    type Lock: Lock;

    /// Each key's lock is made once, before the window.
    fn lock(&self, key: &str) -> Self::Lock;
}

/// The lock of one key.
pub(crate) trait Lock: Clone + Send + Sync + 'static {
    type Guard: Send + 'static;

    fn acquire(&self) -> impl Future<Output = Result<Self::Guard>> + Send;

    fn release(&self, guard: Self::Guard) -> impl Future<Output = Result<()>> + Send;

    /// Whether two inside at once are an error.
    fn is_exclusive(&self) -> bool {
        true
    }
}
