//! The server, its clock, and the network before it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use fred::error::{Error as FredError, ErrorKind};
use lockyard_core::__private::{Arg, Call, Event, Fault as Failure, Lane, Reply, Script};
use lockyard_memory::__private::Store;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::faults::Fault;
use crate::freeze::Freezer;
use crate::law::{Breach, Law};
use crate::laws::{Laws, excuse, key};
use crate::mutants::Texts;
use crate::plan::Plan;
use crate::trace::Line;

/// The server's time at the beginning, in µs.
const EPOCH: i64 = 1_735_689_600_000_000;

static DELETE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local holds = redis.call('HGETALL', KEYS[1])
        for i = 1, #holds, 2 do redis.call('HDEL', KEYS[1], holds[i]) end",
    )
});

pub(crate) type Answer = oneshot::Sender<Result<Reply, Failure>>;

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
    due: BTreeMap<(u64, u64), Delivery>,
    number: u64,
    pub(crate) links: Vec<Link>,
    pub(crate) faults: BTreeSet<Fault>,
    pub(crate) laws: Laws,
    pub(crate) breach: Option<Breach>,
    pub(crate) steps: u64,
    texts: Texts,
    trace: Option<Vec<Line>>,
}

/// One client's connections.
pub(crate) struct Link {
    pub(crate) freezer: Freezer,
    pub(crate) events: UnboundedSender<Event>,
    pub(crate) channel: Bytes,
    /// The client's name in hold ids.
    pub(crate) name: String,
    /// Whether the present subscription hears.
    pub(crate) hears: bool,
    /// When the last command of each lane arrives, and the last reply: a connection keeps its order.
    arrives: [u64; 2],
    answers: [u64; 2],
    told: u64,
    /// Which connection each lane has.
    generation: [u64; 2],
    /// What came while the client was frozen.
    held: VecDeque<Delivery>,
}

impl Link {
    pub(crate) fn new(freezer: Freezer, events: UnboundedSender<Event>, channel: String) -> Self {
        let name = channel.rsplit(':').next().unwrap_or_default().to_owned();
        Self {
            freezer,
            events,
            name,
            channel: channel.into(),
            hears: true,
            arrives: [0; 2],
            answers: [0; 2],
            told: 0,
            generation: [0; 2],
            held: VecDeque::new(),
        }
    }
}

/// A command as it travels.
#[derive(Clone)]
pub(crate) struct Command {
    pub(crate) client: usize,
    pub(crate) lane: Lane,
    /// `None` asks for the time.
    pub(crate) script: Option<&'static str>,
    pub(crate) keys: Vec<Bytes>,
    pub(crate) args: Vec<Arg>,
}

type Happening = Box<dyn FnOnce(&mut Inner, u64) + Send>;

pub(crate) enum Delivery {
    Command(Command, u64, Option<Answer>),
    Reply(usize, Lane, u64, Answer, Result<Reply, Failure>),
    Tell(usize, Event),
    /// Anything else that happens at a time.
    Happen(Happening),
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
                laws: Laws::default(),
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

    fn delay(&mut self) -> u64 {
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

    /// A client sends.
    pub(crate) fn send(&mut self, now: u64, command: Command, answer: Answer) {
        let (client, lane) = (command.client, command.lane as usize);
        if self.links[client].freezer.is_dead() {
            return;
        }
        let lost = self.strikes(Fault::LostCommand, 8);
        let at = (now + self.delay()).max(self.links[client].arrives[lane]);
        self.links[client].arrives[lane] = at;
        if self.strikes(Fault::Twice, 20) {
            let again = at + self.rng.u64(0..1500);
            self.at(again, Delivery::Command(command.clone(), u64::MAX, None));
        }
        let generation = self.links[client].generation[lane];
        if !lost {
            self.at(at, Delivery::Command(command, generation, Some(answer)));
        }
    }

    fn deliver(&mut self, now: u64) {
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            let delivery = entry.remove();
            self.carry_out(now, delivery);
            self.check(now);
        }
    }

    fn carry_out(&mut self, now: u64, delivery: Delivery) {
        match delivery {
            Delivery::Command(command, generation, answer) => {
                self.execute(now, &command, generation, answer);
            }
            Delivery::Happen(what) => what(self, now),
            Delivery::Reply(client, ..) | Delivery::Tell(client, _)
                if self.links[client].freezer.is_frozen() =>
            {
                self.links[client].held.push_back(delivery);
            }
            Delivery::Reply(client, lane, generation, answer, reply) => {
                if self.links[client].generation[lane as usize] == generation {
                    // Whoever asked may be gone.
                    let _ = answer.send(reply);
                }
            }
            Delivery::Tell(client, event) => {
                self.note(now, client, || format!("hears {event:?}"));
                let _ = self.links[client].events.send(event);
            }
        }
    }

    fn execute(&mut self, now: u64, command: &Command, generation: u64, answer: Option<Answer>) {
        let us = self.server_us(now);
        let reply = match command.script {
            None => Ok(Reply::Number(us as i64)),
            Some(text) => self.run_script(now, us, text, command),
        };
        let Some(answer) = answer else { return };
        let (client, lane) = (command.client, command.lane);
        if self.strikes(Fault::LostReply, 8) {
            return;
        }
        let at = (now + self.delay()).max(self.links[client].answers[lane as usize]);
        self.links[client].answers[lane as usize] = at;
        self.at(at, Delivery::Reply(client, lane, generation, answer, reply));
    }

    fn run_script(
        &mut self,
        now: u64,
        us: u64,
        text: &'static str,
        command: &Command,
    ) -> Result<Reply, Failure> {
        let name = Texts::name(text);
        let script: Arc<Script> = self.texts.script(text);
        let call = Call {
            script: &script,
            keys: &command.keys,
            args: &command.args,
        };
        let (reply, messages) = self.store.run(call, us);
        let forced = |arg: &Arg| matches!(arg, Arg::Text(text) if text.starts_with(b"!"));
        if name == "release" && command.args.iter().any(forced) {
            let lock = String::from_utf8_lossy(&command.keys[0]);
            self.laws.excuse(&lock, now, now + excuse());
        }

        self.note(now, format!("{} server", command.client), || {
            format!("{name} {:?} -> {reply:?}", command.args)
        });
        self.look(now);
        for message in messages {
            let text = String::from_utf8_lossy(&message.text);
            if let Some(entry) = text
                .strip_prefix("granted ")
                .and_then(|rest| rest.split(' ').nth(1))
            {
                let hold = entry.split('|').next().unwrap_or_default();
                self.laws.granted(hold, message.receivers, now);
            }
            let links = self.links.iter();
            let to = links
                .enumerate()
                .find(|(_, link)| link.channel == message.channel);
            let Some((client, hears)) = to.map(|(client, link)| (client, link.hears)) else {
                continue;
            };
            let lost = self.strikes(Fault::LostMessage, 20);
            if hears && !lost {
                let at = (now + self.delay()).max(self.links[client].told);
                self.links[client].told = at;
                self.at(at, Delivery::Tell(client, Event::Message(message.text)));
            }
        }
        reply.map_err(Failure::Refused)
    }

    /// Removes a lock's hash, as an operator may.
    pub(crate) fn delete(&mut self, now: u64, lock: &str) {
        let us = self.server_us(now);
        let call = Call {
            script: &DELETE,
            keys: &[key(lock).into()],
            args: &[],
        };
        // The interpreter cannot refuse this script.
        let _ = self.store.run(call, us);
        self.look(now);
    }

    /// Sees what the store holds.
    pub(crate) fn look(&mut self, now: u64) {
        let us = self.server_us(now);
        let entries = self.store.dump(us);
        self.laws.observe(&entries, us / 1000, now);
    }

    /// What came while a client was frozen comes now.
    pub(crate) fn thaw(&mut self, now: u64, client: usize) {
        let link = &mut self.links[client];
        link.freezer.thaw();
        self.laws.frozen.remove(&link.name);

        for delivery in std::mem::take(&mut link.held) {
            self.at(now, delivery);
        }
    }

    /// A lane gets a new connection: what is under way on the old one arrives or not, and is not answered.
    pub(crate) fn cut(&mut self, now: u64, client: usize, lane: Lane) {
        let link = &mut self.links[client];
        link.generation[lane as usize] += 1;
        let broken = || FredError::new(ErrorKind::IO, "the connection has ended");
        let of_lane = |delivery: &Delivery| match delivery {
            Delivery::Command(command, _, Some(_)) => {
                command.client == client && command.lane == lane
            }
            Delivery::Reply(other, its, ..) => *other == client && *its == lane,
            _ => false,
        };
        let cut: Vec<(u64, u64)> = self
            .due
            .iter()
            .filter(|(_, delivery)| of_lane(delivery))
            .map(|(at, _)| *at)
            .collect();
        for at in cut {
            match self.due.remove(&at) {
                Some(Delivery::Command(command, generation, Some(answer))) => {
                    let _ = answer.send(Err(Failure::Unanswered(broken())));
                    if self.rng.bool() {
                        self.due
                            .insert(at, Delivery::Command(command, generation, None));
                    }
                }
                Some(Delivery::Reply(_, _, _, answer, _)) => {
                    let _ = answer.send(Err(Failure::Unanswered(broken())));
                }
                _ => {}
            }
        }
        let at = now + self.delay();
        self.at(at, Delivery::Tell(client, Event::Reconnected));
    }

    /// The inbox gets a new connection; the server notices the end of the old one later.
    pub(crate) fn cut_inbox(&mut self, now: u64, client: usize) {
        if self.links[client].freezer.is_dead() {
            return;
        }
        self.links[client].hears = false;
        self.at(now, Delivery::Tell(client, Event::InboxDown));
        let gone = now + self.rng.u64(0..800);
        self.happen(gone, move |inner, _| {
            let channel = inner.links[client].channel.clone();
            inner.store.unsubscribe(&channel);
        });
        let up = now + 1 + self.delay();
        self.happen(up, move |inner, now| {
            let link = &mut inner.links[client];
            if link.freezer.is_dead() {
                return;
            }
            link.hears = true;
            let channel = link.channel.clone();
            inner.store.subscribe(&channel);
            let confirmed = now + inner.delay();
            inner.at(confirmed, Delivery::Tell(client, Event::InboxUp));
        });
    }

    fn check(&mut self, now: u64) {
        let ms = self.server_us(now) / 1000;
        if let Some(breach) = self.laws.check(ms, now) {
            self.breach.get_or_insert(breach);
        }
    }
}
