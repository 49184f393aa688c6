//! Faults at random, of the kinds that a line, a server and a machine have.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use lockyard_testkit::{Action, Direction};

use super::crew::{Crew, PROCESSES};
use super::recorder::now;
use crate::history::Nanos;

/// The time between two faults, on average.
const PAUSE: Duration = Duration::from_millis(250);

/// What is to be done later, for instance to end a fault.
type Deed = Box<dyn FnOnce(&mut Crew)>;

/// A source of faults.
pub(crate) struct Faults {
    rng: Rng,
    agenda: BTreeMap<Instant, Deed>,
    /// When which kind struck, and which place.
    pub(crate) struck: Vec<(Nanos, &'static str, usize)>,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            agenda: BTreeMap::new(),
            struck: Vec::new(),
        }
    }

    /// Strikes a crew again and again for a time, and then ends all faults.
    pub(crate) fn strike(&mut self, crew: &mut Crew, time: Duration) {
        let end = Instant::now() + time;
        let mut next = Instant::now();
        while Instant::now() < end {
            if Instant::now() >= next {
                self.once(crew);
                next += PAUSE.mul_f64(self.rng.f64() * 2.0);
            }
            while let Some(entry) = self.agenda.first_entry()
                && *entry.key() <= Instant::now()
            {
                entry.remove()(crew);
            }
            thread::sleep(Duration::from_millis(2));
        }
        while let Some((_, deed)) = self.agenda.pop_first() {
            deed(crew);
        }
    }

    /// How often each kind struck.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u32> {
        let mut counts = BTreeMap::new();
        for (_, name, _) in &self.struck {
            *counts.entry(*name).or_default() += 1;
        }
        counts
    }

    fn later(&mut self, delay: Duration, deed: impl FnOnce(&mut Crew) + 'static) {
        let mut when = Instant::now() + delay;
        while self.agenda.contains_key(&when) {
            when += Duration::from_nanos(1);
        }
        self.agenda.insert(when, Box::new(deed));
    }

    fn millis(&mut self, from: u64, until: u64) -> Duration {
        Duration::from_millis(self.rng.u64(from..until))
    }

    fn once(&mut self, crew: &mut Crew) {
        type Fault = fn(&mut Faults, &mut Crew, usize);
        const FAULTS: [(&str, Fault, u32); 13] = [
            ("killed", Faults::kill, 2),
            ("paused", Faults::pause, 3),
            ("slow, then paused", Faults::slow_and_pause, 2),
            ("slow, then killed", Faults::slow_and_kill, 1),
            ("slow line", Faults::slow, 2),
            ("reply swallowed", Faults::swallow, 2),
            ("cut before the reply", Faults::cut_before_reply, 2),
            ("cut", Faults::cut, 2),
            ("refused", Faults::refuse, 1),
            ("scripts flushed", Faults::flush, 1),
            ("messages dropped", Faults::drop_messages, 2),
            ("commands sent again", Faults::resend, 3),
            ("commands held back", Faults::hold, 3),
        ];
        let all: u32 = FAULTS.iter().map(|(_, _, weight)| weight).sum();
        let mut drawn = self.rng.u32(..all);
        let fault = FAULTS.iter().find(|(_, _, weight)| {
            let chosen = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            chosen
        });
        let (name, fault, _) = fault.expect("one of all is drawn");
        let place = self.rng.usize(..PROCESSES);
        self.struck.push((now(), name, place));
        fault(self, crew, place);
    }

    fn kill(&mut self, crew: &mut Crew, place: usize) {
        crew.kill(place);
        let delay = self.millis(0, 300);
        self.later(delay, move |crew| crew.man(place));
    }

    /// Often beyond the longest lease.
    fn pause(&mut self, crew: &mut Crew, place: usize) {
        let process = crew.pause(place);
        let delay = self.millis(50, 1600);
        self.later(delay, move |crew| crew.resume(place, process));
    }

    /// Replies take long, so a holder could think that its lease began later than it did; and nothing renews it.
    fn slow_and_pause(&mut self, crew: &mut Crew, place: usize) {
        self.slow_replies(crew, place);
        let (delay, pause) = (self.millis(200, 600), self.millis(1000, 1600));
        self.later(delay, move |crew| {
            crew.pause(place);
        });
        self.later(delay + pause, move |crew| {
            crew.resume(place, crew.places[place].process);
        });
    }

    fn slow_and_kill(&mut self, crew: &mut Crew, place: usize) {
        self.slow_replies(crew, place);
        let delay = self.millis(200, 600);
        self.later(delay, move |crew| crew.kill(place));
        self.later(delay * 2, move |crew| crew.man(place));
    }

    fn slow_replies(&mut self, crew: &mut Crew, place: usize) {
        let (delay, length) = (self.millis(30, 150), self.millis(700, 900));
        crew.places[place].line.delay(Direction::ToClient, delay);
        self.later(length, move |crew| {
            crew.places[place]
                .line
                .delay(Direction::ToClient, Duration::ZERO)
        });
    }

    fn slow(&mut self, crew: &mut Crew, place: usize) {
        let direction = self.direction();
        let (delay, length) = (self.millis(1, 100), self.millis(100, 1000));
        crew.places[place].line.delay(direction, delay);
        self.later(length, move |crew| {
            crew.places[place].line.delay(direction, Duration::ZERO)
        });
    }

    /// The connection stays, but says nothing any more: whoever has it must find out and make another.
    fn swallow(&mut self, crew: &mut Crew, place: usize) {
        let rule = crew.places[place]
            .line
            .once(is_script, Action::SwallowReply);
        let delay = self.millis(200, 1500);
        self.later(delay, move |_| rule.remove());
    }

    fn cut_before_reply(&mut self, crew: &mut Crew, place: usize) {
        let n = self.rng.u64(1..4);
        let rule = crew.places[place]
            .line
            .times(n, is_script, Action::CutBeforeReply);
        let delay = self.millis(100, 1000);
        self.later(delay, move |_| rule.remove());
    }

    fn cut(&mut self, crew: &mut Crew, place: usize) {
        let line = &crew.places[place].line;
        match self.rng.u8(..4) {
            0 => drop(crew.server.kill_clients("pubsub")),
            1 => drop(crew.server.kill_clients("normal")),
            _ => line.cut(),
        }
    }

    fn refuse(&mut self, crew: &mut Crew, place: usize) {
        let line = &crew.places[place].line;
        line.refuse();
        line.cut();
        let delay = self.millis(50, 700);
        self.later(delay, move |crew| crew.places[place].line.accept().unwrap());
    }

    fn flush(_: &mut Self, crew: &mut Crew, _: usize) {
        crew.server.flush_scripts().unwrap();
    }

    fn drop_messages(&mut self, crew: &mut Crew, place: usize) {
        crew.places[place].line.drop_all_messages();
        let delay = self.millis(50, 800);
        self.later(delay, move |crew| crew.places[place].line.drop_messages(0));
    }

    /// Copies arrive a second time: at once, or when newer commands have passed, or when they are stale.
    fn resend(&mut self, crew: &mut Crew, place: usize) {
        let n = self.rng.u64(1..20);
        let rule = crew.places[place].line.times(n, is_script, Action::Copy);
        let delay = self.millis(10, 1200);
        self.later(delay, move |crew| {
            rule.remove();
            crew.places[place].line.resend_copies().unwrap();
        });
    }

    /// All of a line, or what comes after one command on its connection; the commands arrive late, and the client may
    /// have given them up meanwhile.
    fn hold(&mut self, crew: &mut Crew, place: usize) {
        let line = &crew.places[place].line;
        let delay = self.millis(50, 1000);
        if self.rng.bool() {
            line.hold(self.direction());
            self.later(delay, move |crew| crew.places[place].line.let_go());
        } else {
            let rule = line.once(is_script, Action::Hold);
            self.later(delay, move |_| rule.remove());
        }
    }

    fn direction(&mut self) -> Direction {
        [Direction::ToServer, Direction::ToClient, Direction::Both][self.rng.usize(..3)]
    }
}

fn is_script(words: &[Vec<u8>]) -> bool {
    let is = |name: &[u8]| {
        words
            .first()
            .is_some_and(|word| word.eq_ignore_ascii_case(name))
    };
    is(b"EVALSHA") || is(b"EVAL")
}
