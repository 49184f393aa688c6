//! A lock as Redis has it.

use std::collections::{BTreeMap, BTreeSet};

use lockyard_memory::{Entry, Value};

use crate::door::PERMITS;

#[derive(Clone, Default)]
pub(crate) struct View {
    pub(crate) holds: Vec<Hold>,
    /// Those beside whom others may be.
    pub(crate) shared: Vec<Hold>,
    /// Ticket and hold id.
    pub(crate) queue: Vec<(u64, String)>,
    /// What the first of the queue wants.
    first: Option<(String, u32)>,
    /// Since when nobody holds it.
    pub(crate) idle: Option<u64>,
    /// Whether that is so because a lease ran out.
    pub(crate) ran_out: bool,
}

/// `owner/client.number`, and what its value says, in server ms.
#[derive(Clone)]
pub(crate) struct Hold {
    pub(crate) id: String,
    pub(crate) deadline: u64,
    pub(crate) since: u64,
    pub(crate) token: Option<u64>,
    /// How many permits it has, if it has permits.
    pub(crate) permits: u32,
}

impl Hold {
    fn parse(id: &[u8], value: &[u8]) -> Self {
        let value = String::from_utf8_lossy(value);
        let mut numbers = value.split(':').skip(1).map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        Self {
            id: String::from_utf8_lossy(id).into_owned(),
            deadline: next().unwrap_or_default(),
            since: next().unwrap_or_default(),
            token: next(),
            permits: 0,
        }
    }

    /// Reads `hold` or `hold|permits` and a deadline.
    fn shared(member: &[u8], deadline: f64) -> Self {
        let member = String::from_utf8_lossy(member);
        let (id, permits) = member.split_once('|').unwrap_or((&member, "0"));
        Self {
            id: id.to_owned(),
            deadline: deadline as u64,
            // It is not kept.
            since: u64::MAX,
            token: None,
            permits: permits.parse().unwrap_or_default(),
        }
    }

    pub(crate) fn owner(&self) -> &str {
        owner(&self.id)
    }

    pub(crate) fn client(&self) -> &str {
        client(&self.id)
    }
}

pub(crate) fn client(hold: &str) -> &str {
    let local = hold.split('/').nth(1).unwrap_or_default();
    local.split('.').next().unwrap_or_default()
}

fn owner(hold: &str) -> &str {
    hold.split('/').next().unwrap_or_default()
}

impl View {
    /// Every lock of a store, by key.
    pub(crate) fn all(entries: &[Entry]) -> BTreeMap<String, Self> {
        let mut views: BTreeMap<String, Self> = BTreeMap::new();
        for entry in entries {
            let key = String::from_utf8_lossy(&entry.key).into_owned();
            match &entry.value {
                Value::Hash(fields) => {
                    let holds = fields.iter().map(|(id, value)| Hold::parse(id, value));
                    views.entry(key).or_default().holds = holds.collect();
                }
                Value::SortedSet(places) if key.contains(".queue:") => {
                    let place = |(entry, ticket): &(bytes::Bytes, f64)| {
                        let entry = String::from_utf8_lossy(entry);
                        let hold = entry.split('|').next().unwrap_or_default();
                        (*ticket as u64, hold.to_owned())
                    };
                    let view = views.entry(key.replace(".queue:", ":")).or_default();
                    view.queue = places.iter().map(place).collect();
                    view.first = places.first().map(|(entry, _)| {
                        let entry = String::from_utf8_lossy(entry);
                        let mut parts = entry.split('|').skip(1).map(str::to_owned);
                        let kind = parts.next().unwrap_or_default();
                        (
                            kind,
                            parts
                                .next()
                                .and_then(|weight| weight.parse().ok())
                                .unwrap_or(1),
                        )
                    });
                }
                Value::SortedSet(places) if !key.contains(".alive:") => {
                    let lock = key.replace(".readers:", ":").replace(".permits:", ":");
                    let holds = places
                        .iter()
                        .map(|(member, score)| Hold::shared(member, *score));
                    views.entry(lock).or_default().shared = holds.collect();
                }
                _ => {}
            }
        }
        views
    }

    /// Alone or not, over or not.
    pub(crate) fn all_holds(&self) -> impl Iterator<Item = &Hold> {
        self.holds.iter().chain(&self.shared)
    }

    pub(crate) fn live(&self, server_ms: u64) -> impl Iterator<Item = &Hold> {
        self.all_holds()
            .filter(move |hold| hold.deadline > server_ms)
    }

    /// Holds that must not be beside each other.
    pub(crate) fn conflict(&self, server_ms: u64) -> Option<String> {
        let alone = self.holds.iter().any(|hold| hold.deadline > server_ms);
        let permits: u32 = self.live(server_ms).map(|hold| hold.permits).sum();
        let owners = self.owners(server_ms);
        let conflict = alone && owners.len() > 1 || permits > PERMITS;
        conflict.then(|| format!("held by {owners:?}, {permits} permits"))
    }

    /// Whether the first of the queue cannot enter, or without a queue whether anybody holds.
    pub(crate) fn is_busy(&self, server_ms: u64) -> bool {
        let mut live = self.live(server_ms);
        match &self.first {
            Some((kind, _)) if kind == "r" || kind == "s" => {
                self.holds.iter().any(|hold| hold.deadline > server_ms)
            }
            Some((kind, weight)) if kind.parse::<u32>().is_ok() => {
                live.map(|hold| hold.permits).sum::<u32>() + weight > PERMITS
            }
            _ => live.next().is_some(),
        }
    }

    pub(crate) fn owners(&self, server_ms: u64) -> BTreeSet<&str> {
        self.live(server_ms).map(Hold::owner).collect()
    }

    /// The holds that were not there before, of owners that held nothing before.
    pub(crate) fn new_since<'a>(
        &'a self,
        old: &'a Self,
        server_ms: u64,
    ) -> impl Iterator<Item = &'a Hold> {
        let owners = old.owners(server_ms);
        self.all_holds().filter(move |hold| {
            !old.all_holds().any(|other| other.id == hold.id) && !owners.contains(hold.owner())
        })
    }

    /// Whether a hold is new although an earlier waiter is left.
    ///
    /// `kept` has the tickets with which ids have asked to queue again.
    pub(crate) fn overtaken(
        &self,
        old: &Self,
        kept: &BTreeMap<String, u64>,
        server_ms: u64,
    ) -> Option<String> {
        let place = |hold: &str| old.queue.iter().find(|(_, waiter)| waiter == hold);
        let ticket = |hold: &str| {
            place(hold)
                .map(|(ticket, _)| ticket)
                .or_else(|| kept.get(hold))
        };
        let ticket = |hold: &str| ticket(hold).copied().unwrap_or(u64::MAX);
        // Several of one owner may enter in one script, all with the first.
        let mut entered: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
        for hold in self.new_since(old, server_ms) {
            let first = entered.entry(hold.owner()).or_insert((u64::MAX, &hold.id));
            *first = (*first).min((ticket(&hold.id), &hold.id));
        }
        entered.into_values().find_map(|(ticket, hold)| {
            let earlier = |waiter: &&(u64, String)| waiter.0 < ticket && old.queue.contains(waiter);
            let (earlier, waiter) = self.queue.iter().find(earlier)?;
            Some(format!(
                "{hold} with ticket {ticket} overtakes {waiter} with {earlier}"
            ))
        })
    }
}
