//! What a job may use, and the check before each step.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::Totals;
use crate::limits;
use crate::time::Timestamp;

/// The most that a job may use; a part that is not named is bounded by [`limits`] or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens in and out of models, all attempts counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Steps with an outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Seconds since submission, waits included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<u64>,
}

/// Which part of a budget does not allow the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// Tokens used, and reserved for the step, pass the budget.
    #[error("the budget of {limit} tokens does not allow this step: {used} are used and it may need {reserved}")]
    Tokens {
        /// The budget.
        limit: u64,
        /// Used by earlier steps.
        used: u64,
        /// What the step may need.
        reserved: u64,
    },
    /// The job has had all its steps.
    #[error("the budget of {limit} steps is used up")]
    Steps {
        /// The budget.
        limit: u64,
    },
    /// The job is older than it may become.
    #[error("the budget of {limit} s is used up")]
    Wall {
        /// The budget in seconds.
        limit: u64,
    },
}

/// Whether a step may start that may need `reserved` tokens beside those that other running steps have reserved.
///
/// # Errors
/// The first part of the budget that does not allow it.
pub fn check(
    budget: &Budget,
    totals: &Totals,
    reserved: u64,
    submitted_at: Timestamp,
    now: Timestamp,
) -> Result<(), Exhausted> {
    let steps = budget.steps.unwrap_or(limits::STEPS_DEFAULT);
    if totals.steps >= steps {
        return Err(Exhausted::Steps { limit: steps });
    }
    if let Some(limit) = budget.tokens {
        let used = totals.usage.tokens();
        if used.saturating_add(reserved) > limit || used >= limit {
            return Err(Exhausted::Tokens { limit, used, reserved });
        }
    }
    match budget.wall_seconds {
        Some(limit) if now.since(submitted_at) >= Duration::from_secs(limit) => Err(Exhausted::Wall { limit }),
        Some(_) | None => Ok(()),
    }
}
