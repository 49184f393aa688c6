//! Leases: for how long a hold is valid without renewal.

use std::time::Duration;

use crate::error::Error;

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// For how long a hold is valid, and who extends it.
///
/// Between 10 ms and 10 years; fractions of a millisecond round up.
/// A short lease frees the lock of a killed process soon; a long one outlasts longer pauses and outages.
/// A hold that is granted to a waiter begins with the waiter timeout, if that is less, and has its lease from the first
/// renewal on, a third of that later; so has one with a fixed lease, which is renewed this once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lease {
    /// The watchdog renews it every third of its length until release.
    Renewed(Duration),
    /// It ends by itself, unless it is extended by hand.
    Fixed(Duration),
}

impl Lease {
    pub(crate) fn duration(self) -> Duration {
        match self {
            Self::Renewed(duration) | Self::Fixed(duration) => duration,
        }
    }

    /// The same lease in whole milliseconds.
    pub(crate) fn checked(self) -> Result<Self, Error> {
        Ok(match self {
            Self::Renewed(duration) => Self::Renewed(checked(duration)?),
            Self::Fixed(duration) => Self::Fixed(checked(duration)?),
        })
    }
}

impl Default for Lease {
    /// 30 s, renewed.
    fn default() -> Self {
        Self::Renewed(Duration::from_secs(30))
    }
}

/// The duration in whole milliseconds, if a lease may be so long.
pub(crate) fn checked(lease: Duration) -> Result<Duration, Error> {
    if lease < SHORTEST || lease > LONGEST {
        return Err(Error::InvalidLease { lease });
    }
    Ok(Duration::from_millis(
        lease.as_nanos().div_ceil(1_000_000) as u64
    ))
}

/// What is taken off a lease for the drift of two clocks.
pub(crate) fn margin(lease: Duration) -> Duration {
    lease / 1000 + Duration::from_millis(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_between_10_ms_and_10_years_and_rounds_up() {
        assert!(checked(Duration::ZERO).is_err());
        assert!(checked(Duration::from_nanos(1)).is_err());
        assert!(checked(Duration::from_millis(9)).is_err());
        assert!(checked(LONGEST + Duration::from_nanos(1)).is_err());
        assert!(checked(Duration::MAX).is_err());
        assert_eq!(
            checked(Duration::from_millis(10)).unwrap(),
            Duration::from_millis(10)
        );
        assert_eq!(checked(LONGEST).unwrap(), LONGEST);
        assert_eq!(
            checked(Duration::from_nanos(10_000_001)).unwrap(),
            Duration::from_millis(11)
        );
    }
}
