//! What may stand on the command lines of `ls`, `inspect` and `unlock`.

use clap::{Args, value_parser};

use crate::locks::kind::{Kind, Lockable};
use crate::server::Server;

pub(crate) const LS_HELP: &str = "\
With --json each is an object on a line of its own, printed as soon as it is found:
  kind          lock, rw, semaphore, latch or rate
  name          text
  holds         how many holds there are, of a semaphore how many permits are held; of a lock more than
                one only if an owner holds through several clients
  owner         who has held longest, of a read-write lock to write; or null
  held_ms       for how long, or null
  remaining_ms  what is left of the lease, of several the longest; of a rate, until nothing is owed; or
                null
  waiting       how many wait
  count         of a latch what is left to count down, of a rate the permits that are owed; or null

The keys are found by SCAN, which needs the right +scan and walks over all keys of the database in
small steps. What comes or goes meanwhile may be listed or not.
A name whose data are not those of its kind is told of on standard error and left out.

Exit status: 0 if the names were listed, 2 if they could not be.

Examples:
  lockyard ls
  lockyard ls --kind semaphore
  lockyard ls --json | jq -r 'select(.waiting > 10) | .name'";

pub(crate) const INSPECT_HELP: &str = "\
With --json it is one object with kind, name, and
  of a lock:
    holders  the holds, the oldest first: owner, client, count, held_ms, remaining_ms,
             token (the fencing token, or null)
    waiters  the first 1000, in order: owner, client, waited_ms
    waiting  how many wait in all
  of a read-write lock:
    the same, with those who write as holders, and writes (whether it wants to) for each waiter
    readers  owner, client, remaining_ms
  of a semaphore:
    limit    how many permits there are, if that is stored, or null
    held     how many are held
    permits  the first 1000 holds: client, permits, remaining_ms
    waiters  the first 1000, in order: client, permits, waited_ms
    waiting  how many wait in all
  of a latch:
    count    what is left to count down; 0 is open
  of a rate:
    owed          permits that were taken and are not yet paid back by time
    clears_in_ms  after what time none are

Without --json, standard error says of a name that is not in use as this kind as which it is.

Exit status: 0 if the server answered, 2 if it did not.

Examples:
  lockyard inspect nightly
  lockyard inspect encode --kind semaphore
  lockyard inspect nightly --json | jq .waiting";

pub(crate) const UNLOCK_HELP: &str = "\
The first waiter gets the lock at once. Its former holder learns of that by message, at the latest a
third of its lease later; until then both may believe that they hold. A command under `lockyard run`
is ended then. So first make sure that the holder is dead or may be stopped.

With --json it is one object:
  kind      lock or rw
  name      text
  released  whether the lock was taken away
  holders   who held it, as in `lockyard inspect --json`
  readers   of a read-write lock, who read

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

    /// List this kind only
    #[arg(long, value_enum)]
    pub(crate) kind: Option<Kind>,

    /// How many names to list at most
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) limit: u32,

    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the user of `lockyard inspect` chooses.
#[derive(Debug, Args)]
pub(crate) struct InspectOptions {
    /// The name
    pub(crate) name: String,

    /// What it is the name of
    #[arg(long, value_enum, default_value = "lock")]
    pub(crate) kind: Kind,

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

    /// What it is the name of
    #[arg(long, value_enum, default_value = "lock")]
    pub(crate) kind: Lockable,

    /// Really take it away
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) server: Server,

    /// Print one JSON object instead of sentences
    #[arg(long)]
    pub(crate) json: bool,
}
