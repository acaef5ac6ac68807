//! Answers: JSON where all is well, a problem where it is not.

use longhaul_aws::telemetry::chain;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use longhaul::engine::journal::FoldError;
use longhaul::outside::OutsideError;
use longhaul::store::StoreError;
use longhaul_wire::Problem;
use serde::Serialize;

/// When to try again after the store gave no usable answer: the SDK has tried for longer by itself.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// What is said of a field that names a position or step. Which field that is, the routes know.
pub(crate) const NO_POSITION: &str = "names a position or step that the job does not have";

/// A request that is answered with a problem. The problem travels in the response's extensions; `frame` writes the
/// body, which names the request.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Problem);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let text = chain(&error);
        match error {
            StoreError::Unavailable { .. } => {
                tracing::error!(error = text, "the store gave no usable answer");
                Self(Problem::Unavailable { retry_after: RETRY_AFTER })
            }
            // In the middle of a deployment: the newer version will answer.
            StoreError::Newer { .. } => {
                tracing::warn!(error = text, "the job was written by a newer version");
                Self(Problem::Unavailable { retry_after: RETRY_AFTER })
            }
            StoreError::Corrupt { .. } | StoreError::Missing { .. } => {
                tracing::error!(error = text, "the store holds what cannot be");
                Self(Problem::Internal)
            }
        }
    }
}

impl From<FoldError> for Refused {
    fn from(error: FoldError) -> Self {
        match error {
            FoldError::Newer { .. } => {
                tracing::warn!(error = %error, "the journal was written by a newer version");
                Self(Problem::Unavailable { retry_after: RETRY_AFTER })
            }
            FoldError::Gap { .. }
            | FoldError::SecondOutcome { .. }
            | FoldError::AfterEnd { .. }
            | FoldError::TooLong { .. } => {
                tracing::error!(error = %error, "the journal cannot be read");
                Self(Problem::Internal)
            }
        }
    }
}

impl Refused {
    /// What became of something from outside, in the words of the wire. `job` is what the caller named.
    pub(crate) fn outside(error: OutsideError, job: &str) -> Self {
        match error {
            OutsideError::NoJob => Self(Problem::NoSuchJob { job: job.to_owned() }),
            OutsideError::OtherRequest => Self(Problem::KeyReused),
            OutsideError::Ended => Self(Problem::JobEnded { status: None }),
            OutsideError::Full => Self(Problem::JobFull),
            OutsideError::NotReplayable => Self(Problem::NotReplayable { status: None }),
            OutsideError::NoPosition => Self(Problem::field("", NO_POSITION)),
            OutsideError::Repeats { effects } => Self(Problem::RepeatsEffects { effects }),
            OutsideError::ThreadBusy { by } => Self(Problem::ThreadBusy { job: by }),
            OutsideError::ThreadFull => Self(Problem::ThreadFull),
            OutsideError::Store(error) => error.into(),
            OutsideError::Journal(error) => error.into(),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

/// An answer with a JSON body.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    (status, Json(body)).into_response()
}

/// An answer with a header more. A value that no header can hold is left out; ours are all plain.
pub(crate) fn with_header(mut response: Response, name: HeaderName, value: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}
