//! Anthropic Messages, and the servers that speak it too (LiteLLM, OpenRouter, vLLM, Bedrock's endpoint of that format).
//!
//! Thoughts come signed and must go back untouched, and new kinds of blocks and events may appear at any time, so
//! everything but text and calls of our own tools is kept as it came.
//!
//! Format: <https://platform.claude.com/docs/en/api/messages>, version 2023-06-01.

mod assembly;
mod wire;

use std::fmt;

use crate::endpoint::{Endpoint, Wire};
use crate::error::ModelError;
use crate::exchange::{judged, receive};
use crate::http::Secret;
use crate::link::Link;
use crate::model::{Completion, Delta, Model, ModelRequest};
use crate::reply::ModelReply;

use assembly::Assembly;
use wire::Form;

/// Where the format lies under a base address.
const PATH: &str = "/messages";

/// The provider whose cache is known to take the mark for it.
const ANTHROPIC_HOST: &str = "api.anthropic.com";

/// A server of the Messages format.
#[derive(Clone)]
pub struct Messages {
    pub(crate) link: Link,
    form: Form,
}

impl fmt::Debug for Messages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Messages").field(&self.link.origin()).finish()
    }
}

impl Messages {
    /// A server by its base address (`https://api.anthropic.com/v1`) and key.
    ///
    /// # Errors
    /// [`crate::ModelErrorKind::Invalid`] when the address is no `http` or `https` address, or the key cannot stand in a
    /// header.
    pub fn new(base_url: &str, key: Secret) -> Result<Self, ModelError> {
        let mut endpoint = Endpoint::new(Wire::Messages, "");
        endpoint.base_url = Some(base_url.to_owned());
        Self::at(&endpoint, key)
    }

    /// The server of a configuration.
    pub(crate) fn at(endpoint: &Endpoint, key: Secret) -> Result<Self, ModelError> {
        let link = Link::new(&endpoint.address()?, PATH, key)?.with_fixed("anthropic-version", "2023-06-01");
        let link = match endpoint.key_header.as_deref() {
            Some(name) if name.eq_ignore_ascii_case("authorization") => link.with_bearer()?,
            Some(name) => link.with_key_header(name)?,
            None => link.with_key_header("x-api-key")?,
        };
        let link = link.with_headers(&endpoint.headers)?.with_silence_limit(endpoint.silence_limit_ms);
        let at_home = link.url().host_str() == Some(ANTHROPIC_HOST);
        let form = Form {
            streaming: endpoint.features.streaming,
            prompt_cache: endpoint.features.prompt_cache.unwrap_or(at_home),
        };
        Ok(Self { link, form })
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
        let body = wire::request_body(request, self.link.origin(), self.form)?;
        let post = self.link.post(request, body)?;
        let answer = Assembly::new(self.link.origin(), self.link.key());
        judged(answer, request, async |answer| receive(&self.link, post, answer, on_delta).await).await
    }
}

impl Model for Messages {
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(self.complete_with(request, on_delta))
    }
}
