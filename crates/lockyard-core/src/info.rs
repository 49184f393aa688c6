//! What an inspection tells of holders and waiters.

use std::time::Duration;

use bytes::Bytes;

use crate::backend::Reply;
use crate::cell::FencingToken;
use crate::owner::Owner;
use crate::runtime::Runtime;

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderInfo {
    /// Who holds.
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

/// The answer to an inspection, in the scripts' own words.
#[derive(Debug)]
pub struct Inspection {
    /// The server's time, µs.
    pub us: u64,
    /// How many wait.
    pub waiting: u64,
    /// Hold ids and values.
    pub holds: Vec<(String, String)>,
    /// Entries and tickets of the first waiters, in order.
    pub queue: Vec<(String, String)>,
}

impl Inspection {
    /// Reads a reply; `None` if it is none.
    #[must_use]
    pub fn read(reply: &Reply) -> Option<Self> {
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
        let (holds, queue) = rest.split_at_checked(usize::try_from(*held).ok()?)?;
        Some(Self {
            us: u64::try_from(*us).ok()?,
            waiting: u64::try_from(*waiting).ok()?,
            holds: pairs(holds)?,
            queue: pairs(queue)?,
        })
    }

    /// Holders that are alone, the oldest first; of nested guards those of this client are counted here.
    pub fn holders<'a>(
        &self,
        holds: impl Iterator<Item = &'a (String, String)>,
        runtime: &Runtime,
    ) -> Option<Vec<HolderInfo>> {
        let holder = |(hold, value): &(String, String)| {
            let mut holder = HolderInfo::read(hold, value, self.ms())?;
            holder.count = runtime.local_count(hold).unwrap_or(holder.count);
            Some(holder)
        };
        let mut holders: Vec<HolderInfo> = holds.map(holder).collect::<Option<_>>()?;
        holders.retain(|holder| !holder.remaining.is_zero());
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.held_for));
        Some(holders)
    }

    /// The server's time, ms.
    #[must_use]
    pub fn ms(&self) -> u64 {
        self.us / 1000
    }
}

fn pairs(parts: &[Reply]) -> Option<Vec<(String, String)>> {
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).ok();
    let pair = |pair: &[Reply]| match pair {
        [Reply::Text(a), Reply::Text(b)] => Some((text(a)?, text(b)?)),
        _ => None,
    };
    parts.chunks(2).map(pair).collect()
}

impl HolderInfo {
    /// Reads a hold id and its value, `count:deadline:since[:token]` in server ms.
    fn read(hold: &str, value: &str, ms: u64) -> Option<Self> {
        let (owner, client) = identity(hold)?;
        let mut parts = value.split(':');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let (count, deadline, since) = (number()?, number()?, number()?);
        Some(Self {
            owner,
            client,
            count,
            held_for: Duration::from_millis(ms.saturating_sub(since)),
            remaining: Duration::from_millis(deadline.saturating_sub(ms)),
            token: number().map(FencingToken::from_raw),
        })
    }
}

impl WaiterInfo {
    /// Reads an entry of the queue and its ticket, which is when it came, in µs.
    #[doc(hidden)]
    #[must_use]
    pub fn read(entry: &str, ticket: &str, us: u64) -> Option<Self> {
        let (owner, client) = identity(entry.split('|').next()?)?;
        let came: f64 = ticket.parse().ok()?;
        Some(Self {
            owner,
            client,
            waited: Duration::from_micros(us.saturating_sub(came as u64)),
        })
    }
}

/// Reads `<owner>/<client>.<seq>`.
#[must_use]
pub fn identity(hold: &str) -> Option<(Owner, String)> {
    let (owner, local) = hold.split_once('/')?;
    let owner = Owner::parse_quietly(owner)?;
    Some((owner, local.split('.').next()?.to_owned()))
}
