//! One answer, put together from the chunks of a stream or from a single body, and judged at its end.
//!
//! Both forms go through the same code: a whole message is a delta that came in one piece.

use serde_json::{Map, Value};

use crate::error::{Cut, ModelError, ModelErrorKind, Partial};
use crate::error_class::{ErrorReport, cut_off};
use crate::http::Secret;
use crate::message::{Message, Part, Role, Vendor};
use crate::model::{Delta, ModelRequest};
use crate::reply::{Finish, ModelReply, Usage};

use super::finish::{Meaning, meaning};
use super::tool_calls::ToolCalls;

/// Fields in which servers show thoughts. A server that fills two of them says the same in both.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// The state of an answer on its way.
pub(super) struct Assembly<'a> {
    origin: &'a str,
    key: &'a Secret,
    text: String,
    refusal: String,
    raw_parts: Vec<Part>,
    calls: ToolCalls,
    vendor: Map<String, Value>,
    reasoning_field: Option<&'static str>,
    finish: Option<String>,
    end_marked: bool,
    usage: Option<Usage>,
    model: Option<String>,
    extras: Map<String, Value>,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(origin: &'a str, key: &'a Secret) -> Self {
        Self {
            origin,
            key,
            text: String::new(),
            refusal: String::new(),
            raw_parts: Vec::new(),
            calls: ToolCalls::default(),
            vendor: Map::new(),
            reasoning_field: None,
            finish: None,
            end_marked: false,
            usage: None,
            model: None,
            extras: Map::new(),
        }
    }

    /// Whether a finish reason has been seen.
    pub(super) fn has_finish(&self) -> bool {
        self.finish.is_some()
    }

    /// Notes the positive end of the answer.
    pub(super) fn end_mark(&mut self) {
        self.end_marked = true;
    }

    /// Takes in a chunk or a whole body.
    pub(super) fn feed<F: FnMut(Delta) + ?Sized>(&mut self, chunk: Value, on_delta: &mut F) -> Result<(), ModelError> {
        let Value::Object(mut chunk) = chunk else {
            return Err(ModelError::new(ModelErrorKind::Transient, "the answer is JSON, but no object"));
        };
        if let Some(usage) = chunk.remove("usage").as_ref().and_then(usage) {
            // Servers repeat running totals; the last one is the total.
            self.usage = Some(usage);
        }
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(ErrorReport::from_json(&Value::Object(chunk)).into_error(self.key));
        }
        let choices = chunk.remove("choices");
        if choices.is_none() && chunk.get("object").and_then(Value::as_str) == Some("error") {
            return Err(ErrorReport::from_json(&Value::Object(chunk)).into_error(self.key));
        }
        for (name, value) in chunk {
            match (name.as_str(), value) {
                (_, Value::Null) | ("object", _) => {}
                ("model", Value::String(model)) => self.model = Some(model),
                (_, value) => {
                    self.extras.insert(name, value);
                }
            }
        }
        let Some(Value::Array(choices)) = choices else {
            return Ok(());
        };
        for choice in choices {
            // Only one answer is asked for; further ones would be mixed into it.
            if choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0 {
                self.feed_choice(choice, on_delta)?;
            }
        }
        Ok(())
    }

    fn feed_choice<F: FnMut(Delta) + ?Sized>(&mut self, mut choice: Value, on_delta: &mut F) -> Result<(), ModelError> {
        if choice.get("error").is_some_and(|error| !error.is_null()) {
            return Err(ErrorReport::from_json(&choice).into_error(self.key));
        }
        for name in ["delta", "message"] {
            if let Some(Value::Object(message)) = choice.get_mut(name).map(Value::take) {
                self.feed_message(message, on_delta);
            }
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str).filter(|reason| !reason.is_empty()) {
            self.finish = Some(reason.to_owned());
        }
        Ok(())
    }

    fn feed_message<F: FnMut(Delta) + ?Sized>(&mut self, message: Map<String, Value>, on_delta: &mut F) {
        for (name, value) in message {
            match (name.as_str(), value) {
                (_, Value::Null) | ("role", _) => {}
                ("content", Value::String(text)) => self.add_text(text, on_delta),
                ("content", Value::Array(parts)) => self.add_parts(parts, on_delta),
                ("refusal", Value::String(text)) => self.refusal.push_str(&text),
                ("tool_calls", Value::Array(fragments)) => {
                    for fragment in fragments {
                        self.add_call(fragment, on_delta);
                    }
                }
                // The form of tool calls before there were tools.
                ("function_call", function @ Value::Object(_)) => {
                    let mut fragment = Map::new();
                    fragment.insert("function".to_owned(), function);
                    self.add_call(Value::Object(fragment), on_delta);
                }
                (_, value) => {
                    self.show_reasoning(&name, &value, on_delta);
                    merge(&mut self.vendor, name, value);
                }
            }
        }
    }

    fn add_text<F: FnMut(Delta) + ?Sized>(&mut self, text: String, on_delta: &mut F) {
        if !text.is_empty() {
            self.text.push_str(&text);
            on_delta(Delta::Text { text });
        }
    }

    fn add_parts<F: FnMut(Delta) + ?Sized>(&mut self, parts: Vec<Value>, on_delta: &mut F) {
        for part in parts {
            match part.get("text").and_then(Value::as_str) {
                Some(text) => self.add_text(text.to_owned(), on_delta),
                None => self.raw_parts.push(Part::Raw { raw: part }),
            }
        }
    }

    fn add_call<F: FnMut(Delta) + ?Sized>(&mut self, fragment: Value, on_delta: &mut F) {
        if let Some(name) = self.calls.feed(fragment) {
            on_delta(Delta::ToolCall { name });
        }
    }

    fn show_reasoning<F: FnMut(Delta) + ?Sized>(&mut self, name: &str, value: &Value, on_delta: &mut F) {
        let field = REASONING_FIELDS.into_iter().find(|field| *field == name);
        let (Some(field), Some(text)) = (field, value.as_str().filter(|text| !text.is_empty())) else {
            return;
        };
        if *self.reasoning_field.get_or_insert(field) == field {
            on_delta(Delta::Reasoning { text: text.to_owned() });
        }
    }

    /// Adds to an error what is known of the answer that it spoilt.
    pub(super) fn explain(self, error: ModelError) -> ModelError {
        let error = match self.usage {
            Some(usage) => error.with_usage(usage),
            None => error,
        };
        if self.text.is_empty() && self.calls.is_empty() {
            return error;
        }
        let tools = self.calls.names();
        error.with_partial(Partial { text: self.text, tools })
    }

    /// The verdict: a whole answer, or why it is none.
    pub(super) fn into_reply(self, request: &ModelRequest) -> Result<ModelReply, ModelError> {
        match self.flaw() {
            Some(error) => Err(self.explain(error)),
            None => Ok(self.whole(request)),
        }
    }

    fn flaw(&self) -> Option<ModelError> {
        let nothing_came = self.text.is_empty() && self.raw_parts.is_empty() && self.calls.is_empty();
        if !self.refusal.is_empty() {
            return Some(ModelError::new(ModelErrorKind::Refused, &self.refusal));
        }
        let Some(raw) = &self.finish else {
            // The end mark alone is enough for an answer that looks whole, and for no other.
            let whole = self.end_marked && !nothing_came && self.calls.all_whole();
            return (!whole).then(|| cut_off("the stream ended without a finish reason"));
        };
        match meaning(raw) {
            Meaning::Whole if !self.calls.all_named() => {
                Some(ModelError::new(ModelErrorKind::Transient, "the answer holds a tool call without a name"))
            }
            Meaning::Whole if nothing_came && raw != "stop" && raw != "end_turn" => Some(ModelError::new(
                ModelErrorKind::Transient,
                format!("the answer ends with {raw:?} and holds nothing"),
            )),
            Meaning::Whole => None,
            Meaning::OutputLimit => {
                let cut = Cut::OutputLimit;
                Some(ModelError::new(ModelErrorKind::Truncated { cut }, "the output limit was reached"))
            }
            Meaning::Declined => {
                Some(ModelError::new(ModelErrorKind::Refused, format!("the answer was withheld ({raw})")))
            }
            Meaning::Failed => {
                Some(ModelError::new(ModelErrorKind::Transient, format!("the server gave up in mid-answer ({raw})")))
            }
            Meaning::Unknown => {
                tracing::warn!(finish_reason = %raw, origin = %self.origin, "unknown finish reason");
                let cut = Cut::UnknownFinish { raw: raw.clone() };
                let message = format!("the model stopped for a reason unknown here ({raw:?})");
                Some(ModelError::new(ModelErrorKind::Truncated { cut }, message))
            }
        }
    }

    fn whole(self, request: &ModelRequest) -> ModelReply {
        let taken: Vec<&str> =
            request.messages.iter().flat_map(|message| &message.tool_calls).map(|call| call.id.as_str()).collect();
        let mut vendor = Vendor { origin: self.origin.to_owned(), message: self.vendor, ..Vendor::default() };
        let tool_calls = self.calls.into_calls(&taken, &mut vendor);
        let mut content = Vec::new();
        if !self.text.is_empty() {
            content.push(Part::Text { text: self.text });
        }
        content.extend(self.raw_parts);
        let has_raw_part = content.iter().any(|part| matches!(part, Part::Raw { .. }));
        ModelReply {
            finish: if tool_calls.is_empty() { Finish::Stop } else { Finish::ToolCalls },
            usage: self.usage.unwrap_or_default(),
            model: self.model.unwrap_or_else(|| request.model.clone()),
            answered_by: None,
            failed_attempts: Vec::new(),
            extras: self.extras,
            message: Message {
                role: Role::Assistant,
                content,
                tool_calls,
                tool_call_id: None,
                is_error: false,
                vendor: (has_raw_part || !vendor.is_empty()).then_some(vendor),
            },
        }
    }
}

/// Adds a fragment of a field unknown here: text and lists grow, all else is replaced.
fn merge(fields: &mut Map<String, Value>, name: String, value: Value) {
    match (fields.get_mut(&name), value) {
        (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
        (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
        (_, value) => {
            fields.insert(name, value);
        }
    }
}

/// Token counts, in the fields of OpenAI and of those who name the cached part otherwise.
fn usage(value: &Value) -> Option<Usage> {
    let count = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
    value.as_object()?;
    Some(Usage {
        input_tokens: count("/prompt_tokens").unwrap_or(0),
        output_tokens: count("/completion_tokens").unwrap_or(0),
        cached_tokens: count("/prompt_tokens_details/cached_tokens")
            .or_else(|| count("/prompt_cache_hit_tokens"))
            .unwrap_or(0),
        reasoning_tokens: count("/completion_tokens_details/reasoning_tokens").unwrap_or(0),
        // OpenAI does not charge for it; OpenRouter and LiteLLM pass on what Anthropic does charge for.
        cache_write_tokens: count("/prompt_tokens_details/cache_write_tokens")
            .or_else(|| count("/prompt_tokens_details/cache_creation_tokens"))
            .or_else(|| count("/cache_creation_input_tokens"))
            .unwrap_or(0),
    })
}
