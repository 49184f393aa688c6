//! The figures of a run, and the line that reports them.

use std::error::Error;
use std::time::Duration;

use serde_json::{Map, Value};

/// Named figures; a run that could not measure has the reason in their place.
#[derive(Debug, Default)]
pub(crate) struct Figures(Map<String, Value>);

impl Figures {
    pub(crate) fn unsupported(why: &str) -> Self {
        Self::default().with("unsupported", why)
    }

    pub(crate) fn failed(error: &dyn Error) -> Self {
        let mut chain = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            chain.push_str(&format!(": {error}"));
            cause = error.source();
        }
        Self::default().with("failed", chain)
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Adds median, 99th percentile and maximum, in µs.
    #[must_use]
    pub(crate) fn with_latencies(self, mut took: Vec<Duration>) -> Self {
        took.sort_unstable();
        self.with("p50_us", percentile(&took, 0.50))
            .with("p99_us", percentile(&took, 0.99))
            .with("max_us", percentile(&took, 1.0))
    }

    pub(crate) fn line(self, library: &str, workload: &str) -> String {
        let named = self.with("lib", library).with("workload", workload);
        Value::Object(named.0).to_string()
    }
}

/// In µs, to the tenth; zero if nothing was measured.
fn percentile(sorted: &[Duration], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = ((sorted.len() as f64 * part) as usize).min(last);
    let took = sorted.get(index).copied().unwrap_or_default();
    (took.as_secs_f64() * 1e7).round() / 10.0
}
