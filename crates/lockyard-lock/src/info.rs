//! What `inspect` returns.

use std::time::Duration;

use lockyard_core::__private::Reply;
use lockyard_core::{FencingToken, Owner};

/// Who holds a lock and who waits for it, at one moment of the server's time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The holds, the oldest first; more than one only if an owner holds through several clients.
    pub holders: Vec<HolderInfo>,
    /// The first 1000 waiters, in the order in which they will be served.
    pub waiters: Vec<WaiterInfo>,
    /// How many there are in all.
    pub waiting: u64,
}

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderInfo {
    /// Who holds the lock.
    pub owner: Owner,
    /// Through which client.
    pub client: String,
    /// How often: one for each guard.
    pub count: u64,
    /// For how long it has been held.
    pub held_for: Duration,
    /// What is left of the lease.
    pub remaining: Duration,
    /// The fencing token, if one was asked for.
    pub token: Option<FencingToken>,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaiterInfo {
    /// Who waits.
    pub owner: Owner,
    /// Through which client.
    pub client: String,
    /// For how long it has waited.
    pub waited: Duration,
}

impl LockInfo {
    pub(crate) fn parse(reply: Reply, local_count: impl Fn(&str) -> Option<u64>) -> Option<Self> {
        let Reply::Array(parts) = reply else {
            return None;
        };
        let [
            Reply::Number(us),
            Reply::Number(waiting),
            Reply::Number(held),
            rest @ ..,
        ] = &parts[..]
        else {
            return None;
        };
        let us = u64::try_from(*us).ok()?;
        let (holds, queue) = rest.split_at_checked(usize::try_from(*held).ok()?)?;
        let mut holders = pairs(holds, |hold, value| {
            holder(hold, value, us / 1000, &local_count)
        })?;
        holders.retain(|holder| !holder.remaining.is_zero());
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.held_for));
        let waiters = pairs(queue, |entry, ticket| waiter(entry, ticket, us))?;
        Some(Self {
            holders,
            waiters,
            waiting: u64::try_from(*waiting).ok()?,
        })
    }
}

fn pairs<T>(parts: &[Reply], each: impl Fn(&str, &str) -> Option<T>) -> Option<Vec<T>> {
    let pair = |pair: &[Reply]| match pair {
        [Reply::Text(a), Reply::Text(b)] => {
            each(std::str::from_utf8(a).ok()?, std::str::from_utf8(b).ok()?)
        }
        _ => None,
    };
    parts.chunks(2).map(pair).collect()
}

/// Reads a hold id and its value, `count:deadline:since[:token]` in server ms.
fn holder(
    hold: &str,
    value: &str,
    ms: u64,
    local_count: impl Fn(&str) -> Option<u64>,
) -> Option<HolderInfo> {
    let (owner, client) = identity(hold)?;
    let mut parts = value.split(':');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (count, deadline, since) = (number()?, number()?, number()?);
    Some(HolderInfo {
        owner,
        client,
        count: local_count(hold).unwrap_or(count),
        held_for: Duration::from_millis(ms.saturating_sub(since)),
        remaining: Duration::from_millis(deadline.saturating_sub(ms)),
        token: number().map(FencingToken::from_raw),
    })
}

/// Reads an entry of the queue and its ticket, which is when it came, in µs.
fn waiter(entry: &str, ticket: &str, us: u64) -> Option<WaiterInfo> {
    let (owner, client) = identity(entry.split('|').next()?)?;
    let came: f64 = ticket.parse().ok()?;
    Some(WaiterInfo {
        owner,
        client,
        waited: Duration::from_micros(us.saturating_sub(came as u64)),
    })
}

/// Reads `<owner>/<client>.<seq>`.
fn identity(hold: &str) -> Option<(Owner, String)> {
    let (owner, local) = hold.split_once('/')?;
    Some((
        Owner::parse_quietly(owner)?,
        local.split('.').next()?.to_owned(),
    ))
}
