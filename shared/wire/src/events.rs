//! Events: what people are shown of a job, one CloudEvents 1.0 envelope for each journal entry.
//!
//! Their order is that of the journal, and `sequence` is the entry's position: whoever has seen an event resumes with
//! `after` = its position on every transport. Events are to be shown, so large values are cut to a beginning; the
//! journal has the whole.

mod data;

use longhaul_engine::{Batch, Entry, JobId, Seq, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::jobs::path_of;
use crate::schemas;
use crate::text::rfc3339;

macro_rules! event_types {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What happened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(into = "&'static str", try_from = "String")]
        pub enum EventType {
            $($(#[$doc])* $name,)*
        }

        impl EventType {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The type as it stands in the envelope.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => concat!("longhaul.", stringify!($name)),)*
                }
            }
        }
    };
}

event_types! {
    /// A worker session took the job over.
    AgentJobClaimed,
    /// An at-most-once step is about to act.
    AgentStepStarted,
    /// A step has its result.
    AgentStepCompleted,
    /// An attempt failed and another will be made.
    AgentAttemptFailed,
    /// A step failed for good.
    AgentStepFailed,
    /// A wait has begun.
    AgentWaiting,
    /// A wait has ended.
    AgentWaitEnded,
    /// The agent shows something.
    AgentProgress,
    /// A signal came in.
    AgentSignalled,
    /// Somebody asked that the job end.
    AgentCancelRequested,
    /// The job ended with a result.
    AgentJobCompleted,
    /// The job ended with a failure.
    AgentJobFailed,
    /// The job ended because somebody asked for it.
    AgentJobCancelled,
    /// A person opened the ended job again.
    AgentJobReplayed,
    /// All that a fork keeps of another job stands in it.
    AgentJobForked,
}

impl EventType {
    /// The type of an entry's event.
    #[must_use]
    pub const fn of(entry: &Entry) -> Self {
        match entry {
            Entry::Claimed { .. } => Self::AgentJobClaimed,
            Entry::StepStarted { .. } => Self::AgentStepStarted,
            Entry::StepCompleted { .. } => Self::AgentStepCompleted,
            Entry::AttemptFailed { .. } => Self::AgentAttemptFailed,
            Entry::StepFailed { .. } => Self::AgentStepFailed,
            Entry::Waiting { .. } => Self::AgentWaiting,
            Entry::WaitEnded { .. } => Self::AgentWaitEnded,
            Entry::Emitted { .. } => Self::AgentProgress,
            Entry::Signalled { .. } => Self::AgentSignalled,
            Entry::CancelRequested { .. } => Self::AgentCancelRequested,
            Entry::Completed { .. } => Self::AgentJobCompleted,
            Entry::Failed { .. } => Self::AgentJobFailed,
            Entry::Cancelled { .. } => Self::AgentJobCancelled,
            Entry::Replayed { .. } => Self::AgentJobReplayed,
            Entry::Forked { .. } => Self::AgentJobForked,
        }
    }

    /// Whether the job has ended with this event. Only a replay may follow.
    #[must_use]
    pub const fn is_end(self) -> bool {
        match self {
            Self::AgentJobCompleted | Self::AgentJobFailed | Self::AgentJobCancelled => true,
            Self::AgentJobClaimed
            | Self::AgentStepStarted
            | Self::AgentStepCompleted
            | Self::AgentAttemptFailed
            | Self::AgentStepFailed
            | Self::AgentWaiting
            | Self::AgentWaitEnded
            | Self::AgentProgress
            | Self::AgentSignalled
            | Self::AgentCancelRequested
            | Self::AgentJobReplayed
            | Self::AgentJobForked => false,
        }
    }
}

impl From<EventType> for &'static str {
    fn from(kind: EventType) -> Self {
        kind.as_str()
    }
}

/// A text that names no type of event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no type of event that this version knows")]
pub struct UnknownEventType;

impl TryFrom<String> for EventType {
    type Error = UnknownEventType;
    fn try_from(text: String) -> Result<Self, UnknownEventType> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text).ok_or(UnknownEventType)
    }
}

/// The version of CloudEvents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub enum SpecVersion {
    /// Version 1.0.
    #[default]
    #[serde(rename = "1.0")]
    V1,
}

/// The media type of an event's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub enum DataContentType {
    /// JSON.
    #[default]
    #[serde(rename = "application/json")]
    Json,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// The version of CloudEvents.
    pub specversion: SpecVersion,
    /// `<job>/<position>`: the same for the same event on every transport and at every delivery.
    #[schema(example = "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f/12")]
    pub id: String,
    /// The job's path.
    #[schema(example = "/v1/jobs/0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f")]
    pub source: String,
    /// What happened.
    #[serde(rename = "type")]
    #[schema(schema_with = schemas::event_type)]
    pub kind: EventType,
    /// When the entry was written, by the writer's clock. Order is by `sequence` alone.
    #[schema(schema_with = schemas::time)]
    pub time: String,
    /// The key of the step that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "1[3].0")]
    pub subject: Option<String>,
    /// The media type of `data`.
    pub datacontenttype: DataContentType,
    /// The entry's position, ten digits so that texts sort like numbers (CloudEvents' extension `sequence`).
    #[serde(with = "sequence")]
    #[schema(value_type = String, example = "0000000012")]
    pub sequence: Seq,
    /// What there is to say: each type has its own fields. Where a value was too large to show, `truncated` is true
    /// and the value is the beginning of its JSON as a text.
    #[schema(value_type = Object)]
    pub data: Map<String, Value>,
}

impl Event {
    /// The event of the entry at `seq` that was written at `written_at`.
    #[must_use]
    pub fn of_entry(job: JobId, seq: Seq, written_at: Timestamp, entry: &Entry) -> Self {
        Self {
            specversion: SpecVersion::V1,
            id: format!("{job}/{seq}"),
            source: path_of(job),
            kind: EventType::of(entry),
            time: rfc3339(written_at),
            subject: data::subject(entry),
            datacontenttype: DataContentType::Json,
            sequence: seq,
            data: data::of(entry, written_at),
        }
    }

    /// The events of a batch, in order.
    #[must_use]
    pub fn of_batch(job: JobId, batch: &Batch) -> Vec<Self> {
        (0_u64..)
            .zip(&batch.entries)
            .map(|(offset, entry)| Self::of_entry(job, batch.at.plus(offset), batch.written_at, entry))
            .collect()
    }

    /// Whether the job has ended with this event.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        self.kind.is_end()
    }
}

/// A position as ten digits, as in the journal's sort keys.
mod sequence {
    use longhaul_engine::Seq;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(seq: &Seq, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:010}", seq.0))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Seq, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Seq).map_err(|_| D::Error::custom("a sequence is a decimal number"))
    }
}

/// A page of events, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// The events behind `after`.
    pub events: Vec<Event>,
    /// The parameter `after` of the next request.
    pub next: u64,
    /// Whether the job has ended with the last of these events, or had before `after`: nothing follows but a replay.
    pub ended: bool,
}
