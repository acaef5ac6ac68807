//! Keeping the conversation inside the model's window.
//!
//! Before each turn: when the conversation comes near the window, the oldest results of tools are left out (they can be
//! read again), well below the mark so that it does not happen at every turn. When that is not enough, the oldest items
//! become a summary, which is a step of its own. Instructions, pinned texts and what the job asks always stay. All of it
//! follows from recorded outcomes, so a replay sees the same.

use longhaul_definition::Definition;
use longhaul_llm::{Message, Part, ToolSpec};

use super::conversation::{Conversation, Item, tokens_of};

/// Tokens kept free for an answer whose length nobody bounded: this part of the window.
const ANSWER_PART: u64 = 8;
/// The least and the most of that.
const ANSWER_TOKENS_MIN: u64 = 1_024;
const ANSWER_TOKENS_MAX: u64 = 16_000;

/// Turns that always keep their results: the model is about to read the last ones.
const TURNS_KEPT: usize = 1;

/// Bytes of a result that a summary is made from: its beginning says what it was.
const SUMMARIZED_RESULT_BYTES: usize = 600;

/// How large the conversation may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// Tokens of the whole conversation.
    most: u64,
    /// Tokens of an answer.
    pub(super) answer: u64,
}

/// What must be done before the next turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Nothing.
    Enough,
    /// The first `count` items must become a summary.
    Summarize {
        /// How many.
        count: usize,
        /// What they say.
        material: String,
    },
}

impl Window {
    pub(super) fn new(definition: &Definition, tools: &[ToolSpec]) -> Self {
        let window = definition.context.window_tokens;
        let bounded = definition.models.iter().filter_map(|model| model.output_tokens_max).max();
        let unbounded = (window / ANSWER_PART).clamp(ANSWER_TOKENS_MIN, ANSWER_TOKENS_MAX);
        let answer = bounded.unwrap_or(unbounded).min(window / 2);
        let tools: u64 = tools.iter().map(tokens_of_spec).sum();
        Self { most: window.saturating_sub(answer).saturating_sub(tools), answer }
    }

    /// The window of a model that has said that so many tokens are too many.
    pub(super) fn below(self, too_many: u64) -> Self {
        Self { most: self.most.min(too_many / 3 * 2), ..self }
    }

    /// What the conversation is brought down to once it is too large.
    const fn low(self) -> u64 {
        self.most / 5 * 3
    }

    /// Bytes of each of so many results of one turn: together they take no more than a third of the window.
    pub(super) fn result_bytes(self, results: usize, wanted: usize) -> usize {
        let share = usize::try_from(self.most).unwrap_or(usize::MAX) / results.max(1);
        wanted.min(share).max(longhaul_definition::limits::TOOL_OUTPUT_BYTES_MIN)
    }

    /// Makes room for the next turn.
    pub(super) fn make_room(self, conversation: &mut Conversation) -> Room {
        if conversation.tokens() <= self.most {
            return Room::Enough;
        }
        conversation.leave_out(self.low(), TURNS_KEPT);
        if conversation.tokens() <= self.most {
            return Room::Enough;
        }
        match self.oldest(conversation) {
            0 => {
                // Only the last turn is left. What it brought is left out too: the model can ask for parts of it.
                conversation.leave_out(self.low(), 0);
                Room::Enough
            }
            count => Room::Summarize { count, material: self.material(conversation, count) },
        }
    }

    /// How many of the oldest items must go so that the rest takes half of what the conversation is brought down to. The
    /// last item stays.
    fn oldest(self, conversation: &Conversation) -> usize {
        let mut left = conversation.tokens();
        let target = conversation.fixed_tokens().saturating_add(self.low() / 2);
        let candidates = conversation.items().len().saturating_sub(TURNS_KEPT);
        let mut count = 0;
        for (_, tokens) in conversation.items().take(candidates) {
            if left <= target {
                break;
            }
            left = left.saturating_sub(tokens);
            count += 1;
        }
        count
    }

    /// What the first items say, in words, within half of the window.
    fn material(self, conversation: &Conversation, count: usize) -> String {
        let mut lines = Vec::new();
        for (item, _) in conversation.items().take(count) {
            match item {
                Item::User { text } => lines.push(format!("USER: {text}")),
                Item::Summary { text } => lines.push(format!("SUMMARY OF WHAT CAME BEFORE: {text}")),
                Item::Turn { message, results } => {
                    lines.extend(said(message));
                    for shown in results {
                        let text = beginning(&shown.text, SUMMARIZED_RESULT_BYTES);
                        let kind = if shown.is_error { "ERROR" } else { "RESULT" };
                        let handle = shown.handle.map(|handle| format!(" (handle {handle})")).unwrap_or_default();
                        lines.push(format!("{kind}{handle}: {text}"));
                    }
                }
            }
        }
        let bytes = usize::try_from(self.most.saturating_mul(3) / 2).unwrap_or(usize::MAX);
        let per_line = (bytes / lines.len().max(1)).max(80);
        lines.iter().map(|line| beginning(line, per_line)).collect::<Vec<_>>().join("\n")
    }
}

fn tokens_of_spec(tool: &ToolSpec) -> u64 {
    tokens_of(&tool.name) + tokens_of(&tool.description) + tokens_of(&tool.parameters.to_string()) + 16
}

/// An answer of the model in words: what it said, and what it called.
fn said(message: &Message) -> Vec<String> {
    let text: String = message
        .content
        .iter()
        .filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::Image { .. } | Part::Raw { .. } => None,
        })
        .collect();
    let text = Some(text).filter(|text| !text.trim().is_empty()).map(|text| format!("ASSISTANT: {text}"));
    let calls = message.tool_calls.iter().map(|call| {
        let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
        format!("CALL {}: {}", call.name, beginning(&arguments, SUMMARIZED_RESULT_BYTES))
    });
    text.into_iter().chain(calls).collect()
}

/// The beginning of a text, cut between characters.
fn beginning(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes);
    format!("{}…", text.get(..end).unwrap_or_default())
}
