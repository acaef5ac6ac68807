//! The request on the wire.

use serde_json::{Map, Value, json};

use crate::arguments::wire_arguments;
use crate::blocks::{Block, of_message, spoken_result, turns};
use crate::chat::wire::is_strict;
use crate::error::{ModelError, ModelErrorKind};
use crate::lenient_json::lenient_json;
use crate::message::{Message, Part, Role};
use crate::model::{ModelRequest, ResponseFormat, ToolChoice};

/// Families of models that do not think. Asked for encrypted thoughts, they refuse the request.
const NOT_THINKING: [&str; 4] = ["gpt-4", "gpt-3", "chatgpt-4", "gpt-5-chat"];

/// How the answer shall come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// In events.
    Stream,
    /// In one piece.
    Whole,
    /// Later.
    Background,
}

/// What differs from call to call and from server to server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) mode: Mode,
    pub(super) encrypted_reasoning: Option<bool>,
}

/// The body of a request.
pub(super) fn request_body(request: &ModelRequest, origin: &str, form: Form) -> Result<Vec<u8>, ModelError> {
    let (instructions, _) = turns(&request.messages);
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model));
    if !instructions.is_empty() {
        let texts: Vec<String> = instructions.iter().map(|message| message.text()).collect();
        body.insert("instructions".to_owned(), json!(texts.join("\n\n")));
    }
    let said = request.messages.iter().skip(instructions.len());
    body.insert("input".to_owned(), said.flat_map(|message| items(message, origin)).collect());
    if !request.tools.is_empty() {
        // This format is strict unless told otherwise, and strictness changes schemas.
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.parameters, "strict": false})
        });
        body.insert("tools".to_owned(), tools.collect());
        if let Some(choice) = tool_choice(&request.tool_choice) {
            body.insert("tool_choice".to_owned(), choice);
        }
    }
    if let ResponseFormat::JsonSchema { name, schema } = &request.response_format {
        let strict = is_strict(schema);
        let format = json!({"type": "json_schema", "name": name, "schema": schema, "strict": strict});
        body.insert("text".to_owned(), json!({"format": format}));
    }
    if let Some(limit) = request.output_tokens_max {
        body.insert("max_output_tokens".to_owned(), json!(limit));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    let thinks = !NOT_THINKING.iter().any(|family| request.model.starts_with(family));
    if form.encrypted_reasoning.unwrap_or(thinks) {
        body.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
    }
    body.insert("store".to_owned(), json!(form.mode == Mode::Background));
    match form.mode {
        Mode::Stream => body.insert("stream".to_owned(), json!(true)),
        Mode::Whole => body.insert("stream".to_owned(), json!(false)),
        Mode::Background => body.insert("background".to_owned(), json!(true)),
    };
    body.extend(request.extra.clone());
    serde_json::to_vec(&body).map_err(|error| {
        ModelError::new(ModelErrorKind::Invalid, "the request cannot be written as JSON").with_source(error)
    })
}

fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!("none")),
        ToolChoice::Required => Some(json!("required")),
        ToolChoice::Named { name } => Some(json!({"type": "function", "name": name})),
    }
}

fn items(message: &Message, origin: &str) -> Vec<Value> {
    match (message.role, &message.tool_call_id) {
        (Role::Assistant, _) => assistant_items(of_message(message, origin)),
        (Role::Tool, Some(id)) => {
            let pictures = message.content.iter().any(|part| matches!(part, Part::Image { .. }));
            let output = if pictures { parts(message, origin) } else { json!(spoken_result(message)) };
            vec![json!({"type": "function_call_output", "call_id": id, "output": output})]
        }
        (Role::System, _) => vec![json!({"type": "message", "role": "system", "content": message.text()})],
        (Role::User | Role::Tool, _) => {
            vec![json!({"type": "message", "role": "user", "content": parts(message, origin)})]
        }
    }
}

/// Content: one string wherever it is text alone, since every server understands that.
fn parts(message: &Message, origin: &str) -> Value {
    if message.content.iter().all(|part| matches!(part, Part::Text { .. })) {
        return json!(message.text());
    }
    let same_origin = message.vendor.as_ref().is_some_and(|vendor| vendor.origin == origin);
    let part = |part: &Part| match part {
        Part::Text { text } => Some(json!({"type": "input_text", "text": text})),
        Part::Image { url } => Some(json!({"type": "input_image", "image_url": url})),
        Part::Raw { raw } => same_origin.then(|| raw.clone()),
    };
    message.content.iter().filter_map(part).collect()
}

/// Output items as they came, from the row of blocks that the assembly made of them: see there for the marks.
fn assistant_items(blocks: Vec<Block>) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    for block in blocks {
        match block {
            Block::Text { text, mut rest } => match (rest.remove("item"), rest.remove("part")) {
                (item, Some(Value::Object(mut part))) => {
                    part.insert("text".to_owned(), json!(text));
                    add_part(&mut items, item, Value::Object(part));
                }
                (_, _) => items.push(json!({"type": "message", "role": "assistant", "content": text})),
            },
            Block::Other(Value::Object(mut raw)) if raw.contains_key("part_of_message") => {
                let part = raw.remove("part_of_message").unwrap_or_default();
                add_part(&mut items, raw.remove("item"), part);
            }
            Block::Other(raw) => items.push(raw),
            Block::Call { call, mut rest } => {
                let given = wire_arguments(&call.arguments);
                // The text itself, where the model wrote it with other blanks; not if the arguments were changed since.
                let written = match rest.remove("arguments") {
                    Some(Value::String(text)) if lenient_json(&text).is_ok_and(|value| value == given) => text,
                    Some(_) | None => given.to_string(),
                };
                let mut item = Map::new();
                item.insert("type".to_owned(), json!("function_call"));
                item.extend(rest);
                item.insert("call_id".to_owned(), json!(call.id));
                item.insert("name".to_owned(), json!(call.name));
                item.insert("arguments".to_owned(), json!(written));
                items.push(Value::Object(item));
            }
        }
    }
    items
}

/// Adds a part to the message item that it begins, or to the one before it.
fn add_part(items: &mut Vec<Value>, item: Option<Value>, part: Value) {
    match (item, items.last_mut()) {
        (Some(Value::Object(mut item)), _) => {
            item.insert("content".to_owned(), json!([part]));
            items.push(Value::Object(item));
        }
        (_, Some(last)) => {
            if let Some(content) = last.get_mut("content").and_then(Value::as_array_mut) {
                content.push(part);
            }
        }
        (_, None) => items.push(json!({"type": "message", "role": "assistant", "content": [part]})),
    }
}
