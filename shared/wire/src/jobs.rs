//! Jobs as callers see them.

mod lists;
mod parts;

use std::collections::BTreeMap;

use longhaul_engine::entry::WaitFor;
use longhaul_engine::job::{Origin, Priority, Status, Totals};
use longhaul_engine::journal::{Ending, StepState};
use longhaul_engine::{Job, JobId, JobState, Journal, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::limits;
use crate::requests::Budget;
use crate::schemas;
use crate::text::{json_prefix, rfc3339};

pub use lists::{DeadLetterList, JobList, JobSummary};
pub use parts::{
    BlockedView, CancelledView, FailureView, ForkedFrom, Links, RepeatedEffect, Usage, WaitingView, path_of,
};

/// A fork, accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ForkView {
    /// The new job.
    pub job: JobView,
    /// How many outcomes and signals it keeps.
    pub kept: u64,
    /// Effects of the other job that it does again.
    pub repeats: Vec<RepeatedEffect>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(title = "Job")]
pub struct JobView {
    /// Its id.
    #[schema(value_type = uuid::Uuid)]
    pub id: JobId,
    /// The agent and version that drive it, as `name@version`.
    #[schema(example = "research@1")]
    pub agent: String,
    /// Where it stands.
    #[schema(schema_with = schemas::status)]
    pub status: Status,
    /// When it was accepted.
    #[schema(schema_with = schemas::time)]
    pub submitted_at: String,
    /// When its status was last written.
    #[schema(schema_with = schemas::time)]
    pub updated_at: String,
    /// The subject of the token that submitted it.
    pub submitted_by: String,
    /// The caller's own marks.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The thread in which it has its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The job right in front of it in its thread, while it waits for its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub waits_for: Option<JobId>,
    /// Whether somebody waits for it.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    #[schema(schema_with = schemas::priority)]
    pub priority: Priority,
    /// Tokens used so far.
    pub usage: Usage,
    /// Steps that have an outcome.
    pub steps: u64,
    /// What it may use.
    pub budget: Budget,
    /// The job that waits for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub parent: Option<JobId>,
    /// The job that it was made of, for a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// When it was imported, for one that came as a file. No worker drives it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time)]
    pub imported_at: Option<String>,
    /// The model that its agent asks instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The instructions that its agent follows instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What the agent was asked, edits of replays applied; not among dead letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The result of a COMPLETED job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Whether the result is larger than an answer may be: then it is the beginning of its JSON as a text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Why a job FAILED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureView>,
    /// Who ended a CANCELLED job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<CancelledView>,
    /// What a WAITING job waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingView>,
    /// Why a job is BLOCKED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<BlockedView>,
    /// Where to go on from here.
    pub links: Links,
}

impl JobView {
    /// The job as its item shows it, which may be a moment behind the journal.
    #[must_use]
    pub fn of_item(job: &Job) -> Self {
        let order = &job.order;
        let (waiting, blocked) = match &job.progress.state {
            JobState::Waiting { until, seen: _ } => {
                (Some(WaitingView { until: until.map(rfc3339), ..WaitingView::default() }), None)
            }
            JobState::Blocked { mismatch } => (None, Some(mismatch.into())),
            JobState::Pending
            | JobState::Processing { .. }
            | JobState::Completed
            | JobState::Failed
            | JobState::Cancelled => (None, None),
        };
        let (forked_from, imported_at) = match &order.origin {
            Origin::Submitted => (None, None),
            Origin::Forked(fork) => (Some(ForkedFrom { job: fork.job, position: fork.at.0 }), None),
            Origin::Imported(imported) => (None, Some(rfc3339(imported.at))),
        };
        Self {
            id: order.id,
            agent: order.agent.to_string(),
            status: job.progress.state.status(),
            submitted_at: rfc3339(order.submitted_at),
            updated_at: rfc3339(job.progress.updated_at),
            submitted_by: order.submitted_by.clone(),
            labels: order.labels.clone(),
            thread: order.thread.as_ref().map(|thread| thread.id.to_string()),
            waits_for: None,
            priority: order.priority,
            usage: job.progress.totals.usage.into(),
            steps: job.progress.totals.steps,
            budget: order.budget.into(),
            parent: order.parent.as_ref().map(|parent| parent.job),
            forked_from,
            imported_at,
            model: order.overrides.model.clone(),
            instructions: order.overrides.instructions.clone(),
            input: None,
            result: None,
            truncated: false,
            failure: None,
            cancelled: None,
            waiting,
            blocked,
            links: Links::of(order.id),
        }
    }

    /// The job as its journal shows it: the truth, also where the item is behind.
    #[must_use]
    pub fn of_journal(job: &Job, journal: &Journal) -> Self {
        let mut view = Self::of_item(job);
        let Totals { usage, steps } = *journal.totals();
        view.usage = usage.into();
        view.steps = steps;
        let order = journal.edited(&job.order);
        view.budget = order.budget.into();
        view.input = Some(order.input);
        view.model = order.overrides.model;
        view.instructions = order.overrides.instructions;
        if let Some(waiting) = &mut view.waiting {
            *waiting = open_waits(journal);
        }
        match journal.ending() {
            Some(ending) => view.ended(ending.clone()).with_sent(journal),
            None => view,
        }
    }

    /// The failed job with what its failed step had sent, which stands with the step alone.
    fn with_sent(mut self, journal: &Journal) -> Self {
        if let Some(failure) = &mut self.failure
            && let Some(step) = &failure.step
            && let Some(record) = journal.steps().find(|record| record.id.key.as_str() == step)
            && let StepState::Failed { failure: of_step } = &record.state
        {
            failure.sent = of_step.sent.as_deref().cloned();
        }
        self
    }

    /// The job with its end.
    #[must_use]
    pub fn ended(mut self, ending: Ending) -> Self {
        self.waiting = None;
        self.blocked = None;
        match ending {
            Ending::Completed { output } => {
                self.status = Status::Completed;
                let (result, truncated) = fitting(output);
                self.result = Some(result);
                self.truncated = truncated;
            }
            Ending::Failed { failure } => {
                self.status = Status::Failed;
                self.failure = Some((&failure).into());
            }
            Ending::Cancelled { by, reason } => {
                self.status = Status::Cancelled;
                self.cancelled = Some(CancelledView { by, reason });
            }
        }
        self
    }

    /// Whether the job has ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        match self.status {
            Status::Completed | Status::Failed | Status::Cancelled => true,
            Status::Pending | Status::Processing | Status::Waiting | Status::Blocked => false,
        }
    }
}

/// The waits of a journal that have not ended.
fn open_waits(journal: &Journal) -> WaitingView {
    let mut waiting = WaitingView::default();
    let mut earliest: Option<Timestamp> = None;
    for record in journal.steps() {
        let until = match &record.state {
            StepState::Waiting { on, until } => {
                match on {
                    WaitFor::Time => {}
                    WaitFor::Signal { signal } => waiting.signals.push(signal.to_string()),
                    WaitFor::Child { child, budget: _ } => waiting.children.push(child.to_string()),
                }
                *until
            }
            StepState::Retrying { attempt: _, retry_at } => Some(*retry_at),
            StepState::Started
            | StepState::Completed { .. }
            | StepState::Failed { .. }
            | StepState::WaitEnded { .. }
            | StepState::Emitted => None,
        };
        earliest = [earliest, until].into_iter().flatten().min();
    }
    waiting.until = earliest.map(rfc3339);
    waiting
}

/// A result that fits an answer, and whether it was cut for that.
fn fitting(output: Value) -> (Value, bool) {
    // Values have text keys: writing them down cannot fail.
    let whole = serde_json::to_string(&output).unwrap_or_default();
    if whole.len() <= limits::RESULT_BYTES_MAX {
        return (output, false);
    }
    let shown = output.as_str().unwrap_or(&whole);
    (Value::String(json_prefix(shown, limits::RESULT_BYTES_MAX).0.to_owned()), true)
}

/// The answer to a signal, a cancel or a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TakenIn {
    /// The job.
    #[schema(value_type = uuid::Uuid)]
    pub job: JobId,
    /// The position in the journal; none when a request with this idempotency key had been taken in before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}
