//! What may stand on the command line of `lockyard run`, and its exit status.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::cli::parse_time;
use crate::run::permits::Permits;
use crate::server::Server;

/// The hold was lost while the command ran.
pub(crate) const LOST: u8 = 123;
/// The lock was not acquired in time.
pub(crate) const NOT_ACQUIRED: u8 = 124;
/// Lockyard itself failed.
pub(crate) const FAILED: u8 = 125;
/// The command was found but could not be started.
pub(crate) const NOT_STARTED: u8 = 126;
/// The command was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// With a signal's number added: what ended the command, or the wait for the lock.
pub(crate) const SIGNALLED: u8 = 128;

pub(crate) const HELP: &str = "\
Exit status:
  that of the command, or 128 + n if signal n ended it; else
  123  the hold was lost while the command ran, whatever became of the command
  124  the lock, or the permits, were not acquired in time
  125  lockyard failed: wrong usage, or the server cannot be used
  126  the command was found but could not be started
  127  the command was not found

Environment of the command:
  LOCKYARD_NAME   the name of the lock or semaphore
  LOCKYARD_OWNER  who holds the lock
  LOCKYARD_TOKEN  the fencing token: a greater number for each new hold of the lock
  LOCKYARD_URL, LOCKYARD_PREFIX  as given, so that a nested `lockyard run` needs no options

  A `lockyard run` with LOCKYARD_OWNER in its environment acquires as that owner: what that owner
  holds it enters at once. This is trust, not proof: whoever knows an owner can enter what it holds.
  Two commands that run side by side under one owner do not exclude each other; unset the variable
  for those that should.

Permits:
  With --permits N/M the command runs under N of M permits of a semaphore instead, so that at most M
  are out at once, over all machines. Who asks first is served first, also if he asks for many. All
  that use the name should say the same M; a limit that a program has stored counts before it.
  Permits have no owner, so a nested run takes more of them, and may wait for the outer one for ever;
  and they have no token. What is said of the lock above and below holds for permits as well.

Signals:
  HUP, INT, QUIT, TERM, USR1, USR2, TSTP and CONT are passed on to the command and all in its process
  group; the first six end the wait before the lock is acquired. TSTP stops lockyard as well, and a
  stop beyond the lease loses the hold. One that is ignored at the start, as HUP is under nohup,
  stays ignored.
  In the foreground of a terminal the command stays in lockyard's process group, so that it can use
  the terminal. What the terminal sends, for ^C, ^\\ and ^Z or when it hangs up, then reaches it
  directly; TSTP and CONT are not passed on, the other six are, to the command alone. So what is sent
  to the whole group, as `kill %1` does, reaches the command twice. After a loss only the command is
  ended, not what it started.
  A command that stands still by itself, as one in the background that reads from the terminal,
  keeps the lock, for it may be in the middle of its work.

When things go wrong:
  The hold is lost if the server cannot be reached for a whole lease, if someone takes the lock away
  or if lockyard is stopped for longer than the lease. What the command does between the loss and its
  end is unguarded; a store that compares fencing tokens refuses it.
  While lockyard waits or renews it tries on, and warns on standard error.
  If lockyard itself is killed, or stopped for longer than the lease, a second process ends the
  command in the same way, SIGTERM first; of one that was killed the lock is free when its lease
  ends. Choose a grace below two thirds of the lease, so that the command is gone by then. If that
  process is killed as well, the command goes on.

Examples:
  export LOCKYARD_URL=redis://redis.internal:6379
  lockyard run --name nightly --no-wait -- backup.sh /srv     # never twice at once
  lockyard run --name deploy --wait 5m -- ./deploy.sh v42     # one after another
  lockyard run --name encode --permits 1/3 -- ffmpeg -i …     # three at once in all
  lockyard run --name ledger -- sh -c 'psql -v token=$LOCKYARD_TOKEN -f book.sql'";

/// What the user of `lockyard run` chooses.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The name of the lock, or with --permits of the semaphore
    #[arg(long)]
    pub(crate) name: String,

    /// Take so many permits of so many, such as 1/3, instead of a lock
    #[arg(long, value_name = "N/M")]
    pub(crate) permits: Option<Permits>,

    /// How long to wait at most, such as 10s [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) wait: Option<Duration>,

    /// Do not wait if somebody else has it; the same as --wait 0
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// How long the hold outlives lockyard if that is killed; it is renewed every third of this
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    pub(crate) lease: Duration,

    /// How long the command has between SIGTERM and SIGKILL when the hold is lost
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub(crate) grace: Duration,

    #[command(flatten)]
    pub(crate) server: Server,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl Options {
    /// How long to wait; `Duration::MAX` is for ever.
    pub(crate) fn patience(&self) -> Duration {
        if self.no_wait {
            return Duration::ZERO;
        }
        self.wait.unwrap_or(Duration::MAX)
    }
}
