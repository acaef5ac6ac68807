//! Jobs and dead letters in pages.

use std::collections::BTreeMap;

use longhaul_engine::JobId;
use longhaul_engine::job::Status;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{JobView, Links, Usage};
use crate::schemas;

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobSummary {
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
    /// Tokens used as of the last change of status.
    pub usage: Usage,
    /// Steps that had an outcome at the last change of status.
    pub steps: u64,
    /// Where to go on from here.
    pub links: Links,
}

/// A page of jobs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobList {
    /// The jobs. A list may be a moment behind.
    pub jobs: Vec<JobSummary>,
    /// The parameter `cursor` of the next page; none on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A page of failed jobs that wait for a person to edit and replay them, the latest failure first. The whole story of
/// each (every attempt, and what went in and out) is in its journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetterList {
    /// The jobs with their failures.
    pub dead_letters: Vec<JobView>,
    /// The parameter `cursor` of the next page; none on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
