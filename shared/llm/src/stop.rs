//! Why a model stopped, in the words of Anthropic Messages, which Bedrock Converse took over.

/// The meaning of a stop reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The answer is whole.
    Whole,
    /// The answer is whole so far; a tool of the provider's own is not done.
    Paused,
    /// The output limit was reached.
    OutputLimit,
    /// The model's context was full before the answer was.
    ContextFull,
    /// A filter or the model itself declined.
    Declined,
    /// The model wrote something that its own server cannot read.
    Failed,
    /// Nobody here knows.
    Unknown,
}

/// The words of Anthropic Messages and of Bedrock Converse, which took them over and added some.
const WORDS: [(&str, Meaning); 11] = [
    ("end_turn", Meaning::Whole),
    ("stop_sequence", Meaning::Whole),
    ("tool_use", Meaning::Whole),
    ("pause_turn", Meaning::Paused),
    ("max_tokens", Meaning::OutputLimit),
    ("model_context_window_exceeded", Meaning::ContextFull),
    ("refusal", Meaning::Declined),
    ("content_filtered", Meaning::Declined),
    ("guardrail_intervened", Meaning::Declined),
    ("malformed_model_output", Meaning::Failed),
    ("malformed_tool_use", Meaning::Failed),
];

pub(crate) fn meaning(raw: &str) -> Meaning {
    WORDS.iter().find(|(known, _)| *known == raw).map_or(Meaning::Unknown, |(_, meaning)| *meaning)
}
