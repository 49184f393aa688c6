use lockyard_core::__private::Reply;
use lockyard_testkit::Server;

use super::calls::{self, Call};
use super::real::Real;
use super::steps::{Damage, Step};
use super::stored::{Seen, Stored};
use crate::scripts::family::Family;

/// What may pass on the real server between two of its commands, in ms; all durations differ by far more.
const SLACK: u64 = 3000;

/// What anything has to live at least, lest it ends there within the slack.
const SHORTEST: u64 = 2 * SLACK;

pub(super) struct Run<'a> {
    family: Family,
    stored: Stored,
    real: Real<'a>,
    now_us: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(server: &'a Server, family: Family) -> Self {
        Self {
            family,
            stored: Stored::default(),
            real: Real::new(server),
            now_us: 1_900_000_000_123_456,
        }
    }

    /// Does the same on both sides and compares all that can be seen.
    pub(super) fn step(&mut self, step: &Step) {
        // Time passes, and not in whole ms.
        self.now_us += 333;
        let seen = self.stored.see(self.now_us);
        self.real.set_ttls(&seen);
        match step {
            Step::Acquire(wishes, stale) => {
                let valid = if *stale { self.now_us - 1 } else { self.now_us };
                self.call(&calls::acquire(self.family, wishes, valid));
            }
            Step::Renew(entries) => self.call(&calls::renew(self.family, entries)),
            Step::Release(lock, id) => {
                self.call(&calls::release(self.family, &[(*lock, vec![id.entry()])]))
            }
            Step::ReleaseMany(one, other) => {
                let entries = [one, other].map(|ids| ids.iter().map(|id| id.entry()).collect());
                let [one, other] = entries;
                self.call(&calls::release(self.family, &[(0, one), (1, other)]));
            }
            Step::Force(lock, ids) => {
                let holds = ids.iter().map(|id| format!("!{}", id.hold())).collect();
                self.call(&calls::release(self.family, &[(*lock, holds)]));
            }
            Step::Limit(lock, action, number, id, late) => {
                let valid = self.now_us - u64::from(*late);
                self.call(&calls::limit(*lock, action, *number, *id, valid));
            }
            Step::Exchange(lock, go, come, late) => {
                let valid = self.now_us - u64::from(*late);
                self.call(&calls::exchange(*lock, go, come, valid));
            }
            Step::Inspect(lock, limit) => self.call(&calls::inspect(self.family, *lock, *limit)),
            Step::Set(latch, count, name, late) => {
                let valid = self.now_us - u64::from(*late);
                self.call(&calls::set(*latch, *count, *name, valid));
            }
            Step::Down(latch, name, client, from, by) => {
                self.call(&calls::down(*latch, *name, *client, *from, *by));
            }
            Step::Count(latch, client) => self.call(&calls::count(*latch, *client)),
            Step::SpoilLatch(latch, part, key) => {
                let keys = calls::latch(*latch);
                self.both(&match part {
                    Some((field, value)) => words(&["HSET", &keys[0], field, value]),
                    None => words(&["SET", &keys[*key], "x"]),
                });
            }
            Step::Take(asks, late) => {
                self.call(&calls::take(asks, self.now_us - u64::from(*late)));
            }
            Step::Owed(limiter) => self.call(&calls::owed(*limiter)),
            Step::Spoil(limiter, field) => {
                let key = calls::rate(*limiter);
                self.both(&match field {
                    Some((field, value)) => words(&["HSET", &key, field, value]),
                    None => words(&["SET", &key, "x"]),
                });
            }
            Step::Pass(tens) => self.pass(tens * 10_000),
            Step::Damage(lock, damage) => {
                for words in commands(self.family, *lock, *damage, self.now_us / 1000) {
                    self.both(&words);
                }
            }
            Step::Listen(client) => {
                if self.real.listen(*client) {
                    self.stored.subscribe(&calls::channel(*client));
                }
            }
            Step::Deafen(client) => {
                if self.real.deafen(*client) {
                    self.stored.unsubscribe(&calls::channel(*client));
                }
            }
        }
        let (found, expected) = (self.stored.see(self.now_us), self.real.see());
        assert!(
            alike(&found, &expected),
            "in memory {found:#?}\nreal {expected:#?}"
        );
    }

    fn both(&mut self, words: &[String]) {
        let expected = self.real.command(words);
        let found = self.stored.command(words, self.now_us);
        assert_eq!(found, expected, "{words:?}");
    }

    fn call(&mut self, call: &Call) {
        let (expected, expected_told) = self.real.call(call, self.now_us);
        let (found, mut told) = self.stored.call(call, self.now_us);
        let same = match (&found, &expected) {
            (Ok(found), Ok(expected)) => matches(found, expected),
            (found, expected) => found == expected,
        };
        assert!(
            same,
            "in memory {found:?}\nreal {expected:?}\n{:?}",
            call.args
        );
        // The real server's come channel by channel.
        told.sort_by(|(one, _), (other, _)| one.cmp(other));
        assert_eq!(told, expected_told, "messages");
    }

    /// Lets so much time pass and more, until nothing is about to end.
    fn pass(&mut self, mut ms: u64) {
        let seen = self.stored.see(self.now_us);
        let ttls: Vec<u64> = seen.values().filter_map(|(_, ttl)| *ttl).collect();
        while ttls.iter().any(|ttl| (ms..ms + SHORTEST).contains(ttl)) {
            ms += SHORTEST;
        }
        self.now_us += ms * 1000;
        self.real.pass(ms);
    }
}

/// Whether two numbers are the same, or durations that differ by no more than the slack.
fn close(one: u64, other: u64) -> bool {
    const DURATIONS: std::ops::Range<u64> = SHORTEST..10_000_000_000;
    let durations = DURATIONS.contains(&one) && DURATIONS.contains(&other);
    one == other || durations && one.abs_diff(other) <= SLACK
}

fn matches(found: &Reply, expected: &Reply) -> bool {
    match (found, expected) {
        (Reply::Number(found @ 0..), Reply::Number(expected @ 0..)) => {
            close(found.unsigned_abs(), expected.unsigned_abs())
        }
        (Reply::Array(found), Reply::Array(expected)) => {
            let mut pairs = found.iter().zip(expected);
            found.len() == expected.len() && pairs.all(|(found, expected)| matches(found, expected))
        }
        (found, expected) => found == expected,
    }
}

fn alike(found: &Seen, expected: &Seen) -> bool {
    let ttls = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(other) <= SLACK,
        (one, other) => one == other,
    };
    let mut pairs = found.iter().zip(expected);
    found.len() == expected.len()
        && pairs.all(|((key, (value, ttl)), (name, (words, left)))| {
            key == name && value == words && ttls(*ttl, *left)
        })
}

/// The commands that do a damage.
fn commands(family: Family, lock: usize, damage: Damage, now_ms: u64) -> Vec<Vec<String>> {
    let parts = calls::keys(family, lock);
    let [lock, queue, alive, fence, members] = &parts;
    let from_now = |ms: i64| now_ms.saturating_add_signed(ms);
    let command = match damage {
        Damage::Remove(part) => return vec![remove(&parts[part])],
        Damage::Mistype(3) => return vec![remove(fence), words(&["HSET", fence, "a", "b"])],
        Damage::Mistype(part) => words(&["SET", &parts[part], "x"]),
        Damage::Fence(text) => words(&["SET", fence, text]),
        Damage::Value(_, value) if family == Family::Semaphore => words(&["SET", lock, value]),
        Damage::Value(id, value) => words(&["HSET", lock, &id.hold(), value]),
        Damage::Deadline(id, ms) if family != Family::Semaphore => {
            let value = format!("1:{}:5", from_now(ms));
            words(&["HSET", lock, &id.hold(), &value])
        }
        Damage::Entry(entry) => words(&["ZADD", queue, "1", entry]),
        Damage::Place(id) => words(&["ZADD", queue, "2", &id.entry()]),
        Damage::Alive(client, ms) => {
            let until = from_now(ms).to_string();
            words(&["ZADD", alive, &until, &calls::client(client)])
        }
        Damage::Deadline(id, ms) | Damage::Member(id, ms) => {
            let until = from_now(ms).to_string();
            let member = words(&["ZADD", members, &until, &id.member(family)]);
            // What is written beside it lives a second longer.
            return vec![member, words(&["PEXPIRE", members, "90000"])];
        }
    };
    vec![command]
}

fn remove(key: &str) -> Vec<String> {
    words(&["PEXPIRE", key, "0"])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
