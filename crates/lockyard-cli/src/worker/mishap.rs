//! What goes wrong in a sale, planned so that every demo shows it.
//!
//! Each mishap belongs to a certain number of items left, and happens to the first worker that
//! reads this number while it is inside.

use std::time::Duration;

use crate::cli::Terms;
use crate::scenario::Scenario;

/// Something that happens to a worker between reading the stock and writing it back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mishap {
    /// It takes this long, which is longer than the lease.
    Dawdle(Duration),
    /// It is killed.
    Die,
}

impl Mishap {
    /// Returns what is planned for a worker that finds `left` items.
    pub(crate) fn planned(scenario: Scenario, terms: Terms, left: u32) -> Option<Self> {
        let thirds = [terms.stock * 2 / 3, terms.stock / 3];
        match scenario {
            Scenario::None => None,
            Scenario::Naive => thirds
                .contains(&left)
                .then_some(Self::Dawdle(terms.lease * 5 / 4)),
            Scenario::Lockyard => {
                let half = terms.stock.div_ceil(2);
                // A single worker is spared: nobody would be there to go on.
                (left == half && terms.processes > 1).then_some(Self::Die)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scenario: Scenario, processes: u16, stock: u32) -> Vec<u32> {
        let lease = Duration::from_secs(2);
        let terms = Terms {
            processes,
            stock,
            lease,
        };
        (1..=stock)
            .filter(|left| Mishap::planned(scenario, terms, *left).is_some())
            .collect()
    }

    #[test]
    fn one_worker_dies_in_the_middle_if_there_is_another() {
        assert_eq!(check(Scenario::Lockyard, 6, 300), [150]);
        assert_eq!(check(Scenario::Lockyard, 2, 1), [1]);
        assert_eq!(check(Scenario::Lockyard, 1, 300), [0; 0]);
    }

    #[test]
    fn naive_holders_dawdle_now_and_then() {
        assert_eq!(check(Scenario::Naive, 6, 300), [100, 200]);
        assert_eq!(check(Scenario::None, 6, 300), [0; 0]);
    }
}
