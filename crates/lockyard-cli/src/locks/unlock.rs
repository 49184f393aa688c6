//! `lockyard unlock`: takes a lock away.

use std::process::ExitCode;

use lockyard::{HolderInfo, Lease, ReaderInfo};
use serde::Serialize;

use crate::cli::{complain, print};
use crate::locks::facts::{Holder, Reader};
use crate::locks::kind::{Kind, Lockable};
use crate::locks::look::hint;
use crate::locks::options::UnlockOptions;
use crate::locks::view;

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct Document<'a> {
    kind: Kind,
    name: &'a str,
    released: bool,
    holders: Vec<Holder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    readers: Option<Vec<Reader>>,
}

pub(crate) async fn unlock(options: &UnlockOptions) -> anyhow::Result<ExitCode> {
    let client = options.server.connect(Lease::default()).await?;
    let (name, force) = (&*options.name, options.force);
    let document = match options.kind {
        Lockable::Lock => {
            let lock = client.lock(name);
            let info = lock.inspect().await?;
            let released = force && lock.force_release().await?;
            Document::new(options, released, &info.holders, None)
        }
        Lockable::Rw => {
            let lock = client.rw_lock(name);
            let info = lock.inspect().await?;
            let released = force && lock.force_release().await?;
            Document::new(options, released, &info.writers, Some(&info.readers))
        }
    };
    if options.json {
        view::print_json(&document)?;
    } else {
        document.report()?;
        if !document.released && document.is_idle() {
            let others = [Kind::Lock, Kind::Rw].into_iter();
            let others = others.filter(|other| *other != document.kind);
            hint(&client, others, name).await;
        }
    }
    Ok(if document.released {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl<'a> Document<'a> {
    fn new(
        options: &'a UnlockOptions,
        released: bool,
        holders: &[HolderInfo],
        readers: Option<&[ReaderInfo]>,
    ) -> Self {
        Self {
            kind: options.kind.into(),
            name: &options.name,
            released,
            holders: holders.iter().map(Holder::new).collect(),
            readers: readers.map(|readers| readers.iter().map(Reader::new).collect()),
        }
    }

    fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.readers.as_ref().is_none_or(Vec::is_empty)
    }

    fn report(&self) -> anyhow::Result<()> {
        let name = view::printable(self.name);
        let mut holders: Vec<String> = self.holders.iter().map(Holder::describe).collect();
        match self.readers.as_ref().map_or(0, Vec::len) {
            0 => {}
            1 => holders.push("1 reader".to_owned()),
            readers => holders.push(format!("{readers} readers")),
        }
        let holders = holders.join(", and ");
        match (self.released, holders.is_empty()) {
            (true, false) => drop(print(&format!("{name} was taken away from {holders}"))?),
            // Whoever held it began to after the look.
            (true, true) => drop(print(&format!("{name} was taken away"))?),
            (false, true) => complain(&format!("nobody holds {name}")),
            (false, false) => complain(&format!(
                "{name} is held by {holders}; take it away with --force"
            )),
        }
        Ok(())
    }
}
