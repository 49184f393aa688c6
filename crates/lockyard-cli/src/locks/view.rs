//! How things are shown: JSON with names and units that stay, and tables for people.

use std::time::Duration;

use comfy_table::{Attribute, Cell, Table, presets};
use humantime::format_duration;
use serde::Serialize;

use crate::cli;

pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_header(header.map(|text| Cell::new(text).add_attribute(Attribute::Bold)))
        .add_rows(rows);
    table
}

/// A name as it may go to a terminal: names can contain anything.
pub(crate) fn printable(name: &str) -> String {
    let printable = |char: char| match char.is_control() {
        true => char.escape_default().to_string(),
        false => char.to_string(),
    };
    name.chars().map(printable).collect()
}

/// A duration for people: below a second in ms, above it in whole seconds.
pub(crate) fn time(ms: u64) -> String {
    let duration = match ms {
        0..1000 => Duration::from_millis(ms),
        _ => Duration::from_secs(ms / 1000),
    };
    format_duration(duration).to_string()
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Prints a value as one line of JSON; `false` if nobody reads any more.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<bool> {
    cli::print(&serde_json::to_string(value)?)
}
