//! A job that each of many machines starts at the same time, and that exactly one of them runs.
//!
//! Each slot of the schedule has a lock of its own, named after it: `report:1203`.
//! Whoever gets it runs the job, and never releases it: the lease is fixed, so the hold stays for its length, also
//! after the job has ended and after its machine has died.
//! Whoever comes later finds the slot taken.
//!
//! A lock that were held only while the job runs would let a machine whose clock is behind run the same slot again.
//! So the lease must be longer than the greatest difference between two machines' clocks; being the slot's own, the
//! lock stands in no later slot's way, and the lease can be generous. Which slot it is each machine computes from its
//! own clock; how long the hold lasts the server's clock says.
//!
//! This is "at most once": if the machine dies, its slot is left as it is, and the next is somebody else's.
//! A job that has to be finished by somebody takes a renewed lease instead, is waited for by the others, and writes
//! that the slot is done together with its results, with a fencing token (see `fenced_write`).
//!
//! A real cron entry is a program that ends. It must not release either: `std::mem::forget(guard)`, then return.
//!
//! Run it with `cargo run --example cron_job`; it starts its own Redis, which must be installed.

mod clock;
mod machine;

use anyhow::{bail, ensure};
use lockyard_testkit::Server;
use processes::Process;

use crate::clock::Clock;

/// How far the machines' clocks are ahead, ms.
const AHEAD_MS: [i64; 4] = [350, 0, -100, -250];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => story(),
        ["machine", redis, ahead_ms] => machine::run(redis, Clock::new(ahead_ms.parse()?)).await,
        _ => anyhow::bail!("run it without arguments"),
    }
}

fn story() -> anyhow::Result<()> {
    let server = Server::start()?;
    let redis = server.url();
    let mut machines = AHEAD_MS
        .iter()
        .map(|ahead_ms| Process::start(&["machine", &redis, &ahead_ms.to_string()]))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for machine in &mut machines {
        ensure!(machine.line()? == "ready", "a machine is not ready");
    }
    println!("4 machines, whose clocks differ by 600 ms");
    let first = Clock::new(0).slot() + 2;
    for machine in &mut machines {
        machine.write(&first.to_string())?;
    }
    let others = slot(&mut machines, End::Ran)?;
    println!("slot 1: one ran it, {others} left it alone");
    let others = slot(&mut machines, End::Killed)?;
    println!("slot 2: one began and was killed, {others} left it alone");
    for number in [3, 4] {
        let others = slot(&mut machines, End::Ran)?;
        println!("slot {number}: one ran it, {others} left it alone");
    }
    Ok(())
}

/// How the job of a slot ends.
#[derive(PartialEq)]
enum End {
    Ran,
    Killed,
}

/// Sees to it that one machine runs the job, and returns how many leave it alone.
fn slot(machines: &mut Vec<Process>, end: End) -> anyhow::Result<usize> {
    let mut runners = Vec::new();
    // The one whose clock is ahead comes first, and its job is short: it has ended when the others' time comes.
    for (index, machine) in machines.iter_mut().enumerate() {
        let line = machine.line()?;
        if line == "leaves it" {
            continue;
        }
        ensure!(line == "runs", "unexpected: {line}");
        runners.push(index);
        match end {
            End::Ran => ensure!(machine.line()? == "ran", "the job did not end"),
            End::Killed => machine.kill()?,
        }
    }
    let [runner] = runners[..] else {
        bail!("{} machines ran the job", runners.len());
    };
    if end == End::Killed {
        machines.remove(runner);
    }
    Ok(machines.len() - usize::from(end == End::Ran))
}
