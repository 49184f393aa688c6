//! What happened, for people.

use std::fmt;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Virtual ms since the beginning.
    pub at: u64,
    /// Whose step it is.
    pub who: String,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8} ms  {:<10} {}", self.at, self.who, self.what)
    }
}
