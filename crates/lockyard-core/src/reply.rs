//! What the scripts answer, by name.

use std::time::Duration;

use bytes::Bytes;

use crate::backend::Reply;
use crate::cell::FencingToken;
use crate::error::Error;
use crate::id::Terms;

/// The answer to an acquire.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    Held(Option<FencingToken>),
    Queued { place: Place, look: Duration },
    Busy,
    Stale,
    Never(Never),
    Error(String),
}

/// Where an id stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) ticket: u64,
    /// The id of the same client that stood right before it, if that asks for the same.
    pub(crate) behind: Option<u64>,
}

/// Why an acquire can never succeed as things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Never {
    /// Its owner holds without a fencing token.
    Unfenced,
    /// Its owner holds what it waits for others to give up.
    Deadlock,
    /// There are not so many permits, but this number.
    TooMany(u64),
}

impl Never {
    fn of(status: i64, value: &Reply) -> Option<Self> {
        match (status, value) {
            (5, _) => Some(Self::Unfenced),
            (6, _) => Some(Self::Deadlock),
            (7, Reply::Number(most)) => Some(Self::TooMany(number(*most)?)),
            _ => None,
        }
    }

    pub(crate) fn error(self, name: &str, terms: Terms) -> Error {
        let name = name.to_owned();
        match self {
            Self::Unfenced => Error::NotFenced { name },
            Self::Deadlock => Error::WouldDeadlock { name },
            Self::TooMany(most) => Error::InvalidPermits {
                name,
                permits: terms.weight.into(),
                most,
            },
        }
    }
}

/// The answer for one id in a renewal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    Gone,
    Held(Option<FencingToken>),
    Queued(Duration),
    Never(Never),
    Error(String),
}

/// The answer for one entry in a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Released,
    Absent,
    Error(String),
}

/// The answer to an acquire of one lock, and the server's µs.
pub(crate) fn acquired(reply: &Reply) -> Option<(u64, Acquired)> {
    let parts = match reply {
        Reply::Number(us) => return Some((number(*us)?, Acquired::Held(None))),
        Reply::Array(parts) => parts,
        _ => return None,
    };
    let [
        Reply::Number(us),
        Reply::Number(status),
        value,
        Reply::Number(look),
    ] = &parts[..]
    else {
        return None;
    };
    let acquired = match (status, value) {
        (1, Reply::Text(text)) => Acquired::Held(token(text)),
        (2, place) => Acquired::Queued {
            place: place_of(place)?,
            look: millis(*look),
        },
        (3, _) => Acquired::Busy,
        (4, _) => Acquired::Stale,
        (-1, Reply::Text(text)) => Acquired::Error(text_of(text)),
        (status, value) => Acquired::Never(Never::of(*status, value)?),
    };
    Some((number(*us)?, acquired))
}

/// A ticket, or `ticket:id`.
fn place_of(value: &Reply) -> Option<Place> {
    let (ticket, behind) = match value {
        Reply::Number(ticket) => (number(*ticket)?, None),
        Reply::Text(text) => {
            let (ticket, behind) = std::str::from_utf8(text).ok()?.split_once(':')?;
            (ticket.parse().ok()?, Some(behind.parse().ok()?))
        }
        _ => return None,
    };
    Some(Place { ticket, behind })
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
        [Reply::Number(-1), Reply::Text(text)] => Some(Renewed::Error(text_of(text))),
        [Reply::Number(status), value] => Never::of(*status, value).map(Renewed::Never),
        _ => None,
    });
    let each: Vec<Renewed> = each.collect::<Option<_>>()?;
    (each.len() == ids).then_some((number(*us)?, *more == 1, each))
}

/// The answer to a release.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    /// Whether more waiters can be served.
    pub(crate) more: bool,
    /// One for each entry.
    pub(crate) answers: Vec<Answer>,
    /// The messages that were sent.
    pub(crate) news: Vec<Bytes>,
}

pub(crate) fn released(reply: &Reply, entries: usize) -> Option<Released> {
    let parts = match reply {
        Reply::Number(1) if entries == 1 => {
            return Some(Released {
                more: false,
                answers: vec![Answer::Released],
                news: Vec::new(),
            });
        }
        Reply::Array(parts) => parts,
        _ => return None,
    };
    let [Reply::Number(more), results @ ..] = &parts[..] else {
        return None;
    };
    let (answers, news) = results.split_at_checked(entries)?;
    let answers = answers.iter().map(|answer| match answer {
        Reply::Number(0) => Some(Answer::Absent),
        Reply::Number(_) => Some(Answer::Released),
        Reply::Text(text) => Some(Answer::Error(text_of(text))),
        _ => None,
    });
    let news = news.iter().map(|message| match message {
        Reply::Text(text) => Some(text.clone()),
        _ => None,
    });
    Some(Released {
        more: *more == 1,
        answers: answers.collect::<Option<_>>()?,
        news: news.collect::<Option<_>>()?,
    })
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
