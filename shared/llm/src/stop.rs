//! Why a model stopped, in the words of Anthropic Messages, which Bedrock Converse took over, and what that makes of its
//! answer.

use crate::error::{Cut, ModelError, ModelErrorKind};
use crate::error_class::cut_off;

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

/// An answer made of blocks, as it stands when nothing more comes.
pub(crate) struct Stopped<'a> {
    /// The server's word for why the model stopped; none: it said nothing.
    pub(crate) reason: Option<&'a str>,
    /// The server, for the log.
    pub(crate) origin: &'a str,
    /// Whether it holds no block.
    pub(crate) is_empty: bool,
    /// Whether it calls a tool without naming it.
    pub(crate) has_nameless_call: bool,
}

/// Why such an answer is none; `declined` says so where the model or a filter declined. None: it is whole.
pub(crate) fn flaw(answer: &Stopped<'_>, declined: impl FnOnce(&str) -> String) -> Option<ModelError> {
    let Some(raw) = answer.reason else {
        return Some(cut_off("the answer ended without a stop reason"));
    };
    let (kind, message) = match meaning(raw) {
        Meaning::Whole | Meaning::Paused if answer.has_nameless_call => {
            (ModelErrorKind::Transient, "the answer holds a tool call without a name".to_owned())
        }
        Meaning::Whole if raw == "tool_use" && answer.is_empty => {
            (ModelErrorKind::Transient, "the answer ends with \"tool_use\" and holds nothing".to_owned())
        }
        Meaning::Whole | Meaning::Paused => return None,
        Meaning::OutputLimit => {
            (ModelErrorKind::Truncated { cut: Cut::OutputLimit }, "the output limit was reached".to_owned())
        }
        Meaning::ContextFull => {
            (ModelErrorKind::ContextOverflow, "the model's context was full before its answer was".to_owned())
        }
        Meaning::Declined => (ModelErrorKind::Refused, declined(raw)),
        Meaning::Failed => (ModelErrorKind::Transient, format!("the model's answer was broken ({raw})")),
        Meaning::Unknown => {
            tracing::warn!(stop_reason = %raw, origin = %answer.origin, "unknown stop reason");
            let cut = Cut::UnknownFinish { raw: raw.to_owned() };
            (ModelErrorKind::Truncated { cut }, format!("the model stopped for a reason unknown here ({raw:?})"))
        }
    };
    Some(ModelError::new(kind, message))
}
