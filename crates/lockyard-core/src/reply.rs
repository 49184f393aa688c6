//! What the scripts answer, by name.

use std::time::Duration;

use bytes::Bytes;

use crate::backend::Reply;
use crate::cell::FencingToken;

/// The answer to an acquire; each carries the server's µs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    Held {
        us: u64,
        token: Option<FencingToken>,
    },
    Queued {
        us: u64,
        ticket: u64,
        look: Duration,
    },
    Busy {
        us: u64,
    },
    Stale {
        us: u64,
    },
    Unfenced {
        us: u64,
    },
}

/// The answer for one id in a renewal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    Gone,
    Held(Option<FencingToken>),
    Queued(Duration),
    Unfenced,
    Error(String),
}

/// The answer for one entry in a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Released,
    Absent,
    Error,
}

impl Acquired {
    pub(crate) fn parse(reply: &Reply) -> Option<Self> {
        match reply {
            Reply::Number(us) => Some(Self::Held {
                us: number(*us)?,
                token: None,
            }),
            Reply::Array(parts) => match parts[..] {
                [Reply::Number(1), Reply::Number(us), Reply::Text(ref text)] => Some(Self::Held {
                    us: number(us)?,
                    token: token(text),
                }),
                [
                    Reply::Number(2),
                    Reply::Number(us),
                    Reply::Number(ticket),
                    Reply::Number(look),
                ] => Some(Self::Queued {
                    us: number(us)?,
                    ticket: number(ticket)?,
                    look: millis(look),
                }),
                [Reply::Number(3), Reply::Number(us)] => Some(Self::Busy { us: number(us)? }),
                [Reply::Number(4), Reply::Number(us)] => Some(Self::Stale { us: number(us)? }),
                [Reply::Number(5), Reply::Number(us)] => Some(Self::Unfenced { us: number(us)? }),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn us(&self) -> u64 {
        match self {
            Self::Held { us, .. } | Self::Queued { us, .. } => *us,
            Self::Busy { us } | Self::Stale { us } | Self::Unfenced { us } => *us,
        }
    }
}

/// The answers to a renewal of several ids, with the server's µs and whether more waiters can be served.
pub(crate) fn renewed(reply: Reply, ids: usize) -> Option<(u64, bool, Vec<Renewed>)> {
    let Reply::Array(parts) = reply else {
        return None;
    };
    let [Reply::Number(us), Reply::Number(more), results @ ..] = &parts[..] else {
        return None;
    };
    let each = results.chunks_exact(2).map(|pair| match pair {
        [Reply::Number(0), _] => Some(Renewed::Gone),
        [Reply::Number(1), Reply::Text(text)] => Some(Renewed::Held(token(text))),
        [Reply::Number(2), Reply::Number(look)] => Some(Renewed::Queued(millis(*look))),
        [Reply::Number(5), _] => Some(Renewed::Unfenced),
        [Reply::Number(-1), Reply::Text(text)] => Some(Renewed::Error(text_of(text))),
        _ => None,
    });
    let each: Vec<Renewed> = each.collect::<Option<_>>()?;
    (each.len() == ids).then_some((number(*us)?, *more == 1, each))
}

/// The answers to a release of several entries, and whether more waiters can be served.
pub(crate) fn released(reply: &Reply, entries: usize) -> Option<(bool, Vec<Answer>)> {
    let parts = match reply {
        Reply::Number(1) if entries == 1 => return Some((false, vec![Answer::Released])),
        Reply::Array(parts) => parts,
        _ => return None,
    };
    let [Reply::Number(more), results @ ..] = &parts[..] else {
        return None;
    };
    let each = results.iter().map(|result| match result {
        Reply::Number(0) => Some(Answer::Absent),
        Reply::Number(-1) => Some(Answer::Error),
        Reply::Number(_) => Some(Answer::Released),
        _ => None,
    });
    let each: Vec<Answer> = each.collect::<Option<_>>()?;
    (each.len() == entries).then_some((*more == 1, each))
}

/// The ids of the holds whose lease is not over, in the answer to an inspection.
pub(crate) fn holds(reply: &Reply) -> Option<Vec<Bytes>> {
    let Reply::Array(parts) = reply else {
        return None;
    };
    let [Reply::Number(us), _, Reply::Number(fields), rest @ ..] = &parts[..] else {
        return None;
    };
    let pairs = rest.get(..usize::try_from(*fields).ok()?)?.chunks_exact(2);
    // A value that is none of ours is no hold; the next script removes it.
    let hold = |pair: &[Reply]| match pair {
        [Reply::Text(hold), Reply::Text(value)] => {
            let deadline = std::str::from_utf8(value).ok()?.split(':').nth(1)?;
            (deadline.parse::<i64>().ok()? > us / 1000).then(|| hold.clone())
        }
        _ => None,
    };
    Some(pairs.filter_map(hold).collect())
}

pub(crate) fn number(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

pub(crate) fn millis(ms: i64) -> Duration {
    Duration::from_millis(number(ms).unwrap_or_default())
}

pub(crate) fn text_of(text: &Bytes) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// The token in `:<number>`, the way scripts write it; `None` if there is none.
pub(crate) fn token(text: &[u8]) -> Option<FencingToken> {
    let number = std::str::from_utf8(text).ok()?.strip_prefix(':')?;
    number.parse().ok().map(FencingToken::from_raw)
}
