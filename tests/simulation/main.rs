//! Runs the simulation from the command line; `cargo xtask simulate` and `cargo xtask mutate` call it.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user there"
)]

mod mutate;

use std::collections::BTreeSet;
use std::fmt;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use simulation::{Breach, Fault, Plan, run, shrink};

#[derive(Parser)]
#[command(
    bin_name = "cargo xtask",
    about = "Runs the real core and the real scripts on virtual time, under faults"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs many seeds; a failing one is made smaller and shown step by step, with exit status 1.
    ///
    /// After each step (a command that the server runs, a message that is heard, or what a task does) all laws are
    /// checked, such as that one owner holds at most; `tests/simulation/law.rs` lists them.
    Simulate(Simulate),
    /// Breaks the scripts and core on purpose, and tells how many seeds it takes to notice each breakage.
    Mutate(mutate::Mutate),
}

#[derive(Args)]
struct Simulate {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1000, value_parser = at_least_one::<u64>)]
    seeds: u64,
    /// The first seed; with `--seeds 1` its steps are shown in any case.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Runs for so many minutes, whatever `--seeds` says.
    #[arg(long)]
    minutes: Option<u64>,
    /// Which faults may strike: mixed (other ones in each seed), all, none, or some of slow, lost-command, lost-reply,
    /// lost-message, twice, no-script, reconnect, half-open, pause, crash, cancel, flush, delete, clock, force, with commas.
    #[arg(long, default_value = "mixed")]
    faults: String,
    #[command(flatten)]
    size: Size,
}

#[derive(Args, Clone, Copy)]
struct Size {
    /// How many clients there are.
    #[arg(long, default_value_t = 3, value_parser = at_least_one::<usize>)]
    clients: usize,
    /// How many tasks each has.
    #[arg(long, default_value_t = 3, value_parser = at_least_one::<usize>)]
    tasks: usize,
    /// How often each locks something.
    #[arg(long, default_value_t = 4, value_parser = at_least_one::<usize>)]
    rounds: usize,
    /// How many locks they share.
    #[arg(long, default_value_t = 2, value_parser = at_least_one::<usize>)]
    locks: usize,
}

fn at_least_one<T: FromStr<Err: fmt::Display> + Default + PartialEq>(
    text: &str,
) -> Result<T, String> {
    let number: T = text.parse().map_err(|error: T::Err| error.to_string())?;
    match number == T::default() {
        true => Err("it must be at least 1".to_owned()),
        false => Ok(number),
    }
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Simulate(arguments) => simulate(&arguments),
        Command::Mutate(arguments) => mutate::mutate(&arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn simulate(arguments: &Simulate) -> Result<ExitCode, String> {
    let faults = faults(&arguments.faults)?;
    let plan = |seed| {
        let mixed = Plan::mixed(seed);
        Plan {
            clients: arguments.size.clients,
            tasks: arguments.size.tasks,
            rounds: arguments.size.rounds,
            locks: arguments.size.locks,
            faults: faults.clone().unwrap_or_else(|| mixed.faults.clone()),
            ..mixed
        }
    };
    if arguments.seeds == 1 {
        return Ok(show(&plan(arguments.from), None));
    }
    let begin = Instant::now();
    let limit = arguments
        .minutes
        .map(|minutes| Duration::from_secs(60 * minutes));
    let bar = match limit {
        Some(_) => ProgressBar::new_spinner(),
        None => ProgressBar::new(arguments.seeds),
    };
    let style = ProgressStyle::with_template("{wide_bar} {pos} seeds, {per_sec}, {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut steps = 0;
    let mut seed = arguments.from;
    while limit.map_or(seed < arguments.from + arguments.seeds, |limit| {
        begin.elapsed() < limit
    }) {
        let plan = plan(seed);
        let outcome = run(&plan, false);
        steps += outcome.steps;
        bar.inc(1);
        bar.set_message(format!("{steps} steps"));
        if let Some(breach) = outcome.breach {
            bar.abandon();
            println!("seed {seed}: {breach}\nmaking it smaller …");
            return Ok(show(&shrink(&plan, breach.law), Some(&breach)));
        }
        seed += 1;
    }
    bar.finish_and_clear();
    let seeds = seed - arguments.from;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{seeds} seeds, {steps} steps, all laws kept, in {seconds:.1} s: {:.0} steps a minute",
        steps as f64 / seconds * 60.0
    );
    Ok(ExitCode::SUCCESS)
}

/// `None` if each seed has its own.
fn faults(text: &str) -> Result<Option<BTreeSet<Fault>>, String> {
    match text {
        "mixed" => Ok(None),
        "all" => Ok(Some(Fault::ALL.into())),
        "none" => Ok(Some(BTreeSet::new())),
        some => some
            .split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(Some),
    }
}

/// Shows a run step by step.
fn show(plan: &Plan, found: Option<&Breach>) -> ExitCode {
    let outcome = run(plan, true);
    for line in &outcome.trace {
        println!("{line}");
    }
    let faults: Vec<String> = plan.faults.iter().map(ToString::to_string).collect();
    let faults = if faults.is_empty() {
        "none".to_owned()
    } else {
        faults.join(",")
    };
    println!(
        "\ncargo xtask simulate --seeds 1 --from {} --clients {} --tasks {} --rounds {} --locks {} --faults {faults}",
        plan.seed, plan.clients, plan.tasks, plan.rounds, plan.locks
    );
    match outcome.breach.as_ref().or(found) {
        Some(breach) => {
            println!("{breach}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}
