//! One call over HTTP, from the first byte sent to the verdict, for the formats that answer in events of their own.
//!
//! An answer goes into an [`Answer`] piece by piece. It lives outside of the reading, so that a timeout or a broken
//! connection can still tell what had arrived and what it cost.

use std::future::Future;
use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::Value;
use tokio::time::timeout;

use crate::body::{Body, open};
use crate::error::{ModelError, ModelErrorKind, Partial};
use crate::error_class::cut_off;
use crate::lenient_json::lenient_json;
use crate::link::Link;
use crate::model::{Delta, ModelRequest};
use crate::reply::{ModelReply, Usage};
use crate::sse::Events;

/// The end mark of Chat Completions, which compatible servers send in other formats too.
const DONE: &str = "[DONE]";

/// An answer on its way.
pub(crate) trait Answer: Sized {
    /// Takes in one event of a stream.
    fn feed<F: FnMut(Delta) + ?Sized>(&mut self, event: Value, on_delta: &mut F) -> Result<(), ModelError>;

    /// Takes in an answer that came in one piece.
    fn feed_whole<F: FnMut(Delta) + ?Sized>(&mut self, body: Value, on_delta: &mut F) -> Result<(), ModelError>;

    /// Whether the event has been seen that ends an answer.
    fn is_over(&self) -> bool;

    /// What had arrived, and what it cost.
    fn remains(self) -> (Partial, Option<Usage>);

    /// The whole answer, or why it is none.
    fn verdict(self, request: &ModelRequest) -> Result<ModelReply, ModelError>;
}

/// Adds to an error what is known of the answer that it spoilt.
pub(crate) fn explained<A: Answer>(answer: A, error: ModelError) -> ModelError {
    let (partial, usage) = answer.remains();
    let error = match usage.or_else(|| error.usage()) {
        Some(usage) => error.with_usage(usage),
        None => error,
    };
    if partial == Partial::default() { error } else { error.with_partial(partial) }
}

/// Reads an answer within the request's time limit, and judges it.
pub(crate) async fn judged<A: Answer>(
    mut answer: A,
    request: &ModelRequest,
    read: impl AsyncFnOnce(&mut A) -> Result<(), ModelError>,
) -> Result<ModelReply, ModelError> {
    let outcome = within(request.time_limit_ms, read(&mut answer)).await;
    match outcome {
        Ok(()) => answer.verdict(request),
        Err(error) => Err(explained(answer, error)),
    }
}

/// Lets something take so long and no longer.
pub(crate) async fn within<T>(
    limit_ms: u64,
    work: impl Future<Output = Result<T, ModelError>>,
) -> Result<T, ModelError> {
    timeout(Duration::from_millis(limit_ms), work).await.unwrap_or_else(|elapsed| {
        let message = format!("no whole answer within {limit_ms} ms");
        Err(ModelError::new(ModelErrorKind::Timeout, message).with_source(elapsed))
    })
}

/// Sends a request and reads an answer that is an event stream or one JSON object.
pub(crate) async fn receive<A: Answer, F: FnMut(Delta) + ?Sized>(
    link: &Link,
    post: RequestBuilder,
    answer: &mut A,
    on_delta: &mut F,
) -> Result<(), ModelError> {
    let response = link.send(post).await?;
    if !response.status().is_success() {
        return Err(link.http_error(response).await);
    }
    match open(link.chunks(response)).await? {
        Body::Json(text) => answer.feed_whole(readable(&text)?, on_delta),
        Body::Events(events) => follow(events, answer, on_delta).await,
    }
}

/// A body that should be JSON.
pub(crate) fn readable(text: &str) -> Result<Value, ModelError> {
    lenient_json(text)
        .map_err(|error| ModelError::new(ModelErrorKind::Transient, "the answer is not JSON").with_source(error))
}

/// Takes in a stream up to the event that ends it.
async fn follow<A: Answer, F: FnMut(Delta) + ?Sized>(
    mut events: Events,
    answer: &mut A,
    on_delta: &mut F,
) -> Result<(), ModelError> {
    while let Some(event) = events.next().await {
        let event = event?;
        if event.trim() == DONE {
            break;
        }
        let value =
            lenient_json(&event).map_err(|error| events.garbled("an event of the stream is not JSON", error))?;
        answer.feed(value, on_delta)?;
        if answer.is_over() {
            events.drain().await;
            return Ok(());
        }
    }
    Err(cut_off("the stream ended before the answer did"))
}
