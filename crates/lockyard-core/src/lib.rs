//! What every primitive of Lockyard stands on.
//!
//! You want the crate `lockyard`; this one is for writing primitives.
//! It has the connections, the watchdog, owners, leases, waiting and errors, and knows no Lua.

mod acquire;
mod agenda;
mod alarm;
mod ask;
mod attempt;
mod backend;
mod backoff;
mod books;
mod breakages;
mod cell;
mod connect;
mod core;
mod countdown;
mod counter;
mod error;
mod exchange;
mod fred_backend;
mod fred_inbox;
mod gather;
mod handle;
mod hold;
mod id;
mod inbox;
mod info;
mod late;
mod lease;
mod leaving;
mod lines;
mod metrics;
mod name;
mod named;
mod nests;
mod once;
mod opening;
mod openings;
mod options;
mod owner;
mod parting;
mod pass;
mod releases;
mod renewal;
mod reply;
mod retry;
mod room;
mod runtime;
mod script;
mod state;
mod sync;
mod watchdog;

pub use crate::cell::{FencingToken, HoldState};
pub use crate::error::{Error, ServerError, ServerErrorKind};
pub use crate::info::{HolderInfo, WaiterInfo};
pub use crate::lease::Lease;
pub use crate::options::{ClientOptions, Waiting};
pub use crate::owner::Owner;

/// For the crates of primitives and backends; not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::acquire::Wait;
    pub use crate::backend::{Arg, Backend, BoxFuture, Call, Event, Fault, Lane, Moment, Reply};
    #[cfg(feature = "breakages")]
    pub use crate::breakages::{changed as changed_script, set as break_core};
    pub use crate::counter::{Counted, Counter, Counting};
    pub use crate::exchange::exchange;
    pub use crate::handle::Handle;
    pub use crate::hold::Hold;
    pub use crate::id::{Kind, Passing, Spec, Terms};
    pub use crate::info::{Inspection, identity};
    pub use crate::named::Named;
    pub use crate::once::{Once, Until};
    pub use crate::runtime::Runtime;
    pub use crate::script::{Family, Script};
}
