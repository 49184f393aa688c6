//! Finds the server program.

use std::env;
use std::path::PathBuf;

use crate::Error;

/// The programs that are looked for, in this order.
const NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// Returns the path in `LOCKYARD_SERVER`, or else the first known program in `PATH`.
pub(crate) fn find() -> Result<PathBuf, Error> {
    let named = env::var_os("LOCKYARD_SERVER").filter(|path| !path.is_empty());
    if let Some(path) = named {
        return Ok(path.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|candidate| candidate.is_file())
        .ok_or(Error::NoServer)
}
