//! Requests of schedules as they are stored, read by whatever version meets them.
//!
//! A request that comes in is refused for a field that nobody knows, since its sender means something by it. One that is
//! stored was taken by a version that knew all of it. What a later one adds is passed over here, as everywhere in what is
//! stored: it must not hide the schedule from this version, and a later version that changes what the known fields mean
//! gives the item a higher one (`v`), by which it is not read at all. The parts of a budget are no such additions: a budget
//! that is half applied is another budget, and a job's refuses them as well.

use std::collections::BTreeMap;

use longhaul_engine::job::Priority;
use longhaul_engine::thread::OnBusy;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{ScheduleRequest, utc};
use crate::events::EventType;
use crate::requests::{Budget, SubmitRequest, empty_object};

/// [`ScheduleRequest`], without a word against what is unknown. The compiler holds its fields to the request's.
#[derive(Deserialize)]
#[serde(remote = "ScheduleRequest")]
struct StoredRequest {
    cron: String,
    #[serde(default = "utc")]
    time_zone: String,
    #[serde(default)]
    paused: bool,
    #[serde(with = "StoredJob")]
    job: SubmitRequest,
}

/// [`SubmitRequest`], likewise.
#[derive(Deserialize)]
#[serde(remote = "SubmitRequest")]
struct StoredJob {
    agent: String,
    #[serde(default = "empty_object")]
    input: Value,
    #[serde(default)]
    budget: Option<Budget>,
    #[serde(default)]
    webhook: Option<String>,
    #[serde(default)]
    webhook_events: Vec<EventType>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    thread: Option<String>,
    #[serde(default)]
    on_busy: Option<OnBusy>,
    #[serde(default)]
    priority: Priority,
}

/// Reads a request out of a view, which an api of a later version may have made.
pub(super) fn request<'de, D: Deserializer<'de>>(reader: D) -> Result<ScheduleRequest, D::Error> {
    StoredRequest::deserialize(reader)
}

impl ScheduleRequest {
    /// Reads what is stored of a schedule.
    ///
    /// # Errors
    /// What is missing or has a form that this version does not know.
    pub fn stored(text: &str) -> Result<Self, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let request = StoredRequest::deserialize(&mut reader)?;
        reader.end()?;
        Ok(request)
    }
}
