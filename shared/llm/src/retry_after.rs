//! How long a server asks to wait, from whatever it wrote into its headers.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// Longest wait believed, in seconds. A server that names more has a broken clock or a broken account; either way a look
/// once a day is enough.
pub const RETRY_AFTER_MAX_SECONDS: u64 = 86_400;

/// The wait that the headers ask for, at most [`RETRY_AFTER_MAX_SECONDS`]; `None` where they say nothing usable.
///
/// `retry-after-ms`, an extension of OpenAI and Azure, is the more exact one and comes first. `Retry-After` is a number
/// of seconds or an HTTP date, of which one in the past means now. Anything else (negative, blank, with junk behind it)
/// is no instruction, and the caller's own backoff applies.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let field = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let wait = field("retry-after-ms").and_then(|text| number(text, 0.001)).or_else(|| {
        let text = field("retry-after")?;
        number(text, 1.0).or_else(|| until(text, now))
    })?;
    Some(wait.min(Duration::from_secs(RETRY_AFTER_MAX_SECONDS)))
}

/// A plain decimal number of units, each `unit_seconds` long.
fn number(text: &str, unit_seconds: f64) -> Option<Duration> {
    // Rust also reads `inf`, `1e9` and `+1` as numbers; a server that writes those is not to be believed.
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let seconds: f64 = text.parse::<f64>().ok()? * unit_seconds;
    let capped = seconds.min(RETRY_AFTER_MAX_SECONDS as f64);
    Duration::try_from_secs_f64(capped).ok()
}

/// The time left until an HTTP date.
fn until(text: &str, now: SystemTime) -> Option<Duration> {
    let then = httpdate::parse_http_date(text).ok()?;
    Some(then.duration_since(now).unwrap_or(Duration::ZERO))
}
