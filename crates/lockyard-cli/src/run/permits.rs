//! So many permits of so many, as `1/3`.

use std::str::FromStr;

/// What `--permits` asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Permits {
    /// How many the command takes.
    pub(crate) taken: u32,
    /// How many there are.
    pub(crate) all: u32,
}

impl FromStr for Permits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (taken, all) = text.split_once('/')?;
            let (taken, all) = (taken.parse().ok()?, all.parse().ok()?);
            Some(Self { taken, all })
        };
        let permits = read().ok_or("expected N/M, such as 1/3")?;
        if permits.all == 0 {
            return Err("there are no permits to take one of".to_owned());
        }
        if !(1..=permits.all).contains(&permits.taken) {
            return Err(format!(
                "of {0} permits a command can take 1 to {0}, not {1}",
                permits.all, permits.taken
            ));
        }
        Ok(permits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_had_is_read() {
        let permits = |taken, all| Ok(Permits { taken, all });
        assert_eq!("1/3".parse(), permits(1, 3));
        assert_eq!("3/3".parse(), permits(3, 3));
        for (text, says) in [
            ("3", "such as 1/3"),
            ("/3", "such as 1/3"),
            ("1/", "such as 1/3"),
            ("-1/3", "such as 1/3"),
            ("1/3/3", "such as 1/3"),
            ("1/4294967296", "such as 1/3"),
            ("0/3", "1 to 3, not 0"),
            ("4/3", "1 to 3, not 4"),
            ("0/0", "there are no permits"),
        ] {
            let error = text.parse::<Permits>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
