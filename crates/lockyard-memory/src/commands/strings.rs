//! Commands for strings.

use super::{Answer, World};
use crate::number::integer;
use crate::refusal::Refusal;
use crate::value::{Text, Value};
use crate::words::Words;

pub(super) fn get(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let text = world.keyspace.get::<Text>(&words[1])?;
    Ok(text.map_or(Answer::Nil, |text| Answer::Text(text.clone())))
}

pub(super) fn set(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let ttl = match words.len() {
        3 => None,
        5 if words[3].eq_ignore_ascii_case(b"PX") => Some(integer(&words[4])?),
        _ => return Err(Refusal::option(&words[3])),
    };
    if ttl.is_some_and(|ttl| ttl <= 0) {
        return Err(Refusal::InvalidExpire("set"));
    }
    world.keyspace.set(&words[1], Value::Text(words[2].into()));
    if let Some(ttl) = ttl {
        world.keyspace.expire(&words[1], ttl)?;
    }
    Ok(Answer::Ok)
}

pub(super) fn incr(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let old = world.keyspace.get::<Text>(&words[1])?;
    let old = old.map_or(Ok(0), |text| integer(text))?;
    let new = old.checked_add(1).ok_or(Refusal::Overflow)?;
    world.keyspace.create(&words[1], |text: &mut Text| {
        *text = new.to_string().as_bytes().into();
    })?;
    Ok(Answer::Number(new))
}
