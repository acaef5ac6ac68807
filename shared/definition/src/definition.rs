//! The definition itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;
use crate::tools::Tool;

/// An agent, as its author writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Longhaul agent definition")]
pub struct Definition {
    /// What the agent is called: letters, digits, `-`, `_` and `.`.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"))]
    pub name: String,
    /// What it does, in a sentence or two, for the people who choose an agent.
    pub description: String,
    /// What the model is told before anything else.
    #[schemars(length(min = 1))]
    pub instructions: String,
    /// The models in order: each further one is asked when those before it cannot answer.
    #[schemars(length(min = 1, max = 5))]
    pub models: Vec<ModelChoice>,
    /// What the model may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// The names of the tools that a person must approve before each call. A tool of an MCP server is called
    /// `<server>_<tool>` here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approval: Vec<String>,
    /// How long a person may take to approve, in seconds; what is not approved by then counts as rejected.
    #[serde(default = "person_wait_seconds")]
    #[schemars(range(min = 1, max = 2_592_000))]
    pub approval_wait_seconds: u64,
    /// The JSON Schema (draft 2020-12) of a job's input; any JSON when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// The JSON Schema (draft 2020-12) of the result; free text when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What a job may use where its submission does not say.
    #[serde(default, skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// How often and at what distance models and tools are tried.
    #[serde(default)]
    pub retry: Retry,
    /// What the model sees of a long job.
    #[serde(default)]
    pub context: Context,
    /// When the loop is stopped.
    #[serde(default)]
    pub limits: Limits,
    /// What happens when a crash cut off a call that is never made twice.
    #[serde(default)]
    pub on_interrupted: OnInterrupted,
}

fn person_wait_seconds() -> u64 {
    limits::PERSON_WAIT_SECONDS_DEFAULT
}

/// One model of the order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelChoice {
    /// A provider of the deployment's settings, by its name there.
    #[schemars(length(min = 1))]
    pub provider: String,
    /// The model's name as that provider knows it; the provider's own default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Limit of one answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub output_tokens_max: Option<u64>,
    /// Whether its answers are made at the provider while no worker waits: for answers that take minutes. Only for the
    /// first model, and only of a provider that can (wire `responses`); the provider's own setting when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
}

/// What a job may use. A part that is not named is bounded by the deployment or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens in and out of models, all attempts and child jobs counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// What the models may cost, in millionths of the currency of the deployment's price table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub money_micros: Option<u64>,
    /// Steps with an outcome: model turns and tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub steps: Option<u64>,
    /// Seconds since submission, waits included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub wall_seconds: Option<u64>,
}

impl Budget {
    /// Whether no part is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How often and at what distance a call is tried. Errors that another attempt cannot help are never tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// All attempts, the first included.
    #[schemars(range(min = 1, max = 10))]
    pub attempts: u32,
    /// Wait before the second attempt. A server that asks for a longer one gets it.
    #[schemars(range(max = 3600))]
    pub wait_first_seconds: u64,
    /// Each further wait is this many times the one before.
    #[schemars(range(min = 1, max = 10))]
    pub wait_factor: u64,
    /// The longest wait.
    #[schemars(range(max = 3600))]
    pub wait_max_seconds: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 3, wait_first_seconds: 10, wait_factor: 3, wait_max_seconds: 900 }
    }
}

/// What the model sees of a long job. When its conversation comes near the window, the oldest answers of tools are left
/// out first (the model can read them again), then the oldest turns become a summary. Instructions and pinned texts stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Context {
    /// The smallest window of the models, in tokens.
    #[schemars(range(min = 4000))]
    pub window_tokens: u64,
    /// Bytes of one tool's answer that the model sees at once: its head and its tail; the rest it can read in pieces.
    #[schemars(range(min = 512))]
    pub tool_output_bytes_max: usize,
    /// Texts that stand below the instructions for the whole job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<String>,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            window_tokens: limits::WINDOW_TOKENS_DEFAULT,
            tool_output_bytes_max: limits::TOOL_OUTPUT_BYTES_DEFAULT,
            pinned: Vec::new(),
        }
    }
}

/// When the loop is stopped, whatever its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Answers of the model in one job.
    #[schemars(range(min = 1, max = 2000))]
    pub turns_max: u32,
    /// How often in a row the very same call of a tool is carried out. The next one is refused with a word to the model,
    /// the one after that ends the job.
    #[schemars(range(min = 1))]
    pub repeats_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { turns_max: limits::TURNS_DEFAULT, repeats_max: limits::REPEATS_DEFAULT }
    }
}

/// What happens when a crash cut off a call that is never made twice: nobody knows whether it took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnInterrupted {
    /// The job fails; a person looks and replays it.
    Fail,
    /// The job waits for a person who says what happened.
    AskPerson,
    /// The model is told that the outcome is unknown, and goes on.
    #[default]
    TellModel,
}
