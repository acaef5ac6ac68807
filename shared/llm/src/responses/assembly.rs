//! One response, put together from the events of a stream or from a single body, and judged at its end.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::arguments::{arguments, wire_arguments};
use crate::blocks::{Block, into_message};
use crate::error::{Cut, ModelError, ModelErrorKind, Partial};
use crate::error_class::ErrorReport;
use crate::exchange::{Answer, explained};
use crate::http::Secret;
use crate::message::ToolCall;
use crate::model::{Delta, ModelRequest};
use crate::reply::{Finish, ModelReply, Usage};

/// Fields of a response that are worth keeping; most of the others repeat the request.
const KEPT: [&str; 3] = ["id", "created_at", "service_tier"];

/// Where a response stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Status {
    Queued,
    InProgress,
    Completed,
    Incomplete,
    Failed,
    Cancelled,
    /// A word that is unknown here.
    Other(String),
}

impl Status {
    pub(super) fn of(response: &Value) -> Self {
        match response.get("status").and_then(Value::as_str) {
            Some("queued") => Self::Queued,
            Some("in_progress") => Self::InProgress,
            // Compatible servers leave the word out when all is well.
            Some("completed") | None => Self::Completed,
            Some("incomplete") => Self::Incomplete,
            Some("failed") => Self::Failed,
            Some("cancelled" | "canceled") => Self::Cancelled,
            Some(word) => Self::Other(word.to_owned()),
        }
    }
}

/// The state of an answer on its way.
pub(super) struct Assembly<'a> {
    origin: &'a str,
    key: &'a Secret,
    /// What watchers have seen of the text.
    text: String,
    tools: Vec<String>,
    /// Items that were reported as done, by their place.
    done: BTreeMap<u64, Value>,
    /// The whole response, once it has come to an end.
    response: Option<Value>,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(origin: &'a str, key: &'a Secret) -> Self {
        Self { origin, key, text: String::new(), tools: Vec::new(), done: BTreeMap::new(), response: None }
    }

    fn show_item<F: FnMut(Delta) + ?Sized>(&mut self, item: &Value, on_delta: &mut F) {
        if item.get("type").and_then(Value::as_str) == Some("function_call") {
            let name = text_of(item, "name").to_owned();
            self.tools.push(name.clone());
            on_delta(Delta::ToolCall { name });
        }
    }

    fn show_text<F: FnMut(Delta) + ?Sized>(&mut self, text: &str, on_delta: &mut F) {
        if !text.is_empty() {
            self.text.push_str(text);
            on_delta(Delta::Text { text: text.to_owned() });
        }
    }

    fn usage(&self) -> Option<Usage> {
        usage(self.response.as_ref()?.get("usage")?)
    }

    /// The output, from the response itself, or where that leaves it out from the items that came before.
    fn output(&self) -> Vec<Value> {
        let listed = self.response.as_ref().and_then(|response| response.get("output")).and_then(Value::as_array);
        match listed.filter(|list| !list.is_empty()) {
            Some(list) => list.clone(),
            None => self.done.values().cloned().collect(),
        }
    }

    fn flaw(&self, output: &[Value]) -> Option<ModelError> {
        let response = self.response.as_ref()?;
        let error = |kind, message: &str| Some(ModelError::new(kind, message));
        match Status::of(response) {
            Status::Completed => {
                let parts = output.iter().filter_map(|item| item.get("content")?.as_array()).flatten();
                let refusal = parts.filter(|part| text_of(part, "type") == "refusal").map(|it| text_of(it, "refusal"));
                let refusal: String = refusal.collect();
                if !refusal.is_empty() {
                    return error(ModelErrorKind::Refused, &refusal);
                }
                let nameless = |item: &&Value| is_call(item) && text_of(item, "name").is_empty();
                output
                    .iter()
                    .find(nameless)
                    .and_then(|_| error(ModelErrorKind::Transient, "the answer holds a tool call without a name"))
            }
            Status::Incomplete => Some(self.incomplete(response)),
            Status::Failed => {
                let report = response.get("error").filter(|error| error.is_object());
                Some(ErrorReport::from_json(report.unwrap_or(&Value::Null)).into_error(self.key))
            }
            Status::Cancelled => error(ModelErrorKind::Transient, "the response was cancelled at the provider"),
            Status::Queued | Status::InProgress => {
                error(ModelErrorKind::Transient, "the server answered before the response was done")
            }
            Status::Other(raw) => {
                let message = format!("the response ended in a state unknown here ({raw:?})");
                error(ModelErrorKind::Truncated { cut: Cut::UnknownFinish { raw } }, &message)
            }
        }
    }

    fn incomplete(&self, response: &Value) -> ModelError {
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str).unwrap_or_default();
        match reason {
            "max_output_tokens" | "max_tokens" | "length" => {
                let cut = Cut::OutputLimit;
                ModelError::new(ModelErrorKind::Truncated { cut }, "the output limit was reached")
            }
            "content_filter" => ModelError::new(ModelErrorKind::Refused, "the answer was withheld (content_filter)"),
            raw => {
                tracing::warn!(reason = %raw, origin = %self.origin, "unknown reason of an incomplete response");
                let cut = Cut::UnknownFinish { raw: raw.to_owned() };
                ModelError::new(
                    ModelErrorKind::Truncated { cut },
                    format!("the model stopped for a reason unknown here ({raw:?})"),
                )
            }
        }
    }

    fn whole(self, request: &ModelRequest, output: Vec<Value>) -> ModelReply {
        let usage = self.usage().unwrap_or_default();
        let mut made_up = request.messages.iter().map(|message| message.tool_calls.len()).sum();
        let mut blocks: Vec<Block> = output.into_iter().flat_map(|item| item_blocks(item, &mut made_up)).collect();
        if blocks.is_empty() && !self.text.is_empty() {
            blocks.push(Block::Text { text: self.text, rest: Map::new() });
        }
        let message = into_message(blocks, self.origin);
        let response = self.response.unwrap_or_default();
        let model = text_of(&response, "model");
        ModelReply {
            finish: if message.tool_calls.is_empty() { Finish::Stop } else { Finish::ToolCalls },
            message,
            usage,
            model: if model.is_empty() { request.model.clone() } else { model.to_owned() },
            answered_by: None,
            failed_attempts: Vec::new(),
            extras: KEPT
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), response.get(*name)?.clone())))
                .filter(|(_, value)| !value.is_null())
                .collect(),
        }
    }
}

impl Answer for Assembly<'_> {
    fn feed<F: FnMut(Delta) + ?Sized>(&mut self, mut event: Value, on_delta: &mut F) -> Result<(), ModelError> {
        let kind = text_of(&event, "type").to_owned();
        match kind.as_str() {
            "response.output_text.delta" => self.show_text(text_of(&event, "delta"), on_delta),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                on_delta(Delta::Reasoning { text: text_of(&event, "delta").to_owned() });
            }
            "response.output_item.added" => {
                if let Some(item) = event.get("item") {
                    self.show_item(item, on_delta);
                }
            }
            "response.output_item.done" => {
                let place = event.get("output_index").and_then(Value::as_u64);
                let place = place.unwrap_or_else(|| u64::try_from(self.done.len()).unwrap_or(u64::MAX));
                if let Some(item) = event.get_mut("item") {
                    self.done.insert(place, item.take());
                }
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => {
                self.response = event.get_mut("response").map(Value::take);
                // The event says how it ended, should the response itself not.
                if let (Some(Value::Object(response)), Some(word)) =
                    (&mut self.response, kind.strip_prefix("response."))
                    && !response.contains_key("status")
                {
                    response.insert("status".to_owned(), json!(if word == "done" { "completed" } else { word }));
                }
            }
            "error" => return Err(ErrorReport::from_json(&event).into_error(self.key)),
            "" if event.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(ErrorReport::from_json(&event).into_error(self.key));
            }
            // Beginnings, ends of parts, the provider's own tools, and kinds to come.
            _ => {}
        }
        Ok(())
    }

    fn feed_whole<F: FnMut(Delta) + ?Sized>(&mut self, body: Value, on_delta: &mut F) -> Result<(), ModelError> {
        // A response has an `error` of its own, which is null or belongs to the state `failed`.
        let is_response = body.get("output").is_some() || body.get("status").is_some_and(Value::is_string);
        if !is_response {
            if body.get("error").is_some_and(|error| !error.is_null()) {
                return Err(ErrorReport::from_json(&body).into_error(self.key));
            }
            return Err(ModelError::new(ModelErrorKind::Transient, "the answer is JSON, but no response"));
        }
        for item in body.get("output").and_then(Value::as_array).into_iter().flatten() {
            self.show_item(item, on_delta);
            for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
                if text_of(part, "type") == "output_text" {
                    self.show_text(text_of(part, "text"), on_delta);
                }
            }
        }
        self.response = Some(body);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.response.is_some()
    }

    fn remains(self) -> (Partial, Option<Usage>) {
        let usage = self.usage();
        (Partial { text: self.text, tools: self.tools }, usage)
    }

    fn verdict(self, request: &ModelRequest) -> Result<ModelReply, ModelError> {
        let output = self.output();
        match self.flaw(&output) {
            Some(error) => Err(explained(self, error)),
            None => Ok(self.whole(request, output)),
        }
    }
}

fn text_of<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn is_call(item: &Value) -> bool {
    text_of(item, "type") == "function_call"
}

/// The blocks of one output item.
///
/// A message item holds parts: the first block of it carries the item's other fields under `item`, each text the part's
/// other fields under `part`, and a part that is no text is kept under `part_of_message`. Sending undoes exactly this.
fn item_blocks(item: Value, made_up: &mut usize) -> Vec<Block> {
    let Value::Object(mut fields) = item else {
        return vec![Block::Other(item)];
    };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    match (kind.as_str(), fields.get_mut("content").map(Value::take)) {
        ("function_call", _) => vec![call_block(fields, made_up)],
        ("message", Some(Value::Array(parts))) => {
            fields.remove("content");
            let mut item = Some(Value::Object(fields));
            parts.into_iter().map(|part| part_block(part, item.take())).collect()
        }
        (_, content) => {
            if let Some(content) = content {
                fields.insert("content".to_owned(), content);
            }
            vec![Block::Other(Value::Object(fields))]
        }
    }
}

fn part_block(part: Value, item: Option<Value>) -> Block {
    let mut rest: Map<String, Value> = item.into_iter().map(|item| ("item".to_owned(), item)).collect();
    match part {
        Value::Object(mut fields) if fields.get("type").and_then(Value::as_str) == Some("output_text") => {
            let text = match fields.remove("text") {
                Some(Value::String(text)) => text,
                Some(_) | None => String::new(),
            };
            rest.insert("part".to_owned(), Value::Object(fields));
            Block::Text { text, rest }
        }
        part => {
            rest.insert("part_of_message".to_owned(), part);
            Block::Other(Value::Object(rest))
        }
    }
}

fn call_block(mut fields: Map<String, Value>, made_up: &mut usize) -> Block {
    let mut text = |name: &str| match fields.remove(name) {
        Some(Value::String(text)) => text,
        Some(_) | None => String::new(),
    };
    let (mut id, name, written) = (text("call_id"), text("name"), text("arguments"));
    if id.is_empty() {
        // Counted, not random: the same answer to the same conversation gets the same ids.
        *made_up += 1;
        id = format!("call_{made_up}");
    }
    fields.remove("type");
    let arguments = arguments(written.clone());
    let written_anew = wire_arguments(&arguments).to_string();
    if written_anew != written {
        fields.insert("arguments".to_owned(), json!(written));
    }
    Block::Call { call: ToolCall { id, name, arguments }, rest: fields }
}

fn usage(value: &Value) -> Option<Usage> {
    let count = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    value.as_object()?;
    Some(Usage {
        input_tokens: count("/input_tokens"),
        output_tokens: count("/output_tokens"),
        cached_tokens: count("/input_tokens_details/cached_tokens"),
        reasoning_tokens: count("/output_tokens_details/reasoning_tokens"),
        cache_write_tokens: count("/input_tokens_details/cache_write_tokens"),
    })
}
