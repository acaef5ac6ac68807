//! The tools that a definition may grant.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition::Budget;
use crate::limits;
use crate::secret::SecretRef;

/// Something that the model may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Tool {
    /// A call to an HTTP server.
    Http(HttpTool),
    /// A call of a Lambda function.
    Lambda(LambdaTool),
    /// Tools of an MCP server (streamable HTTP).
    Mcp(McpTool),
    /// A question to a person.
    AskPerson(AskPersonTool),
    /// Another agent, in a job of its own.
    RunAgent(RunAgentTool),
    /// Reading a document.
    Documents(DocumentsTool),
    /// Finding passages in documents.
    Search(SearchTool),
}

impl Tool {
    /// The kinds, as they are written down.
    pub const KINDS: [&'static str; 7] = ["http", "lambda", "mcp", "ask_person", "run_agent", "documents", "search"];

    /// What the tool is called. For an MCP server, what the names of its tools begin with.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Http(tool) => &tool.name,
            Self::Lambda(tool) => &tool.name,
            Self::Mcp(tool) => &tool.name,
            Self::AskPerson(tool) => &tool.name,
            Self::RunAgent(tool) => &tool.name,
            Self::Documents(tool) => &tool.name,
            Self::Search(tool) => &tool.name,
        }
    }

    /// The names under which the model knows it.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Mcp(server) => server.tools.iter().map(|tool| server.exposed(tool)).collect(),
            Self::Http(_)
            | Self::Lambda(_)
            | Self::AskPerson(_)
            | Self::RunAgent(_)
            | Self::Documents(_)
            | Self::Search(_) => vec![self.name().to_owned()],
        }
    }
}

/// What may happen when a call is made a second time, after a crash or a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: the call only reads, or sets what is set already.
    Idempotent,
    /// The other side knows the `Idempotency-Key`, which is the same each time, and acts once.
    Keyed,
    /// It would act twice, so the call is never made a second time.
    AtMostOnce,
}

/// An HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// GET.
    #[default]
    Get,
    /// HEAD.
    Head,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

impl Method {
    /// The method as it is sent.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether it only reads.
    #[must_use]
    pub const fn is_safe(self) -> bool {
        match self {
            Self::Get | Self::Head => true,
            Self::Post | Self::Put | Self::Patch | Self::Delete => false,
        }
    }
}

/// A header that carries a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// Where the secret lies.
    pub secret: SecretRef,
    /// The header that carries it.
    #[serde(default = "authorization")]
    pub header: String,
    /// What stands before it in the header.
    #[serde(default = "bearer")]
    pub prefix: String,
}

fn authorization() -> String {
    "Authorization".to_owned()
}

fn bearer() -> String {
    "Bearer ".to_owned()
}

fn timeout_seconds() -> u64 {
    limits::TOOL_TIMEOUT_SECONDS_DEFAULT
}

fn size_max_bytes() -> usize {
    limits::TOOL_SIZE_BYTES_DEFAULT
}

fn person_wait_seconds() -> u64 {
    limits::PERSON_WAIT_SECONDS_DEFAULT
}

/// A call to an HTTP server. `{name}` in the address, a header or a text of the body is the argument of that name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpTool {
    /// What the model calls it.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// The JSON Schema of its arguments: an object.
    pub input_schema: Value,
    /// The method.
    #[serde(default)]
    pub method: Method,
    /// The address. Arguments may stand in its path and its query, each filling no more than one segment or value.
    pub url: String,
    /// Further headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The JSON body. A text that is nothing but `{name}` becomes the argument itself, whatever its type. Without a body,
    /// a method that has one sends the arguments that stand in neither address nor headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The key of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// How long an attempt may take.
    #[serde(default = "timeout_seconds")]
    #[schemars(range(min = 1, max = 600))]
    pub timeout_seconds: u64,
    /// Bytes of the answer that are read; a longer one is cut, with a word to the model.
    #[serde(default = "size_max_bytes")]
    #[schemars(range(min = 1, max = 8_388_608))]
    pub size_max_bytes: usize,
    /// What may happen when it is called a second time. When absent: `idempotent` for GET and HEAD, else `at_most_once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

impl HttpTool {
    /// What may happen when it is called a second time.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect.unwrap_or(if self.method.is_safe() { Effect::Idempotent } else { Effect::AtMostOnce })
    }
}

/// A call of a Lambda function; its event is `{"arguments": {...}, "idempotency_key": "...", "tenant":
/// "...", "traceparent": "..."}`, its answer any JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LambdaTool {
    /// What the model calls it.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// The JSON Schema of its arguments: an object.
    pub input_schema: Value,
    /// The function: its name or ARN, with `:alias` or `:version` if need be.
    #[schemars(length(min = 1, max = 200))]
    pub function: String,
    /// How long an attempt may take.
    #[serde(default = "timeout_seconds")]
    #[schemars(range(min = 1, max = 600))]
    pub timeout_seconds: u64,
    /// What may happen when it is called a second time. `at_most_once` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

impl LambdaTool {
    /// What may happen when it is called a second time.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect.unwrap_or(Effect::AtMostOnce)
    }
}

/// Tools of an MCP server. The model knows each as `<name>_<tool>`, described as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpTool {
    /// What the names of its tools begin with.
    pub name: String,
    /// The server's address.
    pub url: String,
    /// The tools that are granted, as the server calls them. No others are.
    #[schemars(length(min = 1))]
    pub tools: Vec<String>,
    /// Further headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The key of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// How long an attempt may take.
    #[serde(default = "timeout_seconds")]
    #[schemars(range(min = 1, max = 600))]
    pub timeout_seconds: u64,
    /// Bytes of an answer that are read; more is an error.
    #[serde(default = "size_max_bytes")]
    #[schemars(range(min = 1, max = 8_388_608))]
    pub size_max_bytes: usize,
    /// What may happen when a tool is called a second time. `at_most_once` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

impl McpTool {
    /// What may happen when a tool is called a second time.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect.unwrap_or(Effect::AtMostOnce)
    }

    /// The name under which the model knows one of the server's tools.
    #[must_use]
    pub fn exposed(&self, tool: &str) -> String {
        format!("{}_{tool}", self.name)
    }
}

/// A question to a person; the answer comes as a signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskPersonTool {
    /// What the model calls it.
    pub name: String,
    /// Who is asked and what for, for the model.
    pub description: String,
    /// How long the person may take; the model is told when nobody answered.
    #[serde(default = "person_wait_seconds")]
    #[schemars(range(min = 1, max = 2_592_000))]
    pub wait_seconds: u64,
}

/// Another agent, in a job of its own that this one waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunAgentTool {
    /// What the model calls it.
    pub name: String,
    /// What the agent does and when to use it, for the model.
    pub description: String,
    /// The JSON Schema of its input: an object.
    pub input_schema: Value,
    /// The agent's name.
    pub agent: String,
    /// Its version.
    #[schemars(range(min = 1))]
    pub version: u32,
    /// The most that a run may use, within its part of what the job has left.
    #[serde(default, skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
}

/// Reading a document, page by page, from the folders that the deployment opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentsTool {
    /// What the model calls it.
    pub name: String,
    /// What there is to read, for the model.
    pub description: String,
    /// The folder; the deployment's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// Finding the passages in a folder of documents that answer a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchTool {
    /// What the model calls it.
    pub name: String,
    /// What there is to find, for the model.
    pub description: String,
    /// The folder; the deployment's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}
