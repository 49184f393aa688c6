//! Makes sure that there is a server program for the tests and the demo.
//!
//! The test kit starts it; here it is only found, or installed.

use std::env;
use std::io;
use std::path::{self, Path, PathBuf};
use std::process::Command;

use crate::apt;
use crate::cargo::cannot_run;

/// The variable in which the test kit looks for the path of the server program.
pub(crate) const VARIABLE: &str = "LOCKYARD_SERVER";

/// The oldest major version that knows all that the scripts use; Valkey's began at 7 as well.
const OLDEST: u32 = 7;

const ADVICE: &str = "\
no redis-server or valkey-server in PATH; install one:
  Debian, Ubuntu  apt-get install redis-server
  Fedora          dnf install valkey
  macOS           brew install redis
or name one of version 7 or later: --server PATH";

/// Returns the absolute path of a server program that is new enough.
///
/// It is the one named here or in the environment, else the first in `PATH`, else a new one.
pub(crate) fn ensure(named: Option<PathBuf>) -> io::Result<PathBuf> {
    let server = match named.or_else(named_in_environment).or_else(in_path) {
        // Tests run in the folders of their packages, where a relative path would be another.
        Some(server) => path::absolute(server)?,
        None => install()?,
    };
    check_version(&server)?;
    Ok(server)
}

fn named_in_environment() -> Option<PathBuf> {
    let path = env::var_os(VARIABLE)?;
    (!path.is_empty()).then(|| path.into())
}

fn in_path() -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    ["redis-server", "valkey-server"]
        .into_iter()
        .flat_map(|name| env::split_paths(&folders).map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
}

fn install() -> io::Result<PathBuf> {
    if !apt::is_usable() {
        return Err(io::Error::other(ADVICE));
    }
    eprintln!("== no server in PATH: apt-get install redis-server");
    apt::install("redis-server")?;
    in_path().ok_or_else(|| io::Error::other(ADVICE))
}

/// Says which server it is, and refuses one that is too old for the scripts.
fn check_version(server: &Path) -> io::Result<()> {
    let mut command = Command::new(server);
    let output = command
        .arg("--version")
        .output()
        .map_err(|error| cannot_run(&command, &error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let server = server.display();
    eprintln!("== {server}: {}", text.trim());
    match major_version(&text) {
        Some(OLDEST..) => Ok(()),
        Some(_) => Err(io::Error::other(format!(
            "{server} is older than version {OLDEST}"
        ))),
        None => Err(io::Error::other(format!(
            "{server} is no redis-server or valkey-server"
        ))),
    }
}

/// Finds the 7 in `Redis server v=7.0.15 sha=…`.
fn major_version(text: &str) -> Option<u32> {
    let (_, version) = text.split_once(" v=")?;
    version.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major_version;

    #[test]
    fn the_major_version_is_found() {
        assert_eq!(
            major_version("Redis server v=7.0.15 sha=00000000:0 malloc=x"),
            Some(7)
        );
        assert_eq!(
            major_version("Valkey server v=9.1.2 sha=00000000:1 malloc=x"),
            Some(9)
        );
        assert_eq!(major_version("bash: no such thing"), None);
    }
}
