//! One answer, put together from the events of a stream or from a single body, and judged at its end.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::arguments::{arguments, arguments_of};
use crate::blocks::{Block, into_message};
use crate::error::{ModelError, Partial};
use crate::error_class::ErrorReport;
use crate::exchange::{Answer, explained};
use crate::http::Secret;
use crate::message::ToolCall;
use crate::model::{Delta, ModelRequest};
use crate::reply::{Finish, ModelReply, Usage};
use crate::stop::{Meaning, Stopped, flaw, meaning};

/// A block on its way. The format says what a block is only by what comes for it.
#[derive(Debug)]
enum OpenBlock {
    Text(String),
    Call { fields: Map<String, Value>, json: String },
    Reasoning { text: String, signature: Option<String>, redacted: String },
    Other(Value),
}

/// The state of an answer on its way.
pub(super) struct Assembly<'a> {
    origin: &'a str,
    key: &'a Secret,
    blocks: BTreeMap<u64, OpenBlock>,
    stop_reason: Option<String>,
    usage: Option<Usage>,
    extras: Map<String, Value>,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(origin: &'a str, key: &'a Secret) -> Self {
        Self { origin, key, blocks: BTreeMap::new(), stop_reason: None, usage: None, extras: Map::new() }
    }

    /// Takes in one event of a stream, by its name.
    pub(super) fn feed_event<F: FnMut(Delta) + ?Sized>(&mut self, kind: &str, event: Value, on_delta: &mut F) {
        let index = event.get("contentBlockIndex").and_then(Value::as_u64).unwrap_or(0);
        match kind {
            "contentBlockStart" => {
                if let Some(Value::Object(fields)) = event.pointer("/start/toolUse") {
                    self.open_call(index, fields.clone(), on_delta);
                }
            }
            "contentBlockDelta" => {
                if let Some(Value::Object(delta)) = event.get("delta") {
                    self.extend_block(index, delta, on_delta);
                }
            }
            "messageStop" => {
                self.stop_reason = event.get("stopReason").and_then(Value::as_str).map(str::to_owned);
                self.keep(&event, "additionalModelResponseFields");
            }
            "metadata" => {
                self.usage = event.get("usage").and_then(usage);
                self.keep(&event, "trace");
            }
            // Beginnings and ends, and kinds to come.
            _ => {}
        }
    }

    fn keep(&mut self, event: &Value, name: &str) {
        if let Some(value) = event.get(name).filter(|value| !value.is_null()) {
            self.extras.insert(name.to_owned(), value.clone());
        }
    }

    fn open_call<F: FnMut(Delta) + ?Sized>(&mut self, index: u64, fields: Map<String, Value>, on_delta: &mut F) {
        on_delta(Delta::ToolCall { name: text_of(&fields, "name").to_owned() });
        self.blocks.insert(index, OpenBlock::Call { fields, json: String::new() });
    }

    fn extend_block<F: FnMut(Delta) + ?Sized>(&mut self, index: u64, delta: &Map<String, Value>, on_delta: &mut F) {
        if let Some(Value::String(more)) = delta.get("text") {
            if let OpenBlock::Text(text) = self.blocks.entry(index).or_insert_with(|| OpenBlock::Text(String::new())) {
                text.push_str(more);
                on_delta(Delta::Text { text: more.clone() });
            }
        } else if let Some(Value::Object(piece)) = delta.get("toolUse") {
            if let Some(OpenBlock::Call { json, .. }) = self.blocks.get_mut(&index) {
                json.push_str(text_of(piece, "input"));
            }
        } else if let Some(Value::Object(piece)) = delta.get("reasoningContent") {
            let fresh = || OpenBlock::Reasoning { text: String::new(), signature: None, redacted: String::new() };
            if let OpenBlock::Reasoning { text, signature, redacted } = self.blocks.entry(index).or_insert_with(fresh) {
                let more = text_of(piece, "text");
                text.push_str(more);
                redacted.push_str(text_of(piece, "redactedContent"));
                if let Some(Value::String(more)) = piece.get("signature") {
                    signature.get_or_insert_default().push_str(more);
                }
                if !more.is_empty() {
                    on_delta(Delta::Reasoning { text: more.to_owned() });
                }
            }
        } else {
            tracing::debug!(fields = ?delta.keys().collect::<Vec<_>>(), "unknown delta in a block of an answer");
        }
    }

    fn flaw(&self) -> Option<ModelError> {
        let stopped = Stopped {
            reason: self.stop_reason.as_deref(),
            origin: self.origin,
            is_empty: self.blocks.is_empty(),
            has_nameless_call: self.has_nameless_call(),
        };
        flaw(&stopped, |raw| format!("the answer was withheld ({raw})"))
    }

    fn has_nameless_call(&self) -> bool {
        self.blocks
            .values()
            .any(|block| matches!(block, OpenBlock::Call { fields, .. } if text_of(fields, "name").is_empty()))
    }

    fn whole(self, request: &ModelRequest) -> ModelReply {
        let paused = self.stop_reason.as_deref().is_some_and(|raw| meaning(raw) == Meaning::Paused);
        let mut made_up = request.messages.iter().map(|message| message.tool_calls.len()).sum();
        let blocks = self.blocks.into_values().filter_map(|block| closed(block, &mut made_up)).collect();
        let message = into_message(blocks, self.origin);
        let finish = match (paused, message.tool_calls.is_empty()) {
            (true, _) => Finish::Paused,
            (false, true) => Finish::Stop,
            (false, false) => Finish::ToolCalls,
        };
        ModelReply {
            message,
            finish,
            usage: self.usage.unwrap_or_default(),
            // The format does not say which model answered.
            model: request.model.clone(),
            answered_by: None,
            failed_attempts: Vec::new(),
            extras: self.extras,
        }
    }
}

impl Answer for Assembly<'_> {
    fn feed<F: FnMut(Delta) + ?Sized>(&mut self, event: Value, on_delta: &mut F) -> Result<(), ModelError> {
        // The form in which an event stands alone: one field, named like the event.
        if let Value::Object(fields) = event {
            for (kind, payload) in fields {
                self.feed_event(&kind, payload, on_delta);
            }
        }
        Ok(())
    }

    fn feed_whole<F: FnMut(Delta) + ?Sized>(&mut self, body: Value, on_delta: &mut F) -> Result<(), ModelError> {
        let Some(content) = body.pointer("/output/message/content").and_then(Value::as_array) else {
            return Err(ErrorReport::from_json(&body).into_error(self.key));
        };
        for (index, block) in (0..).zip(content) {
            match block.as_object() {
                Some(fields) if fields.len() == 1 && fields.get("text").is_some_and(Value::is_string) => {
                    self.extend_block(index, fields, on_delta);
                }
                Some(fields) => match fields.get("toolUse") {
                    Some(Value::Object(call)) => self.open_call(index, call.clone(), on_delta),
                    Some(_) | None => {
                        self.blocks.insert(index, OpenBlock::Other(block.clone()));
                    }
                },
                None => {}
            }
        }
        self.stop_reason = body.get("stopReason").and_then(Value::as_str).map(str::to_owned);
        self.usage = body.get("usage").and_then(usage);
        self.keep(&body, "additionalModelResponseFields");
        self.keep(&body, "trace");
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.stop_reason.is_some()
    }

    fn remains(self) -> (Partial, Option<Usage>) {
        let mut partial = Partial::default();
        for block in self.blocks.values() {
            match block {
                OpenBlock::Text(text) => partial.text.push_str(text),
                OpenBlock::Call { fields, .. } => partial.tools.push(text_of(fields, "name").to_owned()),
                OpenBlock::Reasoning { .. } | OpenBlock::Other(_) => {}
            }
        }
        (partial, self.usage)
    }

    fn verdict(self, request: &ModelRequest) -> Result<ModelReply, ModelError> {
        match self.flaw() {
            Some(error) => Err(explained(self, error)),
            None => Ok(self.whole(request)),
        }
    }
}

fn text_of<'v>(fields: &'v Map<String, Value>, name: &str) -> &'v str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A block that is done. Empty text is no block: the format itself refuses it when it comes back.
fn closed(block: OpenBlock, made_up: &mut usize) -> Option<Block> {
    match block {
        OpenBlock::Text(text) => (!text.is_empty()).then_some(Block::Text { text, rest: Map::new() }),
        OpenBlock::Call { mut fields, json } => {
            let mut text = |name: &str| match fields.remove(name) {
                Some(Value::String(text)) => text,
                Some(_) | None => String::new(),
            };
            let (mut id, name) = (text("toolUseId"), text("name"));
            if id.is_empty() {
                // Counted, not random: the same answer to the same conversation gets the same ids.
                *made_up += 1;
                id = format!("call_{made_up}");
            }
            let input = fields.remove("input").unwrap_or_default();
            let arguments = if json.trim().is_empty() { arguments_of(input) } else { arguments(json) };
            Some(Block::Call { call: ToolCall { id, name, arguments }, rest: fields })
        }
        OpenBlock::Reasoning { redacted, .. } if !redacted.is_empty() => {
            Some(Block::Other(json!({"reasoningContent": {"redactedContent": redacted}})))
        }
        OpenBlock::Reasoning { text, signature, .. } => {
            let mut said = Map::new();
            said.insert("text".to_owned(), json!(text));
            if let Some(signature) = signature {
                said.insert("signature".to_owned(), json!(signature));
            }
            Some(Block::Other(json!({"reasoningContent": {"reasoningText": said}})))
        }
        OpenBlock::Other(raw) => Some(Block::Other(raw)),
    }
}

/// Token counts. What was read from or written to the cache is counted apart from the rest of the prompt.
fn usage(value: &Value) -> Option<Usage> {
    let count = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (read, written) = (count("cacheReadInputTokens"), count("cacheWriteInputTokens"));
    value.as_object()?;
    Some(Usage {
        input_tokens: count("inputTokens").saturating_add(read).saturating_add(written),
        output_tokens: count("outputTokens"),
        cached_tokens: read,
        reasoning_tokens: 0,
        cache_write_tokens: written,
    })
}
