//! Whether a failed attempt is worth another, and when.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::ErrorClass;
use crate::ids::{JobId, StepKey};
use crate::limits;
use crate::time::Timestamp;

/// How often and at what distance a step is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// All attempts, the first included.
    pub attempts_max: u32,
    /// Wait before the second attempt, in milliseconds.
    pub wait_first_ms: u64,
    /// Each further wait is this many times the one before.
    pub wait_factor: u64,
    /// The longest wait, in milliseconds.
    pub wait_max_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: limits::STEP_ATTEMPTS_DEFAULT,
            wait_first_ms: limits::RETRY_WAIT_FIRST_MS,
            wait_factor: limits::RETRY_WAIT_FACTOR,
            wait_max_ms: limits::RETRY_WAIT_MAX_MS,
        }
    }
}

impl RetryPolicy {
    /// One attempt and no more.
    #[must_use]
    pub const fn never() -> Self {
        Self { attempts_max: 1, wait_first_ms: 0, wait_factor: 1, wait_max_ms: 0 }
    }
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// Try again at this time.
    Retry {
        /// When.
        at: Timestamp,
    },
    /// The failure is the step's outcome.
    GiveUp,
}

/// Decides what follows attempt number `attempt` (from 1) that failed at `now`. A server's own wait (`retry_after`) stands
/// in place of the policy's distance, within bounds: the server knows when it can, the policy only guesses.
#[must_use]
pub fn after_failure(
    policy: &RetryPolicy,
    job: JobId,
    step: &StepKey,
    attempt: u32,
    class: ErrorClass,
    retry_after: Option<Duration>,
    now: Timestamp,
) -> AfterFailure {
    if !class.is_retryable() || attempt >= policy.attempts_max {
        return AfterFailure::GiveUp;
    }
    let exponent = attempt.saturating_sub(1);
    let distance =
        policy.wait_first_ms.saturating_mul(policy.wait_factor.saturating_pow(exponent)).min(policy.wait_max_ms);
    let wait_ms = match retry_after {
        Some(asked) => {
            let asked_ms = u64::try_from(asked.as_millis()).unwrap_or(u64::MAX);
            asked_ms.clamp(limits::RETRY_AFTER_MIN_MS, limits::RETRY_AFTER_MAX_MS)
        }
        None => distance,
    };
    let bytes = job.as_uuid().into_bytes().into_iter().chain(step.as_str().bytes()).chain(attempt.to_le_bytes());
    AfterFailure::Retry { at: now.plus(with_jitter(wait_ms, bytes)) }
}

/// A wait made longer by up to a fifth, so that what failed together does not come back together. By how much hangs on
/// the `bytes` that tell one from another, so that it is the same at every look.
pub(crate) fn with_jitter(wait_ms: u64, bytes: impl IntoIterator<Item = u8>) -> Duration {
    Duration::from_millis(wait_ms.saturating_add(wait_ms / 5 * spread(bytes) / 1_000))
}

/// A number from 0 to 999 that differs where the bytes do. FNV-1a (Fowler, Noll, Vo), which is enough to spread and needs
/// no state.
fn spread(bytes: impl IntoIterator<Item = u8>) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.into_iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)) % 1_000
}
