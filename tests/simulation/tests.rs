//! The simulation in CI: seeds that must keep all laws, and breakages that must be noticed.

use std::collections::BTreeSet;

use simulation::{
    Fault, Law, Mutant, Plan, SURVIVORS, lines, mutants, run, shrink, without_number,
};

fn keep_all_laws(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let outcome = run(&Plan::mixed(seed), false);
        assert_eq!(outcome.breach, None, "cargo xtask simulate --from {seed}");
    }
}

#[test]
fn seeds_to_250_keep_all_laws() {
    keep_all_laws(0..250);
}

#[test]
fn seeds_to_500_keep_all_laws() {
    keep_all_laws(250..500);
}

#[test]
fn seeds_to_750_keep_all_laws() {
    keep_all_laws(500..750);
}

#[test]
fn seeds_to_1000_keep_all_laws() {
    keep_all_laws(750..1000);
}

// Red with a random number from anywhere but the seed, such as an owner of `Uuid::new_v4`.
#[test]
fn a_seed_runs_the_same_way_each_time() {
    for seed in 0..20 {
        let plan = Plan::mixed(seed);
        let (one, two) = (run(&plan, true), run(&plan, true));
        assert!(one.trace.len() > 50, "seed {seed} does too little");
        assert_eq!(one.trace, two.trace, "seed {seed}");
        assert_eq!(run(&plan, false).steps, one.steps, "seed {seed}");
    }
}

#[test]
fn different_seeds_run_differently() {
    assert_ne!(
        run(&Plan::mixed(1), true).trace,
        run(&Plan::mixed(2), true).trace
    );
}

/// After how many seeds a breakage is noticed, and as what.
fn noticed(mutant: &Mutant, seeds: u64) -> Option<(Plan, Law)> {
    (0..seeds).find_map(|seed| {
        let plan = Plan {
            mutant: Some(mutant.clone()),
            ..Plan::mixed(seed)
        };
        run(&plan, false).breach.map(|breach| (plan, breach.law))
    })
}

// Red when a breakage looks for a line that has been changed.
#[test]
fn each_breakage_breaks_something() {
    let idle: Vec<String> = mutants()
        .into_iter()
        .filter(|mutant| !mutant.changes())
        .map(|mutant| mutant.name)
        .collect();
    assert_eq!(idle, Vec::<String>::new());
}

// Red when a reason is left of a line that has been changed.
#[test]
fn each_reason_not_to_notice_a_line_is_that_of_a_line() {
    let lines: BTreeSet<String> = lines()
        .iter()
        .map(|line| without_number(&line.name))
        .collect();
    for (known, reason) in SURVIVORS {
        assert!(lines.contains(known), "{known}: {reason}");
    }
}

/// The breakages that take few seeds; `cargo xtask mutate` has all.
#[test]
fn breakages_are_noticed() {
    let slow = [
        "an acquire is never stale",
        "a newcomer overtakes",
        "tokens stand still",
        "deadline from the reply",
        "no second release",
        "renewed from the reply",
        "valid for ever",
        "the dead are granted",
        "a dropped acquire takes others along",
        "a grant is dated by its arrival",
        "a permit is passed to anybody",
    ];
    let all = mutants();
    let quick = all
        .iter()
        .filter(|mutant| !slow.contains(&mutant.name.as_str()));
    for mutant in quick {
        assert!(
            noticed(mutant, 100).is_some(),
            "nobody has noticed: {}",
            mutant.name
        );
    }
}

#[test]
fn a_failing_run_is_made_smaller_and_fails_in_the_same_way() {
    let mutant = mutants()
        .into_iter()
        .find(|mutant| mutant.name == "a held lock is entered");
    let (plan, law) = noticed(&mutant.unwrap(), 10).unwrap();
    let small = shrink(&plan, law);
    assert!(small.faults.is_empty(), "it needs no faults: {small:?}");
    assert!(small.clients * small.tasks < plan.clients * plan.tasks);
    let outcome = run(&small, true);
    assert_eq!(outcome.breach.map(|breach| breach.law), Some(law));
    assert!(outcome.trace.len() < 60, "{} steps", outcome.trace.len());
}

#[test]
fn faults_are_read_as_they_are_written() {
    for fault in Fault::ALL {
        assert_eq!(fault.to_string().parse(), Ok(fault));
    }
    let error = "pauze".parse::<Fault>().unwrap_err();
    assert!(
        error.contains("pauze") && error.contains("lost-reply"),
        "{error}"
    );
}
