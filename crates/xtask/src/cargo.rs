//! Runs cargo, and other programs, as a person would from the root of the workspace.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::process::{Command, ExitCode};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns a cargo in the workspace's root, with these arguments.
///
/// The outer `cargo run` has set variables that describe this package.
/// Build scripts that watch them (ring's) would run again, and all that depends on them be built
/// again, whenever `cargo xtask test` follows `cargo test`; so they are removed.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = in_root(env!("CARGO"), args);
    for (name, _) in env::vars_os().filter(|(name, _)| describes_this_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Returns a program in the workspace's root, with these arguments.
pub(crate) fn in_root(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(ROOT);
    command
}

fn describes_this_package(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// Runs a program to its end and returns its exit code.
pub(crate) fn run(command: &mut Command) -> io::Result<ExitCode> {
    let status = command
        .status()
        .map_err(|error| cannot_run(command, &error))?;
    let Some(code) = status.code() else {
        eprintln!(
            "error: {} was ended: {status}",
            command.get_program().display()
        );
        return Ok(ExitCode::FAILURE);
    };
    Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Says which program it was that the system refused to run.
pub(crate) fn cannot_run(command: &Command, error: &io::Error) -> io::Error {
    let program = command.get_program().display();
    io::Error::new(error.kind(), format!("cannot run {program}: {error}"))
}
