//! The configuration: a file of two lines, written one after the other, which belong together.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, ensure};

pub struct Config {
    path: PathBuf,
}

impl Config {
    pub fn at(path: &str) -> Self {
        Self { path: path.into() }
    }

    /// Writes the first half.
    pub fn begin(&self, version: u32) -> anyhow::Result<()> {
        Ok(fs::write(
            &self.path,
            format!("limit of version {version}\n"),
        )?)
    }

    /// Writes the second half.
    pub fn finish(&self, version: u32) -> anyhow::Result<()> {
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        Ok(writeln!(file, "price of version {version}")?)
    }

    /// Reads the version, which both halves are of.
    pub fn version(&self) -> anyhow::Result<u32> {
        let text = fs::read_to_string(&self.path)?;
        let versions: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split(' ').nth(3))
            .collect();
        ensure!(
            versions.len() == 2 && versions[0] == versions[1],
            "half written: {text}"
        );
        versions[0].parse().context("no number")
    }
}
