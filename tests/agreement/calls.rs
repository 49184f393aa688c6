//! The one place that knows how each script is called.

use lockyard_lua::latch::{COUNT, DOWN, SET};
use lockyard_lua::rate::{INSPECT as OWED, TAKE};
use lockyard_lua::semaphore::{EXCHANGE, LIMIT};

use super::steps::{Id, Ticket};
use crate::scripts::family::Family;

/// One call of a script.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) script: &'static str,
    pub(super) keys: Vec<String>,
    pub(super) args: Vec<String>,
}

/// Durations in ms, of tens of seconds, as answers are compared by the second.
const WAITER: u64 = 40_000;
const LEASES: [u64; 3] = [20_000, 60_000, 100_000];
const GRANT: u64 = 30_000;

/// What every client's channel begins with.
const INBOX: &str = "inbox:";

/// The names of a lock's keys: lock, queue, alive, and fence and readers, or limit and permits.
pub(super) fn keys(family: Family, lock: usize) -> [String; 5] {
    let kind = family.kind();
    family
        .parts()
        .map(|part| format!("{kind}{part}:{{{lock}}}"))
}

/// The keys of several locks, as scripts get them.
fn all_keys(family: Family, locks: impl Iterator<Item = usize>) -> Vec<String> {
    locks
        .flat_map(|lock| family.keys(keys(family, lock)))
        .collect()
}

pub(super) fn client(client: usize) -> String {
    format!("c{client}")
}

pub(super) fn channel(number: usize) -> String {
    format!("{INBOX}{}", client(number))
}

impl Id {
    pub(super) fn hold(self) -> String {
        // Of two of the owners one begins with the other's name.
        let owner = ["a:1", "a:10", "b:1"][self.owner];
        format!("{owner}/{}.{}", client(self.client), self.seq)
    }

    /// How it stands among the readers, or the permits.
    pub(super) fn member(self, family: Family) -> String {
        match family {
            Family::Lock | Family::Rw => self.hold(),
            Family::Semaphore => format!("{}|{}", self.hold(), self.weight),
        }
    }

    fn lease(self) -> u64 {
        LEASES[self.seq % LEASES.len()]
    }

    pub(super) fn entry(self) -> String {
        format!("{}|{}", self.hold(), self.rest())
    }

    /// What stands behind the hold id.
    fn rest(self) -> String {
        format!("{}|{}|{}|{GRANT}", self.kind, self.weight, self.lease())
    }
}

/// One lock of an acquire: number, id, mode and ticket.
pub(super) type Wish = (usize, Id, char, Ticket);

pub(super) fn acquire(family: Family, wishes: &[Wish], valid: u64) -> Call {
    let mut args = vec![valid.to_string(), format!("{WAITER}|{INBOX}")];
    for (_, id, mode, ticket) in wishes {
        let ticket = match ticket {
            Ticket::New => 0,
            Ticket::Old => 5,
            Ticket::Late => valid,
        };
        let wish = format!("{mode}{}|{ticket}", id.rest());
        args.extend([id.hold(), id.lease().to_string(), wish]);
    }
    Call {
        script: family.acquire(),
        keys: all_keys(family, wishes.iter().map(|(lock, ..)| *lock)),
        args,
    }
}

pub(super) fn renew(family: Family, entries: &[(usize, Id, bool, usize)]) -> Call {
    let mut args = vec![INBOX.to_owned(), WAITER.to_string()];
    for (_, id, extends, count) in entries {
        let lease = if *extends { id.lease() } else { 0 };
        args.extend([id.entry(), lease.to_string(), count.to_string()]);
    }
    Call {
        script: family.renew(),
        keys: all_keys(family, entries.iter().map(|(lock, ..)| *lock)),
        args,
    }
}

/// Releases entries, or holds by force, of locks.
pub(super) fn release(family: Family, entries: &[(usize, Vec<String>)]) -> Call {
    let mut args = vec![INBOX.to_owned()];
    for (_, entries) in entries {
        args.push(entries.len().to_string());
        args.extend(entries.iter().cloned());
    }
    Call {
        script: family.release(),
        keys: all_keys(family, entries.iter().map(|(lock, _)| *lock)),
        args,
    }
}

/// Changes the limit of a semaphore: a number to set or to add, or an id whose permits go for ever.
pub(super) fn limit(lock: usize, action: &str, number: u64, id: Id, valid: u64) -> Call {
    let [used, _, _, limit, permits] = keys(Family::Semaphore, lock);
    let (number, member) = match action {
        "drop" => (id.weight, id.member(Family::Semaphore)),
        _ => (number, String::new()),
    };
    let [valid, number] = [valid, number].map(|number| number.to_string());
    let args = [valid, action.to_owned(), number, id.kind.to_owned(), member];
    Call {
        script: LIMIT,
        keys: vec![used, permits, limit],
        args: args.to_vec(),
    }
}

/// Replaces holds of a semaphore by others.
pub(super) fn exchange(lock: usize, go: &[Id], come: &[Id], valid: u64) -> Call {
    let [.., permits] = keys(Family::Semaphore, lock);
    let members = go.iter().chain(come);
    let members = members.map(|id| id.member(Family::Semaphore));
    let first = [valid.to_string(), go.len().to_string()];
    Call {
        script: EXCHANGE,
        keys: vec![permits],
        args: first.into_iter().chain(members).collect(),
    }
}

/// The names of a latch's keys.
pub(super) fn latch(latch: usize) -> [String; 2] {
    ["latch", "latch.ops"].map(|part| format!("{part}:{{{latch}}}"))
}

fn of_latch(script: &'static str, number: usize, args: &[&str]) -> Call {
    Call {
        script,
        keys: latch(number).to_vec(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
    }
}

/// Sets a latch under one of few names, for 40 s to 120 s.
pub(super) fn set(latch: usize, count: u64, name: usize, valid: u64) -> Call {
    let (valid, count, life) = (
        valid.to_string(),
        count.to_string(),
        40_000 * (1 + name % 3),
    );
    let (name, life) = (format!("i{name}"), life.to_string());
    of_latch(SET, latch, &[&valid, &count, &name, &life])
}

/// Counts down for one of the clients, whose first channel hears it.
pub(super) fn down(latch: usize, name: usize, number: usize, from: u64, by: u64) -> Call {
    let (name, client, channel) = (format!("i{name}"), client(number), channel(0));
    let (from, to) = (from.to_string(), (from + by).to_string());
    of_latch(DOWN, latch, &[&name, &client, &from, &to, &channel])
}

pub(super) fn count(latch: usize, number: usize) -> Call {
    of_latch(COUNT, latch, &[&client(number)])
}

/// The name of a limiter's key.
pub(super) fn rate(limiter: usize) -> String {
    format!("rate:{{{limiter}}}")
}

/// The µs a permit, a fraction among them, and the burst.
const RATES: [(&str, u64); 3] = [("20000000", 1), ("33333333.333333332", 3), ("10000000", 10)];

/// One limiter of a take: number, rate, permits, and the s for which the caller is ready to wait.
pub(super) type Ask = (usize, usize, u64, u64);

pub(super) fn take(asks: &[Ask], valid: u64) -> Call {
    let mut args = vec![valid.to_string()];
    for (_, rate, permits, wait) in asks {
        let (interval, burst) = RATES[rate % RATES.len()];
        let wait = (wait * 1_000_000).to_string();
        args.extend([
            interval.to_owned(),
            burst.to_string(),
            permits.to_string(),
            wait,
        ]);
    }
    Call {
        script: TAKE,
        keys: asks.iter().map(|(limiter, ..)| rate(*limiter)).collect(),
        args,
    }
}

/// What is owed of a limiter.
pub(super) fn owed(limiter: usize) -> Call {
    Call {
        script: OWED,
        keys: vec![rate(limiter)],
        args: Vec::new(),
    }
}

pub(super) fn inspect(family: Family, lock: usize, limit: u64) -> Call {
    let inspected = match family {
        Family::Lock => 2,
        Family::Rw => 3,
        Family::Semaphore => 4,
    };
    Call {
        script: family.inspect(),
        keys: family.keys(keys(family, lock))[..inspected].to_vec(),
        args: vec![limit.to_string()],
    }
}
