//! OpenAI Chat Completions, and the many servers that speak it (Azure, vLLM, Ollama, LiteLLM, OpenRouter, Gemini's
//! compatible endpoint, …), each with oddities of its own. What they send is read leniently; what is sent to them keeps
//! to the published format.

mod assembly;
mod finish;
mod tool_calls;
pub(crate) mod wire;

use std::fmt;
use std::time::Duration;

use tokio::time::timeout;

use crate::body::{Body, open};
use crate::endpoint::{Endpoint, Features};
use crate::error::{ModelError, ModelErrorKind};
use crate::error_class::cut_off;
use crate::http::Secret;
use crate::lenient_json::lenient_json;
use crate::link::Link;
use crate::model::{Completion, Delta, Model, ModelRequest};
use crate::reply::ModelReply;
use crate::sse::Events;

use assembly::Assembly;

/// Wait for usage and the end mark once a finish reason has been seen. The answer is whole by then, so a server that
/// forgets to close costs this and no more.
const FINISH_GRACE_SECONDS: u64 = 5;

/// The end mark of a stream.
const DONE: &str = "[DONE]";

/// Where the format lies under a base address.
const PATH: &str = "/chat/completions";

/// A server of the Chat Completions format.
#[derive(Clone)]
pub struct ChatCompletions {
    pub(crate) link: Link,
    features: Features,
}

impl fmt::Debug for ChatCompletions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ChatCompletions").field(&self.link.origin()).finish()
    }
}

impl ChatCompletions {
    /// A server by its base address (`https://api.openai.com/v1`; a query such as Azure's `api-version` stays) and key.
    /// An empty key sends no `Authorization` at all, which is what servers on one's own machine expect.
    ///
    /// # Errors
    /// [`ModelErrorKind::Invalid`] when the address is no `http` or `https` address, or the key cannot stand in a header.
    pub fn new(base_url: &str, key: Secret) -> Result<Self, ModelError> {
        let link = Link::new(base_url, PATH, key)?.with_base_origin(PATH).with_bearer()?;
        Ok(Self { link, features: Features::default() })
    }

    /// The server of a configuration.
    pub(crate) fn at(endpoint: &Endpoint, key: Secret) -> Result<Self, ModelError> {
        let link = Link::new(&endpoint.address()?, PATH, key)?.with_base_origin(PATH);
        let link = match &endpoint.key_header {
            Some(name) => link.with_key_header(name)?,
            None => link.with_bearer()?,
        };
        Ok(Self {
            link: link.with_headers(&endpoint.headers)?.with_silence_limit(endpoint.silence_limit_ms),
            features: endpoint.features.clone(),
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
        // The assembly lives outside of the call, so that a timeout can tell what had arrived.
        let mut assembly = Assembly::new(self.link.origin(), self.link.key());
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
        let body = wire::request_body(request, &self.link, &self.features)?;
        let response = self.link.send(self.link.post(request, body)?).await?;
        if !response.status().is_success() {
            return Err(self.link.http_error(response).await);
        }
        match open(self.link.chunks(response)).await? {
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
}

impl Model for ChatCompletions {
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(self.complete_with(request, on_delta))
    }
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
            events.drain().await;
            return Ok(());
        }
        let value =
            lenient_json(&event).map_err(|error| events.garbled("an event of the stream is not JSON", error))?;
        assembly.feed(value, on_delta)?;
    }
}
