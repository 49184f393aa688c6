//! What may stand on the command lines of `ls`, `inspect` and `unlock`.

use clap::{Args, value_parser};

use crate::server::Server;

pub(crate) const LS_HELP: &str = "\
With --json each lock is an object on a line of its own, printed as soon as it is found:
  name          text
  holds         how many holds there are; more than one only if an owner holds through several clients
  owner         who has held longest, or null
  held_ms       for how long, or null
  remaining_ms  what is left of the lease, or null
  waiting       how many wait

The keys are found by SCAN, which needs the right +scan and walks over all keys of the database in
small steps. A lock that comes or goes meanwhile may be listed or not.

Exit status: 0 if the locks were listed, 2 if they could not be.

Examples:
  lockyard ls
  lockyard ls --json | jq -r 'select(.waiting > 10) | .name'";

pub(crate) const INSPECT_HELP: &str = "\
With --json it is one object:
  name     text
  holders  the holds, the oldest first: owner, client, count, held_ms, remaining_ms,
           token (the fencing token, or null)
  waiters  the first 1000, in order: owner, client, waited_ms
  waiting  how many wait in all

Exit status: 0 if the server answered, 2 if it did not.

Examples:
  lockyard inspect nightly
  lockyard inspect nightly --json | jq .waiting";

pub(crate) const UNLOCK_HELP: &str = "\
The first waiter gets the lock at once. Its former holder learns of that by message, at the latest a
third of its lease later; until then both may believe that they hold. A command under `lockyard run`
is ended then. So first make sure that the holder is dead or may be stopped.

With --json it is one object:
  name      text
  released  whether the lock was taken away
  holders   who held it, as in `lockyard inspect --json`

Exit status:
  0  the lock was taken away
  1  it was not: nobody held it, or --force was not given
  2  lockyard failed

Examples:
  lockyard unlock nightly           # says who would lose it
  lockyard unlock nightly --force";

/// What the user of `lockyard ls` chooses.
#[derive(Debug, Args)]
pub(crate) struct LsOptions {
    #[command(flatten)]
    pub(crate) server: Server,

    /// How many locks to list at most
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) limit: u32,

    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the user of `lockyard inspect` chooses.
#[derive(Debug, Args)]
pub(crate) struct InspectOptions {
    /// The lock's name
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) server: Server,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the user of `lockyard unlock` chooses.
#[derive(Debug, Args)]
pub(crate) struct UnlockOptions {
    /// The lock's name
    pub(crate) name: String,

    /// Really take it away
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) server: Server,

    /// Print one JSON object instead of sentences
    #[arg(long)]
    pub(crate) json: bool,
}
