//! Makes sure that there is a PostgreSQL for the example that writes into one.
//!
//! The example starts it; here its programs are only found, or installed.

use std::env;
use std::fs;
use std::io;

use crate::apt;

/// Installs PostgreSQL if there is none; where that cannot be done it says so, and the example's test will fail.
pub(crate) fn ensure() -> io::Result<()> {
    if is_installed() {
        return Ok(());
    }
    if !apt::is_usable() {
        eprintln!(
            "== no PostgreSQL: a test of the examples needs it (Debian: apt-get install postgresql)"
        );
        return Ok(());
    }
    eprintln!("== no PostgreSQL: apt-get install postgresql");
    apt::install("postgresql")
}

/// Looks where the example does: in `PATH`, and where Debian keeps the versions.
fn is_installed() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let versions = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    env::split_paths(&path)
        .chain(versions)
        .any(|folder| folder.join("initdb").is_file())
}
