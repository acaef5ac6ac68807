//! What differs between a request and the recorded one that is most like it.

use serde_json::Value;

use super::exchange::{Asked, Body};

/// Most differences that are shown of one request.
const SHOWN_MAX: usize = 8;

/// Characters of a value that are shown.
const VALUE_CHARS_MAX: usize = 160;

/// Every difference, in words; empty when the two are the same to a replay. Headers that only describe the connection do
/// not count.
pub(crate) fn differences(recorded: &Asked, now: &Asked) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, recorded: &str, now: &str| {
        if recorded != now {
            found.push(said(what, &Value::from(recorded), &Value::from(now)));
        }
    };
    compare("the method", &recorded.method, &now.method);
    compare("the address", &recorded.url, &now.url);
    let key = |asked: &Asked| asked.headers.get("idempotency-key").cloned().unwrap_or_default();
    compare("the header idempotency-key", &key(recorded), &key(now));
    match (&recorded.body, &now.body) {
        (Body::Json(recorded), Body::Json(now)) => inside("", recorded, now, &mut found),
        (recorded, now) if recorded == now => {}
        (recorded, now) => {
            let text = |body: &Body| Value::from(String::from_utf8_lossy(&body.bytes()).into_owned());
            found.push(said("the body", &text(recorded), &text(now)));
        }
    }
    found
}

/// The differences of two JSON values, each by its pointer (RFC 6901).
fn inside(at: &str, recorded: &Value, now: &Value, found: &mut Vec<String>) {
    match (recorded, now) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let names = ours.keys().chain(theirs.keys().filter(|name| !ours.contains_key(*name)));
            for name in names {
                let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                match (ours.get(name), theirs.get(name)) {
                    (Some(one), Some(other)) => inside(&at, one, other, found),
                    (one, other) => found.push(one_sided(&at, one, other)),
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            for place in 0..ours.len().max(theirs.len()) {
                let at = format!("{at}/{place}");
                match (ours.get(place), theirs.get(place)) {
                    (Some(one), Some(other)) => inside(&at, one, other, found),
                    (one, other) => found.push(one_sided(&at, one, other)),
                }
            }
        }
        (one, other) if one == other => {}
        (one, other) => found.push(said(at, one, other)),
    }
}

fn said(at: &str, recorded: &Value, now: &Value) -> String {
    let (recorded, now) = around(recorded, now);
    format!("{at}: recorded {recorded}, now {now}")
}

fn one_sided(at: &str, recorded: Option<&Value>, now: Option<&Value>) -> String {
    match (recorded, now) {
        (Some(recorded), _) => format!("{at}: recorded {}, now absent", cut(&recorded.to_string())),
        (None, Some(now)) => format!("{at}: not recorded, now {}", cut(&now.to_string())),
        (None, None) => at.to_owned(),
    }
}

/// Two values as they are shown: long texts from a little before the first place where they differ.
fn around(recorded: &Value, now: &Value) -> (String, String) {
    let (Value::String(one), Value::String(other)) = (recorded, now) else {
        return (cut(&recorded.to_string()), cut(&now.to_string()));
    };
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let from =
        if one.chars().count().max(other.chars().count()) > VALUE_CHARS_MAX { same.saturating_sub(40) } else { 0 };
    let part = |text: &str| {
        let part: String = text.chars().skip(from).collect();
        let before = if from > 0 { "…" } else { "" };
        cut(&Value::from(format!("{before}{part}")).to_string())
    };
    (part(one), part(other))
}

fn cut(text: &str) -> String {
    if text.chars().count() <= VALUE_CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(VALUE_CHARS_MAX).chain(['…']).collect()
}

/// A request that is not in the recording, beside the recorded one that is most like it.
pub(crate) fn told(now: &Asked, nearest: Option<&Asked>) -> String {
    let head = format!("{} {} is not in the recording", now.method, now.url);
    let Some(nearest) = nearest else { return format!("{head}; nothing that was recorded is left") };
    let found = differences(nearest, now);
    let more = found.len().saturating_sub(SHOWN_MAX);
    let mut lines: Vec<String> = found.into_iter().take(SHOWN_MAX).map(|line| format!("    {line}")).collect();
    if more > 0 {
        lines.push(format!("    and {more} differences more"));
    }
    let path = if nearest.url == now.url { String::new() } else { format!(" ({} {})", nearest.method, nearest.url) };
    format!("{head}; the most alike that is left{path} differs:\n{}", lines.join("\n"))
}
