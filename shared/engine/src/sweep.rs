//! The sweeper's decision: what is due gets a continuation, at a distance that grows while nobody claims it.

use std::time::Duration;

use crate::job::{Job, JobState};
use crate::limits;
use crate::time::Timestamp;

/// What the sweeper does about one job of the due index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// Move the due time first, then send a continuation.
    Send {
        /// The due time that must stand in the item (another sweeper may have been here).
        seen_due: Timestamp,
        /// The due time to write.
        due: Timestamp,
    },
    /// Nothing to do: ended, or its time has not come.
    Leave,
}

/// When a waiting job's wait ends: no look may be later.
const fn wait_end(job: &Job) -> Option<Timestamp> {
    match job.progress.state {
        JobState::Waiting { until, .. } => until,
        JobState::Pending
        | JobState::Processing { .. }
        | JobState::Blocked { .. }
        | JobState::Completed
        | JobState::Failed
        | JobState::Cancelled => None,
    }
}

/// Decides about `job` at `now`.
#[must_use]
pub fn decide(job: &Job, now: Timestamp) -> Sweep {
    match job.progress.due {
        Some(seen_due) if seen_due <= now && !job.progress.state.is_terminal() => {
            let doublings = job.sweeps.min(16);
            let distance =
                limits::SWEEP_DISTANCE_FIRST_MS.saturating_mul(1_u64 << doublings).min(limits::SWEEP_DISTANCE_MAX_MS);
            let due = now.plus(Duration::from_millis(distance));
            Sweep::Send { seen_due, due: wait_end(job).filter(|end| *end > now).map_or(due, |end| due.min(end)) }
        }
        Some(_) | None => Sweep::Leave,
    }
}
