//! Time and messages.

use super::{Answer, World};
use crate::refusal::Refusal;
use crate::value::Text;
use crate::words::Words;

#[expect(clippy::unnecessary_wraps, reason = "every command has this signature")]
pub(super) fn time(world: &mut World, _: &Words) -> Result<Answer, Refusal> {
    let us = world.keyspace.now_us();
    let text = |number: u64| Text::from(number.to_string().as_bytes());
    Ok(Answer::List(vec![
        text(us / 1_000_000),
        text(us % 1_000_000),
    ]))
}

#[expect(clippy::unnecessary_wraps, reason = "every command has this signature")]
pub(super) fn publish(world: &mut World, words: &Words) -> Result<Answer, Refusal> {
    let receivers = world.channels.publish(&words[1], &words[2]);
    Ok(Answer::Number(receivers as i64))
}
