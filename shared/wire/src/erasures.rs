//! Erasures on the wire: how far the removal of all of a tenant's data is, and the record that stays of it.

use longhaul_engine::erasure::{Erased, Stage};
use longhaul_engine::{Erasure, ErasureId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::schemas;
use crate::text::rfc3339;

/// Erases everything that the token's tenant has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EraseRequest {
    /// The tenant's name, to say that this is meant.
    #[schema(example = "acme")]
    pub tenant: String,
}

impl EraseRequest {
    /// Checks that the named tenant is the caller's.
    ///
    /// # Errors
    /// [`Problem::InvalidField`].
    pub fn check(&self, tenant: &TenantId) -> Result<(), Problem> {
        if self.tenant == tenant.as_str() {
            return Ok(());
        }
        Err(Problem::field("/tenant", "must be the name of the token's own tenant, to say that this is meant"))
    }
}

/// How far an erasure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErasureStatus {
    /// Open jobs are asked to end, and those that have ended are removed.
    EndingJobs,
    /// Definitions, settings, connections and dead letters are removed.
    Clearing,
    /// Everything is removed. What writers that had begun before may leave is looked for at `rests_until`.
    Resting,
    /// What was written late is removed.
    LookingAgain,
    /// Nothing is left but this record.
    Done,
}

/// How much was removed, as far as it was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErasedView {
    /// Jobs.
    pub jobs: u64,
    /// Items of the table: entries of journals, deliveries, definitions and all else.
    pub items: u64,
    /// Objects of the bucket: large inputs and entries.
    pub objects: u64,
    /// Messages of the dead-letter queue.
    pub dead_letters: u64,
}

/// An erasure of all of a tenant's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErasureView {
    /// Its id.
    #[schema(value_type = uuid::Uuid)]
    pub id: ErasureId,
    /// How far it is.
    pub status: ErasureStatus,
    /// The subject of the token that asked for it.
    pub requested_by: String,
    /// When it was asked for.
    #[schema(schema_with = schemas::time)]
    pub requested_at: String,
    /// When it looks a second time; while it is RESTING.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time)]
    pub rests_until: Option<String>,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time)]
    pub done_at: Option<String>,
    /// Jobs that had not ended at the last look; they were asked to.
    pub jobs_open: u64,
    /// What was removed so far.
    pub erased: ErasedView,
}

impl ErasureView {
    /// The erasure as people are shown it.
    #[must_use]
    pub fn of(erasure: &Erasure) -> Self {
        let (status, rests_until, done_at) = match erasure.stage {
            Stage::Jobs => (ErasureStatus::EndingJobs, None, None),
            Stage::Rest => (ErasureStatus::Clearing, None, None),
            Stage::Waiting { until } => (ErasureStatus::Resting, Some(rfc3339(until)), None),
            Stage::Again => (ErasureStatus::LookingAgain, None, None),
            Stage::Done { at } => (ErasureStatus::Done, None, Some(rfc3339(at))),
        };
        let Erased { jobs, items, objects, letters } = erasure.erased;
        Self {
            id: erasure.id,
            status,
            requested_by: erasure.requested_by.clone(),
            requested_at: rfc3339(erasure.requested_at),
            rests_until,
            done_at,
            jobs_open: erasure.open,
            erased: ErasedView { jobs, items, objects, dead_letters: letters },
        }
    }
}

/// The erasures of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErasureList {
    /// The one under way first, then the latest.
    pub erasures: Vec<ErasureView>,
}
