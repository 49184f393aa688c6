//! The test kit against a real server.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are tests, which clippy cannot see"
)]

// Starting, finding, ending: what a server is like.
mod server;

// What is done to a server, and what clients see of it.
mod faults;
