use proptest::prelude::*;

use super::calls::{Ask, Wish};
use crate::scripts::family::Family;

/// How many locks, owners, clients and numbers of holds there are: few, so that they meet.
const LOCKS: usize = 2;
const OWNERS: usize = 3;
pub(super) const CLIENTS: usize = 3;
const SEQS: usize = 4;

/// What one hold or place is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Id {
    pub(super) owner: usize,
    pub(super) client: usize,
    pub(super) seq: usize,
    /// Plain or fenced, to write or to read, or how many permits there are; by the number.
    pub(super) kind: &'static str,
    /// For how many permits; by the number.
    pub(super) weight: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Of locks, and whether the command comes too late.
    Acquire(Vec<Wish>, bool),
    /// Lock, id, whether it extends or only asks, and the count.
    Renew(Vec<(usize, Id, bool, usize)>),
    /// Of one id, which may be done in a shorter way.
    Release(usize, Id),
    /// Ids of one lock and of the other.
    ReleaseMany(Vec<Id>, Vec<Id>),
    Force(usize, Vec<Id>),
    Inspect(usize, u64),
    /// What is done to the limit of a semaphore, with a number or a hold, and whether the command comes too late.
    Limit(usize, &'static str, u64, Id, bool),
    /// The holds of a semaphore that go and that come, and whether the command comes too late.
    Exchange(usize, Vec<Id>, Vec<Id>, bool),
    /// Latch, count, name, and whether the command comes too late.
    Set(usize, u64, usize, bool),
    /// Latch, name, client, and what it has counted down before and now.
    Down(usize, usize, usize, u64, u64),
    Count(usize, usize),
    /// Of limiters, and whether the command comes too late.
    Take(Vec<Ask>, bool),
    /// What is owed.
    Owed(usize),
    /// Gives a field of a latch any value, or makes one of its keys a string.
    SpoilLatch(usize, Option<(&'static str, &'static str)>, usize),
    /// Gives a field of a limiter any value, or makes the key a string.
    Spoil(usize, Option<(&'static str, &'static str)>),
    /// So many tens of seconds, about.
    Pass(u64),
    Damage(usize, Damage),
    Listen(usize),
    Deafen(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Ticket {
    New,
    /// Before all others.
    Old,
    /// Behind all others.
    Late,
}

/// What nobody's script does to a lock; parts are its keys in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Damage {
    Remove(usize),
    /// Makes a part a string, or the fence or limit a hash.
    Mistype(usize),
    /// Gives the fence or the limit any value.
    Fence(&'static str),
    /// Gives a hold any value.
    Value(Id, &'static str),
    /// Gives a hold a deadline so many ms from now.
    Deadline(Id, i64),
    /// Puts anything into the queue, before all others.
    Entry(&'static str),
    /// Puts an id into the queue, though its client need not live.
    Place(Id),
    /// Says that a client counts as gone so many ms from now.
    Alive(usize, i64),
    /// Has an id read, or hold permits, until so many ms from now.
    Member(Id, i64),
}

/// Of holds, fences and queues, such as no script writes.
const VALUES: [&str; 6] = ["", "x", "1:9", "1:x:5", "2:99999999999999:5:x", "1:1e99:5"];
const FENCES: [&str; 6] = [
    "",
    "x",
    "5",
    "9000000000000000",
    "1.5",
    // Which a reply cannot show as a number.
    "9223372036854775807",
];
const FIELDS: [&str; 3] = ["at", "debt", "interval"];
const NUMBERS: [&str; 4] = ["", "x", "5", "1.5"];
const ENTRIES: [&str; 5] = [
    "x",
    "|",
    "a/b.c|-|1|x|5",
    "a/b.c|-|1|5|5",
    "a:1/c1.0|-|1|60000",
];

fn id(family: Family) -> impl Strategy<Value = Id> + Clone {
    let kinds = match family {
        Family::Lock => ["-", "f", "-", "f"],
        Family::Rw => ["-", "f", "r", "s"],
        Family::Semaphore => ["4", "4", "2", "4"],
    };
    let weights = match family {
        Family::Lock | Family::Rw => [1; SEQS],
        Family::Semaphore => [1, 2, 1, 3],
    };
    (0..OWNERS, 0..CLIENTS, 0..SEQS).prop_map(move |(owner, client, seq)| Id {
        owner,
        client,
        seq,
        kind: kinds[seq],
        weight: weights[seq],
    })
}

fn damage(family: Family) -> impl Strategy<Value = Damage> {
    let id = || id(family);
    let (parts, member) = match family {
        Family::Lock => (4usize, 0),
        Family::Rw | Family::Semaphore => (5, 2),
    };
    let texts = match family {
        Family::Lock | Family::Rw => &FENCES[..],
        Family::Semaphore => &FENCES[..5],
    };
    let offset = || prop::sample::select(vec![-5000, -1, 0, 1, 20_000, 90_000]);
    prop_oneof![
        1 => (0..parts).prop_map(Damage::Remove),
        1 => (0..parts).prop_map(Damage::Mistype),
        member => (id(), offset()).prop_map(|(id, ms)| Damage::Member(id, ms)),
        1 => prop::sample::select(texts).prop_map(Damage::Fence),
        1 => (id(), prop::sample::select(&VALUES[..])).prop_map(|(id, value)| Damage::Value(id, value)),
        1 => (id(), offset()).prop_map(|(id, ms)| Damage::Deadline(id, ms)),
        1 => prop::sample::select(&ENTRIES[..]).prop_map(Damage::Entry),
        1 => id().prop_map(Damage::Place),
        4 => (0..CLIENTS, offset()).prop_map(|(client, ms)| Damage::Alive(client, ms)),
    ]
}

pub(super) fn steps(family: Family) -> impl Strategy<Value = Vec<Step>> {
    let id = || id(family);
    let lock = || 0..LOCKS;
    let ids = || prop::collection::vec(id(), 0..4);
    let mut modes = vec!['t', 'w', 'w', 'w', 'r'];
    modes.extend((family == Family::Rw).then_some('u'));
    let mode = prop::sample::select(modes);
    let ticket = prop_oneof![
        6 => Just(Ticket::New),
        1 => Just(Ticket::Old),
        1 => Just(Ticket::Late),
    ];
    let wish = (lock(), id(), mode, ticket);
    let wishes = prop_oneof![
        2 => prop::collection::vec(wish.clone(), 1),
        1 => prop::collection::vec(wish, 2..4),
    ];
    let acquire = (wishes, prop::bool::weighted(0.05))
        .prop_map(|(wishes, stale)| Step::Acquire(wishes, stale));
    let renewal = (lock(), id(), any::<bool>(), 1..4usize);
    let asks = prop::collection::vec((0..LOCKS, 0..3usize, 1..4u64, 0..60u64), 1..5);
    let take = (asks, prop::bool::weighted(0.05)).prop_map(|(asks, late)| Step::Take(asks, late));
    let field = (
        prop::sample::select(&FIELDS[..]),
        prop::sample::select(&NUMBERS[..]),
    );
    let parts = prop::sample::select(vec!["count", "incarnation", "valid"]);
    let parts = (parts, prop::sample::select(&NUMBERS[..]));
    let spoil = (lock(), prop::option::weighted(0.8, field));
    let of_semaphores = 5 * u32::from(family == Family::Semaphore);
    let actions = prop::sample::select(vec!["set", "set", "add", "drop", "clear"]);
    let limit = (lock(), actions, 0..6u64, id(), prop::bool::weighted(0.05));
    let limit = limit
        .prop_map(|(lock, action, number, id, late)| Step::Limit(lock, action, number, id, late));
    let go = prop::collection::vec(id(), 1..3);
    let exchange = (lock(), go, ids(), prop::bool::weighted(0.05));
    let exchange = exchange.prop_map(|(lock, go, come, late)| Step::Exchange(lock, go, come, late));
    let inspect = (lock(), 0..4u64).prop_map(|(lock, limit)| Step::Inspect(lock, limit));
    let rarer = prop_oneof![
        1 => inspect,
        of_semaphores => limit,
        of_semaphores => exchange,
    ];
    let step = prop_oneof![
        4 => take,
        3 => (lock(), 0..6u64, 0..3usize, prop::bool::weighted(0.05))
            .prop_map(|(latch, count, name, late)| Step::Set(latch, count, name, late)),
        6 => (lock(), 0..3usize, 0..CLIENTS, 0..4u64, 0..3u64)
            .prop_map(|(latch, name, client, from, by)| Step::Down(latch, name, client, from, by)),
        2 => (lock(), 0..CLIENTS).prop_map(|(latch, client)| Step::Count(latch, client)),
        1 => (lock(), prop::option::weighted(0.8, parts), 0..2usize)
            .prop_map(|(latch, part, key)| Step::SpoilLatch(latch, part, key)),
        1 => lock().prop_map(Step::Owed),
        1 => spoil.prop_map(|(limiter, field)| Step::Spoil(limiter, field)),
        10 => acquire,
        5 => prop::collection::vec(renewal, 1..5).prop_map(Step::Renew),
        4 => (lock(), id()).prop_map(|(lock, id)| Step::Release(lock, id)),
        3 => (ids(), ids()).prop_map(|(one, other)| Step::ReleaseMany(one, other)),
        1 => (lock(), ids()).prop_map(|(lock, ids)| Step::Force(lock, ids)),
        1 + 2 * of_semaphores => rarer,
        2 => (1..4u64).prop_map(Step::Pass),
        4 => (lock(), damage(family)).prop_map(|(lock, damage)| Step::Damage(lock, damage)),
        2 => (0..CLIENTS).prop_map(Step::Listen),
        1 => (0..CLIENTS).prop_map(Step::Deafen),
    ];
    prop::collection::vec(step, 1..50)
}
