//! Everything that a machine can check without running Lockyard.

use std::io;
use std::process::ExitCode;

use crate::cargo::{cargo, in_root, run};

/// Runs all steps, also after one has failed, and fails if any did.
pub(crate) fn check() -> io::Result<ExitCode> {
    let mut rustdoc = cargo(&["doc", "--workspace", "--all-features", "--no-deps"]);
    rustdoc.env("RUSTDOCFLAGS", "-D warnings");
    let mut steps = vec![
        ("formatting", cargo(&["fmt", "--all", "--check"])),
        ("clippy", cargo(&CLIPPY)),
        ("rustdoc", rustdoc),
        ("Lua headers", cargo(&LUA_HEADERS)),
    ];
    if in_root("luacheck", &["--version"]).output().is_ok() {
        steps.push(("luacheck", in_root("luacheck", &LUACHECK)));
    } else {
        eprintln!(
            "== luacheck is left out: there is none in PATH (Debian: apt-get install lua-check)"
        );
    }

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

/// Not `--package`: with fewer packages cargo would build their dependencies anew, with fewer features.
const LUA_HEADERS: [&str; 5] = ["test", "--workspace", "--all-features", "--test", "headers"];

/// The shared blocks are complete only where they are copied to.
const LUACHECK: [&str; 9] = [
    "--std",
    "lua51",
    "--globals",
    "redis",
    "KEYS",
    "ARGV",
    "--exclude-files=lua/shared/*",
    "--",
    "lua",
];
