//! What is shown of a lock: JSON with names and units that stay, and tables for people.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use comfy_table::{Attribute, Cell, Table, presets};
use humantime::format_duration;
use lockyard::{HolderInfo, LockInfo, WaiterInfo};
use serde::Serialize;

/// A hold.
#[derive(Debug, Serialize)]
pub(crate) struct Holder {
    owner: String,
    client: String,
    count: u64,
    held_ms: u64,
    remaining_ms: u64,
    token: Option<u64>,
}

/// A place in the queue.
#[derive(Debug, Serialize)]
pub(crate) struct Waiter {
    owner: String,
    client: String,
    waited_ms: u64,
}

/// A row of `ls`.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    holds: usize,
    owner: Option<String>,
    held_ms: Option<u64>,
    remaining_ms: Option<u64>,
    waiting: u64,
}

impl Row {
    pub(crate) fn new(name: String, info: &LockInfo) -> Self {
        let first = info.holders.first().map(Holder::new);
        Self {
            name,
            holds: info.holders.len(),
            held_ms: first.as_ref().map(|holder| holder.held_ms),
            remaining_ms: first.as_ref().map(|holder| holder.remaining_ms),
            owner: first.map(|holder| holder.owner),
            waiting: info.waiting,
        }
    }

    /// Whether anybody holds or waits.
    pub(crate) fn is_in_use(&self) -> bool {
        self.holds > 0 || self.waiting > 0
    }
}

impl Holder {
    pub(crate) fn new(info: &HolderInfo) -> Self {
        Self {
            owner: info.owner.to_string(),
            client: info.client.clone(),
            count: info.count,
            held_ms: ms(info.held_for),
            remaining_ms: ms(info.remaining),
            token: info.token.map(|token| token.get()),
        }
    }

    /// In a sentence.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} (client {}), for {}",
            self.owner,
            self.client,
            time(self.held_ms)
        )
    }
}

impl Waiter {
    pub(crate) fn new(info: &WaiterInfo) -> Self {
        Self {
            owner: info.owner.to_string(),
            client: info.client.clone(),
            waited_ms: ms(info.waited),
        }
    }
}

pub(crate) fn rows(rows: &[Row]) -> Table {
    let or_dash = |ms: Option<u64>| ms.map_or_else(|| "–".to_owned(), time);
    table(
        ["lock", "held by", "for", "lease left", "waiting"],
        rows.iter().map(|row| {
            [
                printable(&row.name),
                row.owner.clone().unwrap_or_else(|| "–".to_owned()),
                or_dash(row.held_ms),
                or_dash(row.remaining_ms),
                row.waiting.to_string(),
            ]
        }),
    )
}

pub(crate) fn holders(holders: &[Holder]) -> Table {
    table(
        ["held by", "client", "count", "for", "lease left", "token"],
        holders.iter().map(|holder| {
            let token = holder.token.map(|token| token.to_string());
            [
                holder.owner.clone(),
                holder.client.clone(),
                holder.count.to_string(),
                time(holder.held_ms),
                time(holder.remaining_ms),
                token.unwrap_or_else(|| "–".to_owned()),
            ]
        }),
    )
}

pub(crate) fn waiters(waiters: &[Waiter]) -> Table {
    table(
        ["waiting", "client", "for"],
        waiters.iter().map(|waiter| {
            [
                waiter.owner.clone(),
                waiter.client.clone(),
                time(waiter.waited_ms),
            ]
        }),
    )
}

fn table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> Table {
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
fn time(ms: u64) -> String {
    let duration = match ms {
        0..1000 => Duration::from_millis(ms),
        _ => Duration::from_secs(ms / 1000),
    };
    format_duration(duration).to_string()
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Prints a value as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&serde_json::to_string(value)?)
}

pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context("cannot print")
}
