//! Names and the keys made of them.
//!
//! Every key is `<prefix><kind>[.<part>]:<tagged name>`.
//! Kinds and parts come from the code, so no name of one primitive can hit a key of another.

use bytes::Bytes;

use crate::error::Error;

/// The longest name, in bytes.
pub(crate) const MAX_NAME: usize = 1024;

/// Builds the keys of a primitive: the main key, then one for each part.
///
/// # Errors
///
/// [`Error::InvalidName`] if the name is empty, longer than 1 KiB, or has braces that do not form exactly one
/// non-empty hash tag.
pub(crate) fn keys(
    prefix: &str,
    kind: &str,
    parts: &[&str],
    name: &str,
) -> Result<Vec<Bytes>, Error> {
    let tagged = tagged(name)?;
    let main = Bytes::from(format!("{prefix}{kind}:{tagged}"));
    let others = parts
        .iter()
        .map(|part| Bytes::from(format!("{prefix}{kind}.{part}:{tagged}")));
    Ok(std::iter::once(main).chain(others).collect())
}

/// The name with exactly one hash tag: its own, or else the whole of it.
fn tagged(name: &str) -> Result<String, Error> {
    let invalid = |reason| Error::InvalidName {
        name: excerpt(name),
        reason,
    };
    if name.is_empty() {
        return Err(invalid("a name is not empty"));
    }
    if name.len() > MAX_NAME {
        return Err(invalid("a name has at most 1024 bytes"));
    }
    let braces: Vec<(usize, char)> = name
        .char_indices()
        .filter(|(_, char)| matches!(char, '{' | '}'))
        .collect();
    match braces[..] {
        [] => Ok(format!("{{{name}}}")),
        [(open, '{'), (close, '}')] if close > open + 1 => Ok(name.to_owned()),
        _ => Err(invalid(
            "braces in a name form exactly one non-empty hash tag, as in order:{42}",
        )),
    }
}

/// As much of a text as an error shows.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_braces_is_tagged_whole() {
        let keys = keys("app:", "lock", &["queue"], "stock:42").unwrap();
        assert_eq!(keys, ["app:lock:{stock:42}", "app:lock.queue:{stock:42}"]);
    }

    #[test]
    fn a_hash_tag_of_its_own_is_kept() {
        assert_eq!(tagged("order:{42}:x").unwrap(), "order:{42}:x");
    }

    #[test]
    fn odd_names_are_taken_or_refused_whole() {
        for good in [
            "a",
            "\0",
            "a\nb",
            "emoji 🦀",
            "name with spaces",
            &"x".repeat(MAX_NAME),
        ] {
            assert!(tagged(good).is_ok(), "{good:?}");
        }
        for bad in [
            "",
            "{}",
            "{",
            "}",
            "}{",
            "a{b",
            "a}b",
            "{a}{b}",
            "{{a}}",
            "{a}}",
            &"x".repeat(MAX_NAME + 1),
        ] {
            assert!(
                matches!(tagged(bad), Err(Error::InvalidName { .. })),
                "{bad:?}"
            );
        }
    }
}
