//! What may go wrong.

use std::fmt;
use std::str::FromStr;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Commands, replies and messages take up to a second now and then.
    Slow,
    /// A command never arrives.
    LostCommand,
    /// A reply never arrives.
    LostReply,
    /// A message never arrives.
    LostMessage,
    /// A command arrives a second time, up to a validity later.
    Twice,
    /// The server has forgotten its scripts, so a command is refused, and goes once more with the text.
    NoScript,
    /// A connection ends; what is under way on it arrives or not, and its replies do not.
    Reconnect,
    /// A client's inbox counts as a subscriber, but hears nothing.
    HalfOpen,
    /// A client stands still, beyond its leases.
    Pause,
    /// A client ends without a word.
    Crash,
    /// A caller drops its future.
    Cancel,
    /// All keys are removed.
    Flush,
    /// One key is removed.
    Delete,
    /// The server's clock steps forward or back.
    Clock,
    /// Somebody releases by force.
    Force,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::Slow,
        Self::LostCommand,
        Self::LostReply,
        Self::LostMessage,
        Self::Twice,
        Self::NoScript,
        Self::Reconnect,
        Self::HalfOpen,
        Self::Pause,
        Self::Crash,
        Self::Cancel,
        Self::Flush,
        Self::Delete,
        Self::Clock,
        Self::Force,
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{self:?}");
        for (at, letter) in name.char_indices() {
            if at > 0 && letter.is_uppercase() {
                f.write_str("-")?;
            }
            write!(f, "{}", letter.to_lowercase())?;
        }
        Ok(())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL
            .into_iter()
            .find(|fault| fault.to_string() == text);
        named.ok_or_else(|| {
            let names = Self::ALL.map(|fault| fault.to_string()).join(", ");
            format!("no fault `{text}`; there are {names}")
        })
    }
}
