//! Why a command is refused, in Redis's words.

/// An error of one command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    #[error("ERR value is not a valid float")]
    NotFloat,
    #[error("ERR min or max is not a float")]
    NotRange,
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    #[error("ERR invalid expire time in '{0}' command")]
    InvalidExpire(&'static str),
    #[error("ERR syntax error")]
    Syntax,
    #[error("ERR GT, LT, and/or NX options at the same time are not compatible")]
    Incompatible,
    #[error("ERR wrong number of arguments for 'hset' command")]
    FieldWithoutValue,
    #[error("ERR Wrong number of args calling Redis command from script")]
    Arity,
    #[error("ERR Unknown Redis command called from script: {0} is none that lockyard-memory has")]
    UnknownCommand(String),
    /// Redis might know it.
    #[error("ERR syntax error: {0} is no option that lockyard-memory has")]
    UnknownOption(String),
    #[error("ERR Write commands are not allowed from read-only scripts.")]
    ReadOnly,
    #[error("ERR Lua redis lib command arguments must be strings or integers")]
    NotAWord,
    #[error("ERR Please specify at least one argument for this redis lib call")]
    NoWords,
}

impl Refusal {
    pub(crate) fn option(word: &[u8]) -> Self {
        Self::UnknownOption(String::from_utf8_lossy(word).into_owned())
    }
}
