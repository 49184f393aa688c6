//! From the acquire to the release.

use std::io;
use std::process::ExitCode;

use anyhow::Context;
use lockyard::{Client, Error, Lease, Owner};
use tokio::process::Command;

use crate::cli::complain;
use crate::run::guard::{Guard, inherited_owner};
use crate::run::job::{Job, code};
use crate::run::options::{LOST, NOT_ACQUIRED, NOT_FOUND, NOT_STARTED, Options, SIGNALLED};
use crate::run::signals::{Signals, comes_from_a_key, in_foreground};
use crate::run::watch::Watcher;
use crate::server::{PREFIX, URL};

/// Acquires the lock or permits, runs the command, and releases them.
pub(crate) async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let inherited = inherited_owner()?;
    // Before anything is held, so that no signal can end this process without a release.
    let mut signals = Signals::listen().context("cannot listen to signals")?;
    let lease = Lease::Renewed(options.lease);
    let client = tokio::select! {
        signal = signals.next() => return Ok(ExitCode::from(SIGNALLED + signal.as_raw() as u8)),
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
        signal = signals.next() => return Ok(SIGNALLED + signal.as_raw() as u8),
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
    let (program, command) = command(options, guard);
    let mut job = match Job::start(command, shares_terminal) {
        Ok(job) => job,
        Err(error) => {
            complain(&format!("cannot start {program}: {error}"));
            let missing = error.kind() == io::ErrorKind::NotFound;
            return Ok(if missing { NOT_FOUND } else { NOT_STARTED });
        }
    };
    if let Err(error) = watcher.watch(job.target, options.grace) {
        job.end(options.grace).await?;
        return Err(error);
    }
    let code = loop {
        tokio::select! {
            biased;
            status = job.wait() => break code(status?),
            () = guard.lost() => {
                complain(&format!("the hold of {:?} is lost, and {program} is ended", guard.name()));
                job.end(options.grace).await?;
                break LOST;
            }
            signal = signals.next() => {
                if !(shares_terminal && comes_from_a_key(signal)) {
                    job.signal(signal);
                }
            }
        }
    };
    watcher.dismiss();
    Ok(code)
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
