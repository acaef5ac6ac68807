//! A configured model: an [`Endpoint`] with its key, behind the one trait.

use std::borrow::Cow;
use std::sync::Arc;

use crate::carrier::Carrier;
use crate::chat::ChatCompletions;
use crate::converse::{AwsCredentialSource, Converse};
use crate::endpoint::{Endpoint, StructuredOutput, Wire};
use crate::error::{ModelError, ModelErrorKind};
use crate::http::Secret;
use crate::message::{Message, Role};
use crate::messages::Messages;
use crate::model::{Completion, Delta, Model, ModelRequest, ResponseFormat};
use crate::reply::ModelReply;
use crate::responses::{Background, ResponseId, Responses};
use crate::structured::in_words;

/// What a server wants to see before it answers.
#[derive(Debug, Clone)]
pub enum Access {
    /// Nothing: a server on one's own machine.
    Open,
    /// An API key.
    Key(Secret),
    /// Signatures with AWS credentials, for the wire `converse`.
    Aws(Arc<dyn AwsCredentialSource>),
}

/// One of the wire formats, ready to be spoken.
#[derive(Debug, Clone)]
enum Speaker {
    Chat(ChatCompletions),
    Messages(Messages),
    Responses(Responses),
    Converse(Converse),
}

/// A model that is ready to be asked. The endpoint's model name, limits and fields go into every request.
#[derive(Debug, Clone)]
pub struct Provider {
    endpoint: Endpoint,
    speaker: Speaker,
}

impl Endpoint {
    /// The model behind this configuration.
    ///
    /// # Errors
    /// [`ModelErrorKind::Invalid`] for whatever can be known to be wrong before the first call: an address that is none,
    /// a header that cannot be sent, access of the wrong kind, a blank model name.
    pub fn open(self, access: Access) -> Result<Provider, ModelError> {
        if self.model.trim().is_empty() {
            return Err(ModelError::new(ModelErrorKind::Invalid, "the endpoint names no model"));
        }
        let speaker = match (self.wire, access) {
            (Wire::Converse, access) => Speaker::Converse(Converse::at(&self, access)?),
            (wire, access) => {
                let key = match access {
                    Access::Open => Secret::new(""),
                    Access::Key(key) => key,
                    Access::Aws(_) => {
                        let message = "AWS credentials open the wire `converse` alone; this endpoint takes a key";
                        return Err(ModelError::new(ModelErrorKind::Invalid, message));
                    }
                };
                self.with_key(wire, key)?
            }
        };
        Ok(Provider { endpoint: self, speaker })
    }
}

impl Endpoint {
    fn with_key(&self, wire: Wire, key: Secret) -> Result<Speaker, ModelError> {
        match wire {
            Wire::Chat => ChatCompletions::at(self, key).map(Speaker::Chat),
            Wire::Responses => Responses::at(self, key).map(Speaker::Responses),
            Wire::Messages => Messages::at(self, key).map(Speaker::Messages),
            Wire::Converse => Converse::at(self, Access::Key(key)).map(Speaker::Converse),
        }
    }
}

impl Provider {
    /// This model with its requests carried by somebody else than HTTP: a recording, say.
    #[must_use]
    pub fn carried_by(mut self, carrier: Arc<dyn Carrier>) -> Self {
        match &mut self.speaker {
            Speaker::Chat(chat) => chat.link.carry_by(carrier),
            Speaker::Messages(messages) => messages.link.carry_by(carrier),
            Speaker::Responses(responses) => responses.link.carry_by(carrier),
            Speaker::Converse(converse) => converse.link.carry_by(carrier),
        }
        self
    }

    /// The configuration.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The name that answers and prices go by.
    pub fn name(&self) -> &str {
        self.endpoint.name()
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
        let request = self.fitted(request);
        let reply = match &self.speaker {
            Speaker::Chat(chat) => chat.complete_with(&request, on_delta).await,
            Speaker::Messages(messages) => messages.complete_with(&request, on_delta).await,
            Speaker::Responses(responses) => responses.complete_with(&request, on_delta).await,
            Speaker::Converse(converse) => converse.complete_with(&request, on_delta).await,
        };
        reply.map(|reply| self.signed(reply))
    }

    fn signed(&self, reply: ModelReply) -> ModelReply {
        ModelReply { answered_by: Some(self.name().to_owned()), ..reply }
    }

    /// Whether calls can run at the provider while nobody waits: [`Provider::start`] and what follows it.
    pub fn has_background(&self) -> bool {
        matches!(self.speaker, Speaker::Responses(_))
    }

    fn background(&self) -> Result<&Responses, ModelError> {
        match &self.speaker {
            Speaker::Responses(responses) => Ok(responses),
            Speaker::Chat(_) | Speaker::Messages(_) | Speaker::Converse(_) => Err(ModelError::new(
                ModelErrorKind::Invalid,
                format!("the model {:?} has no background: only the wire `responses` does", self.name()),
            )),
        }
    }

    /// Like [`Responses::start`].
    ///
    /// # Errors
    /// As there, and [`ModelErrorKind::Invalid`] where the wire format has no background.
    pub async fn start(&self, request: &ModelRequest) -> Result<(ResponseId, Background), ModelError> {
        let (id, state) = self.background()?.start(&self.fitted(request)).await?;
        Ok((id, self.signed_state(state)))
    }

    /// Like [`Responses::poll`].
    ///
    /// # Errors
    /// As there, and [`ModelErrorKind::Invalid`] where the wire format has no background.
    pub async fn poll(&self, id: &ResponseId, request: &ModelRequest) -> Result<Background, ModelError> {
        let state = self.background()?.poll(id, &self.fitted(request)).await?;
        Ok(self.signed_state(state))
    }

    /// Like [`Responses::cancel`].
    ///
    /// # Errors
    /// As there, and [`ModelErrorKind::Invalid`] where the wire format has no background.
    pub async fn cancel(&self, id: &ResponseId, request: &ModelRequest) -> Result<Background, ModelError> {
        let state = self.background()?.cancel(id, &self.fitted(request)).await?;
        Ok(self.signed_state(state))
    }

    fn signed_state(&self, state: Background) -> Background {
        match state {
            Background::Done { reply } => Background::Done { reply: Box::new(self.signed(*reply)) },
            other @ (Background::Running { .. }
            | Background::Failed { .. }
            | Background::Cancelled { .. }
            | Background::Lost) => other,
        }
    }

    /// The request as this endpoint takes it.
    fn fitted<'a>(&self, request: &'a ModelRequest) -> Cow<'a, ModelRequest> {
        let mut request = Cow::Borrowed(request);
        if request.model != self.endpoint.model {
            request.to_mut().model.clone_from(&self.endpoint.model);
        }
        if let Some(limit) = self.endpoint.time_limit_ms.filter(|limit| *limit < request.time_limit_ms) {
            request.to_mut().time_limit_ms = limit;
        }
        if request.output_tokens_max.is_none() && self.endpoint.output_tokens_max.is_some() {
            request.to_mut().output_tokens_max = self.endpoint.output_tokens_max;
        }
        for (name, value) in &self.endpoint.extra {
            if !request.extra.contains_key(name) {
                request.to_mut().extra.insert(name.clone(), value.clone());
            }
        }
        if self.endpoint.features.structured_output == StructuredOutput::Prompt
            && let ResponseFormat::JsonSchema { schema, .. } = &request.response_format
        {
            let wanted = in_words(schema);
            let request = request.to_mut();
            request.response_format = ResponseFormat::Text;
            let below_instructions = request.messages.iter().take_while(|it| it.role == Role::System).count();
            request.messages.insert(below_instructions, Message::system(wanted));
        }
        request
    }
}

impl Model for Provider {
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(self.complete_with(request, on_delta))
    }
}
