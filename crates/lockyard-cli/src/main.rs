//! The `lockyard` command.
//!
//! So far it has one task, `lockyard demo`: a flash sale in which several processes sell one
//! stock, once without a lock, once with the lock that people write by hand, and once with
//! Lockyard. The workers are this same program, started again with a hidden command.

mod cli;
mod demo;
mod line;
mod market;
mod scenario;
mod worker;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::runtime;

use crate::cli::{Cli, Command};

/// The task could not be carried out. 1 is left to a demo that did not sell exactly its stock.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let result = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
        .and_then(|runtime| runtime.block_on(execute(command)));
    result.unwrap_or_else(|error| {
        cli::complain(&format!("{error:#}"));
        ExitCode::from(FAILED)
    })
}

async fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Demo(options) => demo::demo(&options).await,
        Command::Worker(orders) => {
            worker::work(&orders)
                .await
                .with_context(|| format!("worker {} gave up", orders.seller))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
