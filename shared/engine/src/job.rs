//! The job item: one small record a job, for speed and liveness. All of it can be repaired from the journal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::Budget;
use crate::fork::Fork;
use crate::ids::{AgentRef, Epoch, JobId, Nonce, Seq, SessionId, StepKey, TenantId};
use crate::limits;
use crate::thread::Thread;
use crate::time::Timestamp;

/// Tokens of model calls, added up over a job's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

impl Usage {
    /// Whether nothing was used.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Input and output together.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// What was used since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(earlier.cached_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_sub(earlier.reasoning_tokens),
            money_micros: self.money_micros.saturating_sub(earlier.money_micros),
            unpriced_tokens: self.unpriced_tokens.saturating_sub(earlier.unpriced_tokens),
        }
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            money_micros: self.money_micros.saturating_add(other.money_micros),
            unpriced_tokens: self.unpriced_tokens.saturating_add(other.unpriced_tokens),
        }
    }
}

/// What a job has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Tokens of its model calls, also of attempts that were thrown away and of child jobs that have ended.
    pub usage: Usage,
    /// Steps that have an outcome, those of child jobs that have ended included. A look at what is made elsewhere, and the
    /// wait before it, are none.
    pub steps: u64,
}

impl Totals {
    /// What was used since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self { usage: self.usage.since(earlier.usage), steps: self.steps.saturating_sub(earlier.steps) }
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { usage: self.usage.plus(other.usage), steps: self.steps.saturating_add(other.steps) }
    }
}

/// Who drives a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The worker invocation that claimed the job.
    pub session: SessionId,
    /// The mark of the claim itself.
    pub nonce: Nonce,
}

/// A journal that does not match the agent's code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Where the two differ; none when the worker has no such agent version at all.
    pub step: Option<StepKey>,
    /// What the journal holds there.
    pub recorded: String,
    /// What the code attempted.
    pub attempted: String,
}

/// Where a job stands. The data of a state is there only in that state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobState {
    /// Accepted, or called up again; a continuation is on its way.
    Pending,
    /// A worker session drives it.
    Processing {
        /// Which.
        lease: Lease,
    },
    /// Nobody drives it until a time, a signal or a child's end.
    Waiting {
        /// The earliest time that ends a wait; none when only a signal does.
        until: Option<Timestamp>,
        /// The first journal position that the waiting worker had not seen.
        seen: Seq,
    },
    /// The journal does not match the code; nothing was executed. Goes on after a rollback or a fix.
    Blocked {
        /// What differs.
        mismatch: Mismatch,
    },
    /// Ended with a result.
    Completed,
    /// Ended with a failure; stands among the dead letters.
    Failed,
    /// Ended because somebody asked for it.
    Cancelled,
}

impl JobState {
    /// Whether the job has ended.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Pending | Self::Processing { .. } | Self::Waiting { .. } | Self::Blocked { .. } => false,
        }
    }

    /// The status on the wire.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::Pending => Status::Pending,
            Self::Processing { .. } => Status::Processing,
            Self::Waiting { .. } => Status::Waiting,
            Self::Blocked { .. } => Status::Blocked,
            Self::Completed => Status::Completed,
            Self::Failed => Status::Failed,
            Self::Cancelled => Status::Cancelled,
        }
    }
}

/// A job's status as callers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// See [`JobState::Pending`].
    Pending,
    /// See [`JobState::Processing`].
    Processing,
    /// See [`JobState::Waiting`].
    Waiting,
    /// See [`JobState::Blocked`].
    Blocked,
    /// See [`JobState::Completed`].
    Completed,
    /// See [`JobState::Failed`].
    Failed,
    /// See [`JobState::Cancelled`].
    Cancelled,
}

impl Status {
    /// All of them, in the order of a job's life.
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Processing, Self::Waiting, Self::Blocked, Self::Completed, Self::Failed, Self::Cancelled];

    /// The status as it stands on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Processing => "PROCESSING",
            Self::Waiting => "WAITING",
            Self::Blocked => "BLOCKED",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
        }
    }
}

/// The job that waits for this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Its id; the tenant is the same.
    pub job: JobId,
    /// The step of it that started this job.
    pub step: StepKey,
    /// How many jobs stand above this one. Jobs of a version that did not count say 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
}

/// A job that came as a file from elsewhere, to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// When it came.
    pub at: Timestamp,
}

impl Imported {
    /// The label by which such a job is told from others in every list.
    pub const LABEL: &'static str = "imported";
}

/// Where a job comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Origin {
    /// Somebody asked for it, or a job that waits for it.
    #[default]
    Submitted,
    /// It begins with outcomes of another job.
    Forked(Fork),
    /// It came as a file. No worker drives it; a person may, step by step.
    Imported(Imported),
}

impl Origin {
    /// Whether it is the usual one.
    #[must_use]
    pub fn is_submitted(&self) -> bool {
        *self == Self::Submitted
    }

    /// Of a job that one of this origin starts: whoever drives the parent drives the child.
    #[must_use]
    pub fn of_child(&self) -> Self {
        match self {
            Self::Submitted | Self::Forked(_) => Self::Submitted,
            Self::Imported(imported) => Self::Imported(*imported),
        }
    }
}

/// What a person has a job's agent use instead of what it brings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Overrides {
    /// The model, in the form in which the agent names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The instructions that stand above every question to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl Overrides {
    /// Whether nothing is overridden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether somebody waits for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Nobody in particular: it takes its turn among its tenant's jobs.
    #[default]
    Normal,
    /// A person does: it has its turn beside its tenant's other jobs, and not behind them.
    Interactive,
}

impl Priority {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Normal, Self::Interactive];

    /// Whether it is what a job has that says nothing of it.
    #[must_use]
    pub fn is_normal(&self) -> bool {
        *self == Self::Normal
    }
}

/// What a caller asked for: the part of a job that never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Owner of the job.
    pub tenant: TenantId,
    /// Its id.
    pub id: JobId,
    /// The agent and version that drive it.
    pub agent: AgentRef,
    /// The agent's input.
    pub input: Value,
    /// What the job may use.
    #[serde(default)]
    pub budget: Budget,
    /// Where its events are reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// The types of events that are reported there; none: the job's end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhook_events: Vec<String>,
    /// The caller's own marks, for lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The job that waits for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The thread in which it has its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Thread>,
    /// Whether somebody waits for it. It decides where its messages stand in the queue, and nothing else: a worker that does
    /// not know of it drives the job as well.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
    /// Where the job comes from.
    #[serde(default, skip_serializing_if = "Origin::is_submitted")]
    pub origin: Origin,
    /// What its agent uses instead of what it brings.
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub overrides: Overrides,
    /// W3C trace context of the submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// When it was accepted.
    pub submitted_at: Timestamp,
    /// The subject of the token that submitted it.
    pub submitted_by: String,
}

impl Order {
    /// Whether two submissions under one idempotency key ask for the same thing: everything but when and on whose
    /// trace they came.
    #[must_use]
    pub fn asks_the_same(&self, other: &Self) -> bool {
        self.tenant == other.tenant
            && self.id == other.id
            && self.agent == other.agent
            && self.input == other.input
            && self.budget == other.budget
            && self.webhook == other.webhook
            && self.webhook_events == other.webhook_events
            && self.labels == other.labels
            && self.thread == other.thread
            && self.priority == other.priority
            && self.origin == other.origin
            && self.overrides == other.overrides
    }

    /// The version of the protocol that one must know to drive this job rightly.
    #[must_use]
    pub fn version(&self) -> u32 {
        if self.thread.is_some() {
            return limits::PROTOCOL_VERSION_THREADS;
        }
        match (&self.origin, self.overrides.is_empty()) {
            (Origin::Submitted, true) => limits::PROTOCOL_VERSION_PLAIN,
            (Origin::Submitted | Origin::Forked(_) | Origin::Imported(_), _) => limits::PROTOCOL_VERSION_FORKS,
        }
    }
}

/// The changing part of the job item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Where the job stands.
    pub state: JobState,
    /// How often it was claimed. Never reset, never lowered.
    pub epoch: Epoch,
    /// Claims since the last sign of progress; counts deaths that come before anything can be appended.
    pub attempts: u32,
    /// When somebody must look after the job; none once it has ended.
    pub due: Option<Timestamp>,
    /// The next free journal position as last known: a hint, never a truth.
    pub tail: Seq,
    /// What it has used as last known.
    pub totals: Totals,
    /// When this was written.
    pub updated_at: Timestamp,
}

/// The job item as read from the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What was asked for.
    pub order: Order,
    /// Where it stands.
    pub progress: Progress,
    /// Grows with every signal, so that a worker going to wait can tell that one came meanwhile.
    pub wakes: u64,
    /// How often the sweeper has looked since the last claim.
    pub sweeps: u32,
    /// The mark of the last conditional write of [`Progress`]. The next one requires what it read here.
    pub last_write: Nonce,
}

impl Job {
    /// A job as it is first stored.
    #[must_use]
    pub fn accepted(order: Order, nonce: Nonce) -> Self {
        let now = order.submitted_at;
        Self {
            order,
            progress: Progress {
                state: JobState::Pending,
                epoch: Epoch::default(),
                attempts: 0,
                due: Some(now.plus(std::time::Duration::from_millis(limits::CONTINUATION_DUE_MS))),
                tail: Seq::FIRST,
                totals: Totals::default(),
                updated_at: now,
            },
            wakes: 0,
            sweeps: 0,
            last_write: nonce,
        }
    }

    /// The shard of the due index that this job is in.
    #[must_use]
    pub fn due_shard(id: JobId) -> u8 {
        let bytes = id.as_uuid().into_bytes();
        let [.., last] = bytes;
        last % limits::DUE_SHARDS
    }
}

/// One conditional write of the job item: goes through only if the item is as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobWrite {
    /// The mark of this write.
    pub nonce: Nonce,
    /// The mark that must stand in the item.
    pub last_write: Nonce,
    /// The wakes that must stand there, for a write that must not pass over a signal.
    pub wakes: Option<u64>,
    /// What to put there.
    pub progress: Progress,
}
