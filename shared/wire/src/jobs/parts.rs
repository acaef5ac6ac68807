//! What the views of jobs are made of.

use longhaul_engine::job::Mismatch;
use longhaul_engine::{Failure, JobId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schemas;

/// Tokens of a job's model calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Tokens sent to models.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens that models wrote.
    #[serde(default)]
    pub output_tokens: u64,
    /// Of the input, tokens that the provider had cached.
    #[serde(default)]
    pub cached_tokens: u64,
    /// Of the output, tokens that were thought and not shown.
    #[serde(default)]
    pub reasoning_tokens: u64,
    /// What they cost, in millionths of the currency of the deployment's price table.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub money_micros: u64,
    /// Of the tokens, those whose price is not known: they are missing in the money.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_tokens: u64,
}

/// Serde hands over a reference.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl From<longhaul_engine::Usage> for Usage {
    fn from(usage: longhaul_engine::Usage) -> Self {
        let longhaul_engine::Usage {
            input_tokens,
            output_tokens,
            cached_tokens,
            reasoning_tokens,
            money_micros,
            unpriced_tokens,
        } = usage;
        Self { input_tokens, output_tokens, cached_tokens, reasoning_tokens, money_micros, unpriced_tokens }
    }
}

/// Why an attempt, a step or a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureView {
    /// The class that decides between another attempt and the end, such as `timeout` or `refused`.
    #[schema(example = "timeout")]
    pub class: String,
    /// What was attempted, with what, and what came back.
    pub message: String,
    /// The errors underneath, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// The key of the step that failed, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What the job had come to when it ended so, in the agent's own form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Value>,
    /// What the failed step had sent to a model: `model`, `messages` with `role` and `text`, `tools` by name. Long texts
    /// are cut. Only where a model call failed, and not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Value>,
}

impl From<&Failure> for FailureView {
    fn from(failure: &Failure) -> Self {
        Self {
            class: failure.class.as_str().to_owned(),
            message: failure.message.clone(),
            causes: failure.causes.clone(),
            step: failure.step.as_ref().map(ToString::to_string),
            partial: failure.partial.as_deref().cloned(),
            sent: failure.sent.as_deref().cloned(),
        }
    }
}

/// What a waiting job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct WaitingView {
    /// Signals by name; sending one ends its wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<String>,
    /// Child jobs by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// The earliest time that ends a wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time)]
    pub until: Option<String>,
}

/// How the journal of a blocked job differs from the agent's code. Nothing was executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockedView {
    /// The key of the step where they differ; none when the worker does not have the agent's version at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What the journal holds there.
    pub recorded: String,
    /// What the code attempted.
    pub attempted: String,
}

impl From<&Mismatch> for BlockedView {
    fn from(mismatch: &Mismatch) -> Self {
        Self {
            step: mismatch.step.as_ref().map(ToString::to_string),
            recorded: mismatch.recorded.clone(),
            attempted: mismatch.attempted.clone(),
        }
    }
}

/// Who ended a cancelled job, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelledView {
    /// The subject of the token that asked.
    pub by: String,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Where to go on from here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Links {
    /// The job.
    #[serde(rename = "self")]
    pub itself: String,
    /// Its journal.
    pub journal: String,
    /// Its events.
    pub events: String,
}

/// The path of a job.
#[must_use]
pub fn path_of(job: JobId) -> String {
    format!("/v1/jobs/{job}")
}

impl Links {
    /// The links of a job.
    #[must_use]
    pub fn of(job: JobId) -> Self {
        let itself = path_of(job);
        Self { journal: format!("{itself}/journal"), events: format!("{itself}/events"), itself }
    }
}

/// Where a fork left the job that it was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForkedFrom {
    /// The job.
    #[schema(value_type = uuid::Uuid)]
    pub job: JobId,
    /// The first position of its journal of which nothing is kept.
    pub position: u64,
}

/// An effect of a job that its fork does again, under a key of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RepeatedEffect {
    /// The key of its step.
    pub step: String,
    /// Its name.
    pub name: String,
    /// Whether it was declared to happen once at most.
    pub at_most_once: bool,
}
