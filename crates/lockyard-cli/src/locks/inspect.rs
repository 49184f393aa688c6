//! `lockyard inspect`: one name.

use std::process::ExitCode;

use clap::ValueEnum;
use lockyard::{Lease, LockInfo, RwLockInfo, SemaphoreInfo};
use serde::Serialize;

use crate::cli;
use crate::locks::facts::{self, Holder, Permit, Reader, Waiter};
use crate::locks::kind::Kind;
use crate::locks::look::{Seen, hint};
use crate::locks::options::InspectOptions;
use crate::locks::view::{self, ms};

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct Document<'a> {
    kind: Kind,
    name: &'a str,
    #[serde(flatten)]
    facts: Facts,
}

/// What is told, by kind.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Facts {
    Lock {
        holders: Vec<Holder>,
        waiters: Vec<Waiter>,
        waiting: u64,
    },
    Rw {
        holders: Vec<Holder>,
        readers: Vec<Reader>,
        waiters: Vec<Waiter>,
        waiting: u64,
    },
    Semaphore {
        limit: Option<u32>,
        held: u64,
        permits: Vec<Permit>,
        waiters: Vec<Waiter>,
        waiting: u64,
    },
    Latch {
        count: u64,
    },
    Rate {
        owed: u64,
        clears_in_ms: u64,
    },
}

pub(crate) async fn inspect(options: &InspectOptions) -> anyhow::Result<ExitCode> {
    let client = options.server.connect(Lease::default()).await?;
    let seen = Seen::look(&client, options.kind, &options.name).await?;
    let is_idle = seen.is_idle();
    let document = Document {
        kind: options.kind,
        name: &options.name,
        facts: Facts::new(seen),
    };
    if options.json {
        view::print_json(&document)?;
    } else {
        cli::print(&document.page())?;
        if is_idle {
            let others = Kind::value_variants().iter().copied();
            let others = others.filter(|other| *other != options.kind);
            hint(&client, others, &options.name).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Facts {
    fn new(seen: Seen) -> Self {
        match seen {
            Seen::Lock(info) => Self::of_lock(&info),
            Seen::Rw(info) => Self::of_rw(&info),
            Seen::Semaphore(info) => Self::of_semaphore(&info),
            Seen::Latch(count) => Self::Latch { count },
            Seen::Rate(info) => Self::Rate {
                owed: info.owed,
                clears_in_ms: ms(info.clears_in),
            },
        }
    }

    fn of_lock(info: &LockInfo) -> Self {
        Self::Lock {
            holders: info.holders.iter().map(Holder::new).collect(),
            waiters: info.waiters.iter().map(Waiter::of_lock).collect(),
            waiting: info.waiting,
        }
    }

    fn of_rw(info: &RwLockInfo) -> Self {
        Self::Rw {
            holders: info.writers.iter().map(Holder::new).collect(),
            readers: info.readers.iter().map(Reader::new).collect(),
            waiters: info.waiters.iter().map(Waiter::of_rw).collect(),
            waiting: info.waiting,
        }
    }

    fn of_semaphore(info: &SemaphoreInfo) -> Self {
        Self::Semaphore {
            limit: info.is_stored.then_some(info.limit),
            held: info.held,
            permits: info.permits.iter().map(Permit::new).collect(),
            waiters: info.waiters.iter().map(Waiter::of_semaphore).collect(),
            waiting: info.waiting,
        }
    }
}

impl Document<'_> {
    /// For people.
    fn page(&self) -> String {
        let name = view::printable(self.name);
        let mut parts = Vec::new();
        let (waiters, waiting) = match &self.facts {
            Facts::Lock {
                holders,
                waiters,
                waiting,
            } => {
                if !holders.is_empty() {
                    parts.push(facts::holders(holders).to_string());
                }
                (waiters, *waiting)
            }
            Facts::Rw {
                holders,
                readers,
                waiters,
                waiting,
            } => {
                if !holders.is_empty() {
                    parts.push(facts::holders(holders).to_string());
                }
                if !readers.is_empty() {
                    parts.push(facts::readers(readers).to_string());
                }
                (waiters, *waiting)
            }
            Facts::Semaphore {
                limit,
                held,
                permits,
                waiters,
                waiting,
            } => {
                if let Some(limit) = limit {
                    parts.push(format!("{held} permits of {limit} are held"));
                }
                if !permits.is_empty() {
                    parts.push(facts::permits(permits).to_string());
                }
                (waiters, *waiting)
            }
            Facts::Latch { count: 0 } => return format!("{name} is open"),
            Facts::Latch { count } => return format!("{count} are left to count down of {name}"),
            Facts::Rate { owed: 0, .. } => return format!("nothing is owed of {name}"),
            Facts::Rate { owed, clears_in_ms } => {
                let time = view::time(*clears_in_ms);
                return format!("{owed} permits are owed of {name}, nothing in {time}");
            }
        };
        if parts.is_empty() {
            parts.push(format!("nobody holds {name}"));
        }
        if waiters.is_empty() {
            parts.push(format!("nobody waits for {name}"));
        } else {
            parts.push(facts::waiters(waiters).to_string());
        }
        let more = waiting.saturating_sub(waiters.len() as u64);
        if more > 0 {
            parts.push(format!("and {more} more"));
        }
        parts.join("\n")
    }
}
