//! Deliberate breakages, each of which a run has to notice.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use lockyard_core::__private::{Call, Script};
use lockyard_lua::{latch, lock, rate, rw, semaphore};
use lockyard_memory::__private::Store;
use parking_lot::Mutex;

/// A breakage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// What it is called.
    pub name: String,
    pub(crate) change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A text in every script that has it, and what stands there instead.
    Lua(String, String),
    /// A switch in core.
    Rust(&'static str),
}

/// The scripts as they run.
pub(crate) struct Texts(BTreeMap<&'static str, Arc<Script>>);

/// Texts that were changed once, for they stay for ever.
static CHANGED: LazyLock<Mutex<BTreeMap<String, Arc<Script>>>> = LazyLock::new(Mutex::default);

/// Those that are simulated.
const SCRIPTS: [(&str, &str); 14] = [
    ("lock acquire", lock::ACQUIRE),
    ("lock renew", lock::RENEW),
    ("lock release", lock::RELEASE),
    ("lock inspect", lock::INSPECT),
    ("rw acquire", rw::ACQUIRE),
    ("rw renew", rw::RENEW),
    ("rw release", rw::RELEASE),
    ("rw inspect", rw::INSPECT),
    ("semaphore acquire", semaphore::ACQUIRE),
    ("semaphore renew", semaphore::RENEW),
    ("semaphore release", semaphore::RELEASE),
    ("semaphore inspect", semaphore::INSPECT),
    ("semaphore limit", semaphore::LIMIT),
    ("semaphore exchange", semaphore::EXCHANGE),
];

const OTHERS: [(&str, &str); 5] = [
    ("latch set", latch::SET),
    ("latch count", latch::COUNT),
    ("latch down", latch::DOWN),
    ("rate take", rate::TAKE),
    ("rate inspect", rate::INSPECT),
];

/// All, by what they are called.
pub(crate) fn scripts() -> impl Iterator<Item = (&'static str, &'static str)> {
    SCRIPTS.into_iter().chain(OTHERS)
}

impl Texts {
    pub(crate) fn new(mutant: Option<&Mutant>) -> Self {
        let changed = |(_, text): (&str, &'static str)| {
            let text = mutant.map_or_else(|| text.to_owned(), |mutant| mutant.text(text));
            let mut changed = CHANGED.lock();
            let script = changed
                .entry(text)
                .or_insert_with_key(|text| Arc::new(Script::new(text.clone().leak())));
            script.clone()
        };
        Self(SCRIPTS.map(|script| (script.1, changed(script))).into())
    }

    pub(crate) fn script(&self, text: &str) -> Arc<Script> {
        self.0[text].clone()
    }

    pub(crate) fn name(text: &str) -> &'static str {
        let named = SCRIPTS.iter().find(|(_, other)| *other == text);
        named.map_or("?", |(name, _)| name)
    }
}

impl Mutant {
    /// One that changes each script, and nothing of what it does.
    #[must_use]
    pub fn comment() -> Self {
        let code = "local call = redis.call\n";
        Self {
            name: "a comment".to_owned(),
            change: Change::Lua(code.to_owned(), format!("-- A comment.\n{code}")),
        }
    }

    fn text(&self, text: &str) -> String {
        match &self.change {
            Change::Lua(from, to) => text.replace(from, to),
            Change::Rust(_) => text.to_owned(),
        }
    }

    /// The scripts that it changes, as they are and as they become.
    #[must_use]
    pub fn changed(&self) -> Vec<[String; 2]> {
        let both = scripts().map(|(_, text)| [text.to_owned(), self.text(text)]);
        both.filter(|[old, new]| old != new).collect()
    }

    /// Whether it changes anything: a text in Lua may not be there any more.
    #[must_use]
    pub fn changes(&self) -> bool {
        matches!(self.change, Change::Rust(_)) || !self.changed().is_empty()
    }

    /// Whether a simulation runs what it changes.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        let is_changed = |(_, text): &(&str, &str)| self.text(text) != *text;
        matches!(self.change, Change::Rust(_)) || SCRIPTS.iter().any(is_changed)
    }

    /// Whether what it makes of the scripts is Lua.
    #[must_use]
    pub fn is_lua(&self) -> bool {
        self.changed().into_iter().all(|[_, text]| {
            let script = Script::new(text.leak());
            let call = Call {
                script: &script,
                keys: &[],
                args: &[],
            };
            let (answer, _) = Store::default().run(call, 0);
            answer
                .err()
                .is_none_or(|error| !error.message().contains("Error compiling script"))
        })
    }

    /// Switches it on in this thread; off without one.
    pub(crate) fn switch(mutant: Option<&Self>) {
        lockyard_core::__private::break_core(match mutant.map(|mutant| &mutant.change) {
            Some(Change::Rust(name)) => Some(*name),
            _ => None,
        });
    }
}

/// Breakages of the scripts: what they are called, the text, and what stands there instead.
const LUA: [(&str, &str, &str); 19] = [
    (
        "anybody re-enters",
        r#"string.sub(holds[i], 1, #owner + 1) == owner .. "/""#,
        "true",
    ),
    (
        "a release frees whoever holds",
        r#"string.match(ARGV[3], "^[^|]+")"#,
        r#"call("HGETALL", KEYS[1])[1] or """#,
    ),
    (
        "an acquire is never stale",
        "us > tonumber(ARGV[1])",
        "false",
    ),
    (
        "a look grants nothing",
        "  token = grant(entry)\n  if token then return 1, token end\n",
        "",
    ),
    (
        "the dead are granted",
        r#"elseif fit and (entries[client] or tonumber(call("ZSCORE", alive, client) or 0) > ms) then"#,
        "elseif fit then",
    ),
    (
        "dead waiters are passed over and kept",
        "or no entry of ours.\n        leave(entry)\n",
        "or no entry of ours.\n        break\n",
    ),
    (
        "a grant that nobody hears counts",
        "denied or told == 0",
        "denied",
    ),
    (
        "a renewal makes a hold",
        "    grant()\n    return 0, 0\n",
        "    return 1, put(hold, kind, weight, lease)\n",
    ),
    (
        "no key's time grows",
        r#"if ttl > 0 and call("PTTL", key) < ttl then call("PEXPIRE", key, ttl) end"#,
        "",
    ),
    (
        "a renewal adds no time",
        "math.max(tonumber(deadline), ms + lease)",
        "tonumber(deadline)",
    ),
    (
        "a newcomer overtakes",
        r#"call("EXISTS", key, KEYS[4 * i - 2]) > 0"#,
        r#"call("EXISTS", key) > 0"#,
    ),
    (
        "a held lock is entered",
        r#" or call("EXISTS", key, KEYS[4 * i - 2]) > 0"#,
        "",
    ),
    (
        "a fresh lock never ends",
        r#"call("PEXPIRE", key, lease)"#,
        "",
    ),
    (
        "tokens stand still",
        r#"call("INCR", fence)"#,
        r#"call("GET", fence)"#,
    ),
    (
        "a writer enters beside readers",
        r#"return kind == "r" or kind == "s" or call("EXISTS", readers) == 0 end"#,
        "return true or kind end",
    ),
    (
        "an upgrade ignores other readers",
        r#"mode == "u" and not others"#,
        r#"mode == "u""#,
    ),
    (
        "a reader overtakes a writer that waits",
        r#"if call("EXISTS", main, line) > 0 then return end"#,
        r#"if call("EXISTS", main) > 0 then return end"#,
    ),
    (
        "there are always enough permits",
        "return taken() + weight <= most end",
        "return true end",
    ),
    (
        "permits that come back are not counted",
        "if sum then note(sum - weigh(member)) end",
        "",
    ),
];

/// Breakages of core, by the name of their switch.
const RUST: [&str; 15] = [
    "deadline from the reply",
    "hold ids used again",
    "a dropped acquire is forgotten",
    "a dropped guard is not released",
    "no second release",
    "no renewal",
    "a hold that is gone counts as renewed",
    "renewed from the reply",
    "nobody looks",
    "a dropped acquire takes others along",
    "a shutdown releases nothing",
    "valid for ever",
    "a grant is dated by its arrival",
    "a permit is passed to anybody",
    "a dropped task keeps what it was passed",
];

/// Every breakage.
#[must_use]
pub fn mutants() -> Vec<Mutant> {
    let lua = LUA.iter().map(|(name, from, to)| Mutant {
        name: (*name).to_owned(),
        change: Change::Lua((*from).to_owned(), (*to).to_owned()),
    });
    let rust = RUST.iter().map(|name| Mutant {
        name: (*name).to_owned(),
        change: Change::Rust(name),
    });
    lua.chain(rust).collect()
}
