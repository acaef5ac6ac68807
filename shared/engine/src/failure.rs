//! What went wrong, in the one taxonomy that decides between trying again, waiting and giving up.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::StepKey;
use crate::limits;

/// The class of an error. It alone decides whether another attempt is worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// A fault that may pass: a connection lost, a server's 5xx.
    Transient,
    /// The server asks to come back later.
    RateLimited,
    /// The server has no capacity now.
    Overloaded,
    /// No answer within the step's time limit.
    Timeout,
    /// The answer was cut short.
    Truncated,
    /// The model refused, or a filter stopped it.
    Refused,
    /// The input is longer than the model's window.
    ContextOverflow,
    /// The answer does not have the agreed form.
    Schema,
    /// The credentials are wrong or lack a right.
    Auth,
    /// The request itself is wrong: it will be wrong again.
    Invalid,
    /// The job's budget is used up.
    Budget,
    /// An at-most-once step was cut off by a crash: whether it took effect is not known.
    Interrupted,
    /// The worker died again and again while it drove the job.
    WorkerLost,
    /// The model asked for the same thing again and again.
    LoopDetected,
    /// The agent's own code ended the job.
    Terminal,
}

impl ErrorClass {
    /// Whether a further attempt may help.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::Transient | Self::RateLimited | Self::Overloaded | Self::Timeout | Self::Truncated => true,
            Self::Refused
            | Self::ContextOverflow
            | Self::Schema
            | Self::Auth
            | Self::Invalid
            | Self::Budget
            | Self::Interrupted
            | Self::WorkerLost
            | Self::LoopDetected
            | Self::Terminal => false,
        }
    }

    /// The class as it stands in journals, events and problems.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Timeout => "timeout",
            Self::Truncated => "truncated",
            Self::Refused => "refused",
            Self::ContextOverflow => "context_overflow",
            Self::Schema => "schema",
            Self::Auth => "auth",
            Self::Invalid => "invalid",
            Self::Budget => "budget",
            Self::Interrupted => "interrupted",
            Self::WorkerLost => "worker_lost",
            Self::LoopDetected => "loop_detected",
            Self::Terminal => "terminal",
        }
    }
}

/// Why an attempt, a step or a job failed: what a person reads in the dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The class that decided what happened next.
    pub class: ErrorClass,
    /// What was attempted, with what, and what came back.
    pub message: String,
    /// The errors underneath, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// The step that failed, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepKey>,
    /// What the job had come to when it ended so, in the agent's own form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Box<Value>>,
    /// What was sent to the other side by the attempt that failed, such as the prompt. It stays in the journal and is in
    /// no event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Box<Value>>,
}

impl Failure {
    /// A failure without causes and step.
    #[must_use]
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: bounded(message.into()), causes: Vec::new(), step: None, partial: None, sent: None }
    }

    /// Adds a cause underneath those that are there; the first [`limits::FAILURE_CAUSES_MAX`] are kept.
    pub fn push_cause(&mut self, cause: impl Into<String>) {
        if self.causes.len() < limits::FAILURE_CAUSES_MAX {
            self.causes.push(bounded(cause.into()));
        }
    }
}

/// A text cut, at a character, to what a failure may carry.
fn bounded(mut text: String) -> String {
    if text.len() > limits::FAILURE_TEXT_BYTES_MAX {
        let end = text.floor_char_boundary(limits::FAILURE_TEXT_BYTES_MAX);
        text.truncate(end);
        text.push('…');
    }
    text
}
