//! What a `finish_reason` means. Compatible servers brought words of other formats with them.

/// The meaning of a finish reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The answer is whole.
    Whole,
    /// The output limit was reached.
    OutputLimit,
    /// A filter or the model itself declined.
    Declined,
    /// The server failed.
    Failed,
    /// Nobody here knows.
    Unknown,
}

/// The words in use, in lower case.
const WORDS: [(&str, Meaning); 21] = [
    ("stop", Meaning::Whole),
    ("tool_calls", Meaning::Whole),
    ("function_call", Meaning::Whole),
    ("tool_use", Meaning::Whole),
    ("end_turn", Meaning::Whole),
    ("stop_sequence", Meaning::Whole),
    ("eos", Meaning::Whole),
    ("eos_token", Meaning::Whole),
    ("complete", Meaning::Whole),
    ("completed", Meaning::Whole),
    ("length", Meaning::OutputLimit),
    ("max_tokens", Meaning::OutputLimit),
    ("content_filter", Meaning::Declined),
    ("refusal", Meaning::Declined),
    ("safety", Meaning::Declined),
    ("recitation", Meaning::Declined),
    ("prohibited_content", Meaning::Declined),
    ("blocklist", Meaning::Declined),
    ("sensitive", Meaning::Declined),
    ("error", Meaning::Failed),
    ("insufficient_system_resource", Meaning::Failed),
];

pub(super) fn meaning(raw: &str) -> Meaning {
    let word = raw.to_lowercase();
    WORDS.iter().find(|(known, _)| *known == word).map_or(Meaning::Unknown, |(_, meaning)| *meaning)
}
