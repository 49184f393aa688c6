//! Commands for sorted sets.

use super::{Answer, World, count};
use crate::number::{Score, integer, score};
use crate::refusal::Refusal;
use crate::sorted_set::SortedSet;
use crate::value::Text;
use crate::words::Words;

pub(super) fn zadd(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let (mut only_new, mut only_greater, mut first) = (false, false, 2);
    while first < words.len() {
        match words[first].to_ascii_uppercase().as_slice() {
            b"NX" => only_new = true,
            b"GT" => only_greater = true,
            option @ (b"XX" | b"LT" | b"CH" | b"INCR") => return Err(Refusal::option(option)),
            _ => break,
        }
        first += 1;
    }
    let rest = words.len() - first;
    if rest == 0 || rest % 2 == 1 {
        return Err(Refusal::Syntax);
    }
    if only_new && only_greater {
        return Err(Refusal::Incompatible);
    }
    let pairs = (first..words.len()).step_by(2);
    let scores = pairs
        .clone()
        .map(|at| score(&words[at]).ok_or(Refusal::NotFloat));
    let scores: Vec<f64> = scores.collect::<Result<_, _>>()?;
    let add = |set: &mut SortedSet| {
        let mut added = 0;
        for (at, score) in pairs.zip(scores) {
            let member = &words[at + 1];
            match set.score(member) {
                Some(old) if only_new || (only_greater && score <= old) => {}
                Some(_) => set.set(member, score),
                None => {
                    set.set(member, score);
                    added += 1;
                }
            }
        }
        added
    };
    world.keyspace.create(&words[1], add).map(count)
}

pub(super) fn zcard(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let set = world.keyspace.get::<SortedSet>(&words[1])?;
    Ok(count(set.map_or(0, SortedSet::len)))
}

pub(super) fn zscore(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let set = world.keyspace.get::<SortedSet>(&words[1])?;
    let score = set.and_then(|set| set.score(&words[2]));
    Ok(score.map_or(Answer::Nil, |score| Answer::Text(text(score))))
}

pub(super) fn zrange(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let with_scores = match words.len() {
        4 => false,
        5 if words[4].eq_ignore_ascii_case(b"WITHSCORES") => true,
        _ => return Err(Refusal::option(&words[4])),
    };
    let (first, last) = (integer(&words[2])?, integer(&words[3])?);
    let Some(set) = world.keyspace.get::<SortedSet>(&words[1])? else {
        return Ok(Answer::List(Vec::new()));
    };
    let mut list = Vec::new();
    for place in set.range(first, last) {
        list.push(place.member.clone());
        if with_scores {
            list.push(text(place.score));
        }
    }
    Ok(Answer::List(list))
}

pub(super) fn zcount(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let (least, greatest) = (bound(&words[2])?, bound(&words[3])?);
    let set = world.keyspace.get::<SortedSet>(&words[1])?;
    Ok(count(
        set.map_or(0, |set| set.scores(least, greatest).count()),
    ))
}

pub(super) fn zrem(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let remove = |set: &mut SortedSet| words.from(2).filter(|member| set.remove(member)).count();
    world.keyspace.change(&words[1], remove).map(count)
}

pub(super) fn zremrangebyscore(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let (least, greatest) = (bound(&words[2])?, bound(&words[3])?);
    let remove = |set: &mut SortedSet| set.remove_scores(least, greatest);
    world.keyspace.change(&words[1], remove).map(count)
}

pub(super) fn zremrangebyrank(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let (first, last) = (integer(&words[2])?, integer(&words[3])?);
    let remove = |set: &mut SortedSet| {
        let gone = set.range(first, last).into_iter();
        let gone: Vec<Text> = gone.map(|place| place.member.clone()).collect();
        gone.iter().filter(|member| set.remove(member)).count()
    };
    world.keyspace.change(&words[1], remove).map(count)
}

/// The end of a range of scores, which is part of it.
fn bound(word: &[u8]) -> Result<f64, Refusal> {
    match word {
        [b'(', ..] => Err(Refusal::option(word)),
        _ => score(word).ok_or(Refusal::NotRange),
    }
}

fn text(score: f64) -> Text {
    Score(score).to_string().as_bytes().into()
}
