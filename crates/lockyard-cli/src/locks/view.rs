//! What is shown of a lock: JSON with names and units that stay, and tables for people.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use comfy_table::{Attribute, Cell, Table, presets};
use humantime::format_duration;
use lockyard::{
    HolderInfo, PermitInfo, ReaderInfo, RwLockWaiterInfo, SemaphoreWaiterInfo, WaiterInfo,
};
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
    /// Permits have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    client: String,
    waited_ms: u64,
    /// Only of a read-write lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    writes: Option<bool>,
    /// Only of a semaphore.
    #[serde(skip_serializing_if = "Option::is_none")]
    permits: Option<u32>,
}

/// A hold to read.
#[derive(Debug, Serialize)]
pub(crate) struct Reader {
    owner: String,
    client: String,
    remaining_ms: u64,
}

/// Permits that were acquired together.
#[derive(Debug, Serialize)]
pub(crate) struct Permit {
    client: String,
    permits: u32,
    remaining_ms: u64,
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

impl Reader {
    pub(crate) fn new(info: &ReaderInfo) -> Self {
        Self {
            owner: info.owner.to_string(),
            client: info.client.clone(),
            remaining_ms: ms(info.remaining),
        }
    }
}

impl Permit {
    pub(crate) fn new(info: &PermitInfo) -> Self {
        Self {
            client: info.client.clone(),
            permits: info.permits,
            remaining_ms: ms(info.remaining),
        }
    }
}

impl Waiter {
    pub(crate) fn of_lock(info: &WaiterInfo) -> Self {
        Self {
            owner: Some(info.owner.to_string()),
            client: info.client.clone(),
            waited_ms: ms(info.waited),
            writes: None,
            permits: None,
        }
    }

    pub(crate) fn of_rw(info: &RwLockWaiterInfo) -> Self {
        Self {
            owner: Some(info.owner.to_string()),
            client: info.client.clone(),
            waited_ms: ms(info.waited),
            writes: Some(info.writes),
            permits: None,
        }
    }

    pub(crate) fn of_semaphore(info: &SemaphoreWaiterInfo) -> Self {
        Self {
            owner: None,
            client: info.client.clone(),
            waited_ms: ms(info.waited),
            writes: None,
            permits: Some(info.permits),
        }
    }

    /// Who waits, or for what.
    fn describe(&self) -> String {
        match (&self.owner, self.writes, self.permits) {
            (Some(owner), Some(true), _) => format!("{owner}, to write"),
            (Some(owner), Some(false), _) => format!("{owner}, to read"),
            (Some(owner), None, _) => owner.clone(),
            (None, _, permits) => match permits {
                Some(1) | None => "for 1 permit".to_owned(),
                Some(permits) => format!("for {permits} permits"),
            },
        }
    }
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

pub(crate) fn readers(readers: &[Reader]) -> Table {
    table(
        ["read by", "client", "lease left"],
        readers.iter().map(|reader| {
            [
                reader.owner.clone(),
                reader.client.clone(),
                time(reader.remaining_ms),
            ]
        }),
    )
}

pub(crate) fn permits(permits: &[Permit]) -> Table {
    table(
        ["permits", "client", "lease left"],
        permits.iter().map(|permit| {
            [
                permit.permits.to_string(),
                permit.client.clone(),
                time(permit.remaining_ms),
            ]
        }),
    )
}

pub(crate) fn waiters(waiters: &[Waiter]) -> Table {
    table(
        ["waiting", "client", "for"],
        waiters.iter().map(|waiter| {
            [
                waiter.describe(),
                waiter.client.clone(),
                time(waiter.waited_ms),
            ]
        }),
    )
}

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

/// Prints a value as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&serde_json::to_string(value)?)
}

pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context("cannot print")
}
