//! Calls that run at the provider while nobody waits: create, keep the id, let go of the worker, come back.
//!
//! A generation of ten minutes costs no compute that way. The id is what a job checkpoints; everything else can be asked
//! for again. The provider keeps the answer for about ten minutes after it is done, so a job must come back in time.
//!
//! Guide: <https://platform.openai.com/docs/guides/background>.

use std::fmt;

use reqwest::{Method, RequestBuilder, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::body::{Body, open};
use crate::error::{ModelError, ModelErrorKind};
use crate::exchange::{Answer, readable, within};
use crate::model::ModelRequest;
use crate::reply::{ModelReply, Usage};

use super::Responses;
use super::assembly::{Assembly, Status};
use super::wire::{Form, Mode, request_body};

/// Time for creating, looking and cancelling, in milliseconds: the server only notes or reads something.
const LOOK_TIME_LIMIT_MS: u64 = 30_000;

/// The provider's id of a response.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResponseId(String);

impl ResponseId {
    /// An id that was checkpointed, or came with a webhook.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResponseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Where an unfinished response stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Not begun.
    Queued,
    /// The model is at work.
    InProgress,
}

/// What became of a response in the background.
#[derive(Debug)]
pub enum Background {
    /// Not done. Look again later.
    Running {
        /// How far it is.
        stage: Stage,
    },
    /// The whole answer.
    Done {
        /// The answer.
        reply: Box<ModelReply>,
    },
    /// It ended without a whole answer. The error's class says whether to begin anew.
    Failed {
        /// Why.
        error: ModelError,
    },
    /// Somebody cancelled it.
    Cancelled {
        /// What it had cost by then, where the server says so.
        usage: Option<Usage>,
    },
    /// The provider does not know the id: the answer was kept no longer, or never there. It can only be begun anew.
    Lost,
}

impl Responses {
    /// Begins a response in the background. The idempotency key of the request goes along; even so, a crash between this
    /// call and the checkpoint of the id may leave a response that nobody comes back for.
    ///
    /// # Errors
    /// A [`ModelError`] when the provider did not take it.
    pub async fn start(&self, request: &ModelRequest) -> Result<(ResponseId, Background), ModelError> {
        let form = Form { mode: Mode::Background, ..self.form };
        let post = self.link.post(request, request_body(request, self.link.origin(), form)?)?;
        let limit_ms = request.time_limit_ms.min(LOOK_TIME_LIMIT_MS);
        let response = within(limit_ms, self.look(post)).await?;
        let response = response.ok_or_else(|| {
            ModelError::new(ModelErrorKind::Invalid, "the server has no responses at the configured address")
        })?;
        match response.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()) {
            Some(id) => Ok((ResponseId::new(id), self.state(response.clone(), request))),
            None => Err(ModelError::new(ModelErrorKind::Transient, "the server began a response without an id")),
        }
    }

    /// Looks after a response. `request` is the one that it was started with.
    ///
    /// # Errors
    /// A [`ModelError`] when the provider cannot say; the response may be well nevertheless.
    pub async fn poll(&self, id: &ResponseId, request: &ModelRequest) -> Result<Background, ModelError> {
        let get = self.link.below(&[id.as_str()])?.request(Method::GET, None)?;
        let response = within(LOOK_TIME_LIMIT_MS, self.look(get)).await?;
        Ok(response.map_or(Background::Lost, |response| self.state(response, request)))
    }

    /// Stops a response. Cancelling twice, or after its end, does no harm: what it came to is told.
    ///
    /// # Errors
    /// A [`ModelError`] when the provider did not take it.
    pub async fn cancel(&self, id: &ResponseId, request: &ModelRequest) -> Result<Background, ModelError> {
        let post = self.link.below(&[id.as_str(), "cancel"])?.request(Method::POST, Some(b"{}".to_vec()))?;
        let response = within(LOOK_TIME_LIMIT_MS, self.look(post)).await?;
        Ok(response.map_or(Background::Lost, |response| self.state(response, request)))
    }

    /// One short exchange; `None` where the server knows no such response.
    async fn look(&self, request: RequestBuilder) -> Result<Option<Value>, ModelError> {
        let response = self.link.send(request).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !response.status().is_success() {
            return Err(self.link.http_error(response).await);
        }
        match open(self.link.chunks(response)).await? {
            Body::Json(text) => readable(&text).map(Some),
            Body::Events(_) => Err(ModelError::new(
                ModelErrorKind::Transient,
                "the server answered with a stream that nobody asked for",
            )),
        }
    }

    fn state(&self, response: Value, request: &ModelRequest) -> Background {
        match Status::of(&response) {
            Status::Queued => Background::Running { stage: Stage::Queued },
            Status::InProgress => Background::Running { stage: Stage::InProgress },
            status @ (Status::Completed
            | Status::Incomplete
            | Status::Failed
            | Status::Cancelled
            | Status::Other(_)) => {
                let mut answer = Assembly::new(self.link.origin(), self.link.key());
                let verdict = answer.feed_whole(response, &mut |_| {}).and_then(|()| answer.verdict(request));
                match (verdict, status) {
                    (Ok(reply), _) => Background::Done { reply: Box::new(reply) },
                    (Err(error), Status::Cancelled) => Background::Cancelled { usage: error.usage() },
                    (Err(error), _) => Background::Failed { error },
                }
            }
        }
    }
}
