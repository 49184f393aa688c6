//! What Lockyard promises, against a real server.

#![expect(clippy::unwrap_used, reason = "what must not fail in a test fails it")]

// What a lock does for its users, undisturbed.
mod lock;

// What only a read-write lock does.
mod rw;

// So many at once, and no more.
mod semaphore;

// How many may start in what time.
mod limiter;

// Nothing stays behind: no key, place or count, whatever ends in the middle.
mod leaks;

// A command that comes twice, or late, or whose reply is lost, does no harm.
mod late;

// Six processes and everything that fails around them.
mod chaos;

// The judge of what they did, and what it lets pass.
mod history;

// A test's other processes.
mod process;

// What several subjects share.
mod support;

// How a holder learns that it holds no more, and what it may still do.
mod loss;

// How the watchdog keeps what is held, and only that.
mod renewal;

// Many calls at once.
mod together;

// How waiters are told, and what waiting costs.
mod waiting;

// Who enters when: order, dead waiters, dead holders.
mod queue;

// Owners that enter again what they hold, in one process and over several.
mod nesting;

// Tokens that grow from hold to hold.
mod fencing;

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
