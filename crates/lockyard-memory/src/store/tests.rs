//! The semantics of each command and of Lua, as seen on Redis 7.0.15.

mod commands;
mod expiry;
mod lua;
mod messages;

use bytes::Bytes;
use lockyard_core::__private::{Arg, Call, Reply, Script};
use lockyard_core::ServerError;

use super::Store;

const NOW: u64 = 1_733_000_000_000_000;

impl Store {
    /// Runs a script without keys at a time in ms from the beginning.
    fn eval_at(&mut self, ms: u64, text: &'static str) -> Result<Reply, ServerError> {
        let script = Script::new(text);
        let (keys, args) = (&[][..], &[][..]);
        let call = Call {
            script: &script,
            keys,
            args,
        };
        self.run(call, NOW + ms * 1000).0
    }

    fn eval(&mut self, text: &'static str) -> Result<Reply, ServerError> {
        self.eval_at(0, text)
    }

    /// Runs a script at a time in ms from the beginning; what `tostring` makes of each value it returns.
    fn show_at(&mut self, ms: u64, script: &str) -> String {
        let text = format!(
            "local function show(v)
               if type(v) ~= 'table' then return type(v) == 'string' and '\"' .. v .. '\"' or tostring(v) end
               if v.err then return 'error ' .. v.err end
               if v.ok then return 'ok ' .. v.ok end
               local parts = {{}}
               for i, part in ipairs(v) do parts[i] = show(part) end
               return '{{' .. table.concat(parts, ' ') .. '}}'
             end
             local function c(text)
               local words = {{}}
               for word in string.gmatch(text, '%S+') do words[#words + 1] = word end
               return redis.pcall(unpack(words))
             end
             return show((function() {script} end)())"
        );
        match self.eval_at(ms, text.leak()) {
            Ok(Reply::Text(text)) => String::from_utf8_lossy(&text).into_owned(),
            other => panic!("{other:?}"),
        }
    }

    /// What a command answers.
    fn command_at(&mut self, ms: u64, words: &str) -> String {
        self.show_at(ms, &format!("return c('{words}')"))
    }

    /// Runs commands in turn and compares each answer.
    #[track_caller]
    fn check(&mut self, table: &[(&str, &str)]) {
        for (words, answer) in table {
            assert_eq!(self.command_at(0, words), *answer, "{words}");
        }
    }
}

const WRONG_TYPE: &str = "error WRONGTYPE Operation against a key holding the wrong kind of value";
