//! Deliberate breakages, each of which a run has to notice.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use lockyard_core::__private::Script;
use lockyard_lua::{lock, rw, semaphore};
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
    /// A text in every script that has it.
    Lua(&'static str, &'static str),
    /// A line of one script, and what stands there instead.
    Line(&'static str, usize, String),
    /// A switch in core.
    Rust(&'static str),
}

/// The scripts as they run.
pub(crate) struct Texts(BTreeMap<&'static str, Arc<Script>>);

/// Texts that were changed once, for they stay for ever.
static CHANGED: LazyLock<Mutex<BTreeMap<String, Arc<Script>>>> = LazyLock::new(Mutex::default);

pub(crate) const SCRIPTS: [(&str, &str); 14] = [
    ("acquire", lock::ACQUIRE),
    ("renew", lock::RENEW),
    ("release", lock::RELEASE),
    ("inspect", lock::INSPECT),
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

impl Texts {
    pub(crate) fn new(mutant: Option<&Mutant>) -> Self {
        let changed = |(name, text): (&str, &'static str)| {
            let text = mutant.map_or_else(|| text.to_owned(), |mutant| mutant.text(name, text));
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
    fn text(&self, name: &str, text: &str) -> String {
        match &self.change {
            Change::Lua(from, to) => text.replace(from, to),
            Change::Line(script, number, line) if *script == name => {
                let lines = text.lines().enumerate();
                let changed = lines.map(|(at, old)| if at == *number { line } else { old });
                changed.collect::<Vec<_>>().join("\n")
            }
            Change::Line(..) | Change::Rust(_) => text.to_owned(),
        }
    }

    /// Whether it changes anything: a text in Lua may not be there any more.
    #[must_use]
    pub fn changes(&self) -> bool {
        let is_changed = |(name, text): &(&str, &str)| self.text(name, text) != *text;
        matches!(self.change, Change::Rust(_)) || SCRIPTS.iter().any(is_changed)
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
const RUST: [&str; 13] = [
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
];

/// Every breakage.
#[must_use]
pub fn mutants() -> Vec<Mutant> {
    let lua = LUA.iter().map(|(name, from, to)| Mutant {
        name: (*name).to_owned(),
        change: Change::Lua(from, to),
    });
    let rust = RUST.iter().map(|name| Mutant {
        name: (*name).to_owned(),
        change: Change::Rust(name),
    });
    lua.chain(rust).collect()
}
