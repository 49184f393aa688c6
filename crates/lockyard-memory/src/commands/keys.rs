//! Commands for keys of any type.

use super::{Answer, World, count, flag};
use crate::number::integer;
use crate::refusal::Refusal;
use crate::words::Words;

pub(super) fn exists(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let there = words.from(1).filter(|key| world.keyspace.exists(key));
    Ok(count(there.count()))
}

pub(super) fn pexpire(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    if words.len() > 3 {
        return Err(Refusal::option(&words[3]));
    }
    let ttl = integer(&words[2])?;
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
