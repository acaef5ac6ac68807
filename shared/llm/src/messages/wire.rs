//! The request on the wire.

use serde_json::{Map, Value, json};

use crate::arguments::wire_arguments;
use crate::blocks::{Block, Turn, alternating, inline_data, of_message, spoken_result, turns, wire_id};
use crate::error::{ModelError, ModelErrorKind};
use crate::message::{Message, Part, Role};
use crate::model::{ModelRequest, ResponseFormat, ToolChoice};
use crate::structured::{enforceable, in_words};

/// The format has no default for the output limit. Every model on offer writes at least this much, in tokens.
const OUTPUT_TOKENS_DEFAULT: u64 = 16_384;

/// What differs from server to server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) streaming: bool,
    pub(super) prompt_cache: bool,
}

/// The body of a request.
pub(super) fn request_body(request: &ModelRequest, origin: &str, form: Form) -> Result<Vec<u8>, ModelError> {
    let (instructions, turns) = turns(&request.messages);
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model));
    body.insert("max_tokens".to_owned(), json!(request.output_tokens_max.unwrap_or(OUTPUT_TOKENS_DEFAULT)));
    let mut system: Vec<Value> = instructions.iter().filter_map(|message| text_block(&message.text())).collect();
    if let ResponseFormat::JsonSchema { schema, .. } = &request.response_format {
        match enforceable(schema) {
            Some(schema) => {
                body.insert("output_config".to_owned(), json!({"format": {"type": "json_schema", "schema": schema}}));
            }
            None => system.extend(text_block(&in_words(schema))),
        }
    }
    if !system.is_empty() {
        body.insert("system".to_owned(), Value::Array(system));
    }
    let messages = alternating(turns.iter().map(|turn| wire_turn(turn, origin)));
    body.insert("messages".to_owned(), Value::Array(messages));
    if !request.tools.is_empty() {
        let tools = request
            .tools
            .iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters}));
        body.insert("tools".to_owned(), tools.collect());
        if let Some(choice) = tool_choice(&request.tool_choice) {
            body.insert("tool_choice".to_owned(), choice);
        }
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if form.prompt_cache {
        // Marks the last block, and with it the whole prefix, so that each step of a long job reads what the one before
        // it wrote.
        body.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
    body.insert("stream".to_owned(), json!(form.streaming));
    body.extend(request.extra.clone());
    serde_json::to_vec(&body).map_err(|error| {
        ModelError::new(ModelErrorKind::Invalid, "the request cannot be written as JSON").with_source(error)
    })
}

fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!({"type": "none"})),
        ToolChoice::Required => Some(json!({"type": "any"})),
        ToolChoice::Named { name } => Some(json!({"type": "tool", "name": name})),
    }
}

/// A block of text; blank ones are refused by the format.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn wire_turn(turn: &Turn<'_>, origin: &str) -> (&'static str, Vec<Value>) {
    match turn {
        Turn::Assistant(message) => {
            ("assistant", of_message(message, origin).into_iter().filter_map(assistant_block).collect())
        }
        Turn::User(said) => ("user", said.iter().flat_map(|message| said_blocks(message, origin)).collect()),
    }
}

fn assistant_block(block: Block) -> Option<Value> {
    match block {
        Block::Text { text, rest } => with_rest(text_block(&text)?, rest),
        Block::Call { call, rest } => {
            let input = wire_arguments(&call.arguments);
            with_rest(json!({"type": "tool_use", "id": wire_id(&call.id), "name": call.name, "input": input}), rest)
        }
        Block::Other(raw) => Some(raw),
    }
}

fn with_rest(mut block: Value, rest: Map<String, Value>) -> Option<Value> {
    block.as_object_mut()?.extend(rest);
    Some(block)
}

fn said_blocks(message: &Message, origin: &str) -> Vec<Value> {
    let Some(id) = message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool) else {
        return parts(message, origin);
    };
    let has_pictures = message.content.iter().any(|part| matches!(part, Part::Image { .. }));
    let content = if has_pictures { Value::Array(parts(message, origin)) } else { json!(spoken_result(message)) };
    let mut result = json!({"type": "tool_result", "tool_use_id": wire_id(id), "content": content});
    if let Some(fields) = result.as_object_mut().filter(|_| message.is_error) {
        fields.insert("is_error".to_owned(), json!(true));
    }
    vec![result]
}

fn parts(message: &Message, origin: &str) -> Vec<Value> {
    let same_origin = message.vendor.as_ref().is_some_and(|vendor| vendor.origin == origin);
    let part = |part: &Part| match part {
        Part::Text { text } => text_block(text),
        Part::Image { url } => {
            let source = match inline_data(url) {
                Some((kind, data)) => json!({"type": "base64", "media_type": kind, "data": data}),
                None => json!({"type": "url", "url": url}),
            };
            Some(json!({"type": "image", "source": source}))
        }
        Part::Raw { raw } => same_origin.then(|| raw.clone()),
    };
    message.content.iter().filter_map(part).collect()
}
