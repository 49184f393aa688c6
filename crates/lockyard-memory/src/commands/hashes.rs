//! Commands for hashes.

use super::{Answer, World, count, flag};
use crate::refusal::Refusal;
use crate::value::Hash;
use crate::words::Words;

pub(super) fn hget(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let value = world
        .keyspace
        .get::<Hash>(&words[1])?
        .and_then(|hash| hash.get(&words[2]));
    Ok(value.map_or(Answer::Nil, |value| Answer::Text(value.clone())))
}

pub(super) fn hmget(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let hash = world.keyspace.get::<Hash>(&words[1])?;
    let field = |field| hash.and_then(|hash| hash.get(field)).cloned();
    Ok(Answer::Fields(words.from(2).map(field).collect()))
}

pub(super) fn hgetall(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let Some(hash) = world.keyspace.get::<Hash>(&words[1])? else {
        return Ok(Answer::List(Vec::new()));
    };
    let pairs = hash.fields.iter();
    let parts = pairs.flat_map(|(field, value)| [field.clone(), value.clone()]);
    Ok(Answer::List(parts.collect()))
}

pub(super) fn hset(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    if words.len() % 2 == 1 {
        return Err(Refusal::FieldWithoutValue);
    }
    let set = |hash: &mut Hash| {
        let pairs = (2..words.len()).step_by(2);
        pairs
            .filter(|at| hash.set(&words[*at], &words[at + 1]))
            .count()
    };
    world.keyspace.create(&words[1], set).map(count)
}

pub(super) fn hsetnx(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let set = |hash: &mut Hash| hash.get(&words[2]).is_none() && hash.set(&words[2], &words[3]);
    world.keyspace.create(&words[1], set).map(flag)
}

pub(super) fn hdel(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let remove = |hash: &mut Hash| words.from(2).filter(|field| hash.remove(field)).count();
    world.keyspace.change(&words[1], remove).map(count)
}
