use std::collections::BTreeSet;

use lockyard::{Client, Error, Owner, RwLockReadGuard, RwLockWriteGuard};
use proptest::prelude::*;

use crate::contract::site::{Site, try_at};

/// A call of an owner, through one of two clients; guards are picked by number from those there are.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read(usize, usize),
    Write(usize, usize),
    ReenterRead(usize, usize),
    ReenterWrite(usize, usize),
    Upgrade(usize),
    Downgrade(usize),
    Release(usize),
    /// Dropped, which releases a little later.
    Drop(usize),
    Force,
}

const OWNERS: usize = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..OWNERS, 0..2usize).prop_map(|(owner, client)| Step::Read(owner, client)),
        4 => (0..OWNERS, 0..2usize).prop_map(|(owner, client)| Step::Write(owner, client)),
        1 => (0..OWNERS, 0..2usize).prop_map(|(owner, client)| Step::ReenterRead(owner, client)),
        1 => (0..OWNERS, 0..2usize).prop_map(|(owner, client)| Step::ReenterWrite(owner, client)),
        3 => (0..9usize).prop_map(Step::Upgrade),
        2 => (0..9usize).prop_map(Step::Downgrade),
        4 => (0..9usize).prop_map(Step::Release),
        2 => (0..9usize).prop_map(Step::Drop),
        1 => Just(Step::Force),
    ];
    prop::collection::vec(step, 1..40)
}

/// The model: who reads and who writes, once for each guard.
#[derive(Default)]
struct Model {
    readers: Vec<usize>,
    writers: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Held,
    Busy,
    Deadlock,
}

impl Model {
    fn read(&self, owner: usize) -> Answer {
        let others_write = self.writers.iter().any(|writer| *writer != owner);
        if others_write {
            Answer::Busy
        } else {
            Answer::Held
        }
    }

    fn write(&self, owner: usize, upgrades: bool) -> Answer {
        let mut all = self.readers.iter().chain(&self.writers);
        let (writes, reads) = (self.writers.contains(&owner), self.readers.contains(&owner));
        if writes || !reads && all.next().is_none() {
            return Answer::Held;
        }
        let alone = all.all(|other| *other == owner);
        match (reads, upgrades) {
            (true, true) if alone => Answer::Held,
            (true, false) => Answer::Deadlock,
            _ => Answer::Busy,
        }
    }
}

enum Guard {
    Read(RwLockReadGuard),
    Write(RwLockWriteGuard),
}

/// The lock beside its model.
struct Run<'a> {
    site: &'a Site,
    clients: [Client; 2],
    owners: Vec<Owner>,
    guards: Vec<(usize, Guard)>,
}

impl<'a> Run<'a> {
    async fn new(site: &'a Site) -> Self {
        let clients = [site.client().await, site.client().await];
        let owners = (0..OWNERS).map(|owner| clients[owner % 2].owner());
        Self {
            site,
            owners: owners.collect(),
            clients,
            guards: Vec::new(),
        }
    }

    fn model(&self) -> Model {
        let mut model = Model::default();
        for (owner, guard) in &self.guards {
            match guard {
                Guard::Read(_) => model.readers.push(*owner),
                Guard::Write(_) => model.writers.push(*owner),
            }
        }
        model
    }

    fn lock(&self, owner: usize, client: usize) -> lockyard::RwLock {
        let lock = self.clients[client].rw_lock("x");
        lock.with_owner(&self.owners[owner])
    }

    fn keep(&mut self, owner: usize, expected: Answer, found: Result<Option<Guard>, Error>) {
        let answer = match found {
            Ok(Some(guard)) => {
                self.guards.push((owner, guard));
                Answer::Held
            }
            Ok(None) => Answer::Busy,
            Err(Error::WouldDeadlock { .. }) => Answer::Deadlock,
            Err(error) => panic!("{error:?}"),
        };
        assert_eq!(answer, expected);
    }

    async fn step(&mut self, step: Step) {
        let model = self.model();
        let read = |guard: Option<RwLockReadGuard>| guard.map(Guard::Read);
        let write = |guard: Option<RwLockWriteGuard>| guard.map(Guard::Write);
        match step {
            Step::Read(owner, client) => {
                let found = self.lock(owner, client).try_read().await;
                self.keep(owner, model.read(owner), found.map(read));
            }
            Step::Write(owner, client) => {
                let found = self.lock(owner, client).try_write().await;
                self.keep(owner, model.write(owner, false), found.map(write));
            }
            Step::ReenterRead(owner, client) => {
                let holds = model.readers.contains(&owner) || model.writers.contains(&owner);
                let expected = if holds { Answer::Held } else { Answer::Busy };
                let lock = self.clients[client].rw_lock("x");
                let found = lock.reenter_read(&self.owners[owner]).await;
                self.keep(owner, expected, found.map(read));
            }
            Step::ReenterWrite(owner, client) => {
                let writes = model.writers.contains(&owner);
                let expected = match model.write(owner, false) {
                    Answer::Held if !writes => Answer::Busy,
                    expected => expected,
                };
                let lock = self.clients[client].rw_lock("x");
                let found = lock.reenter_write(&self.owners[owner]).await;
                self.keep(owner, expected, found.map(write));
            }
            Step::Upgrade(at) => {
                if let Some((owner, Guard::Read(guard))) = self.guards.get(at) {
                    let (owner, found) = (*owner, guard.try_upgrade().await);
                    self.keep(owner, model.write(owner, true), found.map(write));
                }
            }
            Step::Downgrade(at) => {
                if let Some((_, Guard::Write(_))) = self.guards.get(at)
                    && let (owner, Guard::Write(guard)) = self.guards.remove(at)
                {
                    let guard = guard.downgrade().await.unwrap();
                    self.guards.push((owner, Guard::Read(guard)));
                }
            }
            Step::Release(at) if at < self.guards.len() => match self.guards.remove(at).1 {
                Guard::Read(guard) => guard.release().await.unwrap(),
                Guard::Write(guard) => guard.release().await.unwrap(),
            },
            Step::Drop(at) if at < self.guards.len() => drop(self.guards.remove(at)),
            Step::Release(_) | Step::Drop(_) => {}
            Step::Force => {
                let forced = self.clients[0].rw_lock("x").force_release().await.unwrap();
                assert_eq!(forced, !self.guards.is_empty());
                for (_, guard) in self.guards.drain(..) {
                    match guard {
                        Guard::Read(guard) => guard.lost().await,
                        Guard::Write(guard) => guard.lost().await,
                    }
                }
            }
        }
        self.compare().await;
    }

    /// Waits until the server shows just those who read and write by the model.
    async fn compare(&self) {
        let model = self.model();
        let named = |who: &[usize]| -> BTreeSet<String> {
            who.iter().map(|at| self.owners[*at].to_string()).collect()
        };
        let expected = (named(&model.readers), named(&model.writers));
        let lock = self.clients[0].rw_lock("x");
        lockyard_testkit::eventually_async(crate::support::SOON, async || {
            let info = lock.inspect().await.unwrap();
            let readers = info.readers.iter().map(|reader| reader.owner.to_string());
            let writers = info.writers.iter().map(|writer| writer.owner.to_string());
            (readers.collect(), writers.collect()) == expected
        })
        .await;
    }

    async fn end(mut self) {
        self.guards.clear();
        for client in &self.clients {
            client.shutdown().await.unwrap();
        }
        assert_eq!(self.site.keys(), Vec::<String>::new());
    }
}

fn compare_with_the_model(cases: u32, site: fn() -> Site) {
    try_at(cases, site, &steps(), &async |site: &Site, steps| {
        let mut run = Run::new(site).await;
        for step in steps {
            run.step(step).await;
        }
        run.end().await;
    });
}

// Red if `again` in rw_again.lua lets a reader write beside others, or a writer not read; and if a nested guard's
// release ends the hold of the outer (`part` in core's nests.rs).
#[test]
fn any_order_of_calls_does_what_the_model_says() {
    // Set PROPTEST_CASES for more.
    let cases = std::env::var("PROPTEST_CASES").map_or(64, |cases| cases.parse().unwrap());
    compare_with_the_model(cases, Site::memory);
}

#[test]
fn any_order_of_calls_does_on_a_server_what_the_model_says() {
    compare_with_the_model(8, Site::server);
}
