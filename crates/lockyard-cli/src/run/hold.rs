//! From the acquire to the release.

use std::env;
use std::io;
use std::process::ExitCode;

use anyhow::Context;
use lockyard::{Client, Error, Lease, LockGuard, Owner};
use tokio::process::Command;

use crate::cli::complain;
use crate::run::job::{Job, code};
use crate::run::options::{LOST, NOT_ACQUIRED, NOT_FOUND, NOT_STARTED, Options, SIGNALLED};
use crate::run::signals::{Signals, comes_from_a_key, in_foreground};
use crate::run::watch::Watcher;
use crate::server::{PREFIX, URL};

/// The variables that tell the command, and a nested `lockyard run`, of the hold.
const NAME: &str = "LOCKYARD_NAME";
const OWNER: &str = "LOCKYARD_OWNER";
const TOKEN: &str = "LOCKYARD_TOKEN";

/// Acquires the lock, runs the command, and releases the lock.
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

/// The owner of the `lockyard run` around this one.
fn inherited_owner() -> anyhow::Result<Option<Owner>> {
    let text = env::var_os(OWNER).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let owner = text.to_string_lossy().parse();
    Ok(Some(owner.context(OWNER)?))
}

/// Holds the lock while the command runs, and returns the exit status.
async fn hold(
    options: &Options,
    client: &Client,
    inherited: Option<Owner>,
    signals: &mut Signals,
) -> anyhow::Result<u8> {
    // Before the wait, which may outlast this program's file.
    let watcher = Watcher::start().context("cannot start the watching process")?;
    let owner = inherited.unwrap_or_else(|| client.owner());
    let lock = client.lock(&options.name).with_owner(&owner).fenced();
    let acquired = tokio::select! {
        signal = signals.next() => return Ok(SIGNALLED + signal.as_raw() as u8),
        acquired = lock.try_acquire_for(options.patience()) => acquired?,
    };
    let Some(guard) = acquired else {
        complain(&format!(
            "{:?} was not acquired in time: somebody else has it",
            options.name
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

/// Runs the command while the lock is held, and returns the exit status.
async fn supervise(
    options: &Options,
    guard: &LockGuard,
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
fn command(options: &Options, guard: &LockGuard) -> (String, Command) {
    let [program, arguments @ ..] = &options.command[..] else {
        unreachable!("the command line demands a command")
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env(NAME, guard.name())
        .env(OWNER, guard.owner().to_string())
        .env(URL, &options.server.url)
        .env(PREFIX, &options.server.prefix);
    if let Some(token) = guard.token() {
        command.env(TOKEN, token.to_string());
    }
    (program.display().to_string(), command)
}
