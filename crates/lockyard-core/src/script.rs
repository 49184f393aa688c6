//! Scripts and the families they form.

use std::fmt;

use fred::bytes_utils::Str;

use crate::breakages::changed;

/// A Lua script, called by its SHA-1.
pub struct Script {
    text: &'static str,
    sha: Str,
}

impl Script {
    /// Takes a script's text.
    #[must_use]
    pub fn new(text: &'static str) -> Self {
        let text = changed(text);
        Self {
            text,
            sha: fred::util::sha1_hash(text).into(),
        }
    }

    /// What the server runs.
    #[must_use]
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// The name under which the server caches it.
    #[must_use]
    pub fn sha(&self) -> &Str {
        &self.sha
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Script").field(&self.sha).finish()
    }
}

/// The scripts of a primitive that queues: its rule of who may enter, in Lua.
///
/// Keys, arguments and replies are those of `lua/lock`, whose headers tell them.
#[derive(Debug)]
pub struct Family {
    /// What its keys are called.
    pub kind: &'static str,
    /// The keys beside the main one, as the scripts expect them: `queue` first.
    pub parts: &'static [&'static str],
    /// Takes a hold or a place in the queue.
    pub acquire: Script,
    /// Extends holds, and looks for waiters.
    pub renew: Script,
    /// Removes holds and places, and grants what that frees.
    pub release: Script,
    /// Reads holders and waiters.
    pub inspect: Script,
}
