//! `lockyard inspect`: one lock.

use std::process::ExitCode;

use lockyard::Lease;
use serde::Serialize;

use crate::locks::options::InspectOptions;
use crate::locks::view::{self, Holder, Waiter};

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct Document<'a> {
    name: &'a str,
    holders: Vec<Holder>,
    waiters: Vec<Waiter>,
    waiting: u64,
}

pub(crate) async fn inspect(options: &InspectOptions) -> anyhow::Result<ExitCode> {
    let client = options.server.connect(Lease::default()).await?;
    let info = client.lock(&options.name).inspect().await?;
    let document = Document {
        name: &options.name,
        holders: info.holders.iter().map(Holder::new).collect(),
        waiters: info.waiters.iter().map(Waiter::new).collect(),
        waiting: info.waiting,
    };
    if options.json {
        view::print_json(&document)?;
    } else {
        view::print(&page(&document))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn page(document: &Document<'_>) -> String {
    let name = view::printable(document.name);
    let mut parts = Vec::new();
    if document.holders.is_empty() {
        parts.push(format!("nobody holds {name}"));
    } else {
        parts.push(view::holders(&document.holders).to_string());
    }
    if document.waiters.is_empty() {
        parts.push(format!("nobody waits for {name}"));
    } else {
        parts.push(view::waiters(&document.waiters).to_string());
    }
    let more = document
        .waiting
        .saturating_sub(document.waiters.len() as u64);
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join("\n")
}
