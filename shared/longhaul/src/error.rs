//! What can go wrong for an author: inside a step, and from a step.

use std::error::Error as StdError;
use std::time::Duration;

use longhaul_engine::{ErrorClass, Failure, Usage};

/// The result of an agent and of everything that it awaits on its context.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a step's body reports when it fails. Its class alone decides whether the step is tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", failure.message)]
pub struct StepError {
    /// What happened.
    pub failure: Failure,
    /// How long the other side asks to wait.
    pub retry_after: Option<Duration>,
    /// What the attempt used all the same.
    pub usage: Box<Usage>,
}

impl StepError {
    /// An error of this class. Say what was attempted, with what, and what came back.
    #[must_use]
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { failure: Failure::new(class, message), retry_after: None, usage: Box::default() }
    }

    /// An error of this class around another, whose whole chain is kept for the people who will read it.
    #[must_use]
    pub fn because(class: ErrorClass, message: impl Into<String>, cause: &(dyn StdError + 'static)) -> Self {
        let mut error = Self::new(class, message);
        let mut next = Some(cause);
        while let Some(cause) = next {
            error.failure.push_cause(cause.to_string());
            next = cause.source();
        }
        error
    }

    /// The same error with what the attempt used: it counts towards the job's budget like that of one that succeeds.
    #[must_use]
    pub fn used(mut self, usage: Usage) -> Self {
        *self.usage = usage;
        self
    }

    /// The same error with what was sent to the other side, for the people who will mend it.
    #[must_use]
    pub fn sent(mut self, sent: serde_json::Value) -> Self {
        self.failure.sent = Some(Box::new(sent));
        self
    }

    /// The same error with the wait that the other side asked for.
    #[must_use]
    pub const fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }
}

/// What an agent gets from a step that did not give a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The step failed for good.
    #[error("{}", .0.message)]
    Step(Failure),
    /// The wait's timeout passed.
    #[error("the wait \"{name}\" timed out")]
    TimedOut {
        /// The name that the author gave it.
        name: String,
    },
    /// The child job was cancelled.
    #[error("the child job \"{name}\" was cancelled")]
    ChildCancelled {
        /// The name that the author gave it.
        name: String,
    },
    /// The agent's own code ended the job.
    #[error("{}", .0.message)]
    Terminal(Failure),
}

impl Error {
    /// Ends the job with these words.
    #[must_use]
    pub fn terminal(message: impl Into<String>) -> Self {
        Self::Terminal(Failure::new(ErrorClass::Terminal, message))
    }

    /// The failure that the job ends with if the agent does not handle this.
    #[must_use]
    pub fn into_failure(self) -> Failure {
        match self {
            Self::Step(failure) | Self::Terminal(failure) => failure,
            timed_out @ Self::TimedOut { .. } => Failure::new(ErrorClass::Timeout, timed_out.to_string()),
            cancelled @ Self::ChildCancelled { .. } => Failure::new(ErrorClass::Terminal, cancelled.to_string()),
        }
    }
}
