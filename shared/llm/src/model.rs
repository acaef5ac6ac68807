//! The one trait that every provider implements, and the request it takes.

use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::ModelError;
use crate::message::Message;
use crate::reply::ModelReply;

/// Time for a call when the request names none: long reasoning answers take minutes, and a worker's invocation has 15.
pub const TIME_LIMIT_DEFAULT_MS: u64 = 300_000;

/// A call under way. Dropping it closes the connection, which is how a call is cancelled.
pub type Completion<'a> = Pin<Box<dyn Future<Output = Result<ModelReply, ModelError>> + 'a>>;

/// A language model that answers one request at a time.
///
/// The future is not required to be `Send`, since workers drive all jobs of an invocation on one thread; providers
/// offer an inherent method whose future is `Send` when the observer is.
pub trait Model {
    /// Asks for one answer. `on_delta` sees pieces of it as they arrive; they are for showing only, and an attempt that
    /// fails after some deltas leaves them void.
    ///
    /// # Errors
    /// A [`ModelError`] whenever there is no whole answer.
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a>;
}

impl<M: Model + ?Sized> Model for Box<M> {
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        (**self).complete(request, on_delta)
    }
}

/// A piece of a streamed answer: shown live, never stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delta {
    /// More of the visible text.
    Text {
        /// What to append.
        text: String,
    },
    /// More of the model's thoughts, where a server shows them.
    Reasoning {
        /// What to append.
        text: String,
    },
    /// The model began to write a call of this tool.
    ToolCall {
        /// The tool's name.
        name: String,
    },
    /// All deltas of this call so far are void: the model that sent them failed, and another begins anew.
    Discard,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Letters, digits, `_` and `-`.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// JSON Schema of its arguments: an object.
    pub parameters: Value,
}

/// Whether the model may, must or must not call tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it sees fit.
    #[default]
    Auto,
    /// No call.
    None,
    /// At least one call.
    Required,
    /// A call of this very tool.
    Named {
        /// The tool's name.
        name: String,
    },
}

/// The form of the answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Free text.
    #[default]
    Text,
    /// One JSON value that satisfies a schema. Servers differ in how far they obey, hence
    /// [`ModelReply::structured`] checks.
    JsonSchema {
        /// Names the schema to the server: letters, digits, `_` and `-`.
        name: String,
        /// The JSON Schema.
        schema: Value,
    },
}

/// One request to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The model's name as its server knows it.
    pub model: String,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Tools on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Whether to call them.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// The form of the answer.
    #[serde(default)]
    pub response_format: ResponseFormat,
    /// Upper limit of the answer, in tokens; the server's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens_max: Option<u64>,
    /// Sampling temperature; the server's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Sent as `Idempotency-Key`, so that a server that knows it does not charge twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Sent as `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Time for the whole call, from connecting to the last byte, in milliseconds.
    #[serde(default = "default_time_limit_ms")]
    pub time_limit_ms: u64,
    /// Further request fields of the provider's own, sent as they are; they win over the ones made here.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

fn default_time_limit_ms() -> u64 {
    TIME_LIMIT_DEFAULT_MS
}

impl ModelRequest {
    /// A plain request: free text, no tools, default limits.
    pub fn new(model: impl Into<String>, messages: Vec<Message>) -> Self {
        Self {
            model: model.into(),
            messages,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            response_format: ResponseFormat::Text,
            output_tokens_max: None,
            temperature: None,
            idempotency_key: None,
            traceparent: None,
            time_limit_ms: TIME_LIMIT_DEFAULT_MS,
            extra: Map::new(),
        }
    }
}
