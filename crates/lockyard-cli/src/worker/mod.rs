//! One selling process.

mod gate;
mod mishap;
mod naive;
mod parent;
mod till;
mod work;

pub(crate) use work::work;
