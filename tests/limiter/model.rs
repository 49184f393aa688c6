use lockyard_core::__private::{Arg, Call, Reply, Script};
use lockyard_lua::rate::TAKE;
use lockyard_memory::__private::Store;
use proptest::prelude::*;

/// A server time, in µs.
const START: u64 = 1_733_000_000_000_000;

/// Of a rate: µs a permit, and the burst.
type Rate = (f64, u32);

const RATES: [Rate; 5] = [
    (1000.0, 1),
    (1000.0, 10),
    (333.333_333_333_333_3, 7),
    (60_000.0, 3),
    (0.7, 1000),
];

/// Permits and the µs for which the caller is ready to wait.
type Ask = (Rate, u32, u64);

#[derive(Clone, Debug)]
enum Step {
    /// Of limiters, in one command, and whether it comes too late.
    Take(Vec<(usize, Ask)>, bool),
    /// So many µs.
    Pass(u64),
}

/// One limiter, by its theoretical arrival time in µs since the start: when nothing is owed.
#[derive(Clone, Copy)]
struct Model {
    arrival: f64,
    interval: f64,
}

impl Model {
    /// By how many µs the wait is too short, and the µs that are owed before.
    fn ask(&mut self, now: f64, ((interval, burst), permits, wait): Ask) -> (f64, f64) {
        let owed = (self.arrival - now).max(0.0) / self.interval * interval;
        self.interval = interval;
        self.arrival = now + owed;
        let over = owed + interval * (f64::from(permits) - f64::from(burst));
        (over - wait as f64, owed)
    }
}

pub(super) struct Scripted {
    store: Store,
    script: Script,
    pub(super) us: u64,
}

impl Scripted {
    pub(super) fn new() -> Self {
        Self {
            store: Store::new(),
            script: Script::new(TAKE),
            us: START,
        }
    }

    /// The ns until nothing is owed, negative if nothing was taken.
    pub(super) fn take(&mut self, valid: u64, asks: &[(usize, Ask)]) -> Vec<i64> {
        let keys: Vec<_> = asks
            .iter()
            .map(|(key, _)| format!("rate:{key}").into())
            .collect();
        let mut args = vec![Arg::Number(valid)];
        for (_, ((interval, burst), permits, wait)) in asks {
            args.push(Arg::Text(interval.to_string().into()));
            args.extend([u64::from(*burst), u64::from(*permits), *wait].map(Arg::Number));
        }
        let call = Call {
            script: &self.script,
            keys: &keys,
            args: &args,
        };
        let (reply, _) = self.store.run(call, self.us);
        let Ok(Reply::Array(parts)) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(parts[0], Reply::Number(self.us as i64));
        let value = |part: &Reply| match part {
            Reply::Number(value) => *value,
            other => panic!("{other:?}"),
        };
        parts[1..].iter().map(value).collect()
    }

    /// For how many µs each key lives.
    fn ttls(&self) -> Vec<u128> {
        let entries = self.store.dump(self.us).into_iter();
        let ttls = entries.map(|entry| entry.ttl.expect("every key has a TTL").as_micros());
        ttls.collect()
    }
}

fn ask() -> impl Strategy<Value = Ask> {
    let rate = prop::sample::select(&RATES[..]);
    let wait = prop_oneof![3 => Just(0), 2 => 0..5000u64, 1 => Just(200_000)];
    (rate, 1..8u32, wait).prop_map(|(rate, permits, wait)| (rate, permits.min(rate.1), wait))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let take = prop_oneof![
        3 => prop::collection::vec((0..2usize, ask()), 1),
        1 => prop::collection::vec((0..2usize, ask()), 2..6),
    ];
    let step = prop_oneof![
        5 => (take, prop::bool::weighted(0.05)).prop_map(|(asks, late)| Step::Take(asks, late)),
        2 => (0..3000u64).prop_map(Step::Pass),
        1 => (0..90_000u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..80)
}

/// What is owed may differ by what doubles lose, and is rounded up to whole ns.
const SLACK: f64 = 0.01;

fn check(steps: &[Step]) {
    let mut scripted = Scripted::new();
    let new = Model {
        arrival: 0.0,
        interval: 1.0,
    };
    let mut models = [new; 2];
    for step in steps {
        let (asks, late) = match step {
            Step::Pass(us) => {
                scripted.us += us;
                continue;
            }
            Step::Take(asks, late) => (asks, *late),
        };
        let values = scripted.take(scripted.us - u64::from(late), asks);
        if late {
            assert!(values.iter().all(|value| *value == 0), "{values:?}");
            continue;
        }
        let now = (scripted.us - START) as f64;
        for ((key, ask), value) in asks.iter().zip(values) {
            let model = &mut models[*key];
            let (short, mut owed) = model.ask(now, *ask);
            assert!(
                short.abs() < SLACK || (value > 0) == (short < 0.0),
                "{value} {short}"
            );
            if value > 0 {
                owed += ask.0.0 * f64::from(ask.1);
                model.arrival = now + owed;
            }
            let found = value.unsigned_abs() as f64 / 1000.0;
            assert!((found - owed).abs() < SLACK, "{found} instead of {owed}");
        }
        for ttl in scripted.ttls() {
            let longest = models
                .iter()
                .map(|model| model.arrival - now)
                .fold(0.0, f64::max);
            assert!(ttl as f64 <= longest + 2000.0, "{ttl} of {longest}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // Red when a changed rate keeps the time instead of the permits, when a batch forgets what it granted before, when
    // `over` counts the burst twice, and when what is paid back is half.
    #[test]
    fn any_calls_are_answered_as_by_the_theoretical_arrival_time(steps in steps()) {
        check(&steps);
    }

    // Red when whoever is denied moves the time of what is owed, and when the burst is one larger.
    #[test]
    fn no_window_has_more_than_its_bound_whatever_the_clock_does(
        asks in prop::collection::vec((1..4u32, 0..3000u64, -5000..5000i64), 1..120),
    ) {
        let mut scripted = Scripted::new();
        // Of each grant: real µs, by how much the clock went forward until then, and how many.
        let mut granted: Vec<(u64, u64, u32)> = Vec::new();
        let (mut real, mut forward) = (0, 0);
        for (permits, pass, step) in asks {
            real += pass;
            // Steps are rare.
            let step = if pass % 8 == 0 { step } else { 0 };
            forward += step.max(0).unsigned_abs();
            scripted.us = scripted.us.saturating_add_signed(pass as i64 + step);
            if scripted.take(u64::MAX >> 12, &[(0, ((1000.0, 5), permits, 0))])[0] > 0 {
                granted.push((real, forward, permits));
            }
            let (mut sum, (end, ahead)) = (0, (real, forward));
            for (at, stepped, permits) in granted.iter().rev() {
                sum += u64::from(*permits) * 1000;
                prop_assert!(sum <= 5000 + (end - at) + (ahead - stepped));
            }
        }
    }
}
