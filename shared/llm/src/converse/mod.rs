//! Amazon Bedrock Converse: one format for all models on Bedrock, in one piece or as an AWS event stream, signed with
//! whatever credentials the caller has (a function's role, as a rule) or opened with a Bedrock API key.
//!
//! Format: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html>.

mod assembly;
mod credentials;
mod signing;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::CONTENT_TYPE;
use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use tokio::time::timeout;

use crate::body::whole;
use crate::endpoint::Endpoint;
use crate::error::{ModelError, ModelErrorKind};
use crate::error_class::{ErrorReport, cut_off};
use crate::event_stream::{Frame, Frames};
use crate::exchange::{Answer as _, judged, readable};
use crate::http::Secret;
use crate::lenient_json::lenient_json;
use crate::link::Link;
use crate::model::{Completion, Delta, Model, ModelRequest};
use crate::provider::Access;
use crate::reply::ModelReply;

use assembly::Assembly;
pub use credentials::{AwsCredentialSource, AwsCredentials, Credentials};
use wire::Form;

/// Wait for the usage, which comes behind the end of the answer.
const METADATA_GRACE_SECONDS: u64 = 5;

/// What the answer of a stream is called.
const EVENT_STREAM: &str = "application/vnd.amazon.eventstream";

/// How a call is let in.
#[derive(Clone)]
enum Entry {
    /// The key, if any, is among the link's headers.
    Key,
    /// Each request is signed.
    Signed { credentials: Arc<dyn AwsCredentialSource>, region: String },
}

/// Bedrock's runtime, in one region.
#[derive(Clone)]
pub struct Converse {
    pub(crate) link: Link,
    entry: Entry,
    form: Form,
}

impl fmt::Debug for Converse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Converse").field(&self.link.origin()).finish()
    }
}

impl Converse {
    /// The runtime of a configuration.
    pub(crate) fn at(endpoint: &Endpoint, access: Access) -> Result<Self, ModelError> {
        let address = endpoint.address()?;
        let (link, entry) = match access {
            Access::Open => (Link::new(&address, "", Secret::new(""))?, Entry::Key),
            Access::Key(key) => {
                let link = Link::new(&address, "", key)?;
                match &endpoint.key_header {
                    Some(name) => (link.with_key_header(name)?, Entry::Key),
                    None => (link.with_bearer()?, Entry::Key),
                }
            }
            Access::Aws(credentials) => {
                let region = endpoint.region.clone().ok_or_else(|| {
                    let message =
                        "an endpoint of the wire `converse` needs the `region` that its requests are signed for";
                    ModelError::new(ModelErrorKind::Invalid, message)
                })?;
                (Link::new(&address, "", Secret::new(""))?, Entry::Signed { credentials, region })
            }
        };
        let form = Form {
            streaming: endpoint.features.streaming,
            prompt_cache: endpoint.features.prompt_cache.unwrap_or(false),
        };
        Ok(Self {
            link: link.with_headers(&endpoint.headers)?.with_silence_limit(endpoint.silence_limit_ms),
            entry,
            form,
        })
    }

    /// Like [`Model::complete`], with a future that is `Send` when the observer is.
    ///
    /// # Errors
    /// A [`ModelError`] whenever there is no whole answer.
    pub async fn complete_with<F: FnMut(Delta) + ?Sized>(
        &self,
        request: &ModelRequest,
        on_delta: &mut F,
    ) -> Result<ModelReply, ModelError> {
        let model = signing::path_segment(&request.model);
        let operation = if self.form.streaming { "converse-stream" } else { "converse" };
        let link = self.link.at_path(&format!("/model/{model}/{operation}"), &format!("/model/{model}"));
        let body = wire::request_body(request, link.origin(), self.form)?;
        let answer = Assembly::new(link.origin(), link.key());
        judged(answer, request, async |answer| {
            let post = self.signed(&link, request, body).await?;
            let response = link.send(post).await?;
            if !response.status().is_success() {
                return Err(link.http_error(response).await);
            }
            receive(&link, response, answer, on_delta).await
        })
        .await
    }

    async fn signed(&self, link: &Link, request: &ModelRequest, body: Vec<u8>) -> Result<RequestBuilder, ModelError> {
        match &self.entry {
            Entry::Key => link.post(request, body),
            Entry::Signed { credentials, region } => {
                let credentials = credentials.credentials().await.map_err(|error| {
                    let message = "there are no AWS credentials to sign the call with";
                    ModelError::new(ModelErrorKind::Transient, message).with_source(error)
                })?;
                let headers = signing::headers(link.url().as_str(), &body, &credentials, region, SystemTime::now())?;
                Ok(link.post(request, body)?.headers(headers))
            }
        }
    }
}

impl Model for Converse {
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(self.complete_with(request, on_delta))
    }
}

async fn receive<F: FnMut(Delta) + ?Sized>(
    link: &Link,
    response: Response,
    answer: &mut Assembly<'_>,
    on_delta: &mut F,
) -> Result<(), ModelError> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !kind.starts_with(EVENT_STREAM) {
        let body = readable(&whole(link.chunks(response)).await?)?;
        return answer.feed_whole(body, on_delta);
    }
    let mut frames = Frames::new(link.chunks(response));
    loop {
        let frame = if answer.is_over() {
            match timeout(Duration::from_secs(METADATA_GRACE_SECONDS), frames.next()).await {
                // What breaks after the stop reason takes nothing from the answer.
                Err(_) | Ok(None | Some(Err(_))) => return Ok(()),
                Ok(Some(Ok(frame))) => frame,
            }
        } else {
            match frames.next().await {
                Some(frame) => frame?,
                None => return Err(cut_off("the stream ended before the answer did")),
            }
        };
        let text = |payload: &[u8]| String::from_utf8_lossy(payload).into_owned();
        match frame {
            Frame::Event { kind, payload } => {
                let payload = lenient_json(&text(&payload)).map_err(|error| {
                    ModelError::new(ModelErrorKind::Transient, "an event of the stream is not JSON").with_source(error)
                })?;
                answer.feed_event(&kind, payload, on_delta);
            }
            Frame::Exception { kind, payload } => {
                let details = lenient_json(&text(&payload)).unwrap_or(Value::Null);
                let mut report = ErrorReport::from_json(&details);
                report.add_code(&kind);
                return Err(report.into_error(link.key()));
            }
            Frame::Error { code, message } => {
                let mut report = ErrorReport::from_json(&serde_json::json!({"message": message}));
                report.add_code(&code);
                return Err(report.into_error(link.key()));
            }
        }
    }
}
