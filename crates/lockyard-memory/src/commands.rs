//! The commands that the scripts use, and no others.

mod hashes;
mod keys;
mod server;
mod sorted_sets;
mod strings;

use crate::channels::Channels;
use crate::keyspace::Keyspace;
use crate::refusal::Refusal;
use crate::value::Text;
use crate::words::Words;

/// All that commands work on.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) keyspace: Keyspace,
    pub(crate) channels: Channels,
}

/// What a command answers.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Nil,
    Ok,
    Number(i64),
    Text(Text),
    List(Vec<Text>),
    /// Of which some may not be there.
    Fields(Vec<Option<Text>>),
}

/// A command: how many words it has, as Redis counts (negative: at least), and what it does.
struct Command {
    arity: isize,
    writes: bool,
    run: Run,
}

type Run = fn(&mut World, &Words) -> Result<Answer, Refusal>;

fn reads(arity: isize, run: Run) -> Command {
    let writes = false;
    Command { arity, writes, run }
}

fn writes(arity: isize, run: Run) -> Command {
    let writes = true;
    Command { arity, writes, run }
}

fn find(name: &[u8]) -> Option<Command> {
    let command = match name {
        b"DEL" => writes(-2, keys::del),
        b"EXISTS" => reads(-2, keys::exists),
        b"PEXPIRE" => writes(-3, keys::pexpire),
        b"PTTL" => reads(2, keys::pttl),
        b"GET" => reads(2, strings::get),
        b"SET" => writes(-3, strings::set),
        b"INCR" => writes(2, strings::incr),
        b"HGET" => reads(3, hashes::hget),
        b"HGETALL" => reads(2, hashes::hgetall),
        b"HMGET" => reads(-3, hashes::hmget),
        b"HSET" => writes(-4, hashes::hset),
        b"HSETNX" => writes(4, hashes::hsetnx),
        b"HDEL" => writes(-3, hashes::hdel),
        b"ZADD" => writes(-4, sorted_sets::zadd),
        b"ZCARD" => reads(2, sorted_sets::zcard),
        b"ZCOUNT" => reads(4, sorted_sets::zcount),
        b"ZSCORE" => reads(3, sorted_sets::zscore),
        b"ZRANGE" => reads(-4, sorted_sets::zrange),
        b"ZREM" => writes(-3, sorted_sets::zrem),
        b"ZREMRANGEBYRANK" => writes(4, sorted_sets::zremrangebyrank),
        b"ZREMRANGEBYSCORE" => writes(4, sorted_sets::zremrangebyscore),
        b"TIME" => reads(1, server::time),
        // Redis takes it for a write, as replicas hear of it.
        b"PUBLISH" => writes(3, server::publish),
        _ => return None,
    };
    Some(command)
}

/// Runs a command.
pub(crate) fn run(world: &mut World, words: &Words, read_only: bool) -> Result<Answer, Refusal> {
    let mut buffer = [0; 24];
    let command = find(words.name(&mut buffer))
        .ok_or_else(|| Refusal::UnknownCommand(String::from_utf8_lossy(&words[0]).into_owned()))?;
    let words_wanted = command.arity.unsigned_abs();
    let fits = if command.arity < 0 {
        words.len() >= words_wanted
    } else {
        words.len() == words_wanted
    };
    if !fits {
        return Err(Refusal::Arity);
    }
    if command.writes && read_only {
        return Err(Refusal::ReadOnly);
    }
    (command.run)(world, words)
}

fn count(number: usize) -> Answer {
    Answer::Number(number as i64)
}

fn flag(yes: bool) -> Answer {
    Answer::Number(i64::from(yes))
}
