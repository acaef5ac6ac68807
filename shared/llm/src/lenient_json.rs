//! JSON from outside, with broken surrogate escapes forgiven.
//!
//! Models and tools are often cut in the middle of a `\ud83d\ude42` pair. The half that remains is no Unicode, and a
//! strict parser rejects the whole body for it; a client that keeps it poisons every later request. So each half becomes
//! U+FFFD before parsing.

use std::borrow::Cow;

use serde_json::Value;

/// Parses `text`; where that fails only because of lone surrogate escapes, they count as U+FFFD.
///
/// # Errors
/// The parser's error, for anything that is no JSON or is nested more than 128 deep.
pub fn lenient_json(text: &str) -> Result<Value, serde_json::Error> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) => match repair(text) {
            Cow::Borrowed(_) => Err(error),
            Cow::Owned(repaired) => serde_json::from_str(&repaired),
        },
    }
}

/// Replaces each `\uXXXX` escape that is half of a surrogate pair by `\ufffd`. Borrowed when there is none.
fn repair(text: &str) -> Cow<'_, str> {
    let mut repaired = String::new();
    let mut copied = 0;
    let mut at = 0;
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        if byte != b'\\' {
            at += 1;
            continue;
        }
        match unit_at(text, at) {
            // A pair: both escapes are fine.
            Some(0xD800..0xDC00) if matches!(unit_at(text, at + ESCAPE_BYTES), Some(0xDC00..0xE000)) => {
                at += 2 * ESCAPE_BYTES;
            }
            Some(0xD800..0xE000) => {
                repaired.push_str(text.get(copied..at).unwrap_or_default());
                repaired.push_str("\\ufffd");
                at += ESCAPE_BYTES;
                copied = at;
            }
            Some(_) => at += ESCAPE_BYTES,
            // Any other escape, `\\` above all, is two bytes that belong together.
            None => at += 2,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    repaired.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(repaired)
}

/// Length of `\uXXXX`.
const ESCAPE_BYTES: usize = 6;

/// The UTF-16 unit that an escape at byte `at` stands for, if one is there.
fn unit_at(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + ESCAPE_BYTES)?.strip_prefix("\\u")?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use serde_json::json;

    use super::*;

    #[test]
    fn lone_surrogates_become_the_replacement_character() {
        let cases = [
            (r#""a \ud83d b""#, json!("a \u{fffd} b")),
            (r#""\udc00""#, json!("\u{fffd}")),
            (r#""\ud83d\ude42 \ud83d""#, json!("🙂 \u{fffd}")),
            (r#""\ud83d\ud83d\ude42""#, json!("\u{fffd}🙂")),
            (r#"["\\ud83d", "\ude42"]"#, json!(["\\ud83d", "\u{fffd}"])),
            (r#"{"\ud83d": 1}"#, json!({"\u{fffd}": 1})),
            (r#""plain \u00fc""#, json!("plain ü")),
        ];
        for (text, expected) in cases {
            assert_eq!(lenient_json(text).expect(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_stays_an_error() {
        for text in ["", "{", r#""\ud83d"#, r#""\u12"#, r#"{"a":}"#, "\\"] {
            assert!(lenient_json(text).is_err(), "{text}");
        }
    }
}
