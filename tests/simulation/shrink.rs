//! Making a failing plan small enough to be read.

use crate::law::Law;
use crate::plan::Plan;
use crate::run::run;

/// How many seeds are tried for each smaller plan.
const SEEDS: u64 = 40;

/// The smallest plan found that breaks the same law.
#[must_use]
pub fn shrink(plan: &Plan, law: Law) -> Plan {
    let mut smallest = plan.clone();
    while let Some(smaller) = smallest
        .smaller()
        .into_iter()
        .find_map(|plan| failing(&plan, law))
    {
        smallest = smaller;
    }
    shortest(&smallest, law)
}

/// The plan with a seed with which it fails.
fn failing(plan: &Plan, law: Law) -> Option<Plan> {
    seeds(plan).find(|plan| fails(plan, law).is_some())
}

/// Of the seeds with which it fails, the one with the fewest steps.
fn shortest(plan: &Plan, law: Law) -> Plan {
    let failing = seeds(plan).filter_map(|plan| fails(&plan, law).map(|steps| (steps, plan)));
    failing
        .min_by_key(|(steps, _)| *steps)
        .map_or_else(|| plan.clone(), |(_, plan)| plan)
}

fn seeds(plan: &Plan) -> impl Iterator<Item = Plan> {
    let plan = plan.clone();
    (plan.seed..plan.seed + SEEDS).map(move |seed| Plan {
        seed,
        ..plan.clone()
    })
}

/// After how many steps it fails, if it does.
fn fails(plan: &Plan, law: Law) -> Option<u64> {
    let outcome = run(plan, false);
    let breach = outcome.breach?;
    (breach.law == law).then_some(outcome.steps)
}
