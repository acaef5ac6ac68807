//! What was said so far, rebuilt at each replay from the recorded answers and results.
//!
//! Nothing of it is written down as a whole: a step's record holds what that step brought, so a long job costs per step
//! what a short one costs. What the model sees of it at a turn is a view ([`super::window`]) that depends on nothing but
//! these records.

use longhaul_llm::{Message, Part, ToolCall};

use super::outputs::{Handle, Outputs};

/// Bytes of text for each token, when tokens are estimated: English has about four, and an estimate should rather be too
/// large.
const BYTES_PER_TOKEN: usize = 3;

/// What a message costs beside its text.
const MESSAGE_TOKENS: u64 = 8;

/// Tokens of a text, roughly.
pub(super) fn tokens_of(text: &str) -> u64 {
    tokens_of_bytes(text.len())
}

/// Tokens of so many bytes of text, roughly.
pub(super) fn tokens_of_bytes(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}

/// Tokens of a message, roughly.
pub(super) fn tokens_of_message(message: &Message) -> u64 {
    let parts: u64 = message
        .content
        .iter()
        .map(|part| match part {
            Part::Text { text } => tokens_of(text),
            // A picture costs about this much, however long its address is.
            Part::Image { .. } => 1_000,
            Part::Raw { raw } => tokens_of(&raw.to_string()),
        })
        .sum();
    let calls: u64 = message.tool_calls.iter().map(tokens_of_call).sum();
    let vendor = message.vendor.as_ref().and_then(|vendor| serde_json::to_string(vendor).ok());
    MESSAGE_TOKENS + parts + calls + vendor.map_or(0, |vendor| tokens_of(&vendor))
}

fn tokens_of_call(call: &ToolCall) -> u64 {
    let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
    tokens_of(&call.name) + tokens_of(&arguments) + MESSAGE_TOKENS
}

/// The result of one call as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown {
    /// The call that it answers.
    pub(super) call_id: String,
    /// What the model is told.
    pub(super) text: String,
    /// Whether the call failed.
    pub(super) is_error: bool,
    /// Where the whole of it can be read, if there is more than its text.
    pub(super) handle: Option<Handle>,
    /// Whether it was left out to save room.
    pub(super) left_out: bool,
}

impl Shown {
    fn message(&self) -> Message {
        if self.is_error {
            Message::tool_error(self.call_id.clone(), self.text.clone())
        } else {
            Message::tool(self.call_id.clone(), self.text.clone())
        }
    }

    pub(super) fn tokens(&self) -> u64 {
        MESSAGE_TOKENS + tokens_of(&self.text)
    }
}

/// A piece of the conversation that is kept or summarised as one: a call never stands without its result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    /// What the job asks, or what the loop has to say.
    User { text: String },
    /// An answer of the model, and the results of the calls in it, in their order.
    Turn { message: Box<Message>, results: Vec<Shown> },
    /// What stands for earlier items.
    Summary { text: String },
}

impl Item {
    pub(super) fn tokens(&self) -> u64 {
        match self {
            Self::User { text } | Self::Summary { text } => MESSAGE_TOKENS + tokens_of(text),
            Self::Turn { message, results } => {
                tokens_of_message(message) + results.iter().map(Shown::tokens).sum::<u64>()
            }
        }
    }

    fn add_messages(&self, messages: &mut Vec<Message>) {
        match self {
            Self::User { text } => messages.push(Message::user(text.clone())),
            Self::Summary { text } => messages.push(Message::user(format!(
                "The conversation up to here was longer; this is a summary of it.\n\n{text}"
            ))),
            Self::Turn { message, results } => {
                messages.push((**message).clone());
                messages.extend(results.iter().map(Shown::message));
            }
        }
    }
}

/// The conversation of one job.
#[derive(Debug)]
pub(super) struct Conversation {
    /// Instructions and pinned texts, then what the job asks: what always stays.
    fixed: Vec<Message>,
    fixed_tokens: u64,
    /// What came since, with the tokens of each.
    items: Vec<(Item, u64)>,
    items_tokens: u64,
    /// The last words of the model, for whoever reads how far the job came.
    last_words: String,
    /// What tools have said, whole.
    pub(super) outputs: Outputs,
}

impl Conversation {
    pub(super) fn new(instructions: &str, pinned: &[String], asked: String) -> Self {
        let mut fixed = vec![Message::system(instructions)];
        fixed.extend(pinned.iter().map(Message::system));
        fixed.push(Message::user(asked));
        let fixed_tokens = fixed.iter().map(tokens_of_message).sum();
        Self {
            fixed,
            fixed_tokens,
            items: Vec::new(),
            items_tokens: 0,
            last_words: String::new(),
            outputs: Outputs::default(),
        }
    }

    pub(super) fn push(&mut self, item: Item) {
        if let Item::Turn { message, .. } = &item {
            let words = message.text();
            if !words.trim().is_empty() {
                self.last_words = words;
            }
        }
        let tokens = item.tokens();
        self.items_tokens = self.items_tokens.saturating_add(tokens);
        self.items.push((item, tokens));
    }

    /// Adds the result of a call to the turn that asked for it.
    pub(super) fn add_results(&mut self, shown: Vec<Shown>) {
        if let Some((Item::Turn { results, .. }, tokens)) = self.items.last_mut() {
            let more: u64 = shown.iter().map(Shown::tokens).sum();
            *tokens = tokens.saturating_add(more);
            self.items_tokens = self.items_tokens.saturating_add(more);
            results.extend(shown);
        }
    }

    /// What the model is sent.
    pub(super) fn messages(&self) -> Vec<Message> {
        let mut messages = self.fixed.clone();
        for (item, _) in &self.items {
            item.add_messages(&mut messages);
        }
        messages
    }

    /// Tokens of what the model is sent, roughly.
    pub(super) fn tokens(&self) -> u64 {
        self.fixed_tokens.saturating_add(self.items_tokens)
    }

    /// Tokens of what always stays.
    pub(super) fn fixed_tokens(&self) -> u64 {
        self.fixed_tokens
    }

    /// The items, for the window.
    pub(super) fn items(&self) -> impl DoubleEndedIterator<Item = (&Item, u64)> + ExactSizeIterator {
        self.items.iter().map(|(item, tokens)| (item, *tokens))
    }

    /// Leaves results out, the oldest first, until no more than `target` tokens are left or only the last `keep` items
    /// still have theirs. A result whose note would not be shorter stays.
    pub(super) fn leave_out(&mut self, target: u64, keep: usize) {
        let before_last = self.items.len().saturating_sub(keep);
        for (item, tokens) in self.items.iter_mut().take(before_last) {
            let Item::Turn { results, .. } = item else { continue };
            for shown in results {
                if self.fixed_tokens.saturating_add(self.items_tokens) <= target {
                    return;
                }
                let Some(handle) = shown.handle.filter(|_| !shown.left_out) else { continue };
                let note = format!(
                    "[left out to save room: {} bytes; {} with handle \"{handle}\" shows it again]",
                    self.outputs.bytes(handle),
                    super::outputs::READ_MORE,
                );
                if note.len() >= shown.text.len() {
                    continue;
                }
                let saved = tokens_of(&shown.text).saturating_sub(tokens_of(&note));
                *tokens = tokens.saturating_sub(saved);
                self.items_tokens = self.items_tokens.saturating_sub(saved);
                shown.text = note;
                shown.left_out = true;
            }
        }
    }

    /// Puts a summary in the place of the first `count` items.
    pub(super) fn summarize(&mut self, count: usize, text: String) {
        let rest = self.items.split_off(count.min(self.items.len()));
        self.items = rest;
        let summary = Item::Summary { text };
        let tokens = summary.tokens();
        self.items.insert(0, (summary, tokens));
        self.items_tokens = self.items.iter().map(|(_, tokens)| *tokens).sum();
    }

    pub(super) fn last_words(&self) -> &str {
        &self.last_words
    }
}
