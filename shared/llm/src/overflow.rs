//! Whether a server means "your prompt is too long".
//!
//! Only one provider has a code for it. The others say it in words, under statuses that mean other things too, so the
//! words are listed here: each phrase speaks of the model's context, never just of a long string.

/// Codes and types that mean overflow by themselves.
const CODES: [&str; 3] = ["context_length_exceeded", "request_too_large", "context_window_exceeded"];

/// Phrases that mean overflow, in lower case.
const PHRASES: [&str; 15] = [
    "maximum context length",
    "model's context length",
    "context length exceeded",
    "exceeds the context",
    "exceed context limit",
    "exceeds context limit",
    "available context size",
    "context window",
    "prompt is too long",
    "input is too long",
    "input tokens exceed",
    "exceeds the maximum number of tokens",
    "too large for model",
    "too many input tokens",
    "reduce the length of the messages",
];

pub(crate) fn is_overflow(codes: &[&str], message: &str) -> bool {
    if codes.iter().any(|code| CODES.contains(code)) {
        return true;
    }
    let message = message.to_lowercase();
    PHRASES.iter().any(|phrase| message.contains(phrase))
}
