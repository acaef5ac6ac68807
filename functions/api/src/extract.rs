//! What handlers take from a request, each with its own problem when it is not there.

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use longhaul::engine::ids::{SignalKey, SignalName};
use longhaul::engine::limits::BODY_BYTES_MAX;
use longhaul::engine::{JobId, Seq};
use longhaul::store::JobRef;
use longhaul_definition::Format;
use longhaul_wire::{Caller, Problem, requests};
use uuid::Uuid;

use crate::answer::Refused;

/// Who calls, as `frame` has found out.
#[derive(Debug, Clone)]
pub(crate) struct Called(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Called {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        parts.extensions.get::<Caller>().cloned().map(Self).ok_or(Refused(Problem::NotAuthenticated))
    }
}

impl Called {
    /// A job of the caller's tenant.
    pub(crate) fn job(&self, job: JobId) -> JobRef {
        JobRef { tenant: self.0.tenant.clone(), job }
    }
}

/// The job that the address names. A text that no job can have as its id is the id of no job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobPath(pub(crate) JobId);

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let text = path_parameter(parts, state, "id").await;
        text.parse().map(Self).map_err(|_| Refused(Problem::NoSuchJob { job: text }))
    }
}

/// The journal position that the address names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PositionPath(pub(crate) Seq);

impl<S: Send + Sync> FromRequestParts<S> for PositionPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let text = path_parameter(parts, state, "position").await;
        let seq = text.parse().map(Seq).ok().filter(|seq| *seq >= Seq::FIRST);
        seq.map(Self).ok_or_else(|| Refused(Problem::parameter("position", "must be a whole number of at least 1")))
    }
}

/// The signal that the address names.
#[derive(Debug, Clone)]
pub(crate) struct SignalPath(pub(crate) SignalName);

impl<S: Send + Sync> FromRequestParts<S> for SignalPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let text = path_parameter(parts, state, "name").await;
        Ok(Self(requests::signal_name(&text)?))
    }
}

/// A parameter of the path; empty when it is not there or is no text.
pub(crate) async fn path_parameter<S: Send + Sync>(parts: &mut Parts, state: &S, wanted: &str) -> String {
    let Ok(parameters) = RawPathParams::from_request_parts(parts, state).await else { return String::new() };
    parameters.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned()).unwrap_or_default()
}

/// A body that is sent as JSON, not yet read.
#[derive(Debug)]
pub(crate) struct JsonBody(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        let (parts, body) = request.into_parts();
        // The limit is the only way in which reading a body that Lambda has handed over whole can fail.
        let too_large = |_| Refused(Problem::BodyTooLarge { bytes_max: BODY_BYTES_MAX });
        let body = to_bytes(body, BODY_BYTES_MAX).await.map_err(too_large)?;
        if body.is_empty() || is_plain_json(&parts.headers) {
            Ok(Self(body))
        } else {
            Err(Refused(not_taken(&parts.headers, "application/json")))
        }
    }
}

/// A definition, sent as JSON or YAML, not yet read.
#[derive(Debug)]
pub(crate) struct DefinitionBody {
    pub(crate) text: Bytes,
    pub(crate) format: Format,
}

impl DefinitionBody {
    /// The format that the headers announce; none when they name another, or the body is packed.
    fn format(headers: &HeaderMap) -> Option<Format> {
        if is_plain_json(headers) {
            return Some(Format::Json);
        }
        let plain = headers.get(CONTENT_ENCODING).is_none();
        let essence = headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim().to_ascii_lowercase();
        // RFC 9512, and what was sent before it.
        let yaml = matches!(essence.as_str(), "application/yaml" | "text/yaml" | "application/x-yaml");
        (plain && yaml).then_some(Format::Yaml)
    }
}

impl<S: Send + Sync> FromRequest<S> for DefinitionBody {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        let (parts, body) = request.into_parts();
        let format = Self::format(&parts.headers)
            .ok_or_else(|| Refused(not_taken(&parts.headers, "application/json` or `application/yaml")))?;
        let bytes_max = longhaul_definition::limits::TEXT_BYTES_MAX;
        let text = to_bytes(body, bytes_max).await.map_err(|_| Refused(Problem::BodyTooLarge { bytes_max }))?;
        Ok(Self { text, format })
    }
}

/// The refusal of a body that is sent as something else.
fn not_taken(headers: &HeaderMap, taken: &'static str) -> Problem {
    let said = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let kind = said(CONTENT_TYPE).unwrap_or_else(|| "a body without Content-Type".to_owned());
    let sent = said(CONTENT_ENCODING).map_or(kind.clone(), |packed| format!("{kind}, packed as {packed}"));
    Problem::UnsupportedMediaType { sent, taken }
}

/// Whether the headers say plain JSON. One that names no type is taken at its word later, when it is read.
fn is_plain_json(headers: &HeaderMap) -> bool {
    let plain = headers.get(CONTENT_ENCODING).is_none_or(|value| value.as_bytes().eq_ignore_ascii_case(b"identity"));
    let json = match headers.get(CONTENT_TYPE).map(|value| value.to_str()) {
        None => true,
        Some(Ok(value)) => {
            let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
        }
        Some(Err(_)) => false,
    };
    plain && json
}

/// The `Idempotency-Key` header as it is; none when there is none.
pub(crate) fn key_header(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let unreadable = || Problem::parameter("Idempotency-Key", "must be plain text");
    headers.get("idempotency-key").map(|value| value.to_str().map_err(|_| unreadable())).transpose()
}

/// The key of a signal, a cancel or a replay. Without one each request is its own.
pub(crate) fn signal_key(headers: &HeaderMap) -> Result<SignalKey, Problem> {
    let fresh = Uuid::new_v4().to_string();
    requests::signal_key(key_header(headers)?.unwrap_or(&fresh))
}
