//! Private Redis and Valkey servers, with faults, for tests.

mod address;
mod admin;
mod binary;
mod builder;
mod error;
mod faults;
mod inspect;
mod process;
mod server;

pub use builder::ServerBuilder;
pub use error::Error;
pub use redis;
pub use server::Server;
