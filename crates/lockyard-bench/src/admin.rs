//! A connection of the benchmark's own, for what it asks the server about itself.

use std::time::Duration;

use crate::Result;

/// A connection beside the measured ones; its calls block, so it is used outside measured windows only.
pub(crate) struct Admin(redis::Connection);

/// What the server has counted of script calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scripts {
    pub(crate) calls: u64,
    /// The server's own time in them, their inner commands included.
    pub(crate) time: Duration,
}

impl Admin {
    pub(crate) fn connect(address: &str) -> Result<Self> {
        let client = redis::Client::open(format!("redis://{address}/"))?;
        Ok(Self(client.get_connection()?))
    }

    /// How many of the keys exist.
    pub(crate) fn count_existing(&mut self, keys: &[String]) -> Result<u64> {
        Ok(redis::cmd("EXISTS").arg(keys).query(&mut self.0)?)
    }

    pub(crate) fn scripts(&mut self) -> Result<Scripts> {
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut self.0)?;
        let mut scripts = Scripts::default();
        for line in info.lines() {
            let Some((command, counts)) = line.split_once(':') else {
                continue;
            };
            if matches!(command, "cmdstat_eval" | "cmdstat_evalsha") {
                scripts.calls += count(counts, "calls")?;
                scripts.time += Duration::from_micros(count(counts, "usec")?);
            }
        }
        Ok(scripts)
    }
}

/// One of the counts in `calls=3,usec=42,…`.
fn count(counts: &str, name: &str) -> Result<u64> {
    let mut fields = counts.split(',').filter_map(|field| field.split_once('='));
    match fields.find(|(field, _)| *field == name) {
        Some((_, value)) => Ok(value.parse()?),
        None => Err(format!("INFO commandstats gives no {name}").into()),
    }
}
