//! Lockyard without a server.

mod backend;
mod channels;
mod commands;
mod entry;
mod failure;
mod interpreter;
mod keyspace;
mod number;
mod refusal;
mod reply;
mod server;
mod session;
mod shared;
mod shebang;
mod sorted_set;
mod store;
mod value;
mod words;

pub use crate::entry::{Entry, Value};
pub use crate::server::MemoryServer;

/// For simulations; not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::channels::Message;
    pub use crate::store::Store;
}
