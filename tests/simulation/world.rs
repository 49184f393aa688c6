//! The server, its clock, and the network before it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockyard_memory::__private::Store;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::faults::Fault;
use crate::law::{Breach, Law};
use crate::laws::Laws;
use crate::mutants::Texts;
use crate::network::{Delivery, Link};
use crate::plan::Plan;
use crate::trace::Line;

/// The server's time at the beginning, in µs.
const EPOCH: i64 = 1_735_689_600_000_000;

pub(crate) struct World {
    started: Instant,
    inner: Mutex<Inner>,
    /// There is something new on the way.
    news: Notify,
    /// Something is broken.
    pub(crate) broken: Notify,
}

pub(crate) struct Inner {
    pub(crate) rng: fastrand::Rng,
    pub(crate) store: Store,
    /// How far the server's clock has been stepped, in µs.
    pub(crate) stepped: i64,
    /// What is under way, by ms and number.
    pub(crate) due: BTreeMap<(u64, u64), Delivery>,
    number: u64,
    pub(crate) links: Vec<Link>,
    pub(crate) faults: BTreeSet<Fault>,
    pub(crate) laws: Laws,
    pub(crate) breach: Option<Breach>,
    pub(crate) steps: u64,
    pub(crate) texts: Texts,
    trace: Option<Vec<Line>>,
}

impl World {
    pub(crate) fn new(plan: &Plan, traced: bool) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            inner: Mutex::new(Inner {
                rng: fastrand::Rng::with_seed(plan.seed),
                store: Store::new(),
                stepped: 0,
                due: BTreeMap::new(),
                number: 0,
                links: Vec::new(),
                faults: plan.faults.clone(),
                laws: Laws::new(plan),
                breach: None,
                steps: 0,
                texts: Texts::new(plan.mutant.as_ref()),
                trace: traced.then(Vec::new),
            }),
            news: Notify::new(),
            broken: Notify::new(),
        })
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn ms(&self) -> u64 {
        self.elapsed().as_millis() as u64
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Does something to the world now, and sees whether all laws still hold.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Inner, u64) -> T) -> T {
        let now = self.ms();
        let result = {
            let mut inner = self.inner();
            let result = work(&mut inner, now);
            inner.check(now);
            if inner.breach.is_some() {
                self.broken.notify_one();
            }
            result
        };
        self.news.notify_one();
        result
    }

    /// Carries what is due, for ever.
    pub(crate) async fn carry(&self) {
        loop {
            let next = self.inner().due.first_key_value().map(|((at, _), _)| *at);
            let until = self.started + Duration::from_millis(next.unwrap_or(u64::MAX / 2));
            tokio::select! {
                biased;
                () = self.news.notified() => {}
                () = tokio::time::sleep_until(until) => {
                    let now = self.ms();
                    self.with(|inner, _| inner.deliver(now));
                }
            }
        }
    }
}

impl Inner {
    pub(crate) fn note(&mut self, at: u64, who: impl fmt::Display, what: impl FnOnce() -> String) {
        self.steps += 1;
        if let Some(trace) = &mut self.trace {
            let mut what = what();
            for (number, link) in self.links.iter().enumerate() {
                what = what.replace(&link.name, &format!("c{number}"));
            }
            let who = who.to_string();
            trace.push(Line { at, who, what });
        }
    }

    pub(crate) fn take_trace(&mut self) -> Vec<Line> {
        self.trace.take().unwrap_or_default()
    }

    pub(crate) fn break_law(&mut self, law: Law, how: String) {
        self.breach.get_or_insert(Breach { law, how });
    }

    /// Whether a fault strikes that does so in so many of 1000 cases.
    pub(crate) fn strikes(&mut self, fault: Fault, of_1000: u32) -> bool {
        self.faults.contains(&fault) && self.rng.u32(0..1000) < of_1000
    }

    pub(crate) fn delay(&mut self) -> u64 {
        if self.strikes(Fault::Slow, 15) {
            return self.rng.u64(20..1000);
        }
        self.rng.u64(0..3)
    }

    pub(crate) fn server_us(&self, now: u64) -> u64 {
        (EPOCH + now as i64 * 1000 + self.stepped) as u64
    }

    pub(crate) fn at(&mut self, at: u64, delivery: Delivery) {
        self.number += 1;
        self.due.insert((at, self.number), delivery);
    }

    pub(crate) fn happen(&mut self, at: u64, what: impl FnOnce(&mut Self, u64) + Send + 'static) {
        self.at(at, Delivery::Happen(Box::new(what)));
    }

    pub(crate) fn check(&mut self, now: u64) {
        let ms = self.server_us(now) / 1000;
        if let Some(breach) = self.laws.check(ms, now) {
            self.breach.get_or_insert(breach);
        }
    }
}
