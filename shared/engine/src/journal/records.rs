//! What a journal says about steps, signals, claims and ends: the records that the fold makes of entries.

use serde_json::Value;

use crate::entry::{Entry, StepId, WaitEnd, WaitFor};
use crate::failure::Failure;
use crate::ids::{Epoch, Nonce, Seq, SignalName, StepKey};
use crate::time::Timestamp;

/// A journal that cannot be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// Written by a newer version: this worker must leave the job alone.
    #[error("the entry at {at} was written by protocol version {found}; this program knows up to {known}")]
    Newer {
        /// Where.
        at: Seq,
        /// Its version.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// A batch does not stand where the one before ends.
    #[error("the journal goes on at {expected}, but the next batch stands at {found}")]
    Gap {
        /// Where it should stand.
        expected: Seq,
        /// Where it stands.
        found: Seq,
    },
    /// A step has two outcomes; the protocol does not allow that to be written.
    #[error("step {step} has a second outcome at {at}")]
    SecondOutcome {
        /// The step.
        step: StepKey,
        /// Where.
        at: Seq,
    },
    /// An entry stands behind the job's end.
    #[error("the entry at {at} stands behind the job's end")]
    AfterEnd {
        /// Where.
        at: Seq,
    },
    /// The journal is longer than a worker may hold.
    #[error("the journal has more than {max} entries")]
    TooLong {
        /// The bound.
        max: u64,
    },
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// With a result.
    Completed {
        /// The result.
        output: Value,
    },
    /// With a failure.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// On request.
    Cancelled {
        /// Who asked.
        by: String,
        /// Why.
        reason: Option<String>,
    },
}

impl Ending {
    /// The ending that an entry commits, if it does.
    #[must_use]
    pub fn of_entry(entry: Entry) -> Option<Self> {
        match entry {
            Entry::Completed { output } => Some(Self::Completed { output }),
            Entry::Failed { failure } => Some(Self::Failed { failure }),
            Entry::Cancelled { by, reason } => Some(Self::Cancelled { by, reason }),
            Entry::Claimed { .. }
            | Entry::StepStarted { .. }
            | Entry::StepCompleted { .. }
            | Entry::AttemptFailed { .. }
            | Entry::StepFailed { .. }
            | Entry::Waiting { .. }
            | Entry::WaitEnded { .. }
            | Entry::Emitted { .. }
            | Entry::Signalled { .. }
            | Entry::CancelRequested { .. }
            | Entry::Replayed { .. }
            | Entry::Forked { .. } => None,
        }
    }

    /// The entry that commits it.
    #[must_use]
    pub fn into_entry(self) -> Entry {
        match self {
            Self::Completed { output } => Entry::Completed { output },
            Self::Failed { failure } => Entry::Failed { failure },
            Self::Cancelled { by, reason } => Entry::Cancelled { by, reason },
        }
    }
}

/// What is written about one step.
#[derive(Debug, Clone, PartialEq)]
pub enum StepState {
    /// An at-most-once step began to act and has no outcome.
    Started,
    /// An attempt failed; the next may begin.
    Retrying {
        /// The attempt that failed.
        attempt: u32,
        /// When the next may begin.
        retry_at: Timestamp,
    },
    /// A wait that has not ended.
    Waiting {
        /// For what.
        on: WaitFor,
        /// Until when at the latest.
        until: Option<Timestamp>,
    },
    /// It has its result.
    Completed {
        /// The result.
        output: Value,
    },
    /// It failed for good.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// The wait ended.
    WaitEnded {
        /// How.
        end: WaitEnd,
    },
    /// It was shown.
    Emitted,
}

impl StepState {
    /// Whether the step is over: a second such entry must not follow.
    #[must_use]
    pub const fn is_outcome(&self) -> bool {
        match self {
            Self::Completed { .. } | Self::Failed { .. } | Self::WaitEnded { .. } | Self::Emitted => true,
            Self::Started | Self::Retrying { .. } | Self::Waiting { .. } => false,
        }
    }
}

/// A step's record: what it is and how far it is.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRecord {
    /// What it is.
    pub id: StepId,
    /// How far it is.
    pub state: StepState,
    /// The last entry about it.
    pub seq: Seq,
}

/// A signal that was taken in.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalRecord {
    /// Where it stands.
    pub seq: Seq,
    /// Its name.
    pub name: SignalName,
    /// What it says.
    pub payload: Value,
    /// Who sent it.
    pub by: String,
    /// Whether a wait has taken it.
    pub taken: bool,
}

/// What an idempotency key was given for. The same key may stand for one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// A signal.
    Signal,
    /// A cancel.
    Cancel,
    /// A replay.
    Replay,
}

/// A request to end the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelRecord {
    /// Where it stands.
    pub seq: Seq,
    /// Who asked.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

/// The last claim in a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRecord {
    /// Its epoch.
    pub epoch: Epoch,
    /// The mark of the batch that holds it.
    pub nonce: Nonce,
    /// Where it stands.
    pub seq: Seq,
    /// How many other jobs its process had in hand, where they were many.
    pub beside: u32,
}
