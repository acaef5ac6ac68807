//! One answer, put together from the events of a stream or from a single body, and judged at its end.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::arguments::{arguments, arguments_of};
use crate::blocks::{Block, into_message};
use crate::error::{ModelError, ModelErrorKind, Partial};
use crate::error_class::ErrorReport;
use crate::exchange::Answer;
use crate::http::Secret;
use crate::lenient_json::lenient_json;
use crate::message::ToolCall;
use crate::model::{Delta, ModelRequest};
use crate::reply::{Finish, ModelReply, Usage};

use crate::stop::{Meaning, Stopped, flaw, meaning};

/// A block as it began, and the JSON that is being written into it.
#[derive(Debug, Default)]
struct OpenBlock {
    fields: Map<String, Value>,
    json: String,
}

impl OpenBlock {
    fn kind(&self) -> &str {
        self.text("type")
    }

    fn text(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn append(&mut self, name: &str, more: &str) {
        match self.fields.get_mut(name) {
            Some(Value::String(text)) => text.push_str(more),
            Some(_) | None => {
                self.fields.insert(name.to_owned(), Value::String(more.to_owned()));
            }
        }
    }
}

/// The state of an answer on its way.
pub(super) struct Assembly<'a> {
    origin: &'a str,
    key: &'a Secret,
    blocks: BTreeMap<u64, OpenBlock>,
    stop_reason: Option<String>,
    over: bool,
    usage: Map<String, Value>,
    model: Option<String>,
    extras: Map<String, Value>,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(origin: &'a str, key: &'a Secret) -> Self {
        Self {
            origin,
            key,
            blocks: BTreeMap::new(),
            stop_reason: None,
            over: false,
            usage: Map::new(),
            model: None,
            extras: Map::new(),
        }
    }

    /// Fields of the message itself, at its start or of a whole one.
    fn begin(&mut self, message: Map<String, Value>) {
        for (name, value) in message {
            match (name.as_str(), value) {
                (_, Value::Null) | ("type" | "role" | "content", _) => {}
                ("model", Value::String(model)) => self.model = Some(model),
                ("stop_reason", Value::String(reason)) => self.stop_reason = Some(reason),
                ("usage", Value::Object(usage)) => self.count(usage),
                (_, value) => {
                    self.extras.insert(name, value);
                }
            }
        }
    }

    /// Counters are running totals; one that is missing keeps its last value.
    fn count(&mut self, usage: Map<String, Value>) {
        self.usage.extend(usage.into_iter().filter(|(_, value)| !value.is_null()));
    }

    fn open_block<F: FnMut(Delta) + ?Sized>(&mut self, index: u64, fields: Map<String, Value>, on_delta: &mut F) {
        let block = OpenBlock { fields, json: String::new() };
        match block.kind() {
            "tool_use" => on_delta(Delta::ToolCall { name: block.text("name").to_owned() }),
            "text" if !block.text("text").is_empty() => on_delta(Delta::Text { text: block.text("text").to_owned() }),
            "thinking" if !block.text("thinking").is_empty() => {
                on_delta(Delta::Reasoning { text: block.text("thinking").to_owned() });
            }
            _ => {}
        }
        self.blocks.insert(index, block);
    }

    fn extend_block<F: FnMut(Delta) + ?Sized>(&mut self, index: u64, delta: &Value, on_delta: &mut F) {
        // A piece of a block that never began says nothing that could be kept.
        let Some(block) = self.blocks.get_mut(&index) else {
            return;
        };
        let text = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text_delta" => {
                block.append("text", text("text"));
                on_delta(Delta::Text { text: text("text").to_owned() });
            }
            "input_json_delta" => block.json.push_str(text("partial_json")),
            "thinking_delta" => {
                block.append("thinking", text("thinking"));
                on_delta(Delta::Reasoning { text: text("thinking").to_owned() });
            }
            "signature_delta" => block.append("signature", text("signature")),
            "citations_delta" => {
                let citation = delta.get("citation").cloned().unwrap_or_default();
                match block.fields.get_mut("citations") {
                    Some(Value::Array(list)) => list.push(citation),
                    Some(_) | None => {
                        block.fields.insert("citations".to_owned(), Value::Array(vec![citation]));
                    }
                }
            }
            // New kinds may come at any time, and none of them changes the text or a call.
            unknown => tracing::debug!(delta = unknown, "unknown delta in a block of an answer"),
        }
    }

    fn usage(&self) -> Option<Usage> {
        (!self.usage.is_empty()).then(|| usage(&self.usage))
    }

    fn flaw(&self) -> Option<ModelError> {
        let stopped = Stopped {
            reason: self.stop_reason.as_deref(),
            origin: self.origin,
            is_empty: self.blocks.is_empty(),
            has_nameless_call: self.has_nameless_call(),
        };
        flaw(&stopped, |raw| {
            let why = self.extras.get("stop_details").and_then(|details| details.get("explanation"));
            let why = why.and_then(Value::as_str).map(|why| format!(": {why}")).unwrap_or_default();
            format!("the model declined ({raw}){why}")
        })
    }

    fn has_nameless_call(&self) -> bool {
        self.blocks.values().any(|block| block.kind() == "tool_use" && block.text("name").is_empty())
    }

    fn whole(self, request: &ModelRequest) -> ModelReply {
        let paused = self.stop_reason.as_deref().is_some_and(|raw| meaning(raw) == Meaning::Paused);
        let usage = usage(&self.usage);
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
            usage,
            model: self.model.unwrap_or_else(|| request.model.clone()),
            answered_by: None,
            failed_attempts: Vec::new(),
            extras: self.extras,
        }
    }
}

impl Answer for Assembly<'_> {
    fn feed<F: FnMut(Delta) + ?Sized>(&mut self, event: Value, on_delta: &mut F) -> Result<(), ModelError> {
        let Value::Object(mut event) = event else {
            return Err(ModelError::new(ModelErrorKind::Transient, "an event of the answer is JSON, but no object"));
        };
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
        let mut object = |name: &str| match event.remove(name) {
            Some(Value::Object(fields)) => fields,
            Some(_) | None => Map::new(),
        };
        match kind.as_str() {
            "message_start" => self.begin(object("message")),
            "content_block_start" => {
                let fields = object("content_block");
                self.open_block(index, fields, on_delta);
            }
            "content_block_delta" => {
                let delta = Value::Object(object("delta"));
                self.extend_block(index, &delta, on_delta);
            }
            "message_delta" => {
                let delta = object("delta");
                self.begin(delta);
                let usage = object("usage");
                self.count(usage);
            }
            "message_stop" => self.over = true,
            "error" => return Err(ErrorReport::from_json(&Value::Object(event)).into_error(self.key)),
            // An error without its wrapping, as gateways write it.
            "" if event.contains_key("error") => {
                return Err(ErrorReport::from_json(&Value::Object(event)).into_error(self.key));
            }
            // Pings, ends of blocks, and kinds to come.
            _ => {}
        }
        Ok(())
    }

    fn feed_whole<F: FnMut(Delta) + ?Sized>(&mut self, body: Value, on_delta: &mut F) -> Result<(), ModelError> {
        let Value::Object(mut message) = body else {
            return Err(ModelError::new(ModelErrorKind::Transient, "the answer is JSON, but no object"));
        };
        if message.get("error").is_some_and(|error| !error.is_null()) {
            return Err(ErrorReport::from_json(&Value::Object(message)).into_error(self.key));
        }
        if let Some(Value::Array(blocks)) = message.remove("content") {
            for (index, block) in (0..).zip(blocks) {
                if let Value::Object(fields) = block {
                    self.open_block(index, fields, on_delta);
                }
            }
        }
        self.begin(message);
        self.over = true;
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn remains(self) -> (Partial, Option<Usage>) {
        let usage = self.usage();
        let mut partial = Partial::default();
        for block in self.blocks.values() {
            match block.kind() {
                "text" => partial.text.push_str(block.text("text")),
                "tool_use" => partial.tools.push(block.text("name").to_owned()),
                _ => {}
            }
        }
        (partial, usage)
    }

    fn verdict(self, request: &ModelRequest) -> Result<ModelReply, ModelError> {
        match self.flaw() {
            Some(error) => Err(crate::exchange::explained(self, error)),
            None => Ok(self.whole(request)),
        }
    }
}

/// A block that is done. Empty text is no block: the format itself refuses it when it comes back.
fn closed(block: OpenBlock, made_up: &mut usize) -> Option<Block> {
    let OpenBlock { mut fields, json } = block;
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut text = |name: &str| match fields.remove(name) {
        Some(Value::String(text)) => text,
        Some(_) | None => String::new(),
    };
    match kind.as_str() {
        "text" => {
            let text = text("text");
            fields.remove("type");
            // No citations is the same as none.
            fields.retain(|_, value| !value.is_null());
            (!text.is_empty()).then_some(Block::Text { text, rest: fields })
        }
        "tool_use" => {
            let (mut id, name) = (text("id"), text("name"));
            if id.is_empty() {
                // Counted, not random: the same answer to the same conversation gets the same ids.
                *made_up += 1;
                id = format!("call_{made_up}");
            }
            let input = fields.remove("input").unwrap_or_default();
            fields.remove("type");
            let arguments = if json.trim().is_empty() { arguments_of(input) } else { arguments(json) };
            Some(Block::Call { call: ToolCall { id, name, arguments }, rest: fields })
        }
        _ => {
            // The input of a provider's own tool is streamed like that of ours.
            if let Ok(input) = lenient_json(&json) {
                fields.insert("input".to_owned(), input);
            }
            Some(Block::Other(Value::Object(fields)))
        }
    }
}

/// Token counts. The format counts what was read from or written to the cache apart from the rest of the prompt.
fn usage(counters: &Map<String, Value>) -> Usage {
    let count = |name: &str| counters.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (read, written) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    let details = counters.get("output_tokens_details");
    Usage {
        input_tokens: count("input_tokens").saturating_add(read).saturating_add(written),
        output_tokens: count("output_tokens"),
        cached_tokens: read,
        reasoning_tokens: details.and_then(|it| it.get("thinking_tokens")).and_then(Value::as_u64).unwrap_or(0),
        cache_write_tokens: written,
    }
}
