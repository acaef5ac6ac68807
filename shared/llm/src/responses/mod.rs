//! OpenAI Responses, and the servers that speak it too.
//!
//! Nothing is kept at the provider unless a call runs in the background: the whole conversation goes along with every
//! request, and what the model thought comes encrypted and goes back as it came. So a job can be replayed from its
//! journal alone.
//!
//! Format: <https://platform.openai.com/docs/api-reference/responses>.

mod assembly;
mod background;
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
pub use background::{Background, ResponseId, Stage};
use wire::{Form, Mode};

/// Where the format lies under a base address.
const PATH: &str = "/responses";

/// A server of the Responses format.
#[derive(Clone)]
pub struct Responses {
    pub(crate) link: Link,
    form: Form,
}

impl fmt::Debug for Responses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Responses").field(&self.link.origin()).finish()
    }
}

impl Responses {
    /// A server by its base address (`https://api.openai.com/v1`) and key.
    ///
    /// # Errors
    /// [`crate::ModelErrorKind::Invalid`] when the address is no `http` or `https` address, or the key cannot stand in a
    /// header.
    pub fn new(base_url: &str, key: Secret) -> Result<Self, ModelError> {
        let mut endpoint = Endpoint::new(Wire::Responses, "");
        endpoint.base_url = Some(base_url.to_owned());
        Self::at(&endpoint, key)
    }

    /// The server of a configuration.
    pub(crate) fn at(endpoint: &Endpoint, key: Secret) -> Result<Self, ModelError> {
        let link = Link::new(&endpoint.address()?, PATH, key)?;
        let link = match &endpoint.key_header {
            Some(name) => link.with_key_header(name)?,
            None => link.with_bearer()?,
        };
        let form = Form {
            mode: if endpoint.features.streaming { Mode::Stream } else { Mode::Whole },
            encrypted_reasoning: endpoint.features.encrypted_reasoning,
        };
        Ok(Self { link: link.with_headers(&endpoint.headers)?.with_silence_limit(endpoint.silence_limit_ms), form })
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

impl Model for Responses {
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(self.complete_with(request, on_delta))
    }
}
