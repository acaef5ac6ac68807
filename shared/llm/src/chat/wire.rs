//! The request on the wire.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::arguments::wire_arguments;
use crate::endpoint::{Features, OutputLimitField};
use crate::error::{ModelError, ModelErrorKind};
use crate::link::Link;
use crate::message::{Message, Part, Role, ToolCall};
use crate::model::{ModelRequest, ResponseFormat, ToolChoice};

/// The host that knows only the new name of the output limit. Servers that are merely compatible know the old one.
const OPENAI_HOST: &str = "api.openai.com";

/// Message fields of an answer that no request may contain.
const ANSWER_ONLY: [&str; 2] = ["annotations", "audio"];

/// Thoughts in plain text. They are asked back beside tool calls and refused (or ignored) elsewhere.
const PLAIN_REASONING: &str = "reasoning_content";

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Value>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// The body of a request.
pub(super) fn request_body(request: &ModelRequest, link: &Link, features: &Features) -> Result<Vec<u8>, ModelError> {
    let mut rest = Map::new();
    if let Some(limit) = request.output_tokens_max {
        let at_openai = link.url().host_str() == Some(OPENAI_HOST);
        let usual = if at_openai { OutputLimitField::MaxCompletionTokens } else { OutputLimitField::MaxTokens };
        let name = match features.output_limit_field.unwrap_or(usual) {
            OutputLimitField::MaxTokens => "max_tokens",
            OutputLimitField::MaxCompletionTokens => "max_completion_tokens",
        };
        rest.insert(name.to_owned(), json!(limit));
    }
    let body = Body {
        model: &request.model,
        messages: request.messages.iter().map(|message| wire_message(message, link.origin())).collect(),
        stream: features.streaming,
        stream_options: (features.streaming && features.stream_usage).then_some(StreamOptions { include_usage: true }),
        tools: request
            .tools
            .iter()
            .map(|tool| {
                json!({"type": "function", "function": {
                    "name": tool.name, "description": tool.description, "parameters": tool.parameters,
                }})
            })
            .collect(),
        tool_choice: tool_choice(request),
        response_format: response_format(&request.response_format),
        temperature: request.temperature,
        rest,
    };
    let unreadable =
        |error| ModelError::new(ModelErrorKind::Invalid, "the request cannot be written as JSON").with_source(error);
    let mut body = serde_json::to_value(body).map_err(unreadable)?;
    if let Some(fields) = body.as_object_mut() {
        fields.extend(request.extra.clone());
    }
    serde_json::to_vec(&body).map_err(unreadable)
}

fn tool_choice(request: &ModelRequest) -> Option<Value> {
    if request.tools.is_empty() {
        return None;
    }
    match &request.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!("none")),
        ToolChoice::Required => Some(json!("required")),
        ToolChoice::Named { name } => Some(json!({"type": "function", "function": {"name": name}})),
    }
}

fn response_format(format: &ResponseFormat) -> Option<Value> {
    match format {
        ResponseFormat::Text => None,
        ResponseFormat::JsonSchema { name, schema } => Some(json!({
            "type": "json_schema",
            "json_schema": {"name": name, "schema": schema, "strict": is_strict(schema)},
        })),
    }
}

/// Whether a schema keeps to the subset that servers can enforce: every object closed, every property required. Asking
/// for strictness with any other schema is refused.
pub(crate) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let closed = match fields.get("properties").and_then(Value::as_object) {
                None => fields.get("type").and_then(Value::as_str) != Some("object"),
                Some(properties) => {
                    let required = fields.get("required").and_then(Value::as_array);
                    fields.get("additionalProperties") == Some(&Value::Bool(false))
                        && properties
                            .keys()
                            .all(|name| required.is_some_and(|list| list.iter().any(|entry| entry == name)))
                }
            };
            closed && fields.values().all(is_strict)
        }
        Value::Array(items) => items.iter().all(is_strict),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn wire_message(message: &Message, origin: &str) -> Value {
    // Another provider would refuse the fields, or learn what is not meant for it.
    let vendor = message.vendor.as_ref().filter(|vendor| vendor.origin == origin);
    let mut wire = Map::new();
    if let Some(vendor) = vendor {
        wire.extend(
            vendor
                .message
                .iter()
                .filter(|(name, _)| !ANSWER_ONLY.contains(&name.as_str()))
                .filter(|(name, _)| name.as_str() != PLAIN_REASONING || !message.tool_calls.is_empty())
                .map(|(name, value)| (name.clone(), value.clone())),
        );
    }
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    wire.insert("role".to_owned(), json!(role));
    wire.insert("content".to_owned(), content(message, vendor.is_some()));
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            let mut wire = vendor.and_then(|vendor| vendor.tool_calls.get(&call.id)).cloned().unwrap_or_default();
            wire.extend(wire_call(call));
            Value::Object(wire)
        });
        wire.insert("tool_calls".to_owned(), calls.collect());
    }
    if let Some(id) = &message.tool_call_id {
        wire.insert("tool_call_id".to_owned(), json!(id));
    }
    Value::Object(wire)
}

/// The content: one string wherever it is text alone, since every server understands that.
fn content(message: &Message, same_origin: bool) -> Value {
    if message.content.is_empty() && !message.tool_calls.is_empty() {
        return Value::Null;
    }
    if message.content.iter().all(|part| matches!(part, Part::Text { .. })) {
        return Value::String(message.text());
    }
    message
        .content
        .iter()
        .filter_map(|part| match part {
            Part::Text { text } => Some(json!({"type": "text", "text": text})),
            Part::Image { url } => Some(json!({"type": "image_url", "image_url": {"url": url}})),
            Part::Raw { raw } => same_origin.then(|| raw.clone()),
        })
        .collect()
}

fn wire_call(call: &ToolCall) -> Map<String, Value> {
    let arguments = wire_arguments(&call.arguments);
    let mut wire = Map::new();
    wire.insert("id".to_owned(), json!(call.id));
    wire.insert("type".to_owned(), json!("function"));
    wire.insert("function".to_owned(), json!({"name": call.name, "arguments": arguments.to_string()}));
    wire
}
