//! `lockyard ls`: what is in use under a prefix.
//!
//! Names come from SCAN, over a connection of its own; what is known of each comes from the library, a few at a time.
//! Memory is bounded by the limit: no more names are kept, and the server is asked for one page after another.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use fred::prelude::{Builder, Client as Redis, ClientLike, Config, Key, KeysInterface};
use futures_util::{StreamExt, TryStreamExt, stream};
use lockyard::{Client, Error, Lease};
use tokio::time::timeout;

use crate::cli::{complain, print};
use crate::locks::kind::Kind;
use crate::locks::look::Seen;
use crate::locks::names;
use crate::locks::options::LsOptions;
use crate::locks::row::{self, Row};
use crate::locks::view;

/// How many keys the server looks at in one step.
const PAGE: u32 = 500;
/// How many are inspected at once.
const AT_ONCE: usize = 16;
/// How long one step may take.
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) async fn ls(options: &LsOptions) -> anyhow::Result<ExitCode> {
    let client = options.server.connect(Lease::default()).await?;
    let mut listing = Listing {
        options,
        client,
        seen: BTreeSet::new(),
        rows: Vec::new(),
    };
    let complete = listing.scan().await?;
    if !options.json {
        listing.rows.sort();
        print(&row::table(&listing.rows).to_string())?;
    }
    if !complete {
        complain(&format!(
            "there are more than {} names; see --limit",
            options.limit
        ));
    }
    Ok(ExitCode::SUCCESS)
}

struct Listing<'a> {
    options: &'a LsOptions,
    client: Client,
    /// SCAN may return a key twice, and a name has several keys.
    seen: BTreeSet<(Kind, String)>,
    /// What goes into the table at the end; with `--json` none.
    rows: Vec<Row>,
}

impl Listing<'_> {
    /// Walks over all keys, as long as anybody reads; `false` if there are more names than may be listed.
    async fn scan(&mut self) -> anyhow::Result<bool> {
        let redis = connect(&self.options.server.url).await?;
        let prefix = &self.options.server.prefix;
        let pattern = names::pattern(prefix, self.options.kind);
        let limit = self.options.limit as usize;
        let mut cursor = "0".to_owned();
        loop {
            let page = redis.scan_page(cursor, pattern.clone(), Some(PAGE), None);
            let (next, keys): (String, Vec<Key>) = timeout(PATIENCE, page)
                .await
                .map_err(|_| anyhow!("no answer within {PATIENCE:?}"))
                .and_then(|page| Ok(page?))
                .context("cannot scan the keys, which needs the right +scan")?;
            let found = keys
                .iter()
                .filter_map(|key| names::name(prefix, key.as_bytes()));
            let mut fresh: Vec<(Kind, String)> = Vec::new();
            for (kind, name) in found {
                let found = (kind, name.to_owned());
                if self.seen.contains(&found) || self.options.kind.is_some_and(|only| only != kind)
                {
                    continue;
                }
                if self.seen.len() == limit {
                    self.show(fresh).await?;
                    return Ok(false);
                }
                self.seen.insert(found.clone());
                fresh.push(found);
            }
            let is_read = self.show(fresh).await?;
            if next == "0" || !is_read {
                return Ok(true);
            }
            cursor = next;
        }
    }

    /// Inspects, and prints or keeps what is in use; `false` if nobody reads any more.
    async fn show(&mut self, names: Vec<(Kind, String)>) -> anyhow::Result<bool> {
        let client = &self.client;
        let mut rows = stream::iter(names)
            .map(|(kind, name)| async move {
                match Seen::look(client, kind, &name).await {
                    Ok(seen) => Ok(Some(Row::new(kind, name, &seen))),
                    // One key with other data does not hide the rest.
                    Err(error @ (Error::WrongType { .. } | Error::UnexpectedReply { .. })) => {
                        complain(&error.to_string());
                        Ok(None)
                    }
                    Err(error) => Err(error),
                }
            })
            .buffer_unordered(AT_ONCE);
        while let Some(row) = rows.try_next().await? {
            // What has become free since is left out.
            match row.filter(Row::is_in_use) {
                Some(row) if self.options.json => {
                    if !view::print_json(&row)? {
                        return Ok(false);
                    }
                }
                row => self.rows.extend(row),
            }
        }
        Ok(true)
    }
}

async fn connect(url: &str) -> anyhow::Result<Redis> {
    let client = Builder::from_config(Config::from_url(url)?).build()?;
    timeout(PATIENCE, client.init())
        .await
        .map_err(|_| anyhow!("no connection within {PATIENCE:?}"))
        .and_then(|connected| Ok(connected?))
        .context("cannot connect")?;
    Ok(client)
}
