//! A job as one JSON file: exported from one deployment, looked at and stepped through in another.
//!
//! The file holds what the job was asked, the definition of its agent where a tenant has defined it, and every journal
//! entry whole, wherever its bytes lie. What calls somebody or proves who somebody is stays out: the webhook's address,
//! trace contexts; keys of models and tools stand in no journal to begin with.

use std::collections::BTreeMap;

use longhaul_engine::ids::{AgentRef, Nonce};
use longhaul_engine::job::{Imported, Order, Origin, Overrides, Parent, Priority, Progress, Status};
use longhaul_engine::journal::{Ending, FoldError, StepState};
use longhaul_engine::{Batch, Entry, Job, JobId, JobState, Journal, Seq, StepKey, TenantId, Timestamp, limits};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::agents;
use crate::journal::{EntryView, JournalView};
use crate::requests::{Budget, check_labels};
use crate::schemas;
use crate::text::{parse_rfc3339, rfc3339};

/// Version of the file. One that is higher is refused: it may hold what this program would lose.
pub const EXPORT_VERSION: u32 = 1;

/// What an exported job was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExportedJob {
    /// Its id. It stays the same where it is imported, since ids of children and keys of effects are made of it.
    #[schema(value_type = uuid::Uuid)]
    pub id: JobId,
    /// Its agent, as `name@version`.
    pub agent: String,
    /// Where it stood when it was exported.
    #[schema(schema_with = schemas::status)]
    pub status: Status,
    /// What it was asked; edits of replays stand in the journal.
    pub input: Value,
    /// What it may use.
    #[serde(default)]
    pub budget: Budget,
    /// Its owner's marks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The job that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ExportedParent>,
    /// The model that its agent asks instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The instructions that its agent follows instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// When it was accepted.
    #[schema(schema_with = schemas::time)]
    pub submitted_at: String,
    /// The subject of the token that submitted it.
    pub submitted_by: String,
}

/// The job that waits for an exported one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportedParent {
    /// Its id.
    #[schema(value_type = uuid::Uuid)]
    pub job: JobId,
    /// The step of it that started the job.
    pub step: String,
    /// How many jobs stand above.
    #[serde(default)]
    pub depth: u32,
}

/// A job as a file, or a part of one: without `next` it is whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Export {
    /// Version of the file's form.
    #[schema(minimum = 1)]
    pub longhaul_export: u32,
    /// When it was made.
    #[schema(schema_with = schemas::time)]
    pub exported_at: String,
    /// What the job was asked.
    pub job: ExportedJob,
    /// The definition of its agent, where it does not ship with Longhaul. It names secrets and holds none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Value>,
    /// Every entry, in order.
    pub journal: Vec<EntryView>,
    /// The parameter `after` of the next part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// A part of an entry that is larger than a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EntryPart {
    /// The entry's position.
    #[schema(value_type = u64, minimum = 1)]
    pub seq: Seq,
    /// A part of the entry's JSON.
    pub text: String,
    /// The parameter `offset` of the next part; none when this reaches the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Why a file is no job.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// It is no JSON, or none of this form.
    #[error("the file is no export of a job: {detail} (line {line}, column {column})")]
    Form {
        /// What is wrong.
        detail: String,
        /// Where.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// A later program made it.
    #[error("the file has version {found} of the form; this program reads up to {EXPORT_VERSION}: take a newer one")]
    Newer {
        /// Its version.
        found: u64,
    },
    /// It is a part.
    #[error("the file is a part of an export: it goes on behind position {after}; export the job anew")]
    Part {
        /// Where it stops.
        after: u64,
    },
    /// A field holds what it cannot.
    #[error("{field} {detail}")]
    Field {
        /// Which.
        field: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Entries are missing, doubled or out of order.
    #[error(
        "the journal goes on at position {expected}, but the file has {found} there: entries are missing or doubled"
    )]
    Gap {
        /// The position that comes next.
        expected: u64,
        /// The one that stands there.
        found: u64,
    },
    /// An entry that cannot be read.
    #[error("the entry at position {seq} cannot be read: {detail}")]
    Entry {
        /// Where.
        seq: u64,
        /// What is wrong.
        detail: String,
    },
    /// The entries do not make a journal.
    #[error("the entries do not make a journal")]
    Journal(#[source] FoldError),
    /// The job's end and what the file says of it differ.
    #[error("the file says that the job is {said}, but its journal says {found}")]
    Status {
        /// What the file says.
        said: &'static str,
        /// What the journal says.
        found: &'static str,
    },
}

impl Export {
    /// The head of an export, or of a part of one.
    #[must_use]
    pub fn new(order: &Order, status: Status, definition: Option<Value>, page: JournalView, now: Timestamp) -> Self {
        let Order {
            tenant: _,
            id,
            agent,
            input,
            budget,
            webhook: _,
            webhook_events: _,
            labels,
            parent,
            traceparent: _,
            thread: _,
            priority: _,
            origin: _,
            overrides,
            submitted_at,
            submitted_by,
        } = order.clone();
        let parent = parent.map(|Parent { job, step, depth }| ExportedParent { job, step: step.to_string(), depth });
        let Overrides { model, instructions } = overrides;
        Self {
            longhaul_export: EXPORT_VERSION,
            exported_at: rfc3339(now),
            job: ExportedJob {
                id,
                agent: agent.to_string(),
                status,
                input,
                budget: budget.into(),
                labels,
                parent,
                model,
                instructions,
                submitted_at: rfc3339(submitted_at),
                submitted_by,
            },
            definition,
            journal: page.entries,
            next: page.next,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`ExportError::Form`], [`ExportError::Newer`], [`ExportError::Field`], [`ExportError::Part`].
    pub fn read(text: &[u8]) -> Result<Self, ExportError> {
        /// All that a file of any version has.
        #[derive(Deserialize)]
        struct Version {
            longhaul_export: u64,
        }
        let form = |error: serde_json::Error| ExportError::Form {
            detail: error.to_string().split(" at line ").next().unwrap_or_default().to_owned(),
            line: error.line(),
            column: error.column(),
        };
        // The version goes first: a later form may have other fields.
        let Version { longhaul_export: found } = serde_json::from_slice(text).map_err(form)?;
        if found > u64::from(EXPORT_VERSION) {
            return Err(ExportError::Newer { found });
        }
        if found == 0 {
            return Err(ExportError::Field {
                field: "longhaul_export".to_owned(),
                detail: "must be at least 1".to_owned(),
            });
        }
        let export: Self = serde_json::from_slice(text).map_err(form)?;
        match export.next {
            Some(after) => Err(ExportError::Part { after }),
            None => Ok(export),
        }
    }

    /// The job and its journal as they are stored where the file is imported, for `tenant`; the batches first, under
    /// marks that `nonce` draws.
    ///
    /// # Errors
    /// All that can be wrong with a file is found here, before anything is stored.
    pub fn into_job(
        self,
        tenant: TenantId,
        now: Timestamp,
        mut nonce: impl FnMut() -> Nonce,
    ) -> Result<(Vec<Batch>, Job), ExportError> {
        let order = self.order(tenant, now)?;
        let batches = batches(self.journal, &mut nonce)?;
        let journal = Journal::read(batches.iter().cloned()).map_err(ExportError::Journal)?;
        let state = match journal.ending() {
            Some(Ending::Completed { .. }) => JobState::Completed,
            Some(Ending::Failed { .. }) => JobState::Failed,
            Some(Ending::Cancelled { .. }) => JobState::Cancelled,
            None => rests(self.job.status, &journal).unwrap_or(JobState::Pending),
        };
        // Between a terminal entry and its job item a job may look open; never the other way round.
        let over = matches!(self.job.status, Status::Completed | Status::Failed | Status::Cancelled);
        if over && self.job.status != state.status() {
            return Err(ExportError::Status { said: self.job.status.as_str(), found: state.status().as_str() });
        }
        let mut job = Job::accepted(order, nonce());
        job.progress = Progress {
            state,
            epoch: journal.last_claim().map(|claim| claim.epoch).unwrap_or_default(),
            // Nobody comes by himself.
            due: None,
            tail: journal.next(),
            totals: *journal.totals(),
            updated_at: now,
            attempts: 0,
        };
        Ok((batches, job))
    }

    fn order(&self, tenant: TenantId, now: Timestamp) -> Result<Order, ExportError> {
        let field = |field: &str, detail: String| ExportError::Field { field: field.to_owned(), detail };
        let job = &self.job;
        let agent = match agents::reference(&job.agent) {
            Some((name, Some(version))) => AgentRef { name, version },
            Some((_, None)) | None => return Err(field("job.agent", "must be NAME@VERSION".to_owned())),
        };
        let submitted_at = parse_rfc3339(&job.submitted_at)
            .ok_or_else(|| field("job.submitted_at", "must be a time such as 2026-01-31T08:00:00Z".to_owned()))?;
        let mut labels = job.labels.clone();
        check_labels(&labels).map_err(|fault| field("job.labels", fault.to_string()))?;
        if labels.len() < limits::LABELS_MAX {
            labels.insert(Imported::LABEL.to_owned(), "yes".to_owned());
        }
        let parent = match &job.parent {
            Some(parent) => {
                let step: StepKey = serde_json::from_value(Value::String(parent.step.clone()))
                    .map_err(|error| field("job.parent.step", error.to_string()))?;
                Some(Parent { job: parent.job, step, depth: parent.depth })
            }
            None => None,
        };
        Ok(Order {
            tenant,
            id: job.id,
            agent,
            input: job.input.clone(),
            budget: job.budget.into(),
            webhook: None,
            webhook_events: Vec::new(),
            labels,
            parent,
            traceparent: None,
            thread: None,
            origin: Origin::Imported(Imported { at: now }),
            priority: Priority::Normal,
            overrides: Overrides { model: job.model.clone(), instructions: job.instructions.clone() },
            submitted_at,
            submitted_by: job.submitted_by.clone(),
        })
    }
}

/// The state of a job that waited where it was exported, and that has nothing to go on with: lists show it among those that
/// wait. None where it may have, which whoever drives it finds out.
fn rests(said: Status, journal: &Journal) -> Option<JobState> {
    if said != Status::Waiting || journal.cancel().is_some() || journal.untaken_signals().next().is_some() {
        return None;
    }
    let ends: Vec<Option<Timestamp>> = journal.steps().filter_map(|step| end_of_wait(&step.state)).collect();
    let until = ends.iter().flatten().min().copied();
    (!ends.is_empty()).then(|| JobState::Waiting { until, seen: journal.next() })
}

/// The latest end of a step's wait, where it has one; none of a step that does not wait.
const fn end_of_wait(step: &StepState) -> Option<Option<Timestamp>> {
    match step {
        StepState::Waiting { on: _, until } => Some(*until),
        StepState::Retrying { attempt: _, retry_at } => Some(Some(*retry_at)),
        StepState::Started
        | StepState::Completed { .. }
        | StepState::Failed { .. }
        | StepState::WaitEnded { .. }
        | StepState::Emitted => None,
    }
}

/// Batches of entries: those of one time together, as far as one batch may hold them.
fn batches(entries: Vec<EntryView>, nonce: &mut impl FnMut() -> Nonce) -> Result<Vec<Batch>, ExportError> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut expected = Seq::FIRST;
    for view in entries {
        let seq = view.seq.0;
        if view.seq != expected {
            return Err(ExportError::Gap { expected: expected.0, found: seq });
        }
        expected = expected.plus(1);
        if view.truncated {
            return Err(ExportError::Entry {
                seq,
                detail: "only its kind is in the file; export the job anew".to_owned(),
            });
        }
        let written_at =
            parse_rfc3339(&view.at).ok_or_else(|| ExportError::Entry { seq, detail: "`at` is no time".to_owned() })?;
        let entry: Entry = serde_json::from_value(view.entry)
            .map_err(|error| ExportError::Entry { seq, detail: error.to_string() })?;
        match batches.last_mut() {
            Some(last) if last.written_at == written_at && last.entries.len() < limits::BATCH_ENTRIES_MAX => {
                last.entries.push(entry);
            }
            Some(_) | None => batches.push(Batch::new(view.seq, nonce(), written_at, vec![entry])),
        }
    }
    Ok(batches)
}
