//! What may stand in a header (RFC 9110, section 5.5), more strictly than parsers are: what is not ASCII, or begins or
//! ends with a blank, arrives as something else than was meant.

/// Headers that belong to the connection, or that the tool's own machinery sets.
const RESERVED: [&str; 9] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "accept",
    "idempotency-key",
    "mcp-session-id",
    "mcp-protocol-version",
];

/// Headers that carry keys.
const SECRET: [&str; 6] = ["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token"];

/// Longest value that is sent: servers refuse more than 8 KB of headers altogether.
pub const HEADER_VALUE_BYTES_MAX: usize = 4 * 1024;

/// Why a text cannot be a header's value; none when it can.
#[must_use]
pub fn value_fault(text: &str) -> Option<&'static str> {
    if text.chars().any(|c| c == '\r' || c == '\n' || c == '\0') {
        return Some("holds a line end or NUL, which would begin a header of someone else's");
    }
    if !text.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
        return Some("holds something else than visible ASCII characters and blanks");
    }
    if text.trim() != text {
        return Some("begins or ends with a blank");
    }
    if text.len() > HEADER_VALUE_BYTES_MAX {
        return Some("is longer than a header may be");
    }
    None
}

/// Whether a text is a header's name (a token of RFC 9110).
#[must_use]
pub fn is_name(text: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.len() <= 64 && text.chars().all(token)
}

/// Whether a header may not be set by a definition.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether a header carries a key, which must not stand in a definition.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    SECRET.contains(&name.to_ascii_lowercase().as_str())
}
