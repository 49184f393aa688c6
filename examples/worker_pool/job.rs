//! What workers report.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use anyhow::Context;

/// A job that is done, and when it ran, by the clock that the processes share.
#[derive(Clone, Debug)]
pub struct Job {
    pub tenant: String,
    start: Duration,
    end: Duration,
}

impl Job {
    /// Does a job, which takes a moment.
    pub async fn run(tenant: &str) -> anyhow::Result<Self> {
        let start = SystemTime::UNIX_EPOCH.elapsed()?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(Self {
            tenant: tenant.to_owned(),
            start,
            end: SystemTime::UNIX_EPOCH.elapsed()?,
        })
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.start.as_nanos(), self.end.as_nanos());
        write!(f, "{} {start} {end}", self.tenant)
    }
}

impl FromStr for Job {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let mut words = line.split(' ');
        let tenant = words.next().context("no tenant")?.to_owned();
        let mut time = || {
            anyhow::Ok(Duration::from_nanos(
                words.next().context("no time")?.parse()?,
            ))
        };
        Ok(Self {
            tenant,
            start: time()?,
            end: time()?,
        })
    }
}

/// How many of the jobs ran at once at most.
pub fn most_at_once(jobs: &[Job]) -> u32 {
    let at = |moment: Duration| {
        let running = jobs
            .iter()
            .filter(|job| job.start <= moment && moment < job.end);
        running.count() as u32
    };
    jobs.iter().map(|job| at(job.start)).max().unwrap_or(0)
}
