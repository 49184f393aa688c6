//! What is shown of holders and waiters.

use comfy_table::Table;
use lockyard::{
    HolderInfo, PermitInfo, ReaderInfo, RwLockWaiterInfo, SemaphoreWaiterInfo, WaiterInfo,
};
use serde::Serialize;

use crate::locks::view;

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
            held_ms: view::ms(info.held_for),
            remaining_ms: view::ms(info.remaining),
            token: info.token.map(|token| token.get()),
        }
    }

    /// In a sentence.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} (client {}), for {}",
            self.owner,
            self.client,
            view::time(self.held_ms)
        )
    }
}

impl Reader {
    pub(crate) fn new(info: &ReaderInfo) -> Self {
        Self {
            owner: info.owner.to_string(),
            client: info.client.clone(),
            remaining_ms: view::ms(info.remaining),
        }
    }
}

impl Permit {
    pub(crate) fn new(info: &PermitInfo) -> Self {
        Self {
            client: info.client.clone(),
            permits: info.permits,
            remaining_ms: view::ms(info.remaining),
        }
    }
}

impl Waiter {
    pub(crate) fn of_lock(info: &WaiterInfo) -> Self {
        Self {
            owner: Some(info.owner.to_string()),
            client: info.client.clone(),
            waited_ms: view::ms(info.waited),
            writes: None,
            permits: None,
        }
    }

    pub(crate) fn of_rw(info: &RwLockWaiterInfo) -> Self {
        Self {
            owner: Some(info.owner.to_string()),
            client: info.client.clone(),
            waited_ms: view::ms(info.waited),
            writes: Some(info.writes),
            permits: None,
        }
    }

    pub(crate) fn of_semaphore(info: &SemaphoreWaiterInfo) -> Self {
        Self {
            owner: None,
            client: info.client.clone(),
            waited_ms: view::ms(info.waited),
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
    view::table(
        ["held by", "client", "count", "for", "lease left", "token"],
        holders.iter().map(|holder| {
            let token = holder.token.map(|token| token.to_string());
            [
                holder.owner.clone(),
                holder.client.clone(),
                holder.count.to_string(),
                view::time(holder.held_ms),
                view::time(holder.remaining_ms),
                token.unwrap_or_else(|| "–".to_owned()),
            ]
        }),
    )
}

pub(crate) fn readers(readers: &[Reader]) -> Table {
    view::table(
        ["read by", "client", "lease left"],
        readers.iter().map(|reader| {
            [
                reader.owner.clone(),
                reader.client.clone(),
                view::time(reader.remaining_ms),
            ]
        }),
    )
}

pub(crate) fn permits(permits: &[Permit]) -> Table {
    view::table(
        ["permits", "client", "lease left"],
        permits.iter().map(|permit| {
            [
                permit.permits.to_string(),
                permit.client.clone(),
                view::time(permit.remaining_ms),
            ]
        }),
    )
}

pub(crate) fn waiters(waiters: &[Waiter]) -> Table {
    view::table(
        ["waiting", "client", "for"],
        waiters.iter().map(|waiter| {
            [
                waiter.describe(),
                waiter.client.clone(),
                view::time(waiter.waited_ms),
            ]
        }),
    )
}
