//! Runs the simulation from the command line.

use simulation::{Plan, run};

fn main() {
    let seeds: u64 = std::env::args()
        .nth(1)
        .and_then(|seeds| seeds.parse().ok())
        .unwrap_or(100);
    let begin = std::time::Instant::now();
    let mut steps = 0;
    for seed in 0..seeds {
        let plan = Plan::mixed(seed);
        let outcome = run(&plan, false);
        steps += outcome.steps;
        if let Some(breach) = outcome.breach {
            println!("seed {seed}: {breach}");
        }
    }
    println!("{steps} steps in {:?}", begin.elapsed());
}
