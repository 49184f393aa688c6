//! Errors that say what to do: what the server refuses, and a server that is not there.

mod connecting;
mod passwords;
mod replies;
mod servers;

use std::time::Duration;

use lockyard::{Error, Lease};

use crate::support::{chain, variant};

/// What passes between the end of an operation timeout and an error, on a busy machine.
pub(crate) const SLACK: Duration = Duration::from_millis(2500);

pub(crate) fn renewed(lease: Duration) -> Lease {
    Lease::Renewed(lease)
}

pub(crate) fn is_script(words: &[Vec<u8>]) -> bool {
    words[0].to_ascii_uppercase().starts_with(b"EVAL")
}

/// An error tells what to do, keeps what the server said as its source, and does not say it twice.
#[track_caller]
pub(crate) fn assert_tells(error: &Error, kind: &str, advice: &str, said: &str, retryable: bool) {
    let chain = chain(error);
    assert_eq!(variant(error), kind, "{chain:?}");
    assert_eq!(error.is_retryable(), retryable, "{chain:?}");
    assert!(chain[0].contains(advice), "{chain:?}");
    assert!(
        chain[1..].iter().any(|text| text.contains(said)),
        "no {said:?} in {chain:?}"
    );
    for text in &chain[1..] {
        assert!(!chain[0].contains(text), "said twice: {chain:?}");
    }
}
