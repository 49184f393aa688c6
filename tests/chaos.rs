//! Eight processes of eight tasks each want the same few locks, fair and shared ones among them, and permits, while
//! everything around them fails; what they note and what the server shows is judged afterwards.
//!
//! `LOCKYARD_CHAOS_SEED` repeats the faults of a run, if not their timing; `LOCKYARD_CHAOS_MINUTES` goes on for so
//! long, a run after another.

mod crew;
mod faults;
mod kind;
mod limits;
mod recorder;
mod sampler;
mod worker;

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use lockyard::{Client, ClientOptions};
use lockyard_testkit::{Server, eventually};

use self::crew::Crew;
use self::faults::Faults;
use self::kind::{Handle, is_semaphore};
use self::limits::Limits;
use self::recorder::{nanos, now};
use self::sampler::Sampler;
use self::worker::Seat;
use crate::history::{Claim, History, Share, Upheaval, claims, judge};
use crate::process::Part;

/// T, after which a silent waiting client counts as gone.
const WAITER_TIMEOUT: Duration = Duration::from_secs(1);

/// V, the time that a command may take.
const OPERATION_TIMEOUT: Duration = Duration::from_millis(500);

/// A lease, from the shortest for 0 to the longest for 1.
fn lease(fraction: f64) -> Duration {
    Duration::from_millis(400) + Duration::from_millis(600).mul_f64(fraction)
}

/// For how long all is well at the end of a run, at least.
const CALM: Duration = Duration::from_secs(2);

/// Longer than anything takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// The lease of a seat, long enough to tell who learns of a loss in time from whose lease runs out.
const SEAT: Duration = Duration::from_secs(6);

/// How soon a holder knows that its hold was taken away on the server: by its next check, a third of a lease later,
/// with what a busy machine takes.
const NOTICE: Duration = Duration::from_secs(4);

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
    // Two processes want the same seat, and whoever has it is not always there to renew it.
    let seats = std::array::from_fn(|place| Seat {
        lock: format!("seat:{}", place / 2),
        lease: lease(0.2),
        longest: Some(Duration::from_secs(3)),
    });
    let mut run = Run::start(test, seats, seed);
    run.faults.strike(&mut run.crew, length);
    // At the end all is well again, for everybody.
    let calm = now();
    let began = Instant::now();
    thread::sleep(CALM);
    while began.elapsed() < SOON && run.crew.served_since(calm) < crew::PROCESSES {
        thread::sleep(Duration::from_millis(100));
    }
    let served = run.crew.served_since(calm);
    let (claims, report) = run.finish();
    assert_eq!(served, crew::PROCESSES, "{report}");
    assert!(claims.len() as u64 > 10 * length.as_secs(), "{report}");
    assert!(
        claims.iter().filter(|claim| claim.renewed).count() > 10,
        "{report}"
    );
    let shares = |chosen: fn(Share) -> bool| {
        let claims = claims.iter().filter(|claim| chosen(claim.share));
        claims.count()
    };
    assert!(shares(|share| share == Share::Read) > 10, "{report}");
    assert!(
        shares(|share| matches!(share, Share::Permits(_))) > 10,
        "{report}"
    );
    report
}

#[test]
fn holds_taken_away_on_the_server_break_exclusion_only_around_that() {
    if let Some(part) = Part::mine() {
        return worker::run(part);
    }
    let seed = number("LOCKYARD_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let test = "chaos::holds_taken_away_on_the_server_break_exclusion_only_around_that";
    let seat = |place| Seat {
        lock: format!("seat:{place}"),
        lease: SEAT,
        longest: None,
    };
    let mut run = Run::start(test, std::array::from_fn(seat), seed);
    run.settle();
    run.force_release();
    run.settle();
    run.upheaval(|server| server.flush_all().unwrap());
    run.settle();
    run.upheaval(|server| server.restart().unwrap());
    run.settle();
    let upheavals = run.upheavals.clone();
    let (claims, report) = run.finish();

    for upheaval in &upheavals {
        // Whoever held a seat then was told; a starved process may have had none.
        let seats = claims.iter().filter(|claim| claim.lock.starts_with("seat"));
        let held = |claim: &&Claim| claim.from < upheaval.from && upheaval.from < claim.deadline;
        let held: Vec<&Claim> = seats.filter(held).collect();
        assert!(held.len() >= crew::PROCESSES / 2, "{report}");
        for claim in held {
            let told = claim.lost.is_some_and(|lost| lost < upheaval.until);
            assert!(told, "{claim:?}\n{upheaval:?}\n{report}");
        }
        let after = claims.iter().filter(|claim| claim.from > upheaval.until);
        assert!(after.count() > 2 * crew::PROCESSES, "{report}");
    }
}

/// A crew at work, and what is seen of it.
struct Run {
    crew: Crew,
    sampler: Sampler,
    limits: Limits,
    /// All that it may take, with the seats.
    locks: Vec<String>,
    longest_lease: Duration,
    faults: Faults,
    upheavals: Vec<Upheaval>,
    seed: u64,
}

impl Run {
    fn start(test: &'static str, seats: [Seat; crew::PROCESSES], seed: u64) -> Self {
        let server = Arc::new(Server::start().unwrap());
        let mut locks = ["stock:1", "stock:2", "shelf:1", "desk:1", "stock:3"]
            .map(str::to_owned)
            .to_vec();
        let stock = locks.clone();
        locks.extend(seats.iter().map(|seat| seat.lock.clone()));
        locks.sort();
        locks.dedup();
        let leases = seats.iter().map(|seat| seat.lease);
        let longest_lease = leases.chain([lease(1.0)]).max().unwrap_or_default();
        let crew = Crew::start(test, &server, &stock, seats, seed);
        let limits = Limits::start(&server, &crew.prefix, semaphores(&locks), seed);
        let sampler = Sampler::start(server, crew.prefix.clone(), locks.clone());
        Self {
            crew,
            sampler,
            limits,
            locks,
            longest_lease,
            faults: Faults::new(seed),
            upheavals: Vec::new(),
            seed,
        }
    }

    /// Goes on until all that holders may still have to learn is past, and all seats are taken, and then for a while.
    fn settle(&self) {
        thread::sleep(NOTICE);
        let seats = format!("{}lock:{{seat:*", self.crew.prefix);
        let taken = || self.crew.server.keys(&seats).unwrap().len() == crew::PROCESSES;
        eventually(SOON, taken);
        thread::sleep(Duration::from_millis(700));
    }

    /// Takes holds away on the server.
    fn upheaval(&mut self, deed: impl FnOnce(&Server)) {
        let from = now();
        deed(&self.crew.server);
        let until = now() + nanos(NOTICE);
        self.upheavals.push(Upheaval { from, until });
    }

    /// Takes all locks and seats away by force.
    fn force_release(&mut self) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let options = ClientOptions::from_url(&self.crew.server.url()).unwrap();
        let options = options.prefix(&self.crew.prefix).operation_timeout(SOON);
        let client = runtime.block_on(Client::with_options(options)).unwrap();
        let handle = |lock: &String| Handle::new(&client, lock, Share::All);
        let locks = self.locks.iter().filter(|lock| !is_semaphore(lock));
        let locks: Vec<_> = locks.map(handle).collect();
        self.upheaval(|_| {
            for lock in &locks {
                runtime.block_on(lock.force_release()).unwrap();
            }
        });
        runtime.block_on(client.shutdown()).unwrap();
    }

    /// Ends it, judges it, and tells what was claimed.
    fn finish(mut self) -> (Vec<Claim>, String) {
        let failed = self.crew.dismiss();
        let scripts = self.crew.server.scripts().unwrap();
        let limits = self.limits.finish();
        let left_behind = left_behind(&self.crew, self.longest_lease);
        let semaphores = semaphores(&self.locks);
        let all_free = limits::all_free(&self.crew.server, &self.crew.prefix, &semaphores);
        let history = History {
            events: self.crew.events(),
            killed: self.crew.killed.clone(),
            samples: self.sampler.finish(),
            upheavals: self.upheavals,
            limits,
            left_behind,
            grace: self.longest_lease + OPERATION_TIMEOUT + Duration::from_secs(1),
        };
        let claims = claims(&history);
        let count = |chosen: fn(&&Claim) -> bool| claims.iter().filter(chosen).count();
        let mut report = format!(
            "seed {}: {} events, {} samples; {scripts} scripts; {} holds, {} of them to read, {} of permits, {} to write a shared one, {} renewed, {} lost; {} limits; faults {:?}",
            self.seed,
            history.events.len(),
            history.samples.len(),
            claims.len(),
            count(|claim| claim.share == Share::Read),
            count(|claim| matches!(claim.share, Share::Permits(_))),
            count(|claim| claim.lock.starts_with("shelf") && claim.share == Share::All),
            count(|claim| claim.renewed),
            count(|claim| claim.lost.is_some()),
            history.limits.len(),
            self.faults.counts(),
        );
        let findings = judge(&history);
        if !findings.is_empty() {
            let stats = self.crew.server.commandstats().unwrap();
            let notes = self.crew.keep_notes();
            let seen = (
                stats,
                &self.faults.struck,
                &history.upheavals,
                &history.samples,
            );
            fs::write(notes.join("seen"), format!("{seen:#?}")).unwrap();
            writeln!(report, "\n{} findings; notes in {notes:?}", findings.len()).unwrap();
            for finding in findings.iter().take(10) {
                writeln!(report, "{finding}").unwrap();
            }
            panic!("{report}");
        }
        assert_eq!(all_free, Ok(()), "{report}");
        assert!(failed.is_empty(), "workers failed: {failed:?}\n{report}");
        (claims, report)
    }
}

fn semaphores(locks: &[String]) -> Vec<String> {
    let semaphores = locks.iter().filter(|lock| is_semaphore(lock));
    semaphores.cloned().collect()
}

/// The keys that are there when the last lease, and the last turn of a waiter, should be over.
fn left_behind(crew: &Crew, longest_lease: Duration) -> Vec<String> {
    let pattern = format!("{}*", crew.prefix);
    let deadline = Instant::now() + longest_lease + WAITER_TIMEOUT + OPERATION_TIMEOUT;
    loop {
        let mut keys = crew.server.keys(&pattern).unwrap();
        // Tokens are to grow for a day, and limits last for 30.
        keys.retain(|key| !key.contains(".fence:") && !key.contains(".limit:"));
        if keys.is_empty() || Instant::now() >= deadline {
            return keys;
        }
        thread::sleep(Duration::from_millis(10));
    }
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
