//! What a run is made of.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::faults::Fault;
use crate::mutants::Mutant;

/// How long a lease that is renewed lasts.
pub(crate) const LEASE: Duration = Duration::from_millis(10_000);
/// After what silence a waiter counts as gone: T.
pub(crate) const WAITER_TIMEOUT: Duration = Duration::from_millis(3000);
/// How long a command may take: V.
pub(crate) const OPERATION_TIMEOUT: Duration = Duration::from_millis(1000);

/// What a run is made of; the same plan always runs the same way.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What decides everything else.
    pub seed: u64,
    /// How many clients there are.
    pub clients: usize,
    /// How many tasks each has.
    pub tasks: usize,
    /// How often each task locks something.
    pub rounds: usize,
    /// How many locks they share.
    pub locks: usize,
    /// What may go wrong.
    pub faults: BTreeSet<Fault>,
    /// What is broken on purpose.
    pub mutant: Option<Mutant>,
}

impl Plan {
    /// A run of the usual size in which everything may go wrong.
    #[must_use]
    pub fn mixed(seed: u64) -> Self {
        Self {
            seed,
            clients: 3,
            tasks: 3,
            rounds: 4,
            locks: 2,
            faults: Self::faults(seed),
            mutant: None,
        }
    }

    /// While somebody takes locks away holders are excused, so in most runs only few do, or nobody; and while nothing
    /// fails whoever waits may expect its turn at once.
    fn faults(seed: u64) -> BTreeSet<Fault> {
        let mut faults = BTreeSet::from(Fault::ALL);
        let without: &[Fault] = match seed % 4 {
            0 => &[Fault::Flush, Fault::Delete, Fault::Clock, Fault::Force],
            1 => &[Fault::Flush, Fault::Clock],
            2 => &[],
            _ => return BTreeSet::from([Fault::Cancel, Fault::Force]),
        };
        faults.retain(|fault| !without.contains(fault));
        faults
    }

    /// Whether commands, replies and messages all arrive, and soon.
    pub(crate) fn is_calm(&self) -> bool {
        self.faults
            .iter()
            .all(|fault| matches!(fault, Fault::Cancel | Fault::Force))
    }

    /// Smaller plans that might fail in the same way, the smallest steps first.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut plans = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut plan = self.clone();
            change(&mut plan);
            plans.push(plan);
        };
        for fault in &self.faults {
            add(&|plan| _ = plan.faults.remove(fault));
        }
        if self.clients > 1 {
            add(&|plan| plan.clients -= 1);
        }
        if self.tasks > 1 {
            add(&|plan| plan.tasks -= 1);
        }
        if self.rounds > 1 {
            add(&|plan| plan.rounds -= 1);
        }
        if self.locks > 1 {
            add(&|plan| plan.locks -= 1);
        }
        plans
    }
}
