//! The one door to the workspace's tools: `cargo xtask check`, `lua`, `test`, `simulate`, `mutate`, `soak`, `demo`, `bench`.
//!
//! Each command is a few lines that call the real tool and pass on its exit code.
//! Standard output belongs to that tool; whatever is said here goes to standard error.

#![expect(
    clippy::print_stderr,
    reason = "a command-line tool talks to its user there"
)]

mod apt;
mod cargo;
mod check;
mod lua;
mod postgres;
mod server;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser};

use crate::cargo::{cargo, run};

/// Runs the tools of the Lockyard workspace
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Xtask {
    /// Checks formatting, lints, documentation and the headers of the Lua scripts
    Check,
    /// Writes the blocks of lua/shared into the scripts that have copies of them
    Lua,
    /// Runs all tests; installs Redis and PostgreSQL where there are none and apt-get can
    Test {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        rest: Rest,
    },
    /// Lets everything fail around the lock for long, and judges what it did
    Soak {
        #[command(flatten)]
        server: Server,
        /// For how long; the run that is under way then is finished
        #[arg(long, default_value_t = 10)]
        minutes: u64,
        /// Begins with the faults of a run that named this seed
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Runs the real core and scripts on virtual time under faults (an optimised build, some minutes at first)
    #[command(disable_help_flag = true)]
    Simulate {
        #[command(flatten)]
        rest: Rest,
    },
    /// Breaks scripts and core on purpose, and tells whether the simulation notices
    #[command(disable_help_flag = true)]
    Mutate {
        #[command(flatten)]
        rest: Rest,
    },
    /// Shows what the lock is for, on a server of its own
    #[command(disable_help_flag = true)]
    Demo {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        rest: Rest,
    },
    /// Runs the benchmarks that need no server
    Bench {
        #[command(flatten)]
        rest: Rest,
    },
}

#[derive(Debug, Args)]
struct Server {
    /// The redis-server or valkey-server to use, named before all other arguments
    /// [default: $LOCKYARD_SERVER, or the first in PATH]
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Rest {
    /// Arguments for the tool that is called
    #[arg(value_name = "ARGS", allow_hyphen_values = true)]
    args: Vec<OsString>,
    /// What follows a `--` that comes first, which clap would swallow otherwise.
    #[arg(last = true, hide = true)]
    after_dashes: Vec<OsString>,
}

impl Rest {
    /// Returns the arguments as they were typed.
    fn into_args(self) -> Vec<OsString> {
        let mut args = self.args;
        if !self.after_dashes.is_empty() {
            args.push("--".into());
            args.extend(self.after_dashes);
        }
        args
    }
}

fn main() -> ExitCode {
    let outcome = match Xtask::parse() {
        Xtask::Check => check::check(),
        Xtask::Lua => lua::refill(),
        Xtask::Test { server, rest } => test(server, rest),
        Xtask::Soak {
            server,
            minutes,
            seed,
        } => soak(server, minutes, seed),
        Xtask::Simulate { rest } => simulation("simulate", rest),
        Xtask::Mutate { rest } => simulation("mutate", rest),
        // As the demo itself has it: 1 would say that the lock has failed.
        Xtask::Demo { server, rest } => demo(server, rest).or_else(|error| {
            eprintln!("error: {error}");
            Ok(ExitCode::from(2))
        }),
        Xtask::Bench { rest } => bench(rest),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// How many tests run at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// Without `-p` among the arguments, cargo tests the whole workspace: its root is virtual.
fn test(server: Server, rest: Rest) -> io::Result<ExitCode> {
    let server = server::ensure(server.server)?;
    postgres::ensure()?;
    let mut command = cargo(&["test", "--all-features"]);
    command.args(rest.into_args()).env(server::VARIABLE, server);
    if std::env::var_os(THREADS).is_none() {
        // Most tests wait most of the time.
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        command.env(THREADS, (3 * cores).min(16).to_string());
    }
    run(&mut command)
}

/// The test is one of the suite; variables make it go on, and tell its faults.
fn soak(server: Server, minutes: u64, seed: Option<u64>) -> io::Result<ExitCode> {
    let server = server::ensure(server.server)?;
    let mut command = cargo(&["test", "--release", "--package", "lockyard-tests"]);
    command.args(["--test", "it", "--", "--exact", "--nocapture"]);
    command.arg("chaos::two_owners_never_hold_at_once_whatever_fails");
    command.env("LOCKYARD_CHAOS_MINUTES", minutes.to_string());
    command.envs(seed.map(|seed| ("LOCKYARD_CHAOS_SEED", seed.to_string())));
    run(command.env(server::VARIABLE, server))
}

/// What takes hours is worth an optimised build.
fn simulation(command: &str, rest: Rest) -> io::Result<ExitCode> {
    let mut run_it = cargo(&["run", "--release", "--package", "lockyard-tests"]);
    run_it.args(["--bin", "simulate", "--", command]);
    run(run_it.args(rest.into_args()))
}

fn demo(server: Server, rest: Rest) -> io::Result<ExitCode> {
    let server = server::ensure(server.server)?;
    run(cargo(&["run", "--package", "lockyard-cli", "--", "demo"])
        .args(rest.into_args())
        .env(server::VARIABLE, server))
}

fn bench(rest: Rest) -> io::Result<ExitCode> {
    run(cargo(&["bench", "--package", "lockyard-bench"]).args(rest.into_args()))
}

#[cfg(test)]
mod tests {
    use super::{Parser, Xtask};

    #[test]
    fn arguments_reach_the_tool_as_typed() {
        check("test", None, "");
        check("test --server s", Some("s"), "");
        check("test -- --nocapture", None, "-- --nocapture");
        check(
            "test --server s -- --nocapture",
            Some("s"),
            "-- --nocapture",
        );
        check(
            "test --server s -p a name -- -q",
            Some("s"),
            "-p a name -- -q",
        );
        check("test --lib -- --server s", None, "--lib -- --server s");
    }

    fn check(typed: &str, server: Option<&str>, passed_on: &str) {
        let words = ["cargo xtask"].into_iter().chain(typed.split(' '));
        let Xtask::Test {
            server: named,
            rest,
        } = Xtask::parse_from(words)
        else {
            panic!("not the command test: {typed}");
        };
        assert_eq!(named.server, server.map(Into::into), "{typed}");
        let passed_on: Vec<_> = passed_on.split_whitespace().collect();
        assert_eq!(rest.into_args(), passed_on, "{typed}");
    }
}
