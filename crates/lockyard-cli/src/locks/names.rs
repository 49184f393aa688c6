//! From keys to names: the inverse of what core does.

use crate::locks::kind::Kind;

/// The keys that tell of a name: without any of these nobody holds it or waits for it.
const KEYS: [(&str, Kind); 9] = [
    ("lock:", Kind::Lock),
    ("lock.queue:", Kind::Lock),
    ("rw:", Kind::Rw),
    ("rw.readers:", Kind::Rw),
    ("rw.queue:", Kind::Rw),
    ("semaphore.permits:", Kind::Semaphore),
    ("semaphore.queue:", Kind::Semaphore),
    ("latch:", Kind::Latch),
    ("rate:", Kind::Rate),
];

/// What the pattern of SCAN is, so that it finds the keys of all names, or of those of one kind.
pub(crate) fn pattern(prefix: &str, kind: Option<Kind>) -> String {
    let mut pattern = String::new();
    for char in prefix.chars() {
        if matches!(char, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern + kind.map_or("", Kind::word) + "*"
}

/// The name that a key tells of, and its kind, if it tells of one.
pub(crate) fn name<'a>(prefix: &str, key: &'a [u8]) -> Option<(Kind, &'a str)> {
    let key = std::str::from_utf8(key).ok()?.strip_prefix(prefix)?;
    let of = |(part, kind): &(&str, Kind)| Some((*kind, key.strip_prefix(part)?));
    let (kind, tagged) = KEYS.iter().find_map(of)?;
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
    let name = match before.is_empty() && after.is_empty() {
        true => tag,
        false => tagged,
    };
    Some((kind, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_give_kind_and_name_and_others_none() {
        let of = |key: &'static str| name("a:", key.as_bytes());
        assert_eq!(of("a:lock:{x}"), Some((Kind::Lock, "x")));
        assert_eq!(of("a:lock.queue:{x y}"), Some((Kind::Lock, "x y")));
        assert_eq!(of("a:lock:order:{42}"), Some((Kind::Lock, "order:{42}")));
        assert_eq!(of("a:lock:{42}:x"), Some((Kind::Lock, "{42}:x")));
        for (key, kind) in [
            ("a:rw:{x}", Kind::Rw),
            ("a:rw.readers:{x}", Kind::Rw),
            ("a:rw.queue:{x}", Kind::Rw),
            ("a:semaphore.permits:{x}", Kind::Semaphore),
            ("a:semaphore.queue:{x}", Kind::Semaphore),
            ("a:latch:{x}", Kind::Latch),
            ("a:rate:{x}", Kind::Rate),
        ] {
            assert_eq!(of(key), Some((kind, "x")), "{key}");
        }
        for odd in [
            "a:semaphore:{x}",
            "a:semaphore.limit:{x}",
            "a:latch.ops:{x}",
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
        assert_eq!(pattern(r"a*?[b-c]\:", None), r"a\*\?\[b\-c\]\\:*");
        assert_eq!(pattern("a:", Some(Kind::Rw)), "a:rw*");
    }
}
