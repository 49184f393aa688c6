//! The `lockyard` command.
//!
//! `lockyard run` runs a command under a lock; `ls`, `inspect` and `unlock` are for operators.
//!
//! `lockyard demo` is a flash sale in which several processes sell one stock, once without a lock, once with the lock
//! that people write by hand, and once with Lockyard.
//! The workers are this same program, started again with a hidden command.

mod cli;
mod demo;
mod line;
mod locks;
mod market;
mod run;
mod scenario;
mod server;
mod worker;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::runtime;

use crate::cli::{Cli, Command};

/// The task could not be carried out. 1 is left to a task that was, and whose outcome is not the one wished for.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return cli::explain(&error),
    };
    let failed = match command {
        Command::Run(_) => run::FAILED,
        _ => FAILED,
    };
    execute(command).unwrap_or_else(|error| {
        cli::complain(&format!("{error:#}"));
        ExitCode::from(failed)
    })
}

fn execute(command: Command) -> anyhow::Result<ExitCode> {
    // Without a runtime: it is to be small.
    if let Command::Watch = command {
        return run::watch();
    }
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        match command {
            Command::Run(options) => {
                cli::show_warnings();
                run::run(&options).await
            }
            Command::Ls(options) => locks::ls(&options).await,
            Command::Inspect(options) => locks::inspect(&options).await,
            Command::Unlock(options) => locks::unlock(&options).await,
            Command::Completions { shell } => cli::completions(shell),
            Command::Demo(options) => demo::demo(&options).await,
            Command::Worker(orders) => {
                worker::work(&orders)
                    .await
                    .with_context(|| format!("worker {} gave up", orders.seller))?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Watch => unreachable!("it was carried out above"),
        }
    })
}
