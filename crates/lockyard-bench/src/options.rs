//! The `key=value` arguments of a run.

use std::collections::HashMap;
use std::time::Duration;

use crate::Result;

/// The options of a run, by name.
#[derive(Debug)]
pub(crate) struct Options(HashMap<String, String>);

impl Options {
    /// Takes every argument of the form `key=value`; others are not options.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Self {
        let pair = |argument: String| {
            let (key, value) = argument.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        };
        Self(arguments.filter_map(pair).collect())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        match self.0.get(name) {
            Some(value) => Ok(value),
            None => Err(format!("the option {name}=… is missing").into()),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Result<usize> {
        let value = self.text(name)?;
        value
            .parse()
            .map_err(|_| format!("{name}={value} is not a number").into())
    }

    /// `host:port` of the server.
    pub(crate) fn address(&self) -> Result<&str> {
        self.text("addr")
    }

    /// How long the measured window is.
    pub(crate) fn window(&self) -> Result<Duration> {
        Ok(Duration::from_secs(self.number("secs")? as u64))
    }

    /// The lease of held locks.
    pub(crate) fn lease(&self) -> Result<Duration> {
        Ok(Duration::from_millis(self.number("lease_ms")? as u64))
    }
}
