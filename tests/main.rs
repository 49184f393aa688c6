//! What Lockyard promises, against a real server.

// What a lock does for its users, undisturbed.
mod lock;
