use std::collections::{BTreeMap, BTreeSet};

use lockyard_testkit::Server;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::bare::{Acquired, Bare, Batch, Id, Inbox, NEVER, Renewed, id};
use super::family::Family;
use super::model::{Answer, Model, Told};

/// Names of which one begins with another, for owners are compared with the beginning of hold ids.
const OWNERS: [&str; 3] = ["a:1", "a:10", "b:1"];
const CLIENTS: [&str; 3] = ["c1", "c2", "c3"];

/// A step; what it acts on is picked by number from those that hold or wait, and a few that do neither.
#[derive(Clone, Debug)]
enum Step {
    Acquire {
        owner: usize,
        client: usize,
        mode: &'static str,
        fenced: bool,
        reads: bool,
    },
    /// A second copy of an acquire.
    Copy(usize, &'static str),
    /// A waiter whose place is gone takes a new one under its old ticket.
    Return(usize),
    Renew(Vec<usize>),
    Release(Vec<usize>),
    Force,
    Expire(usize),
    /// A waiting client has not looked for too long.
    Silence(usize),
    /// A client hears no messages any more.
    Deafen(usize),
    Listen(usize),
}

fn steps(family: Family) -> impl Strategy<Value = Vec<Step>> {
    let mut modes = vec!["try", "wait", "wait", "wait", "reenter"];
    let rw = family == Family::Rw;
    modes.extend(rw.then_some("upgrade"));
    let mode = move || prop::sample::select(modes.clone());
    let reads = prop::bool::weighted(if rw { 0.6 } else { 0.0 });
    let some = || prop::collection::vec(0..12usize, 1..4);
    let who = (0..OWNERS.len(), 0..CLIENTS.len());
    let acquire =
        (who, mode(), any::<bool>(), reads).prop_map(|((owner, client), mode, fenced, reads)| {
            Step::Acquire {
                owner,
                client,
                mode,
                fenced,
                reads,
            }
        });
    let step = prop_oneof![
        8 => acquire,
        1 => (0..12usize, mode()).prop_map(|(at, mode)| Step::Copy(at, mode)),
        2 => (0..12usize).prop_map(Step::Return),
        4 => some().prop_map(Step::Renew),
        5 => some().prop_map(Step::Release),
        1 => Just(Step::Force),
        1 => (0..3usize).prop_map(Step::Expire),
        1 => (0..CLIENTS.len()).prop_map(Step::Silence),
        1 => (0..CLIENTS.len()).prop_map(Step::Deafen),
        2 => (0..CLIENTS.len()).prop_map(Step::Listen),
    ];
    prop::collection::vec(step, 1..60)
}

/// The scripts beside their model.
struct Run<'a> {
    server: &'a Server,
    lock: Bare,
    model: Model,
    inboxes: BTreeMap<String, Inbox>,
    /// All ids so far, and the tickets of those that waited.
    ids: Vec<Id>,
    tickets: BTreeMap<Id, u64>,
    /// The tokens, by order of minting.
    tokens: BTreeMap<usize, u64>,
}

impl<'a> Run<'a> {
    fn new(server: &'a Server, family: Family) -> Self {
        let lock = Bare::of(family, &server.url());
        let inbox = |client: &&str| ((*client).to_owned(), lock.inbox(&server.url(), client));
        let inboxes = CLIENTS.iter().map(inbox).collect();
        let (model, ids, tickets, tokens) = Default::default();
        Self {
            server,
            lock,
            model,
            inboxes,
            ids,
            tickets,
            tokens,
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Acquire {
                owner,
                client,
                mode,
                fenced,
                reads,
            } => {
                let id = Id {
                    fenced: *fenced,
                    reads: *reads,
                    ..id(OWNERS[*owner], CLIENTS[*client], 0)
                };
                let id = self.new_id(id);
                self.acquire(&id, mode, 0);
            }
            Step::Copy(at, mode) => {
                if let Some(id) = self.pick(*at) {
                    self.acquire(&id, mode, 0);
                }
            }
            Step::Return(at) => {
                if let Some(old) = self.pick(*at).filter(|id| !self.model.waits(id))
                    && let Some(ticket) = self.tickets.remove(&old)
                {
                    let id = self.new_id(old);
                    self.acquire(&id, "wait", ticket);
                }
            }
            Step::Renew(some) => self.renew(&self.pick_some(some)),
            Step::Release(some) => self.release(&self.pick_some(some)),
            Step::Force => {
                let holds = self.lock.held();
                let found = self.lock.force(&holds);
                let each = self.model.force();
                assert_eq!(found, Batch { more: false, each });
            }
            Step::Expire(at) => {
                if let Some((id, hold)) = self.model.holds.iter_mut().nth(*at) {
                    hold.over = true;
                    self.lock.expire(&id.hold());
                }
            }
            Step::Silence(client) => {
                self.model.silent.insert(CLIENTS[*client].to_owned());
                self.lock.silence(CLIENTS[*client]);
            }
            Step::Deafen(client) => {
                if let Some(inbox) = self.inboxes.remove(CLIENTS[*client]) {
                    self.model.deaf.insert(CLIENTS[*client].to_owned());
                    inbox.close();
                }
            }
            Step::Listen(client) => {
                let client = CLIENTS[*client];
                if self.model.deaf.remove(client) {
                    let inbox = self.lock.inbox(&self.server.url(), client);
                    self.inboxes.insert(client.to_owned(), inbox);
                }
            }
        }
    }

    fn new_id(&mut self, mut id: Id) -> Id {
        id.seq = self.ids.len();
        self.ids.push(id.clone());
        id
    }

    fn pick(&self, at: usize) -> Option<Id> {
        let present = self.model.holds.keys().chain(self.model.queue.values());
        let present: Vec<&Id> = present.chain(self.ids.iter().rev().take(3)).collect();
        (!present.is_empty()).then(|| present[at % present.len()].clone())
    }

    fn pick_some(&self, some: &[usize]) -> Vec<Id> {
        some.iter().filter_map(|at| self.pick(*at)).collect()
    }

    fn acquire(&mut self, id: &Id, mode: &str, ticket: u64) {
        let found = self.lock.acquire_late(id, mode, NEVER, ticket).unwrap();
        let mut place = if ticket == 0 { u64::MAX } else { ticket };
        if let Acquired::Queued {
            ticket: new, look, ..
        } = &found
        {
            let last = self
                .model
                .queue
                .last_key_value()
                .map_or(0, |(last, _)| *last);
            let in_order = if ticket == 0 {
                *new > last
            } else {
                *new == ticket
            };
            assert!(
                in_order && *look > 0,
                "ticket {new} after {last}, look in {look}"
            );
            place = *new;
            if !self.model.waits(id) {
                self.tickets.insert(id.clone(), place);
            }
        }
        let expected = self.model.acquire(id, mode, place);
        let found = match found {
            Acquired::Held(token) if id.reads => self.last(id, &token),
            Acquired::Held(token) => Answer::Held(self.fence(&token, &expected)),
            Acquired::Queued { .. } => Answer::Queued,
            Acquired::Busy => Answer::Busy,
            Acquired::Unfenced => Answer::Unfenced,
            Acquired::Deadlock => Answer::Deadlock,
            Acquired::Stale => panic!("stale"),
        };
        assert_eq!(found, expected, "{mode} {id:?}");
    }

    fn renew(&mut self, ids: &[Id]) {
        let Batch { more, each } = self.lock.renew(&ids.iter().collect::<Vec<_>>());
        assert!(!more);
        for (id, found) in ids.iter().zip(each) {
            let expected = self.model.renew(id);
            let found = match found {
                Renewed::Held(token) if id.reads => self.last(id, &token),
                Renewed::Held(token) => Answer::Held(self.fence(&token, &expected)),
                Renewed::Queued => Answer::Queued,
                Renewed::Gone => Answer::Gone,
                Renewed::Unfenced => Answer::Unfenced,
                Renewed::Deadlock => Answer::Deadlock,
                Renewed::Error(error) => panic!("{error}"),
            };
            assert_eq!(found, expected, "renewing {id:?}");
        }
    }

    fn release(&mut self, ids: &[Id]) {
        let ids: Vec<&Id> = ids.iter().collect();
        let found = match ids[..] {
            [] => return,
            [id] => self.lock.release(id),
            _ => self.lock.release_many(&ids),
        };
        let each = self.model.release(&ids);
        assert_eq!(found, Batch { more: false, each }, "releasing {ids:?}");
    }

    /// A reader is told the last token, if it asks for it.
    fn last(&self, id: &Id, token: &str) -> Answer {
        let last: Option<String> = self.lock.command(&["GET", &self.lock.keys[3]]).unwrap();
        let told = last.filter(|_| id.fenced).map(|last| format!(":{last}"));
        assert_eq!(token, told.unwrap_or_default());
        Answer::Held(None)
    }

    /// Which minting a token comes from, if the model knows; it is learnt here when it is new.
    fn fence(&mut self, token: &str, expected: &Answer) -> Option<usize> {
        let number = token.strip_prefix(':')?.parse().unwrap();
        if let Answer::Held(Some(fence)) = expected {
            self.tokens.entry(*fence).or_insert(number);
        }
        let mut known = self.tokens.iter();
        known
            .find(|(_, known)| **known == number)
            .map(|(fence, _)| *fence)
    }

    /// Compares all that is on the server, and all messages.
    fn compare(&mut self) {
        let holds = self.lock.holds();
        let longest = self.compare_holds(&holds);
        let queue: Vec<String> = self.model.queue.values().map(Id::entry).collect();
        assert_eq!(self.lock.queue(), queue);

        let readers = self.compare_readers();
        let [lock, queue, alive, fence, reading] = self
            .lock
            .keys
            .each_ref()
            .map(|key| self.server.ttl_ms(key).unwrap());
        assert!(
            [lock, queue, alive, fence, reading]
                .iter()
                .all(|ttl| *ttl != -1),
            "a key stays for ever"
        );
        assert!(
            lock == -2 || lock + 1000 >= longest,
            "the holds' key ends before a hold"
        );
        assert!(
            reading == -2 || reading + 1000 >= readers,
            "the readers' key ends before a reader"
        );
        assert_eq!(
            alive == -2,
            queue == -2,
            "those who wait live, and nobody else"
        );
        self.compare_messages(&holds);
    }

    /// Returns how long the longest lease lasts, in ms.
    fn compare_holds(&mut self, holds: &BTreeMap<String, String>) -> i64 {
        let writing = self.model.holds.keys().filter(|id| !id.reads);
        let expected: BTreeSet<String> = writing.map(Id::hold).collect();
        assert_eq!(
            holds.keys().cloned().collect::<BTreeSet<_>>(),
            expected,
            "holds"
        );
        let now = self.server.time_micros().unwrap() / 1000;
        let mut latest = now;
        for (id, hold) in self.model.holds.clone() {
            if id.reads {
                continue;
            }
            let value = &holds[&id.hold()];
            let mut parts = value.split(':');
            let mut number = || parts.next().unwrap().parse::<u64>().unwrap();
            let (count, deadline, since) = (number(), number(), number());
            assert_eq!(
                (count, deadline < now, since <= now),
                (1, hold.over, true),
                "{value}"
            );
            let token = parts
                .next()
                .map_or(String::new(), |token| format!(":{token}"));
            assert_eq!(
                self.fence(&token, &Answer::Held(hold.fence)),
                hold.fence,
                "{value}"
            );
            latest = latest.max(deadline);
        }
        let valid = self.model.holds.iter().filter(|(_, hold)| !hold.over);
        let (readers, writers): (Vec<&Id>, Vec<&Id>) =
            valid.map(|(id, _)| id).partition(|id| id.reads);
        let beside = |id: &&Id| writers.iter().any(|writer| writer.owner != id.owner);
        assert!(
            !writers.iter().chain(&readers).any(beside),
            "several owners hold: {writers:?} {readers:?}"
        );
        assert!(
            self.tokens.values().is_sorted_by(|a, b| a < b),
            "{:?}",
            self.tokens
        );
        (latest - now) as i64
    }

    /// Returns how long the longest reader's lease lasts, in ms.
    fn compare_readers(&self) -> i64 {
        let now = self.server.time_micros().unwrap() / 1000;
        let reading = self.model.holds.iter().filter(|(id, _)| id.reads);
        let expected: BTreeMap<String, bool> =
            reading.map(|(id, hold)| (id.hold(), hold.over)).collect();
        let readers = self.lock.readers();
        let over = readers.iter().map(|(id, until)| (id.clone(), *until < now));
        assert_eq!(over.collect::<BTreeMap<_, _>>(), expected, "readers");
        let latest = readers.values().max().copied().unwrap_or_default();
        latest as i64 - now as i64
    }

    fn compare_messages(&mut self, holds: &BTreeMap<String, String>) {
        let mut found = Vec::new();
        for inbox in self.inboxes.values_mut() {
            found.extend(
                inbox
                    .drain(self.server)
                    .iter()
                    .flat_map(|message| without_time(message)),
            );
        }
        found.sort();
        let mut expected = Vec::new();
        for told in std::mem::take(&mut self.model.told) {
            let (client, message) = match &told {
                Told::Revoked(id) => (&id.client, format!("revoked {}", id.hold())),
                Told::Granted(id) => {
                    let value = holds.get(&id.hold());
                    let token = value.and_then(|value| value.splitn(4, ':').nth(3));
                    let token = token.map_or(String::new(), |token| format!(":{token}"));
                    (&id.client, format!("granted {}{token}", id.entry()))
                }
            };
            if self.inboxes.contains_key(client) {
                expected.push(message);
            }
        }
        expected.sort();
        assert_eq!(found, expected, "messages");
    }
}

/// One for each of those that are granted together; a reader's last token is left out.
fn without_time(message: &str) -> Vec<String> {
    match *message.split(' ').collect::<Vec<_>>() {
        ["granted", us, ref entries @ ..] => {
            assert!(us.parse::<u64>().unwrap() > 1_600_000_000_000_000);
            let granted = |entry: &&str| match entry.split_once("|s|") {
                Some((hold, rest)) => {
                    let rest = rest.split(':').next().unwrap_or_default();
                    format!("granted {hold}|s|{rest}")
                }
                None => format!("granted {entry}"),
            };
            entries.iter().map(granted).collect()
        }
        _ => vec![message.to_owned()],
    }
}

// The server is a cluster of one node, so that a script that strays to another slot fails as well.
//
// Red if owners are compared without the slash behind them, if a look of an owner that holds meanwhile does not
// enter, if a dead waiter is passed over but kept, and without `grow` in `put`.
#[test]
fn any_order_of_calls_does_what_the_model_says() {
    compare_with_the_model(Family::Lock);
}

// Red if a waiting writer is passed over by readers behind it (`break` where one does not fit in the grant block), if
// `again` lets a writer in beside its own reading, and if `put` of a reader shortens its lease.
#[test]
fn any_order_of_reading_and_writing_does_what_the_model_says() {
    compare_with_the_model(Family::Rw);
}

fn compare_with_the_model(family: Family) {
    let server = Server::builder().cluster().start().unwrap();
    // Set PROPTEST_CASES for more.
    let cases = std::env::var("PROPTEST_CASES").map_or(48, |cases| cases.parse().unwrap());
    let failure_persistence = None;
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence,
        ..Config::default()
    });
    let result = runner.run(&steps(family), |steps| {
        let mut run = Run::new(&server, family);
        for step in &steps {
            run.step(step);
            run.compare();
        }
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}
