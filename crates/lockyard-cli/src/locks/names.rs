//! From keys to names: the inverse of what core does.

/// What the pattern of SCAN is, so that it finds the hashes and the queues of all locks.
pub(crate) fn pattern(prefix: &str) -> String {
    let mut pattern = String::new();
    for char in prefix.chars() {
        if matches!(char, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern + "lock*"
}

/// The name of the lock whose hash or queue a key is, if it is one.
pub(crate) fn name<'a>(prefix: &str, key: &'a [u8]) -> Option<&'a str> {
    let key = std::str::from_utf8(key).ok()?.strip_prefix(prefix)?;
    let tagged = key
        .strip_prefix("lock:")
        .or_else(|| key.strip_prefix("lock.queue:"))?;
    let (before, rest) = tagged.split_once('{')?;
    let (tag, after) = rest.split_once('}')?;
    if tag.is_empty()
        || [before, tag, after]
            .iter()
            .any(|part| part.contains(['{', '}']))
    {
        return None;
    }
    // A name without braces was tagged whole.
    Some(if before.is_empty() && after.is_empty() {
        tag
    } else {
        tagged
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_locks_give_the_name_and_others_none() {
        let of = |key: &'static str| name("a:", key.as_bytes());
        assert_eq!(of("a:lock:{x}"), Some("x"));
        assert_eq!(of("a:lock.queue:{x y}"), Some("x y"));
        assert_eq!(of("a:lock:order:{42}"), Some("order:{42}"));
        assert_eq!(of("a:lock:{42}:x"), Some("{42}:x"));
        for odd in [
            "a:lock:x",
            "a:lock:",
            "a:lock:{}",
            "a:lock:{a}{b}",
            "a:lock:{{a}}",
            "a:lock:}{",
            "a:lock.alive:{x}",
            "a:lock.fence:{x}",
            "a:locks:{x}",
            "b:lock:{x}",
        ] {
            assert_eq!(of(odd), None, "{odd}");
        }
        assert_eq!(name("a:", b"a:lock:{\xff}"), None);
    }

    #[test]
    fn a_prefix_matches_only_itself() {
        assert_eq!(pattern(r"a*?[b-c]\:"), r"a\*\?\[b\-c\]\\:lock*");
    }
}
