//! What the service says when it does not do what was asked: problems of RFC 9457.
//!
//! A problem's `type` is stable and is what programs decide by; its `detail` tells a person what was attempted, with
//! what, and what to do next. Neither repeats secrets or bodies.

mod detail;

use std::time::Duration;

use longhaul_engine::ErasureId;
use longhaul_engine::JobId;
use longhaul_engine::admission::Limit;
use longhaul_engine::job::Status;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::text::shortened;
use crate::token::Scope;

/// The media type of a problem.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// One fault of a job's input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Violation {
    /// Where, as a JSON pointer into the request body.
    #[schema(example = "/input/topic")]
    pub field: String,
    /// What is wrong there.
    pub detail: String,
}

/// One fault of an agent's definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fault {
    /// The line where it stands, from 1.
    pub line: u64,
    /// The field, as a JSON pointer into the definition; empty for the whole.
    #[schema(example = "/tools/1/url")]
    pub field: String,
    /// What is wrong, to be read behind the field.
    pub detail: String,
    /// What to do about it.
    pub help: String,
}

impl Fault {
    /// A fault of the whole text.
    #[must_use]
    pub fn whole(detail: String) -> Self {
        Self { line: 1, field: String::new(), detail, help: String::new() }
    }
}

/// Everything that can keep the service from doing what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// There is no valid token. One answer for every reason, so that nobody can search for the reason.
    NotAuthenticated,
    /// The token does not give this right.
    NotAllowed {
        /// The right that is missing.
        scope: Scope,
    },
    /// No such address.
    UnknownRoute {
        /// The path.
        path: String,
    },
    /// The address does not know this method.
    MethodNotAllowed {
        /// The method.
        method: String,
    },
    /// Events come as a stream, but not at this address.
    NoStreamHere {
        /// Where they do; none where they do nowhere.
        streams: Option<String>,
    },
    /// No such job of this tenant.
    NoSuchJob {
        /// What was asked for.
        job: String,
    },
    /// No such agent of this tenant at this address.
    NoSuchAgent {
        /// What was asked for.
        agent: String,
    },
    /// The body is not JSON.
    InvalidJson {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong there.
        detail: String,
    },
    /// A field of the body does not have the agreed form.
    InvalidField {
        /// Where, as a JSON pointer.
        field: String,
        /// What is wrong.
        detail: String,
    },
    /// A parameter of the address or a header does not have the agreed form.
    InvalidParameter {
        /// Its name.
        name: String,
        /// What is wrong.
        detail: String,
    },
    /// The input does not have the form that the agent asks for.
    InvalidInput {
        /// The agent and version.
        agent: String,
        /// What is wrong, at most [`VIOLATIONS_MAX`](crate::limits::VIOLATIONS_MAX).
        violations: Vec<Violation>,
    },
    /// An agent's definition has faults.
    InvalidDefinition {
        /// What is wrong with it, by lines.
        faults: Vec<Fault>,
    },
    /// No such agent.
    UnknownAgent {
        /// What was asked for.
        agent: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The body is not sent as JSON.
    UnsupportedMediaType {
        /// What it is sent as, in the words of its headers.
        sent: String,
        /// What is taken here.
        taken: &'static str,
    },
    /// The body is too large.
    BodyTooLarge {
        /// What is allowed.
        bytes_max: usize,
    },
    /// The idempotency key belongs to a different request.
    KeyReused,
    /// The job has ended.
    JobEnded {
        /// How, where that is known.
        status: Option<Status>,
    },
    /// The job has taken in as many requests as it can.
    JobFull,
    /// Only a job that failed or was cancelled can be replayed.
    NotReplayable {
        /// Where the job stands.
        status: Option<Status>,
    },
    /// The job came as a file, and no worker would drive it on.
    Imported,
    /// A fork would do effects again that may happen once at most.
    RepeatsEffects {
        /// Their names.
        effects: Vec<String>,
    },
    /// Another job of the thread has not ended, and the submission would not wait.
    ThreadBusy {
        /// The job in the way.
        job: JobId,
    },
    /// Too many jobs of the thread have not ended.
    ThreadFull,
    /// No such schedule of this tenant.
    NoSuchSchedule {
        /// What was asked for.
        schedule: String,
    },
    /// No such delivery of this job.
    NoSuchDelivery {
        /// What was asked for.
        delivery: String,
    },
    /// No such erasure of this tenant.
    NoSuchErasure {
        /// What was asked for.
        erasure: String,
    },
    /// The tenant's data is being erased.
    TenantErasing {
        /// By which erasure.
        erasure: ErasureId,
    },
    /// The tenant uses as much as it may.
    LimitReached {
        /// Which limit.
        limit: Limit,
        /// Its value.
        value: u64,
        /// When to try again.
        retry_after: Duration,
    },
    /// The service cannot answer now.
    Unavailable {
        /// When to try again.
        retry_after: Duration,
    },
    /// A fault of the service.
    Internal,
}

impl Problem {
    /// A field that does not have the agreed form.
    #[must_use]
    pub fn field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::InvalidField { field: field.into(), detail: detail.into() }
    }

    /// A parameter or header that does not have the agreed form.
    #[must_use]
    pub fn parameter(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::InvalidParameter { name: name.into(), detail: detail.into() }
    }

    /// The same of a part of the body that stands at `at`, a JSON pointer, where it is about a field.
    #[must_use]
    pub fn below(self, at: &str) -> Self {
        match self {
            Self::InvalidField { field, detail } => Self::InvalidField { field: format!("{at}{field}"), detail },
            // The sentence ends where the problem's own does.
            unknown @ Self::UnknownAgent { .. } => {
                Self::field(format!("{at}/agent"), unknown.detail().trim_end_matches('.'))
            }
            other => other,
        }
    }

    /// The HTTP status.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::InvalidJson { .. }
            | Self::InvalidField { .. }
            | Self::InvalidParameter { .. }
            | Self::InvalidInput { .. }
            | Self::InvalidDefinition { .. }
            | Self::UnknownAgent { .. } => 400,
            Self::NotAuthenticated => 401,
            Self::NotAllowed { .. } => 403,
            Self::UnknownRoute { .. }
            | Self::NoSuchJob { .. }
            | Self::NoSuchAgent { .. }
            | Self::NoSuchDelivery { .. }
            | Self::NoSuchErasure { .. }
            | Self::NoSuchSchedule { .. } => 404,
            Self::MethodNotAllowed { .. } => 405,
            Self::NoStreamHere { .. } => 406,
            Self::JobEnded { .. }
            | Self::JobFull
            | Self::NotReplayable { .. }
            | Self::Imported
            | Self::RepeatsEffects { .. }
            | Self::TenantErasing { .. }
            | Self::ThreadBusy { .. }
            | Self::ThreadFull => 409,
            Self::BodyTooLarge { .. } => 413,
            Self::UnsupportedMediaType { .. } => 415,
            Self::KeyReused => 422,
            Self::LimitReached { .. } => 429,
            Self::Internal => 500,
            Self::Unavailable { .. } => 503,
        }
    }

    /// The last part of the problem's `type`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotAuthenticated => "not-authenticated",
            Self::NotAllowed { .. } => "not-allowed",
            Self::UnknownRoute { .. } => "unknown-route",
            Self::MethodNotAllowed { .. } => "method-not-allowed",
            Self::NoStreamHere { .. } => "no-stream-here",
            Self::NoSuchJob { .. } => "no-such-job",
            Self::NoSuchAgent { .. } => "no-such-agent",
            Self::InvalidJson { .. } => "invalid-json",
            Self::InvalidField { .. } => "invalid-field",
            Self::InvalidParameter { .. } => "invalid-parameter",
            Self::InvalidInput { .. } => "invalid-input",
            Self::InvalidDefinition { .. } => "invalid-definition",
            Self::UnknownAgent { .. } => "unknown-agent",
            Self::UnsupportedMediaType { .. } => "unsupported-media-type",
            Self::BodyTooLarge { .. } => "body-too-large",
            Self::KeyReused => "idempotency-key-reused",
            Self::JobEnded { .. } => "job-ended",
            Self::JobFull => "job-full",
            Self::NotReplayable { .. } => "not-replayable",
            Self::Imported => "imported",
            Self::RepeatsEffects { .. } => "repeats-effects",
            Self::ThreadBusy { .. } => "thread-busy",
            Self::ThreadFull => "thread-full",
            Self::NoSuchSchedule { .. } => "no-such-schedule",
            Self::NoSuchDelivery { .. } => "no-such-delivery",
            Self::NoSuchErasure { .. } => "no-such-erasure",
            Self::TenantErasing { .. } => "tenant-erasing",
            Self::LimitReached { .. } => "limit-reached",
            Self::Unavailable { .. } => "unavailable",
            Self::Internal => "internal",
        }
    }

    /// The problem in a few words, the same for all of its kind.
    #[must_use]
    pub const fn title(&self) -> &'static str {
        match self {
            Self::NotAuthenticated => "A valid token is needed",
            Self::NotAllowed { .. } => "The token does not allow this",
            Self::UnknownRoute { .. } => "There is nothing at this address",
            Self::MethodNotAllowed { .. } => "This address does not know the method",
            Self::NoStreamHere { .. } => "This address gives whole answers only",
            Self::NoSuchJob { .. } => "There is no such job",
            Self::NoSuchAgent { .. } => "There is no such agent",
            Self::InvalidJson { .. } => "The body is not valid JSON",
            Self::InvalidField { .. } => "A field of the request is wrong",
            Self::InvalidParameter { .. } => "A parameter or header of the request is wrong",
            Self::InvalidInput { .. } => "The agent does not take this input",
            Self::InvalidDefinition { .. } => "The agent's definition has faults",
            Self::UnknownAgent { .. } => "There is no such agent",
            Self::UnsupportedMediaType { .. } => "The body is sent as what is not taken here",
            Self::BodyTooLarge { .. } => "The body is too large",
            Self::KeyReused => "The idempotency key belongs to another request",
            Self::JobEnded { .. } => "The job has ended",
            Self::JobFull => "The job can take in nothing more",
            Self::NotReplayable { .. } => "The job cannot be replayed",
            Self::Imported => "No worker drives an imported job",
            Self::RepeatsEffects { .. } => "The fork would do again what may happen once at most",
            Self::ThreadBusy { .. } => "Another job of the thread has not ended",
            Self::ThreadFull => "The thread takes no more jobs",
            Self::NoSuchSchedule { .. } => "There is no such schedule",
            Self::NoSuchDelivery { .. } => "There is no such delivery",
            Self::NoSuchErasure { .. } => "There is no such erasure",
            Self::TenantErasing { .. } => "The tenant's data is being erased",
            Self::LimitReached { .. } => "The tenant uses as much as it may",
            Self::Unavailable { .. } => "The service cannot answer now",
            Self::Internal => "The service has a fault",
        }
    }

    /// Seconds for a `Retry-After` header.
    #[must_use]
    pub const fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::Unavailable { retry_after } => Some(retry_after.as_secs()),
            // Whole seconds, and never too early.
            Self::LimitReached { retry_after, .. } => Some(whole_seconds(*retry_after)),
            _ => None,
        }
    }

    /// The field at fault, where one is.
    fn pointer(&self) -> Option<String> {
        match self {
            Self::InvalidField { field, .. } => Some(field.clone()),
            Self::InvalidInput { violations, .. } => violations.first().map(|first| first.field.clone()),
            Self::InvalidDefinition { faults } => faults.first().map(|first| first.field.clone()),
            Self::UnknownAgent { .. } => Some("/agent".into()),
            _ => None,
        }
    }

    /// What this kind of problem says besides, for programs.
    fn extras(&self) -> Map<String, Value> {
        let value = match self {
            Self::NotAllowed { scope } => json!({ "scope": scope.as_str() }),
            Self::InvalidJson { line, column, .. } => json!({ "line": line, "column": column }),
            Self::InvalidParameter { name, .. } => json!({ "parameter": name }),
            Self::InvalidInput { agent, violations } => json!({ "agent": agent, "violations": violations }),
            Self::InvalidDefinition { faults } => json!({ "faults": faults }),
            Self::UnknownAgent { known, .. } => json!({ "known": known }),
            Self::NoStreamHere { streams: Some(streams) } => json!({ "streams": streams }),
            Self::BodyTooLarge { bytes_max } => json!({ "bytes_max": bytes_max }),
            Self::LimitReached { limit, value, .. } => json!({ "limit": limit.as_str(), "value": value }),
            Self::TenantErasing { erasure } => json!({ "erasure": erasure }),
            Self::ThreadBusy { job } => json!({ "job": job }),
            Self::JobEnded { status: Some(status) } | Self::NotReplayable { status: Some(status) } => {
                json!({ "job_status": status })
            }
            Self::NotAuthenticated
            | Self::UnknownRoute { .. }
            | Self::MethodNotAllowed { .. }
            | Self::NoStreamHere { streams: None }
            | Self::NoSuchJob { .. }
            | Self::NoSuchAgent { .. }
            | Self::NoSuchDelivery { .. }
            | Self::NoSuchSchedule { .. }
            | Self::NoSuchErasure { .. }
            | Self::InvalidField { .. }
            | Self::UnsupportedMediaType { .. }
            | Self::KeyReused
            | Self::JobFull
            | Self::JobEnded { status: None }
            | Self::NotReplayable { status: None }
            | Self::Imported
            | Self::RepeatsEffects { .. }
            | Self::ThreadFull
            | Self::Unavailable { .. }
            | Self::Internal => Value::Null,
        };
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    /// The problem as it is sent.
    #[must_use]
    pub fn body(&self, instance: Option<&str>, request_id: Option<&str>) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:longhaul:problem:{}", self.name()),
            title: self.title().to_owned(),
            status: self.status(),
            detail: self.detail(),
            // Our longest own address has 120 characters or so; a foreign one is shortened.
            instance: instance.map(|path| shortened(path, 200)),
            request_id: request_id.map(str::to_owned),
            field: self.pointer(),
            extras: self.extras(),
        }
    }
}

/// A wait in whole seconds, rounded up.
const fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add((wait.subsec_nanos() > 0) as u64)
}

/// A problem as it is sent (`application/problem+json`, RFC 9457).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(title = "Problem")]
pub struct ProblemBody {
    /// What kind of problem it is: stable, for programs.
    #[serde(rename = "type")]
    #[schema(example = "urn:longhaul:problem:no-such-job")]
    pub kind: String,
    /// The kind in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What was attempted, with what, and what to do next.
    pub detail: String,
    /// The address of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The request's id, as in the header `x-request-id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The field at fault, as a JSON pointer into the request body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "/input/topic")]
    pub field: Option<String>,
    /// What this kind says besides: `violations`, `known`, `line` and `column`, `parameter`, `scope`, `job_status`,
    /// `limit` and `value`, `streams`, `erasure`, `job`.
    #[serde(flatten)]
    #[schema(value_type = std::collections::BTreeMap<String, Value>, additional_properties)]
    pub extras: Map<String, Value>,
}
