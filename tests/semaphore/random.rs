use lockyard::{Client, Error, Semaphore, SemaphorePermit};
use proptest::prelude::*;
use tokio::task::JoinHandle;

use crate::contract::site::{Site, try_at};
use crate::support::{SOON, ms, soon};

/// A call through one of the handles; permits and waiters are picked by number from those there are.
#[derive(Clone, Copy, Debug)]
enum Step {
    Try(usize, u32),
    /// For a moment, or for as long as it takes.
    TryFor(usize, u32),
    Wait(usize, u32),
    GiveUp(usize),
    Release(usize),
    /// Dropped, which releases a little later.
    Drop(usize),
    Split(usize, u32),
    Merge(usize, usize),
    Forget(usize),
    Add(usize, u32),
    SetLimit(usize, u32),
    ClearLimit(usize),
    Drain(usize),
}

/// How many permits each of the handles names.
const NAMED: [u32; 3] = [5, 5, 3];

/// Of which client a handle is.
fn of(handle: usize) -> usize {
    handle % 2
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let handle = || 0..NAMED.len();
    let some = || (handle(), 0..7u32);
    let at = || 0..6usize;
    let step = prop_oneof![
        4 => some().prop_map(|(handle, permits)| Step::Try(handle, permits)),
        2 => some().prop_map(|(handle, permits)| Step::TryFor(handle, permits)),
        5 => some().prop_map(|(handle, permits)| Step::Wait(handle, permits)),
        1 => at().prop_map(Step::GiveUp),
        5 => at().prop_map(Step::Release),
        2 => at().prop_map(Step::Drop),
        2 => (at(), 0..4u32).prop_map(|(at, permits)| Step::Split(at, permits)),
        2 => (at(), at()).prop_map(|(one, other)| Step::Merge(one, other)),
        1 => at().prop_map(Step::Forget),
        1 => (handle(), 0..3u32).prop_map(|(handle, permits)| Step::Add(handle, permits)),
        2 => some().prop_map(|(handle, permits)| Step::SetLimit(handle, permits)),
        1 => handle().prop_map(Step::ClearLimit),
        2 => handle().prop_map(Step::Drain),
    ];
    prop::collection::vec(step, 1..40)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Held,
    Busy,
    /// There are never as many.
    Refused,
}

/// The model: the limit, what is held together, and who waits for how many through which handle.
#[derive(Default)]
struct Model {
    stored: Option<u32>,
    held: Vec<u32>,
    queue: Vec<(usize, u32)>,
}

impl Model {
    fn limit(&self, handle: usize) -> u32 {
        self.stored.unwrap_or(NAMED[handle])
    }

    fn fits(&self, handle: usize, permits: u32) -> Answer {
        let (limit, held) = (self.limit(handle), self.held.iter().sum::<u32>());
        match () {
            () if permits == 0 || permits > limit => Answer::Refused,
            () if held + permits <= limit => Answer::Held,
            () => Answer::Busy,
        }
    }

    fn enter(&mut self, handle: usize, permits: u32) -> Answer {
        match self.fits(handle, permits) {
            Answer::Held if !self.queue.is_empty() => Answer::Busy,
            Answer::Held => {
                self.held.push(permits);
                Answer::Held
            }
            answer => answer,
        }
    }

    /// The next who need not wait any longer: its place, and why.
    ///
    /// Whoever asks for too many learns it as the first of its client.
    fn next(&self) -> Option<(usize, Answer)> {
        let mut waiters = self.queue.iter().enumerate();
        waiters.find_map(|(at, (handle, permits))| {
            let mut in_front = self.queue[..at].iter();
            match self.fits(*handle, *permits) {
                Answer::Held if at == 0 => Some((at, Answer::Held)),
                Answer::Refused if in_front.all(|(other, _)| of(*other) != of(*handle)) => {
                    Some((at, Answer::Refused))
                }
                _ => None,
            }
        })
    }
}

type Waiter = JoinHandle<Result<SemaphorePermit, Error>>;

/// The semaphore beside its model.
struct Run<'a> {
    site: &'a Site,
    clients: [Client; 2],
    handles: Vec<Semaphore>,
    model: Model,
    /// As in the model, with the handle that the limit of each goes by.
    permits: Vec<(usize, SemaphorePermit)>,
    waiters: Vec<Waiter>,
}

fn answer(result: &Result<Option<SemaphorePermit>, Error>) -> Answer {
    match result {
        Ok(Some(_)) => Answer::Held,
        Ok(None) => Answer::Busy,
        Err(Error::InvalidPermits { .. }) => Answer::Refused,
        Err(error) => panic!("{error:?}"),
    }
}

impl<'a> Run<'a> {
    async fn new(site: &'a Site) -> Self {
        let clients = [site.client().await, site.client().await];
        let handles = NAMED.iter().enumerate();
        let handles = handles.map(|(at, named)| clients[of(at)].semaphore("x", *named));
        Self {
            site,
            handles: handles.collect(),
            clients,
            model: Model::default(),
            permits: Vec::new(),
            waiters: Vec::new(),
        }
    }

    fn came(
        &mut self,
        handle: usize,
        expected: Answer,
        result: Result<Option<SemaphorePermit>, Error>,
    ) {
        assert_eq!(answer(&result), expected);
        if let Ok(Some(permit)) = result {
            self.permits.push((handle, permit));
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Try(handle, permits) => {
                let expected = self.model.enter(handle, permits);
                let result = self.handles[handle].try_acquire_many(permits).await;
                self.came(handle, expected, result);
            }
            Step::TryFor(handle, permits) => {
                let expected = self.model.enter(handle, permits);
                let semaphore = &self.handles[handle];
                let result = semaphore.try_acquire_many_for(permits, ms(20)).await;
                self.came(handle, expected, result);
            }
            Step::Wait(handle, permits) => self.wait(handle, permits).await,
            Step::GiveUp(at) if at < self.waiters.len() => {
                self.model.queue.remove(at);
                self.waiters.remove(at).abort();
            }
            Step::Release(at) if at < self.permits.len() => {
                self.model.held.remove(at);
                self.permits.remove(at).1.release().await.unwrap();
            }
            Step::Drop(at) if at < self.permits.len() => {
                self.model.held.remove(at);
                drop(self.permits.remove(at));
            }
            Step::Split(at, permits) if at < self.permits.len() => self.split(at, permits).await,
            Step::Merge(one, other) if one < other && other < self.permits.len() => {
                self.merge(one, other).await;
            }
            Step::Forget(at) if at < self.permits.len() => {
                let (handle, permit) = self.permits.remove(at);
                let permits = self.model.held.remove(at);
                let left = self.model.limit(handle).saturating_sub(permits);
                self.model.stored = Some(left);
                permit.forget().await.unwrap();
            }
            Step::Add(handle, permits) => {
                let more = self.model.limit(handle) + permits;
                self.model.stored = Some(more);
                let limit = self.handles[handle].add_permits(permits).await.unwrap();
                assert_eq!(limit, more);
            }
            Step::SetLimit(handle, limit) => {
                self.model.stored = Some(limit);
                self.handles[handle].set_limit(limit).await.unwrap();
            }
            Step::ClearLimit(handle) => {
                self.model.stored = None;
                self.handles[handle].clear_limit().await.unwrap();
            }
            Step::Drain(handle) => {
                let held = self.model.held.iter().sum();
                let free = self.model.limit(handle).saturating_sub(held);
                let expected = match free {
                    0 => Answer::Busy,
                    free => self.model.enter(handle, free),
                };
                let result = self.handles[handle].drain().await;
                self.came(handle, expected, result);
            }
            // Of one that is not there.
            _ => {}
        }
        self.serve().await;
        self.compare().await;
    }

    async fn wait(&mut self, handle: usize, permits: u32) {
        let semaphore = self.handles[handle].clone();
        match self.model.enter(handle, permits) {
            Answer::Busy => {
                self.model.queue.push((handle, permits));
                let waiter = async move { semaphore.acquire_many(permits).await };
                self.waiters.push(tokio::spawn(waiter));
            }
            expected => {
                let result = soon(semaphore.acquire_many(permits)).await;
                self.came(handle, expected, result.map(Some));
            }
        }
    }

    /// A part that would have none of the permits costs all of them.
    async fn split(&mut self, at: usize, permits: u32) {
        let held = self.model.held.remove(at);
        let (handle, permit) = self.permits.remove(at);
        match permit.split(permits).await {
            Ok((one, other)) => {
                assert_eq!((one.permits(), other.permits()), (permits, held - permits));
                self.model.held.extend([permits, held - permits]);
                self.permits.extend([(handle, one), (handle, other)]);
            }
            Err(error) => {
                assert!(matches!(error, Error::InvalidPermits { .. }), "{error:?}");
                assert!(permits == 0 || permits >= held);
            }
        }
    }

    /// What is of two clients is refused and released.
    async fn merge(&mut self, one: usize, other: usize) {
        let (others, (others_handle, other)) =
            (self.model.held.remove(other), self.permits.remove(other));
        let (permits, (handle, permit)) = (self.model.held.remove(one), self.permits.remove(one));
        match permit.merge(other).await {
            Ok(merged) => {
                assert_eq!(merged.permits(), permits + others);
                self.model.held.push(permits + others);
                self.permits.push((handle, merged));
            }
            Err(error) => {
                assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
                assert_ne!(of(others_handle), of(handle));
            }
        }
    }

    /// Waits until all those know that need not wait any longer.
    async fn serve(&mut self) {
        while let Some((at, expected)) = self.model.next() {
            let (handle, permits) = self.model.queue.remove(at);
            if expected == Answer::Held {
                self.model.held.push(permits);
            }
            let result = soon(self.waiters.remove(at)).await.unwrap();
            self.came(handle, expected, result.map(Some));
        }
    }

    /// Waits until the server shows just what the model has.
    async fn compare(&mut self) {
        let sorted = |mut permits: Vec<u32>| {
            permits.sort();
            permits
        };
        let held = sorted(self.model.held.clone());
        lockyard_testkit::eventually_async(SOON, async || {
            let info = self.handles[0].inspect().await.unwrap();
            let permits = info.permits.iter().map(|permit| permit.permits);
            let waiters = info.waiters.iter().map(|waiter| waiter.permits);
            let queue = self.model.queue.iter().enumerate();
            let waiting = queue.filter(|(at, _)| !self.is_refused(*at));
            let waiting = waiting.map(|(_, (_, permits))| *permits);
            info.held == u64::from(held.iter().sum::<u32>())
                && sorted(permits.collect()) == held
                && waiters.collect::<Vec<u32>>() == waiting.collect::<Vec<u32>>()
        })
        .await;
        for at in (0..self.waiters.len()).rev() {
            if self.is_refused(at) {
                self.model.queue.remove(at);
                let error = self.waiters.remove(at).await.unwrap().unwrap_err();
                assert!(matches!(error, Error::InvalidPermits { .. }), "{error:?}");
            }
        }
        for (at, handle) in self.handles.iter().enumerate() {
            assert_eq!(handle.limit().await.unwrap(), self.model.limit(at));
        }
    }

    /// Whether a waiter that asks for more than there are has learned of it already: it need not have yet.
    fn is_refused(&self, at: usize) -> bool {
        let (handle, permits) = self.model.queue[at];
        self.waiters[at].is_finished() && permits > self.model.limit(handle)
    }

    async fn end(mut self) {
        self.handles[0].clear_limit().await.unwrap();
        self.waiters.drain(..).for_each(|waiter| waiter.abort());
        self.permits.clear();
        for client in &self.clients {
            soon(client.shutdown()).await.unwrap();
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

// Red if a newcomer does not see the queue (`enter` in acquire.lua).
#[test]
fn any_order_of_calls_does_what_the_model_says() {
    // Set PROPTEST_CASES for more.
    let cases = std::env::var("PROPTEST_CASES").map_or(256, |cases| cases.parse().unwrap());
    compare_with_the_model(cases, Site::memory);
}

#[test]
fn any_order_of_calls_does_on_a_server_what_the_model_says() {
    compare_with_the_model(16, Site::server);
}
