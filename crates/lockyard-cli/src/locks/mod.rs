//! `lockyard ls`, `inspect` and `unlock`: what operators need.

mod inspect;
mod kind;
mod look;
mod ls;
mod names;
mod options;
mod row;
mod unlock;
mod view;

pub(crate) use inspect::inspect;
pub(crate) use ls::ls;
pub(crate) use options::{
    INSPECT_HELP, InspectOptions, LS_HELP, LsOptions, UNLOCK_HELP, UnlockOptions,
};
pub(crate) use unlock::unlock;
