//! What `ls` tells of one name.

use lockyard::HolderInfo;
use serde::Serialize;

use comfy_table::Table;

use crate::locks::kind::Kind;
use crate::locks::look::Seen;
use crate::locks::view::{self, ms};

/// A row of the table, and the object that `--json` prints.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Row {
    kind: Kind,
    name: String,
    holds: u64,
    owner: Option<String>,
    held_ms: Option<u64>,
    remaining_ms: Option<u64>,
    waiting: u64,
    count: Option<u64>,
}

impl Row {
    pub(crate) fn new(kind: Kind, name: String, seen: &Seen) -> Self {
        let free = Self {
            kind,
            name,
            holds: 0,
            owner: None,
            held_ms: None,
            remaining_ms: None,
            waiting: 0,
            count: None,
        };
        match seen {
            Seen::Lock(info) => Self {
                holds: info.holders.len() as u64,
                waiting: info.waiting,
                ..free.held_by(info.holders.first())
            },
            Seen::Rw(info) => {
                let held = free.held_by(info.writers.first());
                let readers = info.readers.iter().map(|reader| ms(reader.remaining));
                Self {
                    holds: (info.writers.len() + info.readers.len()) as u64,
                    remaining_ms: held.remaining_ms.max(readers.max()),
                    waiting: info.waiting,
                    ..held
                }
            }
            Seen::Semaphore(info) => Self {
                holds: info.held,
                remaining_ms: info.permits.iter().map(|permit| ms(permit.remaining)).max(),
                waiting: info.waiting,
                ..free
            },
            Seen::Latch(count) => Self {
                count: Some(*count),
                ..free
            },
            Seen::Rate(info) => Self {
                count: Some(info.owed),
                remaining_ms: Some(ms(info.clears_in)),
                ..free
            },
        }
    }

    fn held_by(self, holder: Option<&HolderInfo>) -> Self {
        Self {
            owner: holder.map(|holder| holder.owner.to_string()),
            held_ms: holder.map(|holder| ms(holder.held_for)),
            remaining_ms: holder.map(|holder| ms(holder.remaining)),
            ..self
        }
    }

    /// Whether anybody holds or waits, or anything is left to count down or to pay back.
    pub(crate) fn is_in_use(&self) -> bool {
        self.holds > 0 || self.waiting > 0 || self.count.is_some_and(|count| count > 0)
    }

    /// Who holds, or how many do, or what is counted.
    fn describe(&self) -> String {
        match (self.kind, &self.owner, self.holds) {
            (Kind::Latch, ..) => format!("{} to count down", self.count.unwrap_or(0)),
            (Kind::Rate, ..) => format!("{} owed", self.count.unwrap_or(0)),
            (_, Some(owner), _) => owner.clone(),
            (_, None, 0) => "–".to_owned(),
            (Kind::Semaphore, None, 1) => "1 permit".to_owned(),
            (Kind::Semaphore, None, held) => format!("{held} permits"),
            (_, None, 1) => "1 reader".to_owned(),
            (_, None, readers) => format!("{readers} readers"),
        }
    }
}

pub(crate) fn table(rows: &[Row]) -> Table {
    let or_dash = |ms: Option<u64>| ms.map_or_else(|| "–".to_owned(), view::time);
    view::table(
        ["kind", "name", "state", "for", "time left", "waiting"],
        rows.iter().map(|row| {
            [
                row.kind.word().to_owned(),
                view::printable(&row.name),
                row.describe(),
                or_dash(row.held_ms),
                or_dash(row.remaining_ms),
                row.waiting.to_string(),
            ]
        }),
    )
}
