//! OpenAI Chat Completions, and the many servers that speak it (Azure, vLLM, Ollama, LiteLLM, OpenRouter, Gemini's
//! compatible endpoint, …), each with oddities of its own. What they send is read leniently; what is sent to them keeps
//! to the published format.

mod assembly;
mod finish;
mod tool_calls;
mod wire;

use std::fmt;
use std::time::{Duration, SystemTime};

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{RequestBuilder, Response, Url};
use tokio::time::timeout;

use crate::body::{Body, open};
use crate::error::{ModelError, ModelErrorKind};
use crate::error_class::{ErrorReport, cut_off};
use crate::http::{Secret, client_for, read_error_body, transport_error};
use crate::lenient_json::lenient_json;
use crate::model::{Completion, Delta, Model, ModelRequest};
use crate::reply::ModelReply;
use crate::retry_after::retry_after;
use crate::sse::Events;

use assembly::Assembly;

/// Wait for usage and the end mark once a finish reason has been seen. The answer is whole by then, so a server that
/// forgets to close costs this and no more.
const FINISH_GRACE_SECONDS: u64 = 5;

/// Wait for the end of the body after the end mark. Reading it lets the connection be used again; a server that leaves
/// it open is not waited for.
const DRAIN_MS: u64 = 50;

/// The end mark of a stream.
const DONE: &str = "[DONE]";

/// A server of the Chat Completions format.
#[derive(Clone)]
pub struct ChatCompletions {
    url: Url,
    /// The address without credentials and query: shown to people, and the origin of vendor fields.
    origin: String,
    key: Secret,
}

impl fmt::Debug for ChatCompletions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ChatCompletions").field(&self.origin).finish()
    }
}

impl ChatCompletions {
    /// A server by its base address (`https://api.openai.com/v1`; a query such as Azure's `api-version` stays) and key.
    /// An empty key sends no `Authorization` at all, which is what servers on one's own machine expect.
    ///
    /// # Errors
    /// [`ModelErrorKind::Invalid`] when the address is no `http` or `https` address.
    pub fn new(base_url: &str, key: Secret) -> Result<Self, ModelError> {
        // The address stays out of the message: it may hold credentials.
        let invalid = || ModelError::new(ModelErrorKind::Invalid, "the model server's address is no http(s) address");
        let mut url = Url::parse(base_url).map_err(|error| invalid().with_source(error))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid());
        }
        let path = url.path().trim_end_matches('/').to_owned();
        let host = url.host_str().unwrap_or_default();
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let origin = format!("{}://{host}{port}{path}", url.scheme());
        url.set_path(&format!("{path}/chat/completions"));
        Ok(Self { url, origin, key })
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
        // The assembly lives outside of the call, so that a timeout can tell what had arrived.
        let mut assembly = Assembly::new(&self.origin, &self.key);
        let limit = Duration::from_millis(request.time_limit_ms);
        let outcome = timeout(limit, self.receive(request, &mut assembly, on_delta)).await;
        match outcome {
            Ok(Ok(())) => assembly.into_reply(request),
            Ok(Err(error)) => Err(assembly.explain(error)),
            Err(elapsed) => {
                let message = format!("no whole answer within {} ms", request.time_limit_ms);
                let error = ModelError::new(ModelErrorKind::Timeout, message).with_source(elapsed);
                Err(assembly.explain(error))
            }
        }
    }

    /// One call, from the first byte sent to the last one received.
    async fn receive<F: FnMut(Delta) + ?Sized>(
        &self,
        request: &ModelRequest,
        assembly: &mut Assembly<'_>,
        on_delta: &mut F,
    ) -> Result<(), ModelError> {
        let response = self.post(request)?.send().await.map_err(transport_error)?;
        if !response.status().is_success() {
            return Err(self.http_error(response).await);
        }
        match open(response).await? {
            Body::Json(text) => {
                let value = lenient_json(&text).map_err(|error| {
                    ModelError::new(ModelErrorKind::Transient, "the answer is not JSON").with_source(error)
                })?;
                assembly.feed(value, on_delta)?;
                // A body that parses has arrived whole.
                assembly.end_mark();
                Ok(())
            }
            Body::Events(events) => follow(events, assembly, on_delta).await,
        }
    }

    fn post(&self, request: &ModelRequest) -> Result<RequestBuilder, ModelError> {
        let body = wire::request_body(request, &self.origin, &self.url)?;
        let mut post = client_for(&self.url)?
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream, application/json")
            .body(body);
        if !self.key.reveal().is_empty() {
            let bearer = format!("Bearer {}", self.key.reveal());
            let mut value = header_value("the API key", &bearer)?;
            value.set_sensitive(true);
            post = post.header(AUTHORIZATION, value);
        }
        for (name, text) in [("idempotency-key", &request.idempotency_key), ("traceparent", &request.traceparent)] {
            if let Some(text) = text {
                post = post.header(name, header_value(name, text)?);
            }
        }
        Ok(post)
    }

    async fn http_error(&self, response: Response) -> ModelError {
        let status = response.status().as_u16();
        let wait = retry_after(response.headers(), SystemTime::now());
        let body = read_error_body(response).await;
        let mut report = ErrorReport::from_body(status, &body);
        report.retry_after = wait;
        report.into_error(&self.key)
    }
}

impl Model for ChatCompletions {
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(self.complete_with(request, on_delta))
    }
}

/// A header's value; the text itself stays out of the error.
fn header_value(what: &str, text: &str) -> Result<HeaderValue, ModelError> {
    HeaderValue::from_str(text).map_err(|error| {
        ModelError::new(ModelErrorKind::Invalid, format!("{what} cannot stand in a header")).with_source(error)
    })
}

/// Takes in a stream up to its end mark, or its end.
async fn follow<F: FnMut(Delta) + ?Sized>(
    mut events: Events,
    assembly: &mut Assembly<'_>,
    on_delta: &mut F,
) -> Result<(), ModelError> {
    loop {
        let event = if assembly.has_finish() {
            match timeout(Duration::from_secs(FINISH_GRACE_SECONDS), events.next()).await {
                // What breaks after the finish reason takes nothing from the answer.
                Err(_) | Ok(Some(Err(_)) | None) => return Ok(()),
                Ok(Some(Ok(event))) => event,
            }
        } else {
            match events.next().await {
                Some(event) => event?,
                None => return Err(cut_off("the stream ended before the answer did")),
            }
        };
        if event.trim() == DONE {
            assembly.end_mark();
            let _ = timeout(Duration::from_millis(DRAIN_MS), async { while events.next().await.is_some() {} }).await;
            return Ok(());
        }
        let value =
            lenient_json(&event).map_err(|error| events.garbled("an event of the stream is not JSON", error))?;
        assembly.feed(value, on_delta)?;
    }
}
