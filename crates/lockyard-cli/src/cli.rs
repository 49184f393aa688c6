//! What may stand on the command line.

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, CommandFactory, Parser, Subcommand, value_parser};
use clap_complete::Shell;
use humantime::{format_duration, parse_duration};

use crate::locks;
use crate::run;
use crate::scenario::Scenario;

const MIN_LEASE: Duration = Duration::from_millis(100);
const MAX_LEASE: Duration = Duration::from_secs(60);

/// Locks for services that must agree on who may do what, on Redis and Valkey.
#[derive(Debug, Parser)]
#[command(name = "lockyard", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a command under a lock, or under permits of a semaphore
    ///
    /// The command starts when the lock is acquired. The lock is renewed while the command runs,
    /// and released when it has ended; what it leaves running in the background is not waited for.
    /// If the hold is lost meanwhile, the command and all in its process group get SIGTERM, and
    /// what is left after the grace SIGKILL.
    #[command(after_long_help = run::HELP)]
    Run(run::Options),

    /// Lists what is held, waited for, counted down or owed
    #[command(after_long_help = locks::LS_HELP)]
    Ls(locks::LsOptions),

    /// Tells who holds a lock, or anything else that has a name, and who waits for it
    #[command(after_long_help = locks::INSPECT_HELP)]
    Inspect(locks::InspectOptions),

    /// Takes a lock away from whoever holds it
    #[command(after_long_help = locks::UNLOCK_HELP)]
    Unlock(locks::UnlockOptions),

    /// Prints what makes a shell complete this command's arguments
    #[command(
        after_help = "Example:\n  lockyard completions bash > /etc/bash_completion.d/lockyard"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },

    /// Sells one stock from several processes: without a lock, with a naive one, with Lockyard
    ///
    /// The demo starts a private redis-server or valkey-server of its own (the one in
    /// LOCKYARD_SERVER, or else in PATH) and ends it. In the run with Lockyard one worker is
    /// killed while it holds the lock.
    #[command(
        after_help = "Exit status: 0 if Lockyard sold exactly the stock, 1 if it did not, \
                            2 if the demo could not run, 130 after Ctrl-C."
    )]
    Demo(Options),

    /// One selling process of the demo
    #[command(hide = true)]
    Worker(Orders),

    /// The process that ends the command of `run` if that is killed
    #[command(hide = true)]
    Watch,
}

/// What the user of the demo chooses.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) terms: Terms,

    /// Print one JSON object instead of the table and the plot
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a worker is told.
#[derive(Debug, Args)]
pub(crate) struct Orders {
    #[arg(long)]
    pub(crate) scenario: Scenario,

    #[arg(long)]
    pub(crate) url: String,

    /// The worker's number.
    #[arg(long)]
    pub(crate) seller: u16,

    #[command(flatten)]
    pub(crate) terms: Terms,
}

/// What holds for the whole sale.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Terms {
    /// How many processes sell, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = value_parser!(u16).range(1..=64))]
    pub(crate) processes: u16,

    /// How many items there are, 1 to 100000
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) stock: u32,

    /// How long a lock outlives its holder, 100ms to 60s
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_lease)]
    pub(crate) lease: Duration,
}

fn parse_lease(text: &str) -> Result<Duration, String> {
    let lease = parse_duration(text).map_err(|error| format!("{error} (such as 500ms or 2s)"))?;
    if (MIN_LEASE..=MAX_LEASE).contains(&lease) {
        return Ok(lease);
    }
    let (min, max) = (format_duration(MIN_LEASE), format_duration(MAX_LEASE));
    Err(format!("{text} is not in {min}..={max}"))
}

/// Reads a duration such as 500ms, 30s or 2m; 0 needs no unit.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| format!("{error} (such as 500ms, 30s or 2m)"))
}

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lockyard", &mut text);
    let text = str::from_utf8(&text).context("the completions are no text")?;
    print(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints help, or what is wrong with the command line, and returns the exit status.
pub(crate) fn explain(error: &clap::Error) -> ExitCode {
    // If nobody listens there is nobody to tell.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    // A caller of `run` is to tell this from the status of the command, which may well be 2.
    let of_run = env::args_os().nth(1).is_some_and(|name| name == "run");
    ExitCode::from(if of_run { run::FAILED } else { 2 })
}

/// Has standard error show what the library warns of, such as a server that cannot be reached, while it tries on.
pub(crate) fn show_warnings() {
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_writer(io::stderr)
        // It would panic, in the midst of a renewal, if nobody reads standard error any more.
        .log_internal_errors(false)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .init();
}

/// Writes lines to standard output; `false` if its reader had enough, as `head` has.
///
/// That is no failure, and changes no exit status.
pub(crate) fn print(text: &str) -> anyhow::Result<bool> {
    let mut output = io::stdout().lock();
    match writeln!(output, "{text}").and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot print"),
    }
}

/// Writes a line to standard error.
pub(crate) fn complain(text: &str) {
    // If standard error is closed there is nobody to tell.
    let _ = writeln!(io::stderr(), "lockyard: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str]) -> Result<Terms, String> {
        let words = ["lockyard", "demo"].iter().chain(arguments);
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let Command::Demo(options) = cli.command else {
            unreachable!("the command line above says demo");
        };
        Ok(options.terms)
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bounds_belong_to_the_range() {
        for (processes, stock, lease) in [("1", "1", "100ms"), ("64", "100000", "60s")] {
            check(&["--processes", processes, "--stock", stock, "--lease", lease]).unwrap();
        }
    }

    #[test]
    fn values_out_of_range_are_refused_with_the_range() {
        for (option, value, says) in [
            ("--processes", "0", "1..=64"),
            ("--processes", "65", "1..=64"),
            ("--stock", "0", "1..=100000"),
            ("--stock", "100001", "1..=100000"),
            ("--lease", "99ms", "100ms..=1m"),
            ("--lease", "61s", "100ms..=1m"),
            ("--lease", "2", "such as 500ms or 2s"),
            ("--lease", "soon", "such as 500ms or 2s"),
        ] {
            let message = check(&[option, value]).unwrap_err();
            assert!(message.contains(says), "{option} {value}: {message}");
        }
    }
}
