//! The three ways to sell.

use clap::ValueEnum;
use serde::Serialize;

/// How the workers keep out of each other's way.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scenario {
    /// They do not.
    None,
    /// `SETNX`, then `EXPIRE`, and a blind `DEL`; some holders are slower than their lease.
    Naive,
    /// Lockyard's lock; one holder is killed.
    Lockyard,
}

impl Scenario {
    /// All, in the order of the demo.
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::Naive, Self::Lockyard];

    /// Returns the word for the command line, the JSON and the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Naive => "naive",
            Self::Lockyard => "lockyard",
        }
    }

    /// Says in a few words how the workers lock.
    pub(crate) fn legend(self) -> &'static str {
        match self {
            Self::None => "no lock",
            Self::Naive => "SETNX, EXPIRE, DEL; some holders are slower than their lease",
            Self::Lockyard => "Lockyard's lock; a worker is killed while it holds",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_has_one_name_everywhere() {
        for scenario in Scenario::ALL {
            let json = serde_json::to_string(&scenario).unwrap();
            assert_eq!(json, format!("\"{}\"", scenario.name()));
            assert_eq!(Scenario::from_str(scenario.name(), false), Ok(scenario));
        }
    }
}
