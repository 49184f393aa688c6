//! Commands for keys of any type.

use super::{Answer, World, count, flag};
use crate::number::integer;
use crate::refusal::Refusal;
use crate::words::Words;

pub(super) fn del(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let gone = words.from(1).filter(|key| world.keyspace.remove(key));
    Ok(count(gone.count()))
}

pub(super) fn exists(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let there = words.from(1).filter(|key| world.keyspace.exists(key));
    Ok(count(there.count()))
}

pub(super) fn pexpire(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let only_greater = match words.len() {
        3 => false,
        4 if words[3].eq_ignore_ascii_case(b"GT") => true,
        _ => return Err(Refusal::option(&words[3])),
    };
    let ttl = integer(&words[2])?;
    // A key that does not expire lives longer than any.
    let lives_longer = |old: Option<u64>| old.is_none_or(|old| ttl <= old as i64);
    if only_greater && world.keyspace.ttl(&words[1]).is_some_and(lives_longer) {
        return Ok(flag(false));
    }
    world.keyspace.expire(&words[1], ttl).map(flag)
}

pub(super) fn pttl(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let ttl = match world.keyspace.ttl(&words[1]) {
        None => -2,
        Some(None) => -1,
        Some(Some(ttl)) => ttl as i64,
    };
    Ok(Answer::Number(ttl))
}
