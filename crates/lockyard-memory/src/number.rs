//! Numbers as Redis reads and writes them.

use std::fmt;

use crate::refusal::Refusal;

/// An integer, without sign `+`, space or leading zero.
pub(crate) fn integer(word: &[u8]) -> Result<i64, Refusal> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let canonical = match digits {
        [b'0'] => word == b"0",
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let number = canonical.then(|| std::str::from_utf8(word).ok()?.parse().ok());
    number.flatten().ok_or(Refusal::NotInteger)
}

/// A score, infinities included.
pub(crate) fn score(word: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// A floating point number, written as C's `%.17g`, as Redis 7.0 does.
///
/// Later servers write the shortest text that reads back as the same; for whole numbers below 10^17, which are all that
/// the scripts use, that is the same.
pub(crate) struct Score(pub(crate) f64);

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0;
        if number.fract() == 0.0 && number.abs() < 1e17 {
            return write!(f, "{}", number as i64);
        }
        if !number.is_finite() {
            return write!(f, "{number}");
        }
        let scientific = format!("{number:.16e}");
        let (digits, exponent) = scientific
            .split_once('e')
            .expect("this format always has an exponent");
        let exponent: i32 = exponent.parse().expect("an exponent is an integer");
        if (-4..17).contains(&exponent) {
            let fixed = format!("{number:.*}", (16 - exponent) as usize);
            return f.write_str(short(&fixed));
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(f, "{}e{sign}{:02}", short(digits), exponent.abs())
    }
}

/// A fraction without zeros at its end.
fn short(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The texts are those of Redis 7.0.15. Red with `{}` for all numbers, and with 15 digits.
    #[test]
    fn scores_are_written_as_redis_writes_them() {
        for (number, text) in [
            (1_733_000_000_000_000.0, "1733000000000000"),
            (-5.5, "-5.5"),
            (0.1, "0.10000000000000001"),
            (1e17, "1e+17"),
            (1e20, "1e+20"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17"),
            (1.5e-7, "1.4999999999999999e-07"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (0.0, "0"),
        ] {
            assert_eq!(Score(number).to_string(), text);
        }
    }

    // Red when `parse` alone decides, which takes "+1" and "01".
    #[test]
    fn integers_are_read_as_strictly_as_by_redis() {
        assert_eq!(integer(b"-12"), Ok(-12));
        assert_eq!(integer(b"9223372036854775807"), Ok(i64::MAX));
        for word in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "9223372036854775808",
        ] {
            assert_eq!(integer(word.as_bytes()), Err(Refusal::NotInteger), "{word}");
        }
    }

    #[test]
    fn scores_are_read_with_infinities_and_without_nan() {
        assert_eq!(score(b"-inf"), Some(f64::NEG_INFINITY));
        assert_eq!(score(b"+inf"), Some(f64::INFINITY));
        assert_eq!(score(b"1.5e3"), Some(1500.0));
        for word in ["", "nan", "x", "1x", " 1"] {
            assert_eq!(score(word.as_bytes()), None, "{word}");
        }
    }
}
