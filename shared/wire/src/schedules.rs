//! Schedules: jobs that are submitted by the clock.

mod stored;

use longhaul_engine::ids::ScheduleName;
use longhaul_engine::job::Order;
use longhaul_engine::schedule::{Timetable, TimetableError};
use longhaul_engine::{AgentRef, JobId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::requests::SubmitRequest;
use crate::schemas;
use crate::text::rfc3339;

/// PUT /v1/schedules/{name}.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRequest {
    /// Minute, hour, day of the month, month and weekday, such as `0 7 * * MON-FRI`; or `@hourly`, `@daily`, `@weekly`.
    #[schema(max_length = 128, example = "0 7 * * MON-FRI")]
    pub cron: String,
    /// The time zone of these, by its name in the IANA database.
    #[serde(default = "utc")]
    #[schema(max_length = 64, example = "Europe/Berlin", default = "UTC")]
    pub time_zone: String,
    /// Whether it rests. What comes while it rests is not made up for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// What is submitted each time. An agent without a version is pinned to its newest one when the schedule is saved.
    pub job: SubmitRequest,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// Characters of a cron text and of a time zone's name.
const CRON_LENGTH_MAX: usize = 128;
const TIME_ZONE_LENGTH_MAX: usize = 64;

impl ScheduleRequest {
    /// Checks everything but the input, whose form is the agent's. The times at which it fires, and the first of them.
    ///
    /// # Errors
    /// [`Problem::InvalidField`] with the first field at fault.
    pub fn check(&self, now: Timestamp) -> Result<Timestamp, Problem> {
        for (field, text, length_max) in
            [("/cron", &self.cron, CRON_LENGTH_MAX), ("/time_zone", &self.time_zone, TIME_ZONE_LENGTH_MAX)]
        {
            if text.chars().count() > length_max {
                return Err(Problem::field(field, format!("must have at most {length_max} characters")));
            }
        }
        let timetable = self.timetable().map_err(|error| {
            let field = if error == TimetableError::Zone { "/time_zone" } else { "/cron" };
            Problem::field(field, error.to_string())
        })?;
        self.job.check().map_err(|problem| problem.below("/job"))?;
        timetable.next_after(now).ok_or_else(|| Problem::field("/cron", TimetableError::Never.to_string()))
    }

    /// The times at which it fires.
    ///
    /// # Errors
    /// [`TimetableError`].
    pub fn timetable(&self) -> Result<Timetable, TimetableError> {
        Timetable::read(&self.cron, &self.time_zone)
    }
}

/// What a firing came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FiringView {
    /// The time that it was for: the latest, where several had come.
    #[schema(schema_with = schemas::time)]
    pub time: String,
    /// When it was looked at.
    #[schema(schema_with = schemas::time)]
    pub at: String,
    /// The job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub job: Option<JobId>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl FiringView {
    /// A firing at `now` for `time`: the job, or why there is none.
    #[must_use]
    pub fn new(time: Timestamp, now: Timestamp, came_to: Result<JobId, String>) -> Self {
        let (job, error) = match came_to {
            Ok(job) => (Some(job), None),
            Err(error) => (None, Some(error)),
        };
        Self { time: rfc3339(time), at: rfc3339(now), job, error }
    }
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(title = "Schedule")]
pub struct ScheduleView {
    /// Its name.
    pub name: String,
    /// What its owner asked for; `job.agent` with its version.
    #[serde(deserialize_with = "stored::request")]
    pub schedule: ScheduleRequest,
    /// When it fires next; none while it is paused. In the past while its firing waits for room under the tenant's limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time)]
    pub next_at: Option<String>,
    /// Its last firing: the job, or why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<FiringView>,
    /// When it was changed.
    #[schema(schema_with = schemas::time)]
    pub changed_at: String,
    /// The subject of the token that changed it.
    pub changed_by: String,
}

/// A tenant's schedules, by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ScheduleList {
    /// All that can be read.
    pub schedules: Vec<ScheduleView>,
    /// Those that stand there and cannot be read. Each can be removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableSchedule>,
}

/// A schedule that cannot be read: a later version has saved it, or what is stored is spoilt. It does not fire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnreadableSchedule {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub detail: String,
}

/// What a schedule submits for a time, under an id that is the same whoever submits it.
///
/// # Errors
/// Why it submits nothing, in words for its owner.
pub fn order(
    request: &ScheduleRequest,
    tenant: &TenantId,
    name: &ScheduleName,
    time: Timestamp,
    now: Timestamp,
) -> Result<Order, String> {
    let agent = match crate::agents::reference(&request.job.agent) {
        Some((name, Some(version))) => AgentRef { name, version },
        Some((_, None)) | None => {
            return Err(format!("`{}` is no agent with its version; save the schedule anew", request.job.agent));
        }
    };
    let id = JobId::of_schedule(tenant, name, time);
    let by = format!("schedule:{name}");
    request.job.order(tenant.clone(), id, agent, by, now).map_err(|problem| problem.detail())
}
