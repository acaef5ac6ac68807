//! Which model to ask, as configuration: the wire format, the address, the model's name and what its server cannot do.
//!
//! An [`Endpoint`] holds no key, so it can stand in an agent definition; [`Endpoint::open`] is given one.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{ModelError, ModelErrorKind};

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// OpenAI Chat Completions: OpenAI itself, Azure, vLLM, Ollama, LiteLLM, OpenRouter, and the compatible endpoints of
    /// Gemini and Bedrock.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
    /// Amazon Bedrock Converse.
    Converse,
}

impl Wire {
    /// Where the format's own provider is found, for an endpoint that names no address.
    fn home(self, region: Option<&str>) -> Result<String, ModelError> {
        match (self, region) {
            (Self::Chat | Self::Responses, _) => Ok("https://api.openai.com/v1".to_owned()),
            (Self::Messages, _) => Ok("https://api.anthropic.com/v1".to_owned()),
            (Self::Converse, Some(region)) => Ok(format!("https://bedrock-runtime.{region}.amazonaws.com")),
            (Self::Converse, None) => Err(ModelError::new(
                ModelErrorKind::Invalid,
                "an endpoint of the wire `converse` needs a `region` (or a `base_url` and a `region`)",
            )),
        }
    }
}

/// How an answer with a schema is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// By the field that the wire format has for it.
    #[default]
    Native,
    /// In words, below the instructions: for servers and models that refuse or ignore that field.
    Prompt,
}

/// What the limit of an answer is called on the wire `chat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimitField {
    /// The old name, which every compatible server knows.
    MaxTokens,
    /// The new name, which OpenAI's and Azure's thinking models insist on.
    MaxCompletionTokens,
}

/// What a server can do, where that differs from the published format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Features {
    /// How an answer with a schema is asked for.
    pub structured_output: StructuredOutput,
    /// Whether answers may be asked for as a stream. Without, there are no deltas.
    pub streaming: bool,
    /// Whether usage may be asked for inside a stream (`stream_options`, wire `chat`).
    pub stream_usage: bool,
    /// Whether the prompt is marked for the provider's cache (wires `messages` and `converse`; the others cache unasked).
    /// When absent, only where the provider is known to take the mark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<bool>,
    /// Whether encrypted thoughts are asked for, so that they can be sent back (wire `responses`). When absent, for every
    /// model but the families that are known not to think.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted_reasoning: Option<bool>,
    /// What the limit of an answer is called (wire `chat`). When absent, the new name at OpenAI and the old one elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_limit_field: Option<OutputLimitField>,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            structured_output: StructuredOutput::Native,
            streaming: true,
            stream_usage: true,
            prompt_cache: None,
            encrypted_reasoning: None,
            output_limit_field: None,
        }
    }
}

/// One model at one server.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The wire format.
    pub wire: Wire,
    /// The model's name as its server knows it.
    pub model: String,
    /// The name that answers and prices go by; the model's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The address up to the part that the format defines (`http://127.0.0.1:11434/v1` for Ollama); the format's own
    /// provider when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The AWS region of the wire `converse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The header that carries the key (`api-key` for Azure); the format's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// Further headers of every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Upper limit of a call's time, in milliseconds; a request may ask for less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_ms: Option<u64>,
    /// The longest silence of the server in the middle of a call, in milliseconds; only the time of the whole call counts
    /// when absent. Models that think without showing it may be silent for minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_limit_ms: Option<u64>,
    /// Limit of an answer, in tokens, for requests that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens_max: Option<u64>,
    /// What the server can do.
    #[serde(default)]
    pub features: Features,
    /// Further request fields of the provider's own, below those that a request brings.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl Endpoint {
    /// A model at the wire format's own provider, with nothing out of the ordinary.
    pub fn new(wire: Wire, model: impl Into<String>) -> Self {
        Self {
            wire,
            model: model.into(),
            name: None,
            base_url: None,
            region: None,
            key_header: None,
            headers: BTreeMap::new(),
            time_limit_ms: None,
            silence_limit_ms: None,
            output_tokens_max: None,
            features: Features::default(),
            extra: Map::new(),
        }
    }

    /// The name that answers and prices go by.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.model)
    }

    /// The address, of the format's own provider where none is configured.
    ///
    /// # Errors
    /// [`ModelErrorKind::Invalid`] where neither address nor region says where a `converse` endpoint is.
    pub fn address(&self) -> Result<String, ModelError> {
        match &self.base_url {
            Some(address) => Ok(address.clone()),
            None => self.wire.home(self.region.as_deref()),
        }
    }
}

/// Header values and addresses may hold keys, so only their names and the host's own provider show.
impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Endpoint")
            .field("wire", &self.wire)
            .field("model", &self.model)
            .field("name", &self.name)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("features", &self.features)
            .finish_non_exhaustive()
    }
}
