//! The side of the real server.

use std::collections::BTreeMap;

use lockyard_core::__private::Reply;
use lockyard_testkit::Server;
use lockyard_testkit::redis::{self, Connection, RedisResult, Value};

use super::calls::{Call, channel};
use super::stored::{Seen, Told, without_place};
use crate::scripts::bare::{Inbox, connect};

pub(super) struct Real<'a> {
    server: &'a Server,
    connection: Connection,
    inboxes: BTreeMap<usize, Inbox>,
}

impl<'a> Real<'a> {
    /// Empties a server and uses it.
    pub(super) fn new(server: &'a Server) -> Self {
        let mut real = Self {
            server,
            connection: connect(&server.url()),
            inboxes: BTreeMap::new(),
        };
        real.ask::<()>(&["FLUSHALL"]);
        real
    }

    fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        redis::cmd(words[0])
            .arg(&words[1..])
            .query(&mut self.connection)
            .unwrap()
    }

    pub(super) fn call(&mut self, call: &Call, now_us: u64) -> (Result<Reply, String>, Told) {
        let (seconds, micros) = (now_us / 1_000_000, now_us % 1_000_000);
        let time = format!("{{\"{seconds}\", \"{micros}\"}}");
        let script = call.script.replace("call(\"TIME\")", &time);
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(call.keys.len());
        let reply = command
            .arg(&call.keys)
            .arg(&call.args)
            .query(&mut self.connection);
        (answer(reply), self.told())
    }

    pub(super) fn command(&mut self, words: &[String]) -> Result<Reply, String> {
        let mut command = redis::cmd(&words[0]);
        answer(command.arg(&words[1..]).query(&mut self.connection))
    }

    fn told(&mut self) -> Told {
        let mut told = Vec::new();
        for (number, inbox) in &mut self.inboxes {
            let messages = inbox.drain(self.server).into_iter();
            told.extend(messages.map(|message| (channel(*number), message)));
        }
        told
    }

    /// Whether the client did not hear anything before.
    pub(super) fn listen(&mut self, client: usize) -> bool {
        if self.inboxes.contains_key(&client) {
            return false;
        }
        let inbox = Inbox::open(&self.server.url(), &channel(client));
        self.inboxes.insert(client, inbox);
        true
    }

    /// Whether the client heard what it was told until now.
    pub(super) fn deafen(&mut self, client: usize) -> bool {
        let inbox = self.inboxes.remove(&client);
        inbox.map(Inbox::close).is_some()
    }

    pub(super) fn see(&mut self) -> Seen {
        let mut names: Vec<String> = self.ask(&["KEYS", "*"]);
        names.sort();
        let seen = names.into_iter().map(|name| {
            let kind: String = self.ask(&["TYPE", &name]);
            let mut value: Vec<String> = match kind.as_str() {
                "string" => vec![self.ask(&["GET", &name])],
                "hash" => {
                    let fields: Vec<(String, String)> = self.ask(&["HGETALL", &name]);
                    let fields = fields.iter();
                    fields
                        .map(|(field, value)| format!("{field} = {value}"))
                        .collect()
                }
                "zset" => {
                    let words = ["ZRANGE", &name, "0", "-1", "WITHSCORES"];
                    let members: Vec<(String, f64)> = self.ask(&words);
                    let members = members.iter();
                    members
                        .map(|(member, score)| format!("{member} at {score}"))
                        .collect()
                }
                other => panic!("a key of type {other}"),
            };
            value.sort();
            let ttl: i64 = self.ask(&["PTTL", &name]);
            (name, (value, u64::try_from(ttl).ok()))
        });
        seen.collect()
    }

    /// Sets how long keys live, to the ms, so that what has passed here in the meantime does not count.
    pub(super) fn set_ttls(&mut self, seen: &Seen) {
        for (name, (_, ttl)) in seen {
            if let Some(ttl) = ttl {
                self.ask::<()>(&["PEXPIRE", name, &ttl.to_string()]);
            }
        }
    }

    /// Lets time pass for the keys.
    pub(super) fn pass(&mut self, ms: u64) {
        for (name, (_, ttl)) in self.see() {
            if let Some(ttl) = ttl {
                let left = ttl as i64 - ms as i64;
                self.ask::<()>(&["PEXPIRE", &name, &left.to_string()]);
            }
        }
    }
}

fn answer(reply: RedisResult<Value>) -> Result<Reply, String> {
    reply.map(convert).map_err(|error| {
        let code = error.code().unwrap_or_default();
        without_place(&format!("{code} {}", error.detail().unwrap_or_default()))
    })
}

fn convert(value: Value) -> Reply {
    match value {
        Value::Int(number) => Reply::Number(number),
        Value::BulkString(text) => Reply::Text(text.into()),
        Value::Array(values) => Reply::Array(values.into_iter().map(convert).collect()),
        _ => Reply::Other,
    }
}
