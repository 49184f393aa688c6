//! What Lockyard promises, against a real server.

#![expect(clippy::unwrap_used, reason = "what must not fail in a test fails it")]

// What every mutual exclusion must do, once for all of them.
mod contract;

// The fair lock beside the plain one.
mod fair;

// Tasks of one client that pass a lock on.
mod passing;

// What only a read-write lock does.
mod rw;

// So many at once, and no more.
mod semaphore;

// Processes that wait for each other.
mod latch;

// How many may start in what time.
mod limiter;

// Eight processes and everything that fails around them.
mod chaos;

// The judge of what they did, and what it lets pass.
mod history;

// What clients cost the process and the server, back to nothing when they are gone.
mod costs;

// A test's other processes.
mod process;

// What several subjects share.
mod support;

// Many calls at once.
mod together;

// What others see of holders and waiters.
mod inspection;

// Everything that is logged.
mod logs;

// What users bring: durations, names, prefixes, owners, options.
mod input;

// Errors: what the server refuses, and a server that is not there.
mod refusals;

// What a user of the server's access control list needs to be allowed.
mod rights;

// What a client may connect to, and how.
mod connections;

// The scripts without the library: random orders against a model, copies, damage, dead waiters.
mod scripts;

// The store in memory beside a real server: the same replies, keys and messages.
mod agreement;

// What stands on the server, literally.
mod layout;
