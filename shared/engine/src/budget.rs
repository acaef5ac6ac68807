//! What a job may use, and the check before each step.
//!
//! A budget holds over branches and children too: what runs is held back before it starts ([`HeldBack`]), and what it came
//! to is counted when it has ended. A child gets a part of what is left and cannot pass it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::Totals;
use crate::limits;
use crate::time::Timestamp;

/// What a look at something that is made elsewhere has in the journal: itself, and the wait before it. How often one must
/// look is not the job's choice, so that neither counts as a step of its work.
pub const STEPS_OF_A_LOOK: u64 = 2;

/// The most that a job may use; a part that is not named is bounded by [`limits`] or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens in and out of models, all attempts counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// What the models may cost, in millionths of the currency of the deployment's price table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money_micros: Option<u64>,
    /// Steps with an outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Seconds since submission, waits included: the job ends then, also in the middle of a wait. A step that runs may
    /// end as its own time limit says; none starts any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<u64>,
}

impl Budget {
    /// Whether no part of it is named.
    #[must_use]
    pub fn is_unbounded(&self) -> bool {
        *self == Self::default()
    }

    /// This budget; what it does not name is as in `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.or(other.tokens),
            money_micros: self.money_micros.or(other.money_micros),
            steps: self.steps.or(other.steps),
            wall_seconds: self.wall_seconds.or(other.wall_seconds),
        }
    }

    /// The smaller of each part.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        let least = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            tokens: least(self.tokens, other.tokens),
            money_micros: least(self.money_micros, other.money_micros),
            steps: least(self.steps, other.steps),
            wall_seconds: least(self.wall_seconds, other.wall_seconds),
        }
    }

    /// The part of what is left that one of `shares` equal takers may use.
    ///
    /// # Errors
    /// The first part of which too little is left for each to have any.
    pub fn share(
        &self,
        totals: &Totals,
        held: HeldBack,
        shares: u64,
        submitted_at: Timestamp,
        now: Timestamp,
    ) -> Result<Self, Exhausted> {
        let part = |limit: Option<u64>, used: u64, held: u64| {
            limit.map(|limit| limit.saturating_sub(used).saturating_sub(held) / shares.max(1))
        };
        let age_seconds = now.since(submitted_at).as_secs();
        let share = Self {
            tokens: part(self.tokens, totals.usage.tokens(), held.tokens),
            money_micros: part(self.money_micros, totals.usage.money_micros, held.money_micros),
            steps: part(self.steps, totals.steps, held.steps),
            wall_seconds: self.wall_seconds.map(|limit| limit.saturating_sub(age_seconds)),
        };
        match (self, share) {
            (Self { tokens: Some(limit), .. }, Self { tokens: Some(0), .. }) => {
                Err(Exhausted::Tokens { limit: *limit, used: totals.usage.tokens(), reserved: held.tokens })
            }
            (Self { money_micros: Some(limit), .. }, Self { money_micros: Some(0), .. }) => {
                Err(Exhausted::Money { limit: *limit, used: totals.usage.money_micros, reserved: held.money_micros })
            }
            (Self { steps: Some(limit), .. }, Self { steps: Some(0), .. }) => Err(Exhausted::Steps { limit: *limit }),
            (Self { wall_seconds: Some(limit), .. }, Self { wall_seconds: Some(0), .. }) => {
                Err(Exhausted::Wall { limit: *limit })
            }
            (_, share) => Ok(share),
        }
    }

    /// When the job's time is up; none when it has no such limit. Nothing waits past it.
    #[must_use]
    pub fn ends_at(&self, submitted_at: Timestamp) -> Option<Timestamp> {
        self.wall_seconds.map(|limit| submitted_at.plus(Duration::from_secs(limit)))
    }

    /// Whether the job's time is up.
    ///
    /// # Errors
    /// [`Exhausted::Wall`] when it is.
    pub fn check_time(&self, submitted_at: Timestamp, now: Timestamp) -> Result<(), Exhausted> {
        match self.wall_seconds {
            Some(limit) if now.since(submitted_at) >= Duration::from_secs(limit) => Err(Exhausted::Wall { limit }),
            Some(_) | None => Ok(()),
        }
    }

    /// All of it, held back for one taker.
    pub(crate) fn as_held(&self) -> HeldBack {
        HeldBack {
            tokens: self.tokens.unwrap_or_default(),
            money_micros: self.money_micros.unwrap_or_default(),
            steps: self.steps.unwrap_or_default(),
            unpriced: false,
        }
    }
}

/// What is held back of a budget for steps and children that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldBack {
    /// Tokens that they may need.
    pub tokens: u64,
    /// What those may cost.
    pub money_micros: u64,
    /// Steps that will have an outcome.
    pub steps: u64,
    /// Whether some of the tokens have no known price.
    pub unpriced: bool,
}

impl HeldBack {
    /// What one step holds back that may need so many tokens.
    #[must_use]
    pub const fn for_step(tokens: u64, money_micros: Option<u64>) -> Self {
        let unpriced = money_micros.is_none() && tokens > 0;
        let money_micros = match money_micros {
            Some(micros) => micros,
            None => 0,
        };
        Self { tokens, money_micros, steps: 1, unpriced }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            money_micros: self.money_micros.saturating_add(other.money_micros),
            steps: self.steps.saturating_add(other.steps),
            unpriced: self.unpriced || other.unpriced,
        }
    }

    /// This without the other, which was part of it.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            money_micros: self.money_micros.saturating_sub(other.money_micros),
            steps: self.steps.saturating_sub(other.steps),
            // Whether others are unpriced too matters to nobody: each step is checked for itself.
            unpriced: self.unpriced && !other.unpriced,
        }
    }
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
    /// Money spent, and reserved for the step, passes the budget.
    #[error("the budget of {limit} micros does not allow this step: {used} are spent and it may cost {reserved}")]
    Money {
        /// The budget.
        limit: u64,
        /// Spent by earlier steps.
        used: u64,
        /// What the step may cost.
        reserved: u64,
    },
    /// There is a budget in money, and the step asks a model whose price is not known.
    #[error(
        "the budget of {limit} micros cannot be kept: the price of the model is not known; add it to the price table"
    )]
    Unpriced {
        /// The budget.
        limit: u64,
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

/// Whether a step may start when `held` is held back for it and for all else that runs.
///
/// # Errors
/// The first part of the budget that does not allow it.
pub fn check(
    budget: &Budget,
    totals: &Totals,
    held: HeldBack,
    submitted_at: Timestamp,
    now: Timestamp,
) -> Result<(), Exhausted> {
    let steps = budget.steps.unwrap_or(limits::STEPS_DEFAULT);
    if totals.steps.saturating_add(held.steps) > steps {
        return Err(Exhausted::Steps { limit: steps });
    }
    if let Some(limit) = budget.tokens {
        let used = totals.usage.tokens();
        if passes(limit, used, held.tokens) {
            return Err(Exhausted::Tokens { limit, used, reserved: held.tokens });
        }
    }
    if let Some(limit) = budget.money_micros {
        let used = totals.usage.money_micros;
        if held.unpriced {
            return Err(Exhausted::Unpriced { limit });
        }
        if passes(limit, used, held.money_micros) {
            return Err(Exhausted::Money { limit, used, reserved: held.money_micros });
        }
    }
    budget.check_time(submitted_at, now)
}

/// Whether what is used and held passes the limit; one that is used up allows not even what needs nothing.
const fn passes(limit: u64, used: u64, held: u64) -> bool {
    used.saturating_add(held) > limit || used >= limit
}
