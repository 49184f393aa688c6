//! Six processes of eight tasks each want the same few locks, while everything around them fails; what they note and
//! what the server shows is judged afterwards.
//!
//! `LOCKYARD_CHAOS_SEED` repeats the faults of a run, if not their timing; `LOCKYARD_CHAOS_MINUTES` goes on for so
//! long, a run after another.

mod crew;
mod faults;
mod recorder;
mod sampler;
mod worker;

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, thread};

use lockyard_testkit::Server;

use self::crew::Crew;
use self::faults::Faults;
use self::recorder::{nanos, now};
use self::sampler::Sampler;
use crate::history::{Claim, History, Upheaval, claims, judge};
use crate::process::Part;

/// T, after which a silent waiting client counts as gone.
const WAITER_TIMEOUT: Duration = Duration::from_secs(1);

/// V, the time that a command may take.
const OPERATION_TIMEOUT: Duration = Duration::from_millis(500);

/// A lease, from the shortest for 0 to the longest for 1.
fn lease(fraction: f64) -> Duration {
    Duration::from_millis(400) + Duration::from_millis(600).mul_f64(fraction)
}

/// For how long all is well at the end of a run.
const CALM: Duration = Duration::from_secs(2);

/// How soon a holder knows that its hold was taken away on the server: by its next check, a third of a lease later,
/// and the time that a reconnect and a busy machine take.
const NOTICE: Duration = Duration::from_millis(333 + 400);

#[test]
fn two_owners_never_hold_at_once_whatever_fails() {
    if let Some(part) = Part::mine() {
        return worker::run(part);
    }
    let minutes = number("LOCKYARD_CHAOS_MINUTES");
    let (length, whole) = match minutes {
        Some(minutes) => (Duration::from_secs(60), Duration::from_secs(60 * minutes)),
        None => (Duration::from_secs(13), Duration::ZERO),
    };
    let start = Instant::now();
    let mut seed = number("LOCKYARD_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    loop {
        tell(&withstand(seed, length));
        if start.elapsed() >= whole {
            return;
        }
        seed = seed.wrapping_add(1);
    }
}

/// Lets everything fail for a time, and checks what came of it.
fn withstand(seed: u64, length: Duration) -> String {
    let test = "chaos::two_owners_never_hold_at_once_whatever_fails";
    let locks = ["stock:1", "stock:2", "stock:3"].map(str::to_owned);
    let mut run = Run::start(test, &locks, false, seed);
    let mut faults = Faults::new(seed);
    faults.strike(&mut run.crew, length);
    let calm = now();
    thread::sleep(CALM);
    let (history, mut report) = run.finish();
    write!(report, "\nfaults: {:?}", faults.counts).unwrap();

    let findings = judge(&history);
    assert!(findings.is_empty(), "{}", listed(&report, &findings));
    let claims = claims(&history);
    assert!(claims.len() as u64 > 15 * length.as_secs(), "{report}");
    assert!(
        claims.iter().filter(|claim| claim.renewed).count() > 2,
        "{report}"
    );
    // At the end all is well again, for everybody.
    let last = claims.iter().filter(|claim| claim.from > calm);
    let mut processes: Vec<u32> = last.map(|claim| claim.process).collect();
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes.len(), crew::PROCESSES, "{report}");
    report
}

#[test]
fn holds_taken_away_on_the_server_break_exclusion_only_around_that() {
    if let Some(part) = Part::mine() {
        return worker::run(part);
    }
    let seed = number("LOCKYARD_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let test = "chaos::holds_taken_away_on_the_server_break_exclusion_only_around_that";
    let locks = ["stock:1", "stock:2", "stock:3"].map(str::to_owned);
    let mut run = Run::start(test, &locks, true, seed);
    let pause = || thread::sleep(Duration::from_millis(1500));
    pause();
    run.upheaval(|crew| force_release(crew, &locks));
    pause();
    run.upheaval(|crew| crew.server.flush_all().unwrap());
    pause();
    run.upheaval(|crew| crew.server.restart().unwrap());
    pause();
    let (history, report) = run.finish();

    let findings = judge(&history);
    assert!(findings.is_empty(), "{}", listed(&report, &findings));
    let claims = claims(&history);
    for upheaval in &history.upheavals {
        // Whoever held then was told, and holds again.
        for place in 0..crew::PROCESSES {
            let seat = Crew::seat(place);
            let mut theirs = claims.iter().filter(|claim| claim.lock == seat);
            let held =
                |claim: &&Claim| claim.from < upheaval.from && upheaval.from < claim.deadline;
            let before = theirs.by_ref().find(held);
            let lost = before.and_then(|claim| claim.lost);
            assert!(
                lost.is_some_and(|lost| lost < upheaval.until),
                "{before:?}\n{upheaval:?}\n{report}"
            );
            assert!(theirs.next().is_some(), "{seat} {report}");
        }
        let after = claims.iter().filter(|claim| claim.from > upheaval.until);
        assert!(after.count() > 5 * crew::PROCESSES, "{report}");
    }
}

/// Releases locks and seats by force.
fn force_release(crew: &Crew, locks: &[String]) {
    let seats = (0..crew::PROCESSES).map(Crew::seat);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = lockyard::ClientOptions::from_url(&crew.server.url()).unwrap();
        let client = lockyard::Client::with_options(options.prefix(&crew.prefix))
            .await
            .unwrap();
        for lock in locks.iter().cloned().chain(seats) {
            client.lock(lock).force_release().await.unwrap();
        }
        client.shutdown().await.unwrap();
    });
}

/// A crew at work, and what is seen of it.
struct Run {
    crew: Crew,
    sampler: Sampler,
    upheavals: Vec<Upheaval>,
    seed: u64,
}

impl Run {
    fn start(test: &'static str, locks: &[String], seats: bool, seed: u64) -> Self {
        let server = Arc::new(Server::start().unwrap());
        let crew = Crew::start(test, &server, locks, seats, seed);
        let mut sampled = locks.to_vec();
        if seats {
            sampled.extend((0..crew::PROCESSES).map(Crew::seat));
        }
        let sampler = Sampler::start(server, crew.prefix.clone(), sampled);
        Self {
            crew,
            sampler,
            upheavals: Vec::new(),
            seed,
        }
    }

    fn upheaval(&mut self, deed: impl FnOnce(&Crew)) {
        let from = now();
        deed(&self.crew);
        let until = now() + nanos(NOTICE);
        self.upheavals.push(Upheaval {
            from,
            until,
            lock: None,
        });
    }

    /// Ends it, and tells what happened.
    fn finish(mut self) -> (History, String) {
        self.crew.dismiss();
        let pattern = format!("{}*", self.crew.prefix);
        let left = || {
            let mut keys = self.crew.server.keys(&pattern).unwrap();
            keys.retain(|key| !key.contains("lock.fence:"));
            keys
        };
        let bound = lease(1.0) + WAITER_TIMEOUT + OPERATION_TIMEOUT;
        let deadline = Instant::now() + bound;
        while !left().is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        let history = History {
            left_behind: left(),
            events: self.crew.events(),
            killed: self.crew.killed.clone(),
            samples: self.sampler.finish(),
            upheavals: self.upheavals,
            grace: lease(1.0) + OPERATION_TIMEOUT + Duration::from_secs(1),
        };
        let claims = claims(&history);
        let count = |chosen: fn(&&Claim) -> bool| claims.iter().filter(chosen).count();
        let report = format!(
            "seed {}: {} processes, {} of them killed; {} events, {} samples; {} holds, {} of them renewed, {} lost",
            self.seed,
            crew::PROCESSES + history.killed.len(),
            history.killed.len(),
            history.events.len(),
            history.samples.len(),
            claims.len(),
            count(|claim| claim.renewed),
            count(|claim| claim.lost.is_some()),
        );
        (history, report)
    }
}

/// A report with the first findings.
fn listed(report: &str, findings: &[impl std::fmt::Display]) -> String {
    let mut text = format!("{report}\n{} findings\n", findings.len());
    for finding in findings.iter().take(10) {
        writeln!(text, "{finding}").unwrap();
    }
    text
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is no number: {text}")),
    )
}

#[expect(
    clippy::print_stderr,
    reason = "who lets it run for long wants to see that it does"
)]
fn tell(report: &str) {
    eprintln!("{report}");
}
