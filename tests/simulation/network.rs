//! What is between clients and the server.

use std::collections::VecDeque;

use bytes::Bytes;
use fred::error::{Error as FredError, ErrorKind};
use lockyard_core::__private::{Arg, Event, Fault as Failure, Lane, Reply};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::faults::Fault;
use crate::freeze::Freezer;
use crate::world::Inner;

pub(crate) type Answer = oneshot::Sender<Result<Reply, Failure>>;

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
    pub(crate) arrives: [u64; 2],
    pub(crate) answers: [u64; 2],
    pub(crate) told: u64,
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

pub(crate) type Happening = Box<dyn FnOnce(&mut Inner, u64) + Send>;

pub(crate) enum Delivery {
    Command(Command, u64, Option<Answer>),
    Reply(usize, Lane, u64, Answer, Result<Reply, Failure>),
    Tell(usize, Event),
    /// Anything else that happens at a time.
    Happen(Happening),
}

impl Inner {
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

    pub(crate) fn deliver(&mut self, now: u64) {
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
}
