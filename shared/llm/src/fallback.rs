//! Several models in an order of preference: the next one is asked when the one before cannot answer now.
//!
//! What one provider sent in fields of its own never reaches another, since such fields go back only to the endpoint
//! that they came from.

use crate::error::{Cut, ModelError, ModelErrorKind};
use crate::model::{Completion, Delta, Model, ModelRequest};
use crate::provider::Provider;
use crate::reply::{FailedAttempt, ModelReply};

/// A model with the name that it has in an order of fallback.
pub trait Named: Model {
    /// The name.
    fn name(&self) -> &str;
}

impl Named for Provider {
    fn name(&self) -> &str {
        Self::name(self)
    }
}

/// Models in order. Each is asked once a call; waiting and asking again is for the caller's retry policy.
#[derive(Debug, Clone)]
pub struct Fallback<M = Provider> {
    first: M,
    others: Vec<M>,
}

impl<M: Named> Fallback<M> {
    /// The preferred model, and the others in the order in which they are asked.
    pub fn new(first: M, others: Vec<M>) -> Self {
        Self { first, others }
    }

    /// All models, the preferred one first.
    pub fn models(&self) -> impl Iterator<Item = &M> {
        std::iter::once(&self.first).chain(&self.others)
    }

    async fn ask_in_order(
        &self,
        request: &ModelRequest,
        on_delta: &mut dyn FnMut(Delta),
    ) -> Result<ModelReply, ModelError> {
        let mut failed: Vec<FailedAttempt> = Vec::new();
        let mut model = &self.first;
        let mut others = self.others.iter();
        loop {
            let mut shown = false;
            let mut observe = |delta| {
                shown = true;
                on_delta(delta);
            };
            let own_key = with_own_key(request, failed.len());
            let outcome = model.complete(own_key.as_ref().unwrap_or(request), &mut observe).await;
            let error = match outcome {
                Ok(reply) => {
                    let answered_by = reply.answered_by.or_else(|| Some(model.name().to_owned()));
                    return Ok(ModelReply { answered_by, failed_attempts: failed, ..reply });
                }
                Err(error) => error,
            };
            let next = if falls_over(error.kind()) { others.next() } else { None };
            let Some(next) = next else {
                return Err(after(failed, error));
            };
            tracing::warn!(model = model.name(), next = next.name(), error = error.kind().name(), "falling back");
            failed.push(FailedAttempt {
                model: model.name().to_owned(),
                error: error.kind().clone(),
                message: error.message().to_owned(),
                usage: error.usage(),
            });
            if shown {
                on_delta(Delta::Discard);
            }
            model = next;
        }
    }
}

impl<M: Named> Model for Fallback<M> {
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(self.ask_in_order(request, on_delta))
    }
}

/// Whether another model may be asked: only where this one cannot answer now. What is wrong with the request or with an
/// account is for a person, and a refusal is an answer.
fn falls_over(kind: &ModelErrorKind) -> bool {
    match kind {
        ModelErrorKind::Transient
        | ModelErrorKind::RateLimited { .. }
        | ModelErrorKind::Overloaded { .. }
        | ModelErrorKind::Timeout
        | ModelErrorKind::Truncated { cut: Cut::Connection } => true,
        ModelErrorKind::Truncated { cut: Cut::OutputLimit | Cut::UnknownFinish { .. } }
        | ModelErrorKind::Refused
        | ModelErrorKind::ContextOverflow
        | ModelErrorKind::Schema
        | ModelErrorKind::Auth
        | ModelErrorKind::Invalid
        | ModelErrorKind::Budget => false,
    }
}

/// Two models may stand behind one server, which would take the same key for the same call.
fn with_own_key(request: &ModelRequest, position: usize) -> Option<ModelRequest> {
    let key = request.idempotency_key.as_ref().filter(|_| position > 0)?;
    let idempotency_key = Some(format!("{key}/fallback-{position}"));
    Some(ModelRequest { idempotency_key, ..request.clone() })
}

/// The last error, with what went before it.
fn after(failed: Vec<FailedAttempt>, error: ModelError) -> ModelError {
    if failed.is_empty() {
        return error;
    }
    let story: Vec<String> = failed.iter().map(|it| format!("{}: {}", it.model, it.error.name())).collect();
    error.prefixed(&format!("after {}: ", story.join(", "))).with_earlier(failed)
}
