//! `lockyard unlock`: takes a lock away.

use std::process::ExitCode;

use lockyard::Lease;
use serde::Serialize;

use crate::cli::complain;
use crate::locks::options::UnlockOptions;
use crate::locks::view::{self, Holder};

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct Document<'a> {
    name: &'a str,
    released: bool,
    holders: Vec<Holder>,
}

pub(crate) async fn unlock(options: &UnlockOptions) -> anyhow::Result<ExitCode> {
    let client = options.server.connect(Lease::default()).await?;
    let lock = client.lock(&options.name);
    let info = lock.inspect().await?;
    let released = options.force && lock.force_release().await?;
    let document = Document {
        name: &options.name,
        released,
        holders: info.holders.iter().map(Holder::new).collect(),
    };
    if options.json {
        view::print_json(&document)?;
    } else {
        report(&document)?;
    }
    Ok(if released {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn report(document: &Document<'_>) -> anyhow::Result<()> {
    let name = view::printable(document.name);
    let holders: Vec<String> = document.holders.iter().map(Holder::describe).collect();
    let holders = holders.join(", and ");
    match (document.released, holders.is_empty()) {
        (true, false) => view::print(&format!("{name} was taken away from {holders}"))?,
        // Whoever held it began to after the look.
        (true, true) => view::print(&format!("{name} was taken away"))?,
        (false, true) => complain(&format!("nobody holds {name}")),
        (false, false) => complain(&format!(
            "{name} is held by {holders}; take it away with --force"
        )),
    }
    Ok(())
}
