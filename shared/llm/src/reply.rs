//! A whole answer, as it is checkpointed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{ModelError, ModelErrorKind};
use crate::message::Message;
use crate::structured;

/// Why the model stopped, for an answer that is whole. Every other end is a [`ModelError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It had said all.
    Stop,
    /// It waits for the results of its tool calls.
    ToolCalls,
    /// The provider paused in the middle of tools of its own. Sent back as it is, without an answer to it, the message
    /// lets the model go on.
    Paused,
}

/// What a call cost, in tokens, exactly as the server reported it; all zero when it reported nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// All tokens of the prompt, cached ones included.
    pub input_tokens: u64,
    /// All tokens of the answer, reasoning included.
    pub output_tokens: u64,
    /// Those of `input_tokens` that were read from the provider's cache.
    #[serde(default)]
    pub cached_tokens: u64,
    /// Those of `output_tokens` that were spent on thoughts.
    #[serde(default)]
    pub reasoning_tokens: u64,
    /// Those of `input_tokens` that were written to the provider's cache, where that has a price of its own.
    #[serde(default)]
    pub cache_write_tokens: u64,
}

impl Usage {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
        }
    }
}

/// A model that was asked before the one that answered, and failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// Which model, by the name it has in the order of fallback.
    pub model: String,
    /// The class of the failure.
    pub error: ModelErrorKind,
    /// The server's words.
    pub message: String,
    /// What it cost nevertheless, where the server said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// A model's whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The assistant's message, ready to stand in the next request.
    pub message: Message,
    /// Why it ended.
    pub finish: Finish,
    /// What it cost.
    pub usage: Usage,
    /// The model that answered, in the server's words; the requested name when it did not say.
    pub model: String,
    /// The configured name of the model that answered, where one was configured: with several models in order, it says
    /// which of them it was, and it is what prices are looked up by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// The models that were asked before and failed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_attempts: Vec<FailedAttempt>,
    /// Further fields of the answer as they came (`id`, `system_fingerprint`, `service_tier`, …).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extras: Map<String, Value>,
}

impl ModelReply {
    /// The answer as JSON that satisfies `schema`.
    ///
    /// A code fence around the whole value is taken off, as models behind compatible servers often add one. Two values,
    /// or prose without a fence, are not guessed at.
    ///
    /// # Errors
    /// [`crate::ModelErrorKind::Schema`] that says what is wrong, fit to be shown to the model for one repair.
    pub fn structured(&self, schema: &Value) -> Result<Value, ModelError> {
        let value = structured::extract(&self.message.text())
            .and_then(|value| structured::validate(schema, value))
            .map_err(|error| error.with_usage(self.usage))?;
        Ok(value)
    }
}
