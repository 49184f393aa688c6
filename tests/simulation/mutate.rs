//! Who notices what is broken on purpose: the simulation, or, of what nobody noticed there, the tests of the scripts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use simulation::{Breach, Mutant, Plan, lines, mutants, run, survivor};

use crate::at_least_one;

#[derive(Args)]
pub(crate) struct Mutate {
    /// How many seeds each breakage gets.
    #[arg(long, default_value_t = 1000, value_parser = at_least_one::<u64>)]
    seeds: u64,
    /// Deletes and negates each line of the scripts in turn instead, and asks the tests of the scripts as well.
    #[arg(long)]
    lines: bool,
    /// Leaves out so many at first.
    #[arg(long, default_value_t = 0)]
    skip: usize,
    /// Takes only every so many-th breakage.
    #[arg(long, default_value_t = 1, value_parser = at_least_one::<usize>)]
    every: usize,
}

/// Breaks things, and succeeds if all are noticed but those that are known to change nothing.
pub(crate) fn mutate(arguments: &Mutate) -> Result<ExitCode, String> {
    let all = if arguments.lines { lines() } else { mutants() };
    let all: Vec<Mutant> = all
        .into_iter()
        .filter(Mutant::is_lua)
        .skip(arguments.skip)
        .step_by(arguments.every)
        .collect();
    let suite = arguments.lines.then(Suite::build).transpose()?;
    let (mut simulated, mut tested, mut excused, mut survivors) = (0, 0, 0, 0);
    for mutant in &all {
        let name = &mutant.name;
        if let Some((seeds, breach)) = simulate(mutant, arguments.seeds) {
            simulated += 1;
            println!("{seeds:>6} seeds  {name:<80} {breach}");
        } else if let Some(reason) = survivor(name) {
            excused += 1;
            println!("       fair  {name:<80} {reason}");
        } else if suite
            .as_ref()
            .map_or(Ok(false), |suite| suite.notices(mutant))?
        {
            tested += 1;
            println!("      tests  {name}");
        } else {
            survivors += 1;
            println!("NOT NOTICED  {name}");
        }
    }
    println!(
        "of {}: {simulated} noticed by the simulation, {tested} by the tests, {excused} change nothing that is promised, \
         {survivors} not noticed",
        all.len()
    );
    Ok(match survivors {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// How many seeds it takes, and what breaks.
fn simulate(mutant: &Mutant, seeds: u64) -> Option<(u64, Breach)> {
    let mut seeds = (0..seeds).take_while(|_| mutant.is_simulated());
    seeds.find_map(|seed| {
        let plan = Plan {
            mutant: Some(mutant.clone()),
            ..Plan::mixed(seed)
        };
        run(&plan, false).breach.map(|breach| (seed + 1, breach))
    })
}

/// The tests that call scripts themselves, or clients in memory.
struct Suite {
    program: PathBuf,
    /// What stands in the scripts' place.
    scripts: PathBuf,
}

/// Which they are, those first that notice most; the rest would take too long.
const TESTS: [&[&str]; 2] = [
    &["scripts::", "latch::", "limiter::"],
    &["in_memory", "semaphore::", "rw::"],
];

/// Those that call what a change is in.
fn tests(change: &str) -> &'static [&'static [&'static str]] {
    match change.split(' ').next() {
        Some("latch") => &[&["latch::"]],
        Some("rate") => &[&["limiter::"]],
        _ => &TESTS,
    }
}

/// How long they may take: a script may not come to its end.
const LONGEST: Duration = Duration::from_secs(120);

impl Suite {
    /// Builds them, and sees that scripts which differ by a comment pass.
    fn build() -> Result<Self, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let build = Command::new(cargo)
            .args(["test", "--all-features", "--test", "it", "--no-run"])
            .output()
            .map_err(|error| error.to_string())?;
        let told = String::from_utf8_lossy(&build.stderr);
        // Another package has tests of this name as well.
        let program = told
            .split_once(" main.rs (")
            .and_then(|(_, rest)| rest.split_once(')'));
        let (program, _) = program.ok_or_else(|| told.to_string())?;
        let program = fs::canonicalize(program).map_err(|error| format!("{program}: {error}"))?;
        let scripts = std::env::temp_dir().join(format!("lockyard-scripts-{}", std::process::id()));
        let suite = Self { program, scripts };
        let broken = mutants().swap_remove(0);
        if suite.notices(&Mutant::comment())? {
            return Err("the tests fail without a breakage".to_owned());
        }
        if !suite.notices(&broken)? {
            return Err(format!("the tests pass with {:?}", broken.name));
        }
        Ok(suite)
    }

    /// Whether some fail twice: once may be by chance.
    fn notices(&self, mutant: &Mutant) -> Result<bool, String> {
        for tests in tests(&mutant.name) {
            let fails = || {
                let fails = self.fails(tests, mutant);
                fails.map_err(|error| error.to_string())
            };
            if fails()? && fails()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether tests fail with changed scripts.
    fn fails(&self, tests: &[&str], mutant: &Mutant) -> io::Result<bool> {
        fs::write(&self.scripts, mutant.changed().concat().join("\0"))?;
        let mut tests = Command::new(&self.program)
            .args(tests)
            .args(["--test-threads", "6"])
            .env("LOCKYARD_CHANGED_SCRIPTS", &self.scripts)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let begin = Instant::now();
        while begin.elapsed() < LONGEST {
            if let Some(status) = tests.try_wait()? {
                return Ok(!status.success());
            }
            sleep(Duration::from_millis(20));
        }
        tests.kill()?;
        tests.wait()?;
        Ok(true)
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        // It lies where such files are removed some time.
        let _ = fs::remove_file(&self.scripts);
    }
}
