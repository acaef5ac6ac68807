//! Texts on the wire: times as RFC 3339, and texts cut so that they fit and stay whole characters.

use longhaul_engine::Timestamp;

/// A time as RFC 3339 in UTC with milliseconds, such as `2026-01-31T08:00:00.000Z`.
#[must_use]
pub fn rfc3339(time: Timestamp) -> String {
    // A time that no calendar holds can only come from a broken clock; it is shown as the last one that does.
    let known = i64::try_from(time.as_millis()).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    known.unwrap_or(jiff::Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Reads an RFC 3339 time; none when it is no such text or lies before 1970.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok().map(Timestamp::from_millis)
}

/// At most `length_max` characters of a text, with `…` in place of the rest.
#[must_use]
pub fn shortened(text: &str, length_max: usize) -> String {
    if text.chars().count() <= length_max {
        return text.to_owned();
    }
    text.chars().take(length_max.saturating_sub(1)).chain(['…']).collect()
}

/// Bytes that a character takes inside a JSON string as `serde_json` writes it.
fn json_bytes(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\u{0}'..='\u{1f}' => 6,
        _ => c.len_utf8(),
    }
}

/// The longest beginning of a text that takes at most `bytes_max` bytes inside a JSON string, and whether that is less
/// than all of it.
#[must_use]
pub fn json_prefix(text: &str, bytes_max: usize) -> (&str, bool) {
    let mut bytes = 0_usize;
    for (at, c) in text.char_indices() {
        bytes = bytes.saturating_add(json_bytes(c));
        if bytes > bytes_max {
            return (text.get(..at).unwrap_or_default(), true);
        }
    }
    (text, false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn times_are_written_and_read_alike() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_769_846_400_000, "2026-01-31T08:00:00.000Z"),
            (1_769_846_400_007, "2026-01-31T08:00:00.007Z"),
        ] {
            let time = Timestamp::from_millis(millis);
            assert_eq!(rfc3339(time), text);
            assert_eq!(parse_rfc3339(text), Some(time));
        }
        assert!(rfc3339(Timestamp::from_millis(u64::MAX)).starts_with("9999-"));
        assert_eq!(parse_rfc3339("1969-12-31T23:59:59Z"), None);
        assert_eq!(parse_rfc3339("yesterday"), None);
    }

    #[test]
    fn a_prefix_is_as_long_as_it_may_be_and_no_longer() {
        for text in ["plain", "漢字漢字", "\"quotes\" and \\", "\u{1}\u{2}\n\r\t\u{8}\u{c}\u{7f}", "🙂🙂", ""] {
            for bytes_max in 0..40 {
                let (prefix, cut) = json_prefix(text, bytes_max);
                let written = serde_json::to_string(prefix).unwrap().len() - 2;
                assert!(written <= bytes_max, "{text:?} at {bytes_max}: {prefix:?} takes {written}");
                assert!(text.starts_with(prefix));
                assert_eq!(cut, prefix.len() < text.len());
                if let Some(next) = text.strip_prefix(prefix).unwrap().chars().next() {
                    let longer = format!("{prefix}{next}");
                    assert!(serde_json::to_string(&longer).unwrap().len() - 2 > bytes_max);
                }
            }
        }
    }
}
