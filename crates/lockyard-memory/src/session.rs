//! What a running script reaches: the data, behind `redis.call` and `redis.pcall`.

use mlua::{IntoLua, Lua, MultiValue, Value};

use crate::commands::{self, Answer, World};
use crate::refusal::Refusal;
use crate::value::Text;
use crate::words::Words;

#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) world: World,
    /// Whether the script that runs has the flag `no-writes`.
    pub(crate) read_only: bool,
    words: Words,
}

impl Session {
    /// Runs the command whose words a script gives.
    pub(crate) fn command(&mut self, words: &MultiValue) -> Result<Answer, Refusal> {
        self.words.clear();
        for word in words {
            match word {
                Value::String(text) => self.words.push(&text.as_bytes()),
                Value::Integer(number) => self.words.push_number(*number as f64),
                Value::Number(number) => self.words.push_number(*number),
                _ => return Err(Refusal::NotAWord),
            }
        }
        if self.words.len() == 0 {
            return Err(Refusal::NoWords);
        }
        commands::run(&mut self.world, &self.words, self.read_only)
    }
}

impl IntoLua for Answer {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        match self {
            Self::Nil => Ok(Value::Boolean(false)),
            Self::Ok => single(lua, "ok", "OK"),
            Self::Number(number) => Ok(Value::Integer(number)),
            Self::Text(text) => lua.create_string(&*text).map(Value::String),
            Self::List(list) => {
                let list = list.into_iter().map(Bulk);
                lua.create_sequence_from(list).map(Value::Table)
            }
            Self::Fields(fields) => {
                let fields = fields
                    .into_iter()
                    .map(|text| text.map_or(Self::Nil, Self::Text));
                lua.create_sequence_from(fields).map(Value::Table)
            }
        }
    }
}

/// A reply of one field, as Redis gives a script a status or an error.
pub(crate) fn single(lua: &Lua, field: &str, text: &str) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(field, text)?;
    Ok(Value::Table(table))
}

struct Bulk(Text);

impl IntoLua for Bulk {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        lua.create_string(&*self.0).map(Value::String)
    }
}
