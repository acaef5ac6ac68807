//! What callers ask for, and the checks that need no look at what is stored.

mod headers;
mod reading;

use std::collections::BTreeMap;

use longhaul_engine::entry::Edit;
use longhaul_engine::ids::IdError;
use longhaul_engine::job::{Order, Priority};
use longhaul_engine::limits::{LABEL_LENGTH_MAX, LABELS_MAX, WEBHOOK_EVENTS_MAX};
use longhaul_engine::thread::{OnBusy, Thread};
use longhaul_engine::{AgentRef, JobId, Seq, TenantId, Timestamp, budget};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::events::EventType;
use crate::problem::Problem;
use crate::{limits, schemas};

pub use headers::{idempotency_key, signal_key, signal_name, traceparent};
pub use reading::{parse, parse_or_default, pointer_at};

/// The most that a job may use; a part that is not named is bounded by the service or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens in and out of models, all attempts counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, example = 200_000)]
    pub tokens: Option<u64>,
    /// What the models may cost, in millionths of the currency of the deployment's price table. A model without a known
    /// price cannot be called then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub money_micros: Option<u64>,
    /// Steps with an outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub steps: Option<u64>,
    /// Seconds since submission, waits included: the job ends then, also in the middle of a wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub wall_seconds: Option<u64>,
}

impl From<budget::Budget> for Budget {
    fn from(budget: budget::Budget) -> Self {
        let budget::Budget { tokens, money_micros, steps, wall_seconds } = budget;
        Self { tokens, money_micros, steps, wall_seconds }
    }
}

impl From<Budget> for budget::Budget {
    fn from(budget: Budget) -> Self {
        let Budget { tokens, money_micros, steps, wall_seconds } = budget;
        Self { tokens, money_micros, steps, wall_seconds }
    }
}

impl Budget {
    fn check(&self, at: &str) -> Result<(), Problem> {
        let parts = [
            ("tokens", self.tokens),
            ("money_micros", self.money_micros),
            ("steps", self.steps),
            ("wall_seconds", self.wall_seconds),
        ];
        for (name, part) in parts {
            if part == Some(0) {
                return Err(Problem::field(format!("{at}/{name}"), "must be at least 1; leave it out for no bound"));
            }
        }
        Ok(())
    }
}

/// POST /v1/jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// The agent: `name` for its newest version, or `name@version`.
    #[schema(example = "research")]
    pub agent: String,
    /// The agent's input; its form is the agent's own (GET /v1/agents).
    #[serde(default = "empty_object")]
    #[schema(example = json!({ "topic": "how queues make agents reliable" }))]
    pub input: Value,
    /// What the job may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Where to report events of the job: each is a signed POST of a CloudEvent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2048, example = "https://example.com/hooks/jobs")]
    pub webhook: Option<String>,
    /// The types of events that are reported; without them the job's end alone is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = schemas::event_types)]
    pub webhook_events: Vec<EventType>,
    /// The caller's own marks, for lists: at most 16, names and values of at most 128 characters, no `=` in a name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The thread of the job: jobs of one thread run one after another, in the order of their submission. 1 to 128 letters,
    /// digits, `-`, `_`, `.` and `:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128, example = "conversation-17")]
    pub thread: Option<String>,
    /// What happens where another job of the thread has not ended: `enqueue` (without it) waits for the turn, `reject`
    /// refuses the submission, `interrupt` cancels all that is in front of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::on_busy)]
    pub on_busy: Option<OnBusy>,
    /// Whether somebody waits for the job: `interactive` jobs stand beside their tenant's other jobs in the queue, not behind
    /// them. Its child jobs have it as well.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    #[schema(schema_with = schemas::priority)]
    pub priority: Priority,
}

pub(crate) fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}

impl SubmitRequest {
    /// Checks everything but the input, whose form is the agent's.
    ///
    /// # Errors
    /// [`Problem::InvalidField`] with the first field at fault.
    pub fn check(&self) -> Result<(), Problem> {
        if let Some(budget) = &self.budget {
            budget.check("/budget")?;
        }
        if let Some(webhook) = &self.webhook {
            check_webhook(webhook)?;
        }
        if self.webhook.is_none() && !self.webhook_events.is_empty() {
            return Err(Problem::field("/webhook_events", "needs a `webhook` to report to"));
        }
        if self.webhook_events.len() > WEBHOOK_EVENTS_MAX {
            return Err(Problem::field("/webhook_events", format!("must have at most {WEBHOOK_EVENTS_MAX} types")));
        }
        check_labels(&self.labels)?;
        // Jobs of earlier versions may have such a one, and it is no reason not to import them.
        if let Some(name) = self.labels.keys().find(|name| name.contains('=')) {
            let detail = "a label's name must not hold `=`: lists ask for labels as NAME=VALUE";
            return Err(Problem::field(pointer_at("/labels", name), detail));
        }
        self.thread().map(|_| ())
    }

    /// What it asks for as a job: this id, agent and sender.
    ///
    /// # Errors
    /// [`Problem::InvalidField`] of its thread.
    pub fn order(
        &self,
        tenant: TenantId,
        id: JobId,
        agent: AgentRef,
        by: String,
        now: Timestamp,
    ) -> Result<Order, Problem> {
        Ok(Order {
            tenant,
            id,
            agent,
            input: self.input.clone(),
            budget: self.budget.unwrap_or_default().into(),
            webhook: self.webhook.clone(),
            webhook_events: self.webhook_events.iter().map(|kind| kind.as_str().to_owned()).collect(),
            labels: self.labels.clone(),
            thread: self.thread()?,
            priority: self.priority,
            origin: Default::default(),
            overrides: Default::default(),
            parent: None,
            traceparent: None,
            submitted_at: now,
            submitted_by: by,
        })
    }

    /// The thread, with what is to happen where it is busy.
    ///
    /// # Errors
    /// [`Problem::InvalidField`].
    pub fn thread(&self) -> Result<Option<Thread>, Problem> {
        match (&self.thread, self.on_busy) {
            (Some(id), on_busy) => {
                let id = id.parse().map_err(|error: IdError| Problem::field("/thread", format!("is none: {error}")))?;
                Ok(Some(Thread { id, on_busy: on_busy.unwrap_or_default() }))
            }
            (None, Some(_)) => Err(Problem::field("/on_busy", "needs a `thread` that may be busy")),
            (None, None) => Ok(None),
        }
    }
}

/// The form of a webhook's address. Whether it may be called is decided when it is, on the address it resolves to.
fn check_webhook(text: &str) -> Result<(), Problem> {
    let wrong = |detail: &str| Err(Problem::field("/webhook", detail));
    if text.chars().count() > limits::WEBHOOK_LENGTH_MAX {
        return wrong("must have at most 2048 characters");
    }
    match url::Url::parse(text) {
        Ok(url) if url.scheme() != "https" && (url.scheme() != "http" || !is_loopback(&url)) => {
            wrong("must begin with https:// (or http:// for this very machine, in development)")
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            wrong("must not carry a name or password; the receiver checks the signature instead")
        }
        Ok(url) if url.host().is_none() => wrong("must name a host"),
        Ok(_) => Ok(()),
        Err(error) => wrong(&format!("must be an absolute address ({error})")),
    }
}

/// Whether an address names this very machine.
fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// What is wrong with a job's labels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LabelFault {
    /// They are too many.
    #[error("has {0} labels; at most {LABELS_MAX} are kept")]
    Many(usize),
    /// One has a fault.
    #[error("{name:?}: {detail}")]
    One {
        /// Its name.
        name: String,
        /// What is wrong.
        detail: String,
    },
}

impl From<LabelFault> for Problem {
    fn from(fault: LabelFault) -> Self {
        match fault {
            LabelFault::Many(_) => Self::field("/labels", fault.to_string()),
            LabelFault::One { name, detail } => Self::field(pointer_at("/labels", &name), detail),
        }
    }
}

/// Checks the labels of a job, whichever way it comes.
pub(crate) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), LabelFault> {
    if labels.len() > LABELS_MAX {
        return Err(LabelFault::Many(labels.len()));
    }
    for (name, value) in labels {
        let wrong = |detail: String| Err(LabelFault::One { name: name.clone(), detail });
        if name.is_empty() {
            return wrong("a label's name must not be empty".into());
        }
        for (what, text) in [("name", name), ("value", value)] {
            if text.chars().count() > LABEL_LENGTH_MAX {
                return wrong(format!("the label's {what} must have at most {LABEL_LENGTH_MAX} characters"));
            }
            if text.chars().any(char::is_control) {
                return wrong(format!("the label's {what} must not hold control characters"));
            }
        }
    }
    Ok(())
}

/// POST /v1/jobs/{id}/cancel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Why, for those who read the job's events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
}

impl CancelRequest {
    /// Checks the reason's length.
    ///
    /// # Errors
    /// [`Problem::InvalidField`].
    pub fn check(&self) -> Result<(), Problem> {
        match &self.reason {
            Some(reason) if reason.chars().count() > limits::REASON_LENGTH_MAX => {
                Err(Problem::field("/reason", "must have at most 1000 characters"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// POST /v1/jobs/{id}/signals/{name}.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// What the signal says; its form is the agent's own. A call that a definition has approved by a person takes
    /// `approved`, `rejected` or `changes` as its `decision`, and with `approved` the `arguments` to make the call with in
    /// place of the proposed ones (docs/agents.md).
    #[serde(default)]
    #[schema(example = json!({ "decision": "approved" }))]
    pub payload: Value,
}

impl SignalRequest {
    /// Checks the payload's size.
    ///
    /// # Errors
    /// [`Problem::InvalidField`].
    pub fn check(&self) -> Result<(), Problem> {
        let bytes = serde_json::to_vec(&self.payload).map_or(usize::MAX, |text| text.len());
        if bytes > limits::SIGNAL_BYTES_MAX {
            return Err(Problem::field(
                "/payload",
                format!("has {bytes} bytes as JSON; a signal carries at most {}", limits::SIGNAL_BYTES_MAX),
            ));
        }
        Ok(())
    }
}

/// What is changed before a replay; what is not named stays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditRequest {
    /// A new input, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// A new budget, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Another model, in the form in which the agent names its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub model: Option<String>,
    /// Other instructions to stand above every question to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 65536)]
    pub instructions: Option<String>,
}

impl EditRequest {
    /// Checks everything but a new input, whose form is the agent's.
    fn check(&self) -> Result<(), Problem> {
        let texts = [
            ("model", &self.model, limits::MODEL_LENGTH_MAX),
            ("instructions", &self.instructions, limits::INSTRUCTIONS_LENGTH_MAX),
        ];
        for (name, text, length_max) in texts {
            let length = text.as_ref().map(|text| text.chars().count());
            if length.is_some_and(|length| length == 0 || length > length_max) {
                let detail = format!("must have 1 to {length_max} characters; leave it out to keep the agent's own");
                return Err(Problem::field(format!("/edit/{name}"), detail));
            }
        }
        self.budget.map_or(Ok(()), |budget| budget.check("/edit/budget"))
    }

    /// The edit as the journal keeps it.
    #[must_use]
    pub fn into_edit(self) -> Edit {
        let Self { input, budget, model, instructions } = self;
        Edit { input, budget: budget.map(Into::into), model, instructions }
    }
}

/// POST /v1/jobs/{id}/fork.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// The first journal position of which nothing is kept. Without it and `step`, all but failed outcomes is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub from: Option<u64>,
    /// The key of the first step that is done anew, such as `3`, in place of `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What is changed before.
    #[serde(default)]
    pub edit: EditRequest,
    /// Whether effects that were declared to happen once at most may be done again by the fork.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat_effects: bool,
}

impl ForkRequest {
    /// Checks everything but a new input, whose form is the agent's.
    ///
    /// # Errors
    /// [`Problem::InvalidField`] with the first field at fault.
    pub fn check(&self) -> Result<(), Problem> {
        match (self.from, &self.step) {
            (Some(0), _) => return Err(Problem::field("/from", "must be at least 1: a journal's first position")),
            (Some(_), Some(_)) => return Err(Problem::field("/step", "must not be given together with `from`")),
            (_, Some(step)) if step.is_empty() || step.chars().count() > limits::STEP_LENGTH_MAX => {
                return Err(Problem::field("/step", "must be the key of a step, such as `3`"));
            }
            (_, Some(_) | None) => {}
        }
        self.edit.check()
    }
}

/// POST /v1/jobs/{id}/replay.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRequest {
    /// Outcomes from this journal position on are forgotten; without it only failed ones are, so that the job goes on
    /// from its last good step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub from: Option<u64>,
    /// What is changed before.
    #[serde(default)]
    pub edit: EditRequest,
    /// Whether the caller drives the job on by hand then. An imported job has no other driver, and is opened again for nobody
    /// else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hand: bool,
}

impl ReplayRequest {
    /// Checks everything but a new input, whose form is the agent's.
    ///
    /// # Errors
    /// [`Problem::InvalidField`] with the first field at fault.
    pub fn check(&self) -> Result<(), Problem> {
        if self.from == Some(0) {
            return Err(Problem::field("/from", "must be at least 1: a journal's first position"));
        }
        self.edit.check()
    }

    /// Where outcomes are forgotten from.
    #[must_use]
    pub fn from_seq(&self) -> Option<Seq> {
        self.from.map(Seq)
    }

    /// The edit as the journal keeps it.
    #[must_use]
    pub fn into_edit(self) -> Edit {
        self.edit.into_edit()
    }
}

/// What holds for all jobs of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantSettings {
    /// Days for which a job is kept behind its end: its journal, its payloads, its idempotency key.
    #[schema(minimum = 1, maximum = 3660, example = 30)]
    pub job_kept_days: u32,
}

impl TenantSettings {
    /// Checks the days.
    ///
    /// # Errors
    /// [`Problem::InvalidField`].
    pub fn check(&self) -> Result<(), Problem> {
        let most = longhaul_engine::limits::JOB_KEPT_DAYS_MAX;
        if (1..=most).contains(&self.job_kept_days) {
            return Ok(());
        }
        Err(Problem::field("/job_kept_days", format!("must be 1 to {most}: a key is its job's for a day at least")))
    }
}
