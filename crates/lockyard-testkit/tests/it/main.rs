//! The test kit against a real server.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are tests, which clippy cannot see"
)]

// Starting, finding, ending: what a server is like.
mod server;

// What is done to a server, and what clients see of it.
mod faults;

// A client that reads lines, for what libraries would hide.
mod raw;

// What passes through a proxy, and how it can be disturbed.
mod proxy;

// Published messages through a proxy.
mod messages;

// The client under Lockyard understands the URLs.
mod fred;

// What is used in async tests, whatever their runtime does.
mod waiting;
