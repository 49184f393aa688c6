//! Everything that a machine can check without running Lockyard.

use std::io;
use std::process::ExitCode;

use crate::cargo::{cargo, run};

/// Runs all steps, also after one has failed, and fails if any did.
pub(crate) fn check() -> io::Result<ExitCode> {
    let mut rustdoc = cargo(&["doc", "--workspace", "--all-features", "--no-deps"]);
    rustdoc.env("RUSTDOCFLAGS", "-D warnings");
    let steps = [
        ("formatting", cargo(&["fmt", "--all", "--check"])),
        ("clippy", cargo(&CLIPPY)),
        ("rustdoc", rustdoc),
        ("Lua headers", cargo(&["test", "--package", "lockyard-lua"])),
    ];

    let mut failed = Vec::new();
    for (name, mut command) in steps {
        eprintln!("== {name}");
        if run(&mut command)? != ExitCode::SUCCESS {
            failed.push(name);
        }
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(io::Error::other(format!("failed: {}", failed.join(", "))))
}

const CLIPPY: [&str; 7] = [
    "clippy",
    "--workspace",
    "--all-targets",
    "--all-features",
    "--",
    "-D",
    "warnings",
];
