//! The scripts of `Lock` and `RwLock`, called directly: what they do to the server, whatever a client makes of it.

// A lock without a client, and an inbox.
pub(crate) mod bare;

// The scripts of one primitive.
pub(crate) mod family;

// Random orders of calls, compared after each with a model.
mod model;
mod random;

// Commands that come twice, late, or for something that is not there.
mod copies;

// Waiters whose clients are gone.
mod dead;

// What is told of holders and waiters.
mod inspect;

// Keys that somebody else has damaged, and fencing tokens of any size.
mod damage;

// Servers that refuse: memory, rights, types.
mod refusals;
