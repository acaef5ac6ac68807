//! What stands in a request's headers and address: keys, names, the trace.

use longhaul_engine::ids::{IdError, SignalKey, SignalName};
use longhaul_engine::limits::IDEMPOTENCY_KEY_LENGTH_MAX;

use crate::problem::Problem;

/// Reads an `Idempotency-Key` header: the key as it is, or in the quotes of a structured header.
///
/// # Errors
/// [`Problem::InvalidParameter`].
pub fn idempotency_key(text: &str) -> Result<SignalKey, Problem> {
    let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    bare.parse().map_err(|_| {
        Problem::parameter(
            "Idempotency-Key",
            format!(
                "must have 1 to {IDEMPOTENCY_KEY_LENGTH_MAX} characters out of letters, digits, '-', '_', '.' and ':'"
            ),
        )
    })
}

/// Reads the idempotency key of a signal, a cancel or a replay, which stands in the job's own journal: none that the
/// product itself writes under.
///
/// # Errors
/// [`Problem::InvalidParameter`].
pub fn signal_key(text: &str) -> Result<SignalKey, Problem> {
    let key = idempotency_key(text)?;
    match key.reserved() {
        Some(prefix) => Err(Problem::parameter("Idempotency-Key", format!("must not begin with `{prefix}`"))),
        None => Ok(key),
    }
}

/// Reads a signal's name out of an address: none that the product itself sends.
///
/// # Errors
/// [`Problem::InvalidParameter`].
pub fn signal_name(text: &str) -> Result<SignalName, Problem> {
    let name: SignalName = text.parse().map_err(|error: IdError| Problem::parameter("name", error.to_string()))?;
    match name.reserved() {
        Some(prefix) => Err(Problem::parameter("name", format!("must not begin with `{prefix}`"))),
        None => Ok(name),
    }
}

/// Reads a `traceparent` header (W3C trace context, version 00). One that is malformed counts as none, as the
/// recommendation asks.
#[must_use]
pub fn traceparent(text: &str) -> Option<&str> {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let not_zero = |part: &str| part.bytes().any(|b| b != b'0');
    match parts.as_slice() {
        ["00", trace, span, flags]
            if hex(trace, 32) && hex(span, 16) && hex(flags, 2) && not_zero(trace) && not_zero(span) =>
        {
            Some(text)
        }
        _ => None,
    }
}
