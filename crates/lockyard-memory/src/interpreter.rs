//! Lua as Redis embeds it: the sandbox, scripts that are compiled once, and the calls between both sides.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use lockyard_core::__private::{Arg, Call, Reply, Script};
use lockyard_core::ServerError;
use mlua::{
    ChunkMode, Error, Function, HookTriggers, IntoLua, Lua, LuaOptions, MultiValue, StdLib, Table,
    Value, VmState,
};
use parking_lot::Mutex;

use crate::failure;
use crate::reply;
use crate::session::{Session, single};
use crate::shebang;

/// An interpreter over a session.
pub(crate) struct Interpreter {
    lua: Lua,
    /// What a script sees as its globals.
    environment: Table,
    /// The table behind it.
    globals: Table,
    /// By SHA-1.
    scripts: BTreeMap<String, Compiled>,
    session: Arc<Mutex<Session>>,
    /// How many millions of instructions the script that runs has had.
    millions: Arc<AtomicU32>,
}

/// How many a script may have; where a server would say BUSY, a test is to end.
const MILLIONS: u32 = 200;

#[derive(Clone)]
struct Compiled {
    function: Function,
    read_only: bool,
}

impl Interpreter {
    pub(crate) fn new(session: Arc<Mutex<Session>>) -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let millions = Arc::new(AtomicU32::new(0));
        let count = millions.clone();
        let each_million = HookTriggers::new().every_nth_instruction(1_000_000);
        lua.set_hook(each_million, move |_, _| {
            match count.fetch_add(1, Relaxed) < MILLIONS {
                true => Ok(VmState::Continue),
                false => Err(Error::runtime("a script does not come to its end")),
            }
        })?;
        let data = session.clone();
        let call = lua.create_function(move |_, words: MultiValue| {
            data.lock().command(&words).map_err(Error::external)
        })?;
        let data = session.clone();
        let attempt = lua.create_function(move |lua, words: MultiValue| {
            let answer = data.lock().command(&words);
            match answer {
                Ok(answer) => answer.into_lua(lua),
                Err(refusal) => single(lua, "err", &refusal.to_string()),
            }
        })?;
        let told = lua.create_function(failure::caught)?;
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name("=sandbox");
        let (environment, globals) = sandbox.call((call, attempt, told))?;
        Ok(Self {
            lua,
            environment,
            globals,
            scripts: BTreeMap::new(),
            session,
            millions,
        })
    }

    /// Runs a script to its end.
    pub(crate) fn run(&mut self, call: Call<'_>) -> Result<Reply, ServerError> {
        let compiled = self.compiled(call.script)?;
        self.session.lock().read_only = compiled.read_only;
        self.millions.store(0, Relaxed);
        let reply = self
            .set_arguments(call)
            .and_then(|()| compiled.function.call(()))
            .and_then(|value| reply::from_lua(&value));
        reply.unwrap_or_else(|error| Err(failure::of_script(&error, call.script)))
    }

    fn compiled(&mut self, script: &Script) -> Result<Compiled, ServerError> {
        let sha: &str = script.sha();
        if let Some(compiled) = self.scripts.get(sha) {
            return Ok(compiled.clone());
        }
        let (flags, text) = shebang::split(script.text())?;
        let function = self
            .lua
            .load(text)
            .set_name("@user_script")
            .set_mode(ChunkMode::Text)
            .set_environment(self.environment.clone())
            .into_function()
            .map_err(|error| failure::of_compiling(&error))?;
        let compiled = Compiled {
            function,
            read_only: flags.no_writes,
        };
        self.scripts.insert(sha.to_owned(), compiled.clone());
        Ok(compiled)
    }

    fn set_arguments(&self, call: Call<'_>) -> mlua::Result<()> {
        let lua = &self.lua;
        let keys = call.keys.iter().map(|key| Word::Text(key));
        let args = call.args.iter().map(|arg| match arg {
            Arg::Text(text) => Word::Text(text),
            Arg::Number(number) => Word::Number(*number),
        });
        self.globals
            .raw_set("KEYS", lua.create_sequence_from(keys)?)?;
        self.globals
            .raw_set("ARGV", lua.create_sequence_from(args)?)
    }
}

/// An element of `KEYS` or `ARGV`; there both are strings.
enum Word<'a> {
    Text(&'a [u8]),
    Number(u64),
}

impl IntoLua for Word<'_> {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        let text = match self {
            Self::Text(text) => lua.create_string(text),
            Self::Number(number) => lua.create_string(number.to_string()),
        };
        text.map(Value::String)
    }
}
