//! A script's first line, which says what the script may do.

use lockyard_core::ServerError;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) no_writes: bool,
}

/// Takes the shebang off, if there is one, but leaves its line, so that the numbers of lines stay.
pub(crate) fn split(text: &str) -> Result<(Flags, &str), ServerError> {
    if !text.starts_with("#!") {
        return Ok((Flags::default(), text));
    }
    let (line, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "#!lua" {
        return refused("Unexpected engine in script shebang", engine);
    }
    let mut flags = Flags::default();
    for word in words {
        let Some(names) = word.strip_prefix("flags=") else {
            return refused("Unknown lua shebang option", word);
        };
        for name in names.split(',').filter(|name| !name.is_empty()) {
            match name {
                "no-writes" => flags.no_writes = true,
                // Here memory is never full, nothing is stale, and there is one slot.
                "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                _ => return refused("Unexpected flag in script shebang", name),
            }
        }
    }
    Ok((flags, rest))
}

fn refused<T>(what: &str, word: &str) -> Result<T, ServerError> {
    Err(ServerError::new(format!("ERR {what}: {word}")))
}
