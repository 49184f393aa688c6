//! What a judge may find.

use std::fmt;

use super::{Claim, Event, Holder, Sample};

/// A promise that was broken.
#[derive(Clone, Debug)]
pub(crate) enum Finding {
    /// An event that cannot follow those before it in its attempt.
    Disorder(Event),
    /// An attempt has no end, and its process was not killed.
    Unended {
        process: u32,
        attempt: u64,
        lock: String,
    },
    /// An attempt ended with an error that nothing explains.
    Broken(Event),
    /// Two owners believed to hold at once, and not both to read.
    Overlap(Claim, Claim),
    /// A hold was lost although its lease still ran.
    LostEarly(Claim),
    /// An owner believed to hold, and did not on the server.
    Unfounded(Claim, Sample),
    /// Two owners held on the server at once, and not both to read.
    TwoHolders(Sample),
    /// Somebody got permits of which there were not as many.
    Beyond {
        sample: Sample,
        held: u64,
        limit: u32,
    },
    /// More permits were believed to be held than there were when the last of them came.
    BelievedBeyond { claim: Claim, held: u64, limit: u32 },
    /// One was let in although another had stood in front of it, and still does.
    Overtaken {
        sample: Sample,
        waiter: String,
        holder: Holder,
    },
    /// A later holder has a token that is not greater than that of an earlier one.
    TokenBack {
        lock: String,
        owner: String,
        token: u64,
        before: u64,
    },
    /// A hold of a client that nobody has.
    Stranger(Sample, Holder),
    /// A hold long after everybody who could have it has ended.
    Phantom(Sample, Holder),
    /// A key without a TTL.
    Forever(Sample),
    /// A semaphore counts permits that nobody holds, or does not count what somebody does.
    Miscounted(Sample),
    /// A key was left at the end.
    LeftBehind(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disorder(event) => write!(f, "an event out of order: {event:?}"),
            Self::Unended {
                process,
                attempt,
                lock,
            } => write!(
                f,
                "attempt {attempt} of process {process} at {lock} never ended"
            ),
            Self::Broken(event) => write!(f, "an error that nothing explains: {event:?}"),
            Self::Overlap(first, second) => {
                let ms = (first.until.min(second.until) - second.from) as f64 / 1e6;
                write!(
                    f,
                    "two believe to hold, for {ms:.3} ms:\n  {first:?}\n  {second:?}"
                )
            }
            Self::LostEarly(claim) => write!(f, "lost before its lease was over: {claim:?}"),
            Self::Unfounded(claim, sample) => {
                let ms = (claim.until - sample.until) as f64 / 1e6;
                write!(
                    f,
                    "believes to hold, for {ms:.3} ms more, but the server says no:\n  {claim:?}\n  {sample:?}"
                )
            }
            Self::TwoHolders(sample) => write!(f, "two owners hold on the server: {sample:?}"),
            Self::Beyond {
                sample,
                held,
                limit,
            } => {
                write!(f, "{held} permits granted of {limit}: {sample:?}")
            }
            Self::BelievedBeyond { claim, held, limit } => {
                write!(
                    f,
                    "{held} permits believed to be held of {limit}: {claim:?}"
                )
            }
            Self::Overtaken {
                sample,
                waiter,
                holder,
            } => write!(f, "{waiter} was overtaken by {holder:?}: {sample:?}"),
            Self::TokenBack {
                lock,
                owner,
                token,
                before,
            } => {
                write!(f, "{owner} has token {token} of {lock}, after {before}")
            }
            Self::Stranger(sample, holder) => {
                write!(f, "nobody's hold at {}: {holder:?}", sample.lock)
            }
            Self::Phantom(sample, holder) => write!(
                f,
                "a hold that nobody has any more at {}, {}: {holder:?}",
                sample.lock, sample.from
            ),
            Self::Forever(sample) => write!(f, "keys without a TTL: {:?}", sample.forever),
            Self::Miscounted(sample) => write!(f, "permits miscounted: {sample:?}"),
            Self::LeftBehind(key) => write!(f, "left behind: {key}"),
        }
    }
}
