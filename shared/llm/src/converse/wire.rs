//! The request on the wire.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::arguments::wire_arguments;
use crate::blocks::{Block, Turn, alternating, inline_data, of_message, spoken_result, turns, wire_id};
use crate::error::{ModelError, ModelErrorKind};
use crate::message::{Message, Part, Role};
use crate::model::{ModelRequest, ResponseFormat, ToolChoice};
use crate::structured::{enforceable, in_words};

/// What differs from model to model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) streaming: bool,
    pub(super) prompt_cache: bool,
}

/// The body of a request.
pub(super) fn request_body(request: &ModelRequest, origin: &str, form: Form) -> Result<Vec<u8>, ModelError> {
    let (instructions, turns) = turns(&request.messages);
    let mut body = Map::new();
    let mut system: Vec<Value> = instructions.iter().filter_map(|message| text_block(&message.text())).collect();
    if let ResponseFormat::JsonSchema { name, schema } = &request.response_format {
        match enforceable(schema) {
            Some(schema) => {
                // The schema travels as text here.
                let structure = json!({"jsonSchema": {"name": name, "schema": schema.to_string()}});
                let format = json!({"textFormat": {"type": "json_schema", "structure": structure}});
                body.insert("outputConfig".to_owned(), format);
            }
            None => system.extend(text_block(&in_words(schema))),
        }
    }
    let turns = turns.iter().map(|turn| wire_turn(turn, origin)).collect::<Result<Vec<_>, _>>()?;
    let mut messages = alternating(turns);
    if form.prompt_cache {
        // One mark behind the instructions and one behind everything: each step of a long job reads what the one before
        // it wrote.
        let mark = json!({"cachePoint": {"type": "default"}});
        if !system.is_empty() {
            system.push(mark.clone());
        }
        if let Some(content) = messages.last_mut().and_then(|it: &mut Value| it.get_mut("content")?.as_array_mut()) {
            content.push(mark);
        }
    }
    if !system.is_empty() {
        body.insert("system".to_owned(), Value::Array(system));
    }
    body.insert("messages".to_owned(), Value::Array(messages));
    let mut inference = Map::new();
    if let Some(limit) = request.output_tokens_max {
        inference.insert("maxTokens".to_owned(), json!(limit));
    }
    if let Some(temperature) = request.temperature {
        inference.insert("temperature".to_owned(), json!(temperature));
    }
    if !inference.is_empty() {
        body.insert("inferenceConfig".to_owned(), Value::Object(inference));
    }
    if let Some(tools) = tools(request) {
        body.insert("toolConfig".to_owned(), tools);
    }
    body.extend(request.extra.clone());
    serde_json::to_vec(&body).map_err(|error| {
        ModelError::new(ModelErrorKind::Invalid, "the request cannot be written as JSON").with_source(error)
    })
}

/// The tools on offer. The format has no way to forbid calls, and refuses past calls of tools that are not on offer; so
/// a request without tools, or with a ban on them, names those that the conversation needs and no others.
fn tools(request: &ModelRequest) -> Option<Value> {
    let forbidden = request.tool_choice == ToolChoice::None;
    let used: BTreeSet<&str> =
        request.messages.iter().flat_map(|message| &message.tool_calls).map(|call| call.name.as_str()).collect();
    let offered = request.tools.iter().filter(|tool| !forbidden || used.contains(tool.name.as_str()));
    let mut specs: Vec<Value> =
        offered.map(|tool| spec(&tool.name, &tool.description, tool.parameters.clone())).collect();
    if request.tools.is_empty() {
        let gone = |name: &&str| spec(name, "No longer available.", json!({"type": "object"}));
        specs = used.iter().map(gone).collect();
    }
    if specs.is_empty() {
        return None;
    }
    let choice = match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Required => Some(json!({"any": {}})),
        ToolChoice::Named { name } => Some(json!({"tool": {"name": name}})),
    };
    let mut config = Map::new();
    config.insert("tools".to_owned(), Value::Array(specs));
    if let Some(choice) = choice.filter(|_| !request.tools.is_empty()) {
        config.insert("toolChoice".to_owned(), choice);
    }
    Some(Value::Object(config))
}

fn spec(name: &str, description: &str, parameters: Value) -> Value {
    json!({"toolSpec": {"name": name, "description": description, "inputSchema": {"json": parameters}}})
}

/// A block of text; blank ones are refused by the format.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"text": text}))
}

fn wire_turn(turn: &Turn<'_>, origin: &str) -> Result<(&'static str, Vec<Value>), ModelError> {
    match turn {
        Turn::Assistant(message) => {
            Ok(("assistant", of_message(message, origin).into_iter().filter_map(assistant_block).collect()))
        }
        Turn::User(said) => {
            let mut content = Vec::new();
            for message in said {
                content.extend(said_blocks(message, origin)?);
            }
            Ok(("user", content))
        }
    }
}

fn assistant_block(block: Block) -> Option<Value> {
    match block {
        Block::Text { text, .. } => text_block(&text),
        Block::Call { call, rest } => {
            let mut fields = rest;
            fields.insert("toolUseId".to_owned(), json!(wire_id(&call.id)));
            fields.insert("name".to_owned(), json!(call.name));
            fields.insert("input".to_owned(), wire_arguments(&call.arguments));
            Some(json!({"toolUse": fields}))
        }
        Block::Other(raw) => Some(raw),
    }
}

fn said_blocks(message: &Message, origin: &str) -> Result<Vec<Value>, ModelError> {
    let Some(id) = message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool) else {
        return parts(message, origin);
    };
    let has_pictures = message.content.iter().any(|part| matches!(part, Part::Image { .. }));
    let content = if has_pictures { parts(message, origin)? } else { vec![json!({"text": spoken_result(message)})] };
    let status = if message.is_error { "error" } else { "success" };
    Ok(vec![json!({"toolResult": {"toolUseId": wire_id(id), "content": content, "status": status}})])
}

fn parts(message: &Message, origin: &str) -> Result<Vec<Value>, ModelError> {
    let same_origin = message.vendor.as_ref().is_some_and(|vendor| vendor.origin == origin);
    let mut parts = Vec::new();
    for part in &message.content {
        match part {
            Part::Text { text } => parts.extend(text_block(text)),
            Part::Image { url } => parts.push(picture(url)?),
            Part::Raw { raw } => parts.extend(same_origin.then(|| raw.clone())),
        }
    }
    Ok(parts)
}

fn picture(url: &str) -> Result<Value, ModelError> {
    let inline = inline_data(url).and_then(|(kind, data)| Some((kind.strip_prefix("image/")?, data)));
    let (format, data) = inline.ok_or_else(|| {
        let message = "Bedrock Converse takes pictures as `data:image/…;base64` addresses only";
        ModelError::new(ModelErrorKind::Invalid, message)
    })?;
    Ok(json!({"image": {"format": format, "source": {"bytes": data}}}))
}
