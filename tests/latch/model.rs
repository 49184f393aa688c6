use std::collections::BTreeMap;

use lockyard_core::__private::{Arg, Call, Reply, Script};
use lockyard_lua::latch::{COUNT, DOWN, SET};
use lockyard_memory::__private::Store;
use proptest::prelude::*;

const START: u64 = 1_733_000_000_000_000;
const CLIENTS: usize = 3;
/// How long a command is valid, in µs.
const VALID: u64 = 2_000_000;

#[derive(Clone, Debug)]
enum Step {
    Set(u32),
    /// A client counts down; its command goes now, later, or never.
    Down(usize, u32),
    /// One of the commands so far comes, perhaps again, whenever it was sent.
    Arrives(usize),
    Pass(u64),
    Delete,
}

/// A command as it was sent.
#[derive(Clone, Debug)]
enum Sent {
    Set(u32, u64, u64),
    Down(usize, u64, u64, u64),
}

/// What must come of it: the count, the latch's number, and what each client has counted down.
#[derive(Default)]
struct Model {
    count: u64,
    number: u64,
    ops: BTreeMap<usize, u64>,
    /// The latch that was opened last, which a copy of its setting does not set again.
    opened: Option<u64>,
}

impl Model {
    fn set(&mut self, count: u32, number: u64, valid: u64, now: u64) -> i64 {
        match () {
            () if now > valid => 0,
            () if self.number == number && (self.count > 0 || self.opened == Some(number)) => 1,
            () if self.count > 0 => 2,
            () => {
                let count = count.into();
                *self = Self {
                    count,
                    number,
                    ..Self::default()
                };
                1
            }
        }
    }

    fn down(&mut self, client: usize, number: u64, from: u64, to: u64) -> i64 {
        if self.count == 0 || self.number != number {
            return -1;
        }
        let seen = self.ops.entry(client).or_default();
        let new = to.saturating_sub((*seen).max(from));
        *seen = (*seen).max(from).max(to);
        self.count = self.count.saturating_sub(new);
        self.count as i64
    }
}

struct Run {
    store: Store,
    us: u64,
    model: Model,
    sent: Vec<Sent>,
    /// Of each client, as it knows: the latch's number and how much it has counted down.
    totals: [(u64, u64); CLIENTS],
    sets: u64,
}

impl Run {
    fn new() -> Self {
        Self {
            store: Store::new(),
            us: START,
            model: Model::default(),
            sent: Vec::new(),
            totals: [(0, 0); CLIENTS],
            sets: 0,
        }
    }

    fn eval(&mut self, script: &'static str, args: &[String]) -> (Reply, Vec<String>) {
        let keys = ["latch:{x}".into(), "latch.ops:{x}".into()];
        let args: Vec<Arg> = args
            .iter()
            .map(|arg| Arg::Text(arg.clone().into()))
            .collect();
        let script = Script::new(script);
        let call = Call {
            script: &script,
            keys: &keys,
            args: &args,
        };
        let (reply, messages) = self.store.run(call, self.us);
        let text = messages
            .iter()
            .map(|it| String::from_utf8_lossy(&it.text).into_owned());
        (reply.unwrap(), text.collect())
    }

    fn step(&mut self, step: &Step) {
        self.us += 1;
        match step {
            Step::Pass(us) => self.us += us,
            Step::Delete => {
                let words = "redis.call('PEXPIRE', KEYS[1], 0)";
                self.eval(words, &[]);
                self.model.count = 0;
                self.model.opened = None;
            }
            Step::Set(count) => {
                self.sets += 1;
                let valid = self.us + VALID;
                self.send(Sent::Set(*count, self.sets, valid), true);
            }
            Step::Down(client, by) => {
                let (number, total) = &mut self.totals[*client];
                if *number != self.model.number {
                    (*number, *total) = (self.model.number, 0);
                }
                let from = *total;
                *total += u64::from(*by);
                let down = Sent::Down(*client, *number, from, *total);
                self.send(down, by % 3 > 0);
            }
            Step::Arrives(at) => {
                if let Some(sent) = self.sent.get(at % self.sent.len().max(1)).cloned() {
                    self.arrive(&sent);
                }
            }
        }
        self.compare();
    }

    fn send(&mut self, sent: Sent, now: bool) {
        if now {
            self.arrive(&sent);
        }
        self.sent.push(sent);
    }

    fn arrive(&mut self, sent: &Sent) {
        let text = |number: &u64| number.to_string();
        let before = self.model.count;
        match sent {
            Sent::Set(count, number, valid) => {
                let args = [
                    text(valid),
                    count.to_string(),
                    format!("i{number}"),
                    "600000".into(),
                ];
                let (reply, _) = self.eval(SET, &args);
                let expected = self.model.set(*count, *number, *valid, self.us);
                let us = Reply::Number(self.us as i64);
                assert_eq!(reply, Reply::Array(vec![us, Reply::Number(expected)]));
            }
            Sent::Down(client, number, from, to) => {
                let client_name = format!("c{client}");
                let args = [
                    format!("i{number}"),
                    client_name,
                    text(from),
                    text(to),
                    "open".into(),
                ];
                let (reply, messages) = self.eval(DOWN, &args);
                let expected = self.model.down(*client, *number, *from, *to);
                assert_eq!(reply, Reply::Number(expected));
                let opens = before > 0 && self.model.count == 0;
                let told: Vec<String> = opens
                    .then(|| format!("open i{number}"))
                    .into_iter()
                    .collect();
                assert_eq!(messages, told);
                if opens {
                    self.model.opened = Some(*number);
                    self.model.ops.clear();
                }
            }
        }
    }

    fn compare(&mut self) {
        let (reply, _) = self.eval(COUNT, &["c0".to_owned()]);
        let Reply::Array(parts) = &reply else {
            panic!("{reply:?}");
        };
        assert_eq!(parts[0], Reply::Number(self.model.count as i64));
        if self.model.count > 0 {
            let seen = self.model.ops.get(&0).copied().unwrap_or_default();
            assert_eq!(parts[3], Reply::Number(seen as i64));
        }
        assert!(
            self.store
                .dump(self.us)
                .iter()
                .all(|entry| entry.ttl.is_some())
        );
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (1..12u32).prop_map(Step::Set),
        6 => (0..CLIENTS, 0..5u32).prop_map(|(client, by)| Step::Down(client, by)),
        6 => (0..100usize).prop_map(Step::Arrives),
        1 => (0..3_000_000u64).prop_map(Step::Pass),
        1 => Just(Step::Delete),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // Red when a range counts from what the client says rather than what is new, when it counts for another latch, when
    // a copy of a setting sets again, and when a message goes out twice.
    #[test]
    fn any_order_of_commands_counts_each_part_once(steps in steps()) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
        }
    }
}
