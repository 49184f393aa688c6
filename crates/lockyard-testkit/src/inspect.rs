//! What a server can be asked.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;

use crate::{Error, Server};

/// The commands that run a script.
const SCRIPT_COMMANDS: [&str; 4] = ["eval", "evalsha", "eval_ro", "evalsha_ro"];

impl Server {
    /// Returns all keys that match a glob pattern, sorted.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer.
    pub fn keys(&self, pattern: &str) -> Result<Vec<String>, Error> {
        let mut keys: Vec<String> = self.query(&["KEYS", pattern])?;
        keys.sort();
        Ok(keys)
    }

    /// Returns the milliseconds that a key has left, -1 if it stays for ever, -2 if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer.
    pub fn ttl_ms(&self, key: &str) -> Result<i64, Error> {
        self.query(&["PTTL", key])
    }

    /// Returns how often each command was called, by its name in lower case (`client|list`).
    ///
    /// Those of the test kit count too; compare with an earlier look.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer.
    pub fn commandstats(&self) -> Result<BTreeMap<String, u64>, Error> {
        let info: String = self.query(&["INFO", "commandstats"])?;
        Ok(info.lines().filter_map(parse_calls).collect())
    }

    /// Returns how many scripts were called (EVAL, EVALSHA and their read-only forms).
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer.
    pub fn scripts(&self) -> Result<u64, Error> {
        let stats = self.commandstats()?;
        Ok(SCRIPT_COMMANDS
            .iter()
            .filter_map(|command| stats.get(*command))
            .sum())
    }

    /// Returns the time of the slowest command since the start or the last reset.
    ///
    /// Commands below a millisecond are not logged, unless `slowlog-log-slower-than` says so.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer.
    pub fn slowlog_max(&self) -> Result<Duration, Error> {
        let entries: Vec<Vec<Value>> = self.query(&["SLOWLOG", "GET", "-1"])?;
        let micros = entries.iter().filter_map(|entry| match entry.get(2) {
            Some(Value::Int(micros)) => u64::try_from(*micros).ok(),
            _ => None,
        });
        Ok(Duration::from_micros(micros.max().unwrap_or(0)))
    }

    /// Forgets the slow commands.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer.
    pub fn slowlog_reset(&self) -> Result<(), Error> {
        self.query(&["SLOWLOG", "RESET"])
    }

    /// Returns the server's clock in microseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer.
    pub fn time_micros(&self) -> Result<u64, Error> {
        let (seconds, micros): (u64, u64) = self.query(&["TIME"])?;
        Ok(seconds * 1_000_000 + micros)
    }
}

/// Reads a line such as `cmdstat_get:calls=7,usec=20,…`.
fn parse_calls(line: &str) -> Option<(String, u64)> {
    let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let (calls, _) = rest.split_once(',')?;
    Some((command.to_owned(), calls.parse().ok()?))
}
