//! Journal entries: what is written down about a job, once and for ever.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::Budget;
use crate::failure::Failure;
use crate::ids::{Epoch, JobId, Nonce, Seq, SessionId, SignalKey, SignalName, StepKey};
use crate::job::Usage;
use crate::limits;
use crate::time::Timestamp;

/// What a step is. Checked at replay: a recorded outcome is only given back to an operation of its kind and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Author's code or a call that may be repeated after a crash.
    Step,
    /// A side effect that carries a stable key; may be repeated with the same key after a crash.
    Effect,
    /// A side effect that is never started twice.
    EffectOnce,
    /// A durable timer.
    Sleep,
    /// A wait for a signal.
    Signal,
    /// A job of its own that this job waits for.
    Child,
    /// Something shown to the people who watch.
    Emit,
}

impl StepKind {
    /// The kind as it stands in journals and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Effect => "effect",
            Self::EffectOnce => "effect_once",
            Self::Sleep => "sleep",
            Self::Signal => "signal",
            Self::Child => "child",
            Self::Emit => "emit",
        }
    }
}

/// A step's place, kind and name: what is compared at replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepId {
    /// Its place.
    #[serde(rename = "step")]
    pub key: StepKey,
    /// The author's name for it.
    pub name: String,
    /// What it is.
    pub kind: StepKind,
    /// Its branch's number and how many there are, when it stands in a fan-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
}

/// A step's branch of the innermost fan-out around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Counted from 0.
    pub index: u64,
    /// How many branches there are.
    pub of: u64,
}

/// What a wait is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum WaitFor {
    /// A time alone.
    Time,
    /// A signal of this name.
    Signal {
        /// The name.
        signal: SignalName,
    },
    /// A child's end.
    Child {
        /// The child.
        child: JobId,
        /// What it may use: its part of this job's budget, held back while it runs.
        #[serde(default, skip_serializing_if = "Budget::is_unbounded")]
        budget: Budget,
    },
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum WaitEnd {
    /// Its time came.
    Time,
    /// The signal at this position was taken.
    Signal {
        /// Where the signal stands in the journal.
        signal_seq: Seq,
    },
}

/// Changes that a person makes before a job is replayed; what is not named stays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// A new input, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// A new budget, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Another model for its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Other instructions for its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl Edit {
    /// Whether it changes what the agent asks its models.
    #[must_use]
    pub const fn asks_anew(&self) -> bool {
        self.input.is_some() || self.model.is_some() || self.instructions.is_some()
    }
}

/// One entry of a job's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Entry {
    /// A worker session took the job over. Entries of lower epochs cannot follow.
    Claimed {
        /// The claim's number.
        epoch: Epoch,
        /// Who claimed.
        session: SessionId,
        /// Whether the session before had died holding the job.
        takeover: bool,
        /// How many other jobs the session's process had in hand, where they were many ([`crate::claim::beside`]); 0: few or
        /// none.
        #[serde(default, skip_serializing_if = "is_zero")]
        beside: u32,
    },
    /// An at-most-once step is about to act.
    StepStarted {
        /// Which.
        #[serde(flatten)]
        id: StepId,
    },
    /// A step has its result.
    StepCompleted {
        /// Which.
        #[serde(flatten)]
        id: StepId,
        /// The attempt that gave it, from 1.
        attempt: u32,
        /// When that attempt began.
        started_at: Timestamp,
        /// The result.
        output: Value,
        /// Tokens that the attempt used.
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        usage: Usage,
        /// Whether it was a look, behind a wait, at what is made elsewhere: no step of the job's own work.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        look: bool,
    },
    /// An attempt failed and another will be made.
    AttemptFailed {
        /// Which step.
        #[serde(flatten)]
        id: StepId,
        /// The attempt, from 1.
        attempt: u32,
        /// When it began.
        started_at: Timestamp,
        /// Why it failed.
        failure: Failure,
        /// When the next begins, at the earliest.
        retry_at: Timestamp,
        /// Tokens that the attempt used all the same.
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        usage: Usage,
    },
    /// A step failed for good; the author's code gets the failure.
    StepFailed {
        /// Which.
        #[serde(flatten)]
        id: StepId,
        /// The last attempt, from 1.
        attempt: u32,
        /// When it began.
        started_at: Timestamp,
        /// Why.
        failure: Failure,
        /// Tokens that the attempt used all the same.
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        usage: Usage,
    },
    /// A wait has begun.
    Waiting {
        /// Which step waits.
        #[serde(flatten)]
        id: StepId,
        /// For what.
        on: WaitFor,
        /// Until when at the latest.
        until: Option<Timestamp>,
    },
    /// A wait has ended.
    WaitEnded {
        /// Which step waited.
        #[serde(flatten)]
        id: StepId,
        /// How.
        end: WaitEnd,
    },
    /// The author shows something to the people who watch.
    Emitted {
        /// Where.
        #[serde(flatten)]
        id: StepId,
        /// What.
        data: Value,
    },
    /// Input from outside.
    Signalled {
        /// Its name.
        signal: SignalName,
        /// Its own idempotency key.
        key: SignalKey,
        /// What it says.
        payload: Value,
        /// The subject of the token that sent it, or the child job.
        by: String,
    },
    /// Somebody asked that the job end.
    CancelRequested {
        /// The request's own idempotency key.
        key: SignalKey,
        /// The subject of the token that asked.
        by: String,
        /// Why, in their words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The job ended with a result.
    Completed {
        /// The result.
        output: Value,
    },
    /// The job ended with a failure.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// The job ended because somebody asked for it.
    Cancelled {
        /// Who asked.
        by: String,
        /// Why, in their words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A person opened the ended job again.
    Replayed {
        /// The request's own idempotency key.
        key: SignalKey,
        /// The subject of the token that asked.
        by: String,
        /// Outcomes from this position on are forgotten; none: only failed ones are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Seq>,
        /// What was changed.
        #[serde(default)]
        edit: Edit,
    },
    /// All that a fork keeps of the job that it was made of stands before this entry; the agent begins behind it.
    Forked {
        /// The job that it was made of.
        job: JobId,
        /// The first position there of which nothing is kept.
        at: Seq,
        /// How many outcomes and signals were kept.
        kept: u64,
    },
}

/// Serde hands over a reference.
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Entry {
    /// Whether the job has ended with this entry.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        match self {
            Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled { .. } => true,
            Self::Claimed { .. }
            | Self::StepStarted { .. }
            | Self::StepCompleted { .. }
            | Self::AttemptFailed { .. }
            | Self::StepFailed { .. }
            | Self::Waiting { .. }
            | Self::WaitEnded { .. }
            | Self::Emitted { .. }
            | Self::Signalled { .. }
            | Self::CancelRequested { .. }
            | Self::Replayed { .. }
            | Self::Forked { .. } => false,
        }
    }

    /// The step that it is about.
    #[must_use]
    pub const fn step(&self) -> Option<&StepId> {
        match self {
            Self::StepStarted { id }
            | Self::StepCompleted { id, .. }
            | Self::AttemptFailed { id, .. }
            | Self::StepFailed { id, .. }
            | Self::Waiting { id, .. }
            | Self::WaitEnded { id, .. }
            | Self::Emitted { id, .. } => Some(id),
            Self::Claimed { .. }
            | Self::Signalled { .. }
            | Self::CancelRequested { .. }
            | Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Cancelled { .. }
            | Self::Replayed { .. }
            | Self::Forked { .. } => None,
        }
    }

    /// The version of the protocol that one must know to read it.
    #[must_use]
    fn version(&self) -> u32 {
        match self {
            Self::Forked { .. } => limits::PROTOCOL_VERSION_FORKS,
            Self::Replayed { edit, .. } if edit.model.is_some() || edit.instructions.is_some() => {
                limits::PROTOCOL_VERSION_FORKS
            }
            Self::Claimed { .. }
            | Self::StepStarted { .. }
            | Self::StepCompleted { .. }
            | Self::AttemptFailed { .. }
            | Self::StepFailed { .. }
            | Self::Waiting { .. }
            | Self::WaitEnded { .. }
            | Self::Emitted { .. }
            | Self::Signalled { .. }
            | Self::CancelRequested { .. }
            | Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Cancelled { .. }
            | Self::Replayed { .. } => limits::PROTOCOL_VERSION_PLAIN,
        }
    }
}

/// What one append writes: one item, one or more entries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// Version of the protocol that wrote it.
    pub v: u32,
    /// The first entry's position; the others follow.
    pub at: Seq,
    /// The mark of the append.
    pub nonce: Nonce,
    /// When it was written, by the writer's clock.
    pub written_at: Timestamp,
    /// What was written.
    pub entries: Vec<Entry>,
}

impl Batch {
    /// A batch of the lowest protocol version that knows its entries.
    #[must_use]
    pub fn new(at: Seq, nonce: Nonce, written_at: Timestamp, entries: Vec<Entry>) -> Self {
        let v = entries.iter().map(Entry::version).max().unwrap_or(limits::PROTOCOL_VERSION_PLAIN);
        Self { v, at, nonce, written_at, entries }
    }

    /// The first position behind it.
    #[must_use]
    pub fn next(&self) -> Seq {
        self.at.plus(u64::try_from(self.entries.len()).unwrap_or(u64::MAX))
    }
}
