//! The layers, from outside.

#![expect(clippy::unwrap_used, reason = "what must not fail in a test fails it")]

// What the tests share.
mod support;

// How services and layers take turns.
mod readiness;

// Permits: for how long, for whom, after what wait.
mod concurrency;

// Permits and bodies.
mod bodies;

// Many requests at once, many of which end early.
mod crowd;

// Random orders of events beside a model.
mod model;

// Rates and their headers.
mod rate;

// Servers that cannot be asked.
mod away;

// Owners in headers.
mod owners;
