//! The Chat Completions wire format, seen from the server.

use serde_json::{Map, Value, json};

use super::answer::Answer;

/// The name of what answers. It is no model's.
pub const MODEL_NAME: &str = "rehearsal";

/// Stands in every answer, so that a program can tell that no model was used.
pub const FINGERPRINT: &str = "rehearsal-no-model";

/// Characters of a chunk: about four tokens.
pub(super) const CHUNK_CHARS: usize = 16;

/// Characters that count as one token.
const TOKEN_CHARS: u64 = 4;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Instructions,
    User,
    Assistant,
    Tool,
}

/// One message of the conversation.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) role: Role,
    pub(super) text: String,
}

/// A tool on offer.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) parameters: Value,
}

/// The form that the answer must have.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) schema: Value,
}

/// A request, as far as it matters here.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) messages: Vec<Said>,
    pub(super) tools: Vec<Tool>,
    pub(super) tools_forbidden: bool,
    pub(super) schema: Option<Schema>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// Characters of messages, tools and schema.
    input_chars: u64,
}

impl Asked {
    /// Reads a request's body.
    ///
    /// # Errors
    /// Says what is wrong with it, for the client.
    pub(super) fn read(body: &Value) -> Result<Self, String> {
        let messages = body.get("messages").and_then(Value::as_array).ok_or("'messages' must be an array")?;
        if messages.is_empty() {
            return Err("'messages' must hold at least one message".to_owned());
        }
        let messages = messages.iter().map(said).collect::<Result<Vec<_>, _>>()?;
        let schema = schema(body)?;
        let tools = body.get("tools").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        let chars = |text: &str| text.chars().count() as u64;
        let input_chars = messages.iter().map(|message| chars(&message.text)).sum::<u64>()
            + tools.iter().map(|tool| chars(&tool.to_string())).sum::<u64>()
            + schema.as_ref().map_or(0, |schema| chars(&schema.schema.to_string()));
        let flag = |pointer: &str| body.pointer(pointer).and_then(Value::as_bool).unwrap_or(false);
        Ok(Self {
            messages,
            tools: tools.iter().filter_map(tool).collect(),
            tools_forbidden: body.get("tool_choice").and_then(Value::as_str) == Some("none"),
            schema,
            stream: flag("/stream"),
            include_usage: flag("/stream_options/include_usage"),
            input_chars,
        })
    }

    /// What the user said last.
    pub(super) fn last_user(&self) -> &str {
        let user = self.messages.iter().rev().find(|message| message.role == Role::User);
        user.or_else(|| self.messages.last()).map_or("", |message| message.text.as_str())
    }
}

fn said(message: &Value) -> Result<Said, String> {
    let role = match message.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => Role::Instructions,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        Some(other) => return Err(format!("'{other}' is no role of a message")),
        None => return Err("a message must have a 'role'".to_owned()),
    };
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        Some(_) | None => String::new(),
    };
    Ok(Said { role, text })
}

fn tool(tool: &Value) -> Option<Tool> {
    let function = tool.get("function")?;
    Some(Tool {
        name: function.get("name")?.as_str()?.to_owned(),
        parameters: function.get("parameters").cloned().unwrap_or_else(|| json!({"type": "object"})),
    })
}

fn schema(body: &Value) -> Result<Option<Schema>, String> {
    match body.pointer("/response_format/type").and_then(Value::as_str) {
        None | Some("text") => Ok(None),
        Some("json_object") => Ok(Some(Schema { name: String::new(), schema: json!({"type": "object"}) })),
        Some("json_schema") => {
            let format = body.pointer("/response_format/json_schema");
            let name = format.and_then(|format| format.get("name")).and_then(Value::as_str);
            let name = name.ok_or("'response_format.json_schema.name' is missing")?.to_owned();
            let schema = format.and_then(|format| format.get("schema")).cloned().unwrap_or_else(|| json!({}));
            Ok(Some(Schema { name, schema }))
        }
        Some(other) => Err(format!("'{other}' is no type of response_format")),
    }
}

/// What is said back, ready to be written in either form.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) id: String,
    pub(super) created: i64,
    pub(super) content: Content,
    usage: Value,
}

/// The message of a reply.
#[derive(Debug)]
pub(super) enum Content {
    Answer(Answer),
    Refusal(String),
}

impl Reply {
    pub(super) fn new(sequence: u64, created: i64, asked: &Asked, content: Content) -> Self {
        let output_chars = match &content {
            Content::Answer(Answer::Text(text)) | Content::Refusal(text) => text.chars().count(),
            Content::Answer(Answer::ToolCall { name, arguments }) => {
                name.chars().count() + arguments.to_string().chars().count()
            }
        };
        let tokens = |chars: u64| chars.div_ceil(TOKEN_CHARS);
        let (input, output) = (tokens(asked.input_chars), tokens(output_chars as u64));
        let usage = json!({
            "prompt_tokens": input,
            "completion_tokens": output,
            "total_tokens": input + output,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        });
        Self { id: format!("chatcmpl-rehearsal-{sequence}"), created, content, usage }
    }

    /// The whole reply as one object.
    pub(super) fn whole(&self) -> Value {
        let message = match &self.content {
            Content::Answer(Answer::Text(text)) => json!({"role": "assistant", "content": text, "refusal": null}),
            Content::Refusal(text) => json!({"role": "assistant", "content": null, "refusal": text}),
            Content::Answer(Answer::ToolCall { name, arguments }) => {
                let function = json!({"name": name, "arguments": arguments.to_string()});
                let call = json!({"id": self.call_id(), "type": "function", "function": function});
                json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": [call]})
            }
        };
        let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": self.finish()});
        let mut whole = self.envelope("chat.completion", json!([choice]));
        whole.insert("usage".to_owned(), self.usage.clone());
        Value::Object(whole)
    }

    /// The reply as the objects of a stream.
    pub(super) fn chunks(&self, include_usage: bool) -> Vec<Value> {
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        match &self.content {
            Content::Answer(Answer::Text(text)) => {
                deltas.extend(pieces(text).into_iter().map(|piece| json!({"content": piece})));
            }
            Content::Refusal(text) => {
                deltas.extend(pieces(text).into_iter().map(|piece| json!({"refusal": piece})));
            }
            Content::Answer(Answer::ToolCall { name, arguments }) => {
                let function = json!({"name": name, "arguments": ""});
                let head = json!({"index": 0, "id": self.call_id(), "type": "function", "function": function});
                deltas.push(json!({"tool_calls": [head]}));
                deltas.extend(
                    pieces(&arguments.to_string())
                        .into_iter()
                        .map(|piece| json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})),
                );
            }
        }
        let mut choices: Vec<Value> = deltas
            .into_iter()
            .map(|delta| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]))
            .collect();
        choices.push(json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": self.finish()}]));
        let chunk = |choices: Value, usage: &Value| {
            let mut chunk = self.envelope("chat.completion.chunk", choices);
            if include_usage {
                chunk.insert("usage".to_owned(), usage.clone());
            }
            Value::Object(chunk)
        };
        let mut chunks: Vec<Value> = choices.into_iter().map(|choices| chunk(choices, &Value::Null)).collect();
        if include_usage {
            chunks.push(chunk(json!([]), &self.usage));
        }
        chunks
    }

    fn envelope(&self, object: &str, choices: Value) -> Map<String, Value> {
        let mut envelope = Map::new();
        envelope.insert("id".to_owned(), json!(self.id));
        envelope.insert("object".to_owned(), json!(object));
        envelope.insert("created".to_owned(), json!(self.created));
        envelope.insert("model".to_owned(), json!(MODEL_NAME));
        envelope.insert("system_fingerprint".to_owned(), json!(FINGERPRINT));
        envelope.insert("choices".to_owned(), choices);
        envelope
    }

    fn call_id(&self) -> String {
        format!("call-{}", self.id)
    }

    fn finish(&self) -> &'static str {
        match &self.content {
            Content::Answer(Answer::ToolCall { .. }) => "tool_calls",
            Content::Answer(Answer::Text(_)) | Content::Refusal(_) => "stop",
        }
    }
}

/// A text in pieces of [`CHUNK_CHARS`] characters.
fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(CHUNK_CHARS).map(|piece| piece.iter().collect()).collect()
}

/// An error in the form that clients know.
pub(super) fn error_body(message: &str, kind: &str, code: Option<&str>) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}
