//! What a tool call came to, as it is recorded and as the model is told.

use longhaul::ErrorClass;
use longhaul_llm::lenient_json;
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// What came back, in words for the model.
    pub(crate) text: String,
    /// Whether the call failed in a way that the model should know of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_error: bool,
}

impl Outcome {
    pub(crate) fn good(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    pub(crate) fn bad(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }
}

/// A body as text. One that is no text is described instead: it would be noise to a model.
pub(crate) fn body_as_text(content_type: Option<&str>, body: &[u8], cut: bool) -> String {
    let (media, charset) = parsed(content_type);
    if body.is_empty() {
        return String::new();
    }
    let declared_text = media.starts_with("text/")
        || ["json", "xml", "javascript", "yaml", "csv", "x-www-form-urlencoded", "graphql"]
            .iter()
            .any(|known| media.ends_with(known));
    let undeclared_text = media.is_empty() && !body.contains(&0) && std::str::from_utf8(body).is_ok();
    if !declared_text && !undeclared_text {
        let media = if media.is_empty() { "of an unknown kind" } else { media.as_str() };
        return format!("[{} bytes that are no text, {media}]", body.len());
    }
    let encoding = charset.and_then(|label| encoding_rs::Encoding::for_label(label.as_bytes()));
    let (text, ..) = encoding.unwrap_or(encoding_rs::UTF_8).decode(body);
    let text = if media.ends_with("json") { mended(&text) } else { text.into_owned() };
    if cut { format!("{text}\n[the answer is longer; the rest was not read]") } else { text }
}

/// JSON that is fit to be stored and sent on: half surrogate pairs in escapes become U+FFFD. Everything else stays as it
/// was written, numbers above all.
fn mended(text: &str) -> String {
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() && !text.contains("\\u") {
        return text.to_owned();
    }
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => text.to_owned(),
        Err(_) => lenient_json(text).map_or_else(|_| text.to_owned(), |value| value.to_string()),
    }
}

fn parsed(content_type: Option<&str>) -> (String, Option<&str>) {
    let Some(content_type) = content_type else { return (String::new(), None) };
    let mut parts = content_type.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.eq_ignore_ascii_case("charset").then(|| value.trim_matches('"'))
    });
    (media, charset)
}

/// What a status says about trying again; none for one that is an answer as any other.
pub(crate) fn class_of(status: StatusCode) -> Option<ErrorClass> {
    match status.as_u16() {
        200..=299 | 304 => None,
        401 | 403 | 407 => Some(ErrorClass::Auth),
        408 | 504 => Some(ErrorClass::Timeout),
        // Conflict and "too early": an earlier request with this key may still be at work.
        409 | 425 => Some(ErrorClass::Transient),
        429 => Some(ErrorClass::RateLimited),
        501 | 505 => Some(ErrorClass::Invalid),
        503 => Some(ErrorClass::Overloaded),
        500.. => Some(ErrorClass::Transient),
        // Not found, gone, invalid: the model should know, and nobody need try again.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_become_text() {
        let cases: [(Option<&str>, &[u8], &str); 10] = [
            (Some("text/plain"), b"hello", "hello"),
            (Some("text/plain; charset=iso-8859-1"), b"gr\xfc\xdfe", "grüße"),
            (Some("text/plain"), b"a\xffb", "a\u{fffd}b"),
            (Some("application/json"), br#"{"a": 18446744073709551616}"#, r#"{"a": 18446744073709551616}"#),
            (Some("application/problem+json"), br#"{"a":1}"#, r#"{"a":1}"#),
            (Some("image/png"), b"\x89PNG", "[4 bytes that are no text, image/png]"),
            (Some("application/octet-stream"), b"abc", "[3 bytes that are no text, application/octet-stream]"),
            (None, b"plain", "plain"),
            (None, b"\x00\x01", "[2 bytes that are no text, of an unknown kind]"),
            (Some("application/json"), b"", ""),
        ];
        for (content_type, body, expected) in cases {
            assert_eq!(body_as_text(content_type, body, false), expected, "{content_type:?}");
        }
    }

    /// A20 (a): the two broken units become U+FFFD, and what is stored parses strictly.
    #[test]
    fn a20_lone_surrogates_in_a_tools_answer() {
        let body = include_bytes!("../../tests/faults/A20/tool_output_lone_surrogate.json");
        let text = body_as_text(Some("application/json"), body, false);
        assert_eq!(text.matches('\u{fffd}').count(), 2, "{text}");
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
    }

    /// E06: JSON nested deeper than a parser goes is kept as text.
    #[test]
    fn e06_deep_json_from_a_tool_is_text() {
        let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
        assert_eq!(body_as_text(Some("application/json"), deep.as_bytes(), false), deep);
    }
}
