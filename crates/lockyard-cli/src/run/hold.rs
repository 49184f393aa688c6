//! From the acquire to the release.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use lockyard::{Client, Error, Lease, Owner};
use rustix::process::Signal;
use tokio::process::Command;
use tokio::time::{Instant, sleep_until};

use crate::cli::complain;
use crate::run::guard::{Guard, inherited_owner};
use crate::run::job::{Job, code};
use crate::run::options::{LOST, NOT_ACQUIRED, NOT_FOUND, NOT_STARTED, Options, SIGNALLED};
use crate::run::signals::{Received, Signals, in_foreground, stop};
use crate::run::watch::Watcher;
use crate::server::{PREFIX, URL};

/// How often the watching process is told of the lease at most.
const SHORTEST_BEAT: Duration = Duration::from_millis(10);

/// Acquires the lock or permits, runs the command, and releases them.
pub(crate) async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let inherited = inherited_owner()?;
    // Before anything is held, so that no signal can end this process without a release.
    let mut signals = Signals::listen().context("cannot listen to signals")?;
    let lease = Lease::Renewed(options.lease);
    let client = tokio::select! {
        received = signals.next() => return Ok(ExitCode::from(ended_by(received.signal))),
        client = options.server.connect(lease) => client?,
    };
    let code = hold(options, &client, inherited, &mut signals).await;
    // Sees to it that what is released in the background is released before the process ends.
    if let Err(error) = client.shutdown().await {
        complain(&format!("{:#}", anyhow::Error::new(error)));
    }
    code.map(ExitCode::from)
}

/// Holds while the command runs, and returns the exit status.
async fn hold(
    options: &Options,
    client: &Client,
    inherited: Option<Owner>,
    signals: &mut Signals,
) -> anyhow::Result<u8> {
    // Before the wait, which may outlast this program's file.
    let watcher = Watcher::start().context("cannot start the watching process")?;
    let acquired = tokio::select! {
        received = signals.next() => return Ok(ended_by(received.signal)),
        acquired = Guard::acquire(options, client, inherited) => acquired?,
    };
    let Some(guard) = acquired else {
        complain(&format!(
            "{:?} was not acquired in time: {}",
            options.name,
            match options.permits {
                None => "somebody else has it",
                Some(_) => "there were not enough permits",
            }
        ));
        return Ok(NOT_ACQUIRED);
    };
    let code = supervise(options, &guard, signals, watcher).await?;
    match guard.release().await {
        Ok(()) => Ok(code),
        Err(Error::LeaseLost { .. }) if code == LOST => Ok(LOST),
        Err(error) => {
            let lost = matches!(error, Error::LeaseLost { .. });
            complain(&format!("{:#}", anyhow::Error::new(error)));
            // After any other error the command still ran under the lock from beginning to end.
            Ok(if lost { LOST } else { code })
        }
    }
}

/// Runs the command while it is held, and returns the exit status.
async fn supervise(
    options: &Options,
    guard: &Guard,
    signals: &mut Signals,
    mut watcher: Watcher,
) -> anyhow::Result<u8> {
    let shares_terminal = in_foreground();
    if !shares_terminal {
        signals
            .listen_to_stops()
            .context("cannot listen to signals")?;
    }
    let (program, command) = command(options, guard);
    let mut job = match Job::start(command, shares_terminal) {
        Ok(job) => job,
        Err(error) => {
            complain(&format!("cannot start {program}: {error}"));
            let missing = error.kind() == io::ErrorKind::NotFound;
            return Ok(if missing { NOT_FOUND } else { NOT_STARTED });
        }
    };
    let left = guard.remaining();
    if let Err(error) = watcher.watch(job.target, options.grace, left) {
        job.end(options.grace).await?;
        return Err(error);
    }
    let mut beat = Instant::now() + left / 3;
    let code = loop {
        tokio::select! {
            biased;
            status = job.wait() => break code(status?),
            () = guard.lost() => {
                complain(&format!("the hold of {:?} is lost, and {program} is ended", guard.name()));
                // The command has its grace from now, whether or not this process is paused in between.
                let _ = watcher.watch_end(job.target, options.grace);
                job.end(options.grace).await?;
                break LOST;
            }
            received = signals.next() => {
                if !(shares_terminal && received.comes_from_terminal) {
                    pass_on(received, &job, guard);
                }
            }
            () = sleep_until(beat) => {
                let left = guard.remaining();
                // If it was killed, the command goes on.
                let _ = watcher.watch(job.target, options.grace, left);
                beat = Instant::now() + (left / 3).max(SHORTEST_BEAT);
            }
        }
    };
    watcher.dismiss();
    Ok(code)
}

/// Passes a signal on to the command; a stop is for this process as well.
fn pass_on(received: Received, job: &Job, guard: &Guard) {
    // The loss ends the command, and continues it for that.
    if received.signal == Signal::CONT && guard.is_lost() {
        return;
    }
    job.signal(received.signal);
    if received.signal == Signal::TSTP {
        stop();
    }
}

/// The exit status of a wait that a signal ended.
fn ended_by(signal: Signal) -> u8 {
    SIGNALLED + signal.as_raw() as u8
}

/// The command with its environment, and its name for messages.
fn command(options: &Options, guard: &Guard) -> (String, Command) {
    let [program, arguments @ ..] = &options.command[..] else {
        unreachable!("the command line demands a command")
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env(URL, &options.server.url)
        .env(PREFIX, &options.server.prefix);
    guard.introduce(&mut command);
    (program.display().to_string(), command)
}
