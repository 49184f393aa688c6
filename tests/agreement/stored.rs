//! The side in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use lockyard_core::__private::{Arg, Call as CoreCall, Reply, Script};
use lockyard_memory::__private::Store;
use lockyard_memory::Value;

use super::calls::Call;

/// A key's value, in an order that both sides have, and its time to live in ms.
pub(super) type Seen = BTreeMap<String, (Vec<String>, Option<u64>)>;

/// A message's channel and text.
pub(super) type Told = Vec<(String, String)>;

#[derive(Default)]
pub(super) struct Stored {
    store: Store,
}

/// Any command, as the store has no other door.
const COMMAND: &str = "return redis.call(unpack(ARGV))";

impl Stored {
    /// The reply, or the error up to the place where the script was; and the messages that somebody hears.
    pub(super) fn call(&mut self, call: &Call, now_us: u64) -> (Result<Reply, String>, Told) {
        let script = Script::new(call.script);
        let keys: Vec<_> = call.keys.iter().cloned().map(Into::into).collect();
        let args: Vec<_> = call
            .args
            .iter()
            .cloned()
            .map(|arg| Arg::Text(arg.into()))
            .collect();
        let call = CoreCall {
            script: &script,
            keys: &keys,
            args: &args,
        };
        let (reply, messages) = self.store.run(call, now_us);
        let reply = reply.map_err(|error| without_place(error.message()));
        let heard = messages.into_iter().filter(|message| message.receivers > 0);
        let told = heard.map(|message| (text(&message.channel), text(&message.text)));
        (reply, told.collect())
    }

    pub(super) fn command(&mut self, words: &[String], now_us: u64) -> Result<Reply, String> {
        let call = Call {
            script: COMMAND,
            keys: Vec::new(),
            args: words.to_vec(),
        };
        self.call(&call, now_us).0
    }

    pub(super) fn subscribe(&mut self, channel: &str) {
        self.store.subscribe(channel.as_bytes());
    }

    pub(super) fn unsubscribe(&mut self, channel: &str) {
        self.store.unsubscribe(channel.as_bytes());
    }

    pub(super) fn see(&self, now_us: u64) -> Seen {
        let entries = self.store.dump(now_us).into_iter().map(|entry| {
            let mut value = parts(&entry.value);
            value.sort();
            let ttl = entry.ttl.as_ref().map(Duration::as_millis);
            (text(&entry.key), (value, ttl.map(|ttl| ttl as u64)))
        });
        entries.collect()
    }
}

fn parts(value: &Value) -> Vec<String> {
    match value {
        Value::Text(value) => vec![text(value)],
        Value::Hash(fields) => {
            let fields = fields.iter();
            fields
                .map(|(field, value)| format!("{} = {}", text(field), text(value)))
                .collect()
        }
        Value::SortedSet(members) => {
            let members = members.iter();
            members
                .map(|(member, score)| format!("{} at {score}", text(member)))
                .collect()
        }
        other => panic!("a new type of value: {other:?}"),
    }
}

/// An error's text without the script's name and line: the scripts of the two sides have different names.
pub(super) fn without_place(error: &str) -> String {
    let (text, _) = error.split_once(" script: ").unwrap_or((error, ""));
    text.to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
