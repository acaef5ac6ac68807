//! The WebSocket function: who watches a job, and what they are sent.
//!
//! One function is invoked by three sides. The gateway asks who may connect ([`authorizer`]) and brings clients that
//! come, ask and go ([`clients`]); the table's stream brings what was written into journals ([`stream`]), which is pushed
//! to every subscriber of the job and, where the job names a webhook, ordered to be delivered; the queue of deliveries
//! says when one of those is due ([`deliveries`]). No side can delay a job: all only read what the worker has written.

mod authorizer;
mod clients;
mod deliveries;
mod delivery;
mod fence;
mod secrets;
mod stream;
mod subscribing;
mod webhook;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Mutex;

use aws_lambda_events::apigw::ApiGatewayWebsocketProxyRequest;
use aws_lambda_events::sqs::SqsEvent;
use futures::{FutureExt as _, TryFutureExt as _};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use longhaul::Clock;
use longhaul::engine::Timestamp;
use longhaul_aws::pollers::{self, Pollers};
use longhaul_aws::push::Push;
use longhaul_aws::secrets::AwsSecrets;
use longhaul_aws::{AwsStore, Config, ConfigError, telemetry};
use longhaul_wire::TokenCheck;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

pub use crate::authorizer::AuthorizerError;
use crate::deliveries::Wishes;
use crate::secrets::SigningSecrets;
use crate::webhook::Webhooks;

/// Why the function could not begin, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The environment.
    #[error("the WebSocket function cannot begin")]
    Config(#[from] ConfigError),
    /// The Lambda runtime.
    #[error("the Lambda runtime ended")]
    Runtime(#[source] lambda_runtime::Error),
}

/// Why an invocation did nothing.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The event comes from no side that is known.
    #[error("the event has neither a requestContext nor Records")]
    UnknownShape,
    /// The event looks like one of a side but is not.
    #[error("the event is none of {side}")]
    Malformed {
        /// What it looks like.
        side: &'static str,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The answer cannot be written.
    #[error("the answer cannot be written")]
    Answer(#[source] serde_json::Error),
    /// Nobody can say who may connect.
    #[error("a connection could not be decided about")]
    Authorizer(#[from] AuthorizerError),
}

/// What a record of a queue names as its source.
const QUEUE_SOURCE: &str = "aws:sqs";

/// The function: what it keeps from one invocation to the next.
#[derive(Debug)]
pub struct WebSocket {
    pub(crate) store: AwsStore,
    pub(crate) push: Push,
    pub(crate) tokens: TokenCheck,
    pub(crate) webhooks: Webhooks,
    pub(crate) wishes: Wishes,
    /// Connections whose buffer was full for longer than all tries of a message take.
    pub(crate) slow: Mutex<BTreeSet<String>>,
}

/// What an invocation knows of time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    pub(crate) clock: Clock,
    pub(crate) deadline: Timestamp,
}

impl Time {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How long until the invocation should have answered, its last words not counted.
    pub(crate) fn left(&self) -> std::time::Duration {
        /// Time kept back for the answer: it is one small request to the Runtime API.
        const ANSWER_RESERVE_MS: u64 = 500;
        self.now().until(self.deadline).saturating_sub(std::time::Duration::from_millis(ANSWER_RESERVE_MS))
    }
}

/// Serves invocations until the environment is taken away.
///
/// # Errors
/// [`RunError`]; it has been logged.
pub async fn run() -> Result<(), RunError> {
    telemetry::init();
    serve().await.inspect_err(|error| tracing::error!(error = %telemetry::chain(error), "the WebSocket function ends"))
}

async fn serve() -> Result<(), RunError> {
    let function = WebSocket::new(AwsStore::connect(Config::from_env()?).await)?;
    let function = &function;
    let polling = pollers::serve(pollers::at_once(), |pollers: Pollers| {
        let handler = service_fn(move |event: LambdaEvent<Box<RawValue>>| {
            let busy = pollers.busy();
            let LambdaEvent { payload, context } = event;
            let handled = function.handle(payload, context.deadline).map_err(|error| Diagnostic {
                error_type: "EventError".to_owned(),
                error_message: telemetry::chain(&error),
            });
            handled.inspect(move |_| drop(busy))
        });
        Box::pin(lambda_runtime::run(handler))
    });
    polling.await.map_err(RunError::Runtime)
}

impl WebSocket {
    /// The function over a store, with the rest of what that store's configuration says.
    ///
    /// # Errors
    /// [`ConfigError`] when the configuration lacks the gateway's endpoint, the queue of deliveries or the issuer of tokens.
    pub fn new(store: AwsStore) -> Result<Self, ConfigError> {
        let config = store.config();
        let push = Push::new(store.clients(), config.push_endpoint()?);
        let tokens = TokenCheck::new(config.tokens()?.clone());
        config.webhook_queue_url()?;
        let secrets = match &config.webhook_secrets_place {
            Some(place) => SigningSecrets::OfPlace(AwsSecrets::new(store.clients(), None), place.clone()),
            None => SigningSecrets::OfSettings(config.webhook_secrets.clone()),
        };
        let webhooks = Webhooks::new(config.webhook_loopback, secrets);
        let wishes = deliveries::wishes(config.tenant_data_kept());
        Ok(Self { store, push, tokens, webhooks, wishes, slow: Mutex::default() })
    }

    /// Handles an event of any side, in an invocation that must have answered by `deadline_ms` (milliseconds since
    /// the Unix epoch). The sides are told apart by the form of their events, which is all that Lambda tells.
    ///
    /// # Errors
    /// [`EventError`] when it is no event of any.
    pub async fn handle(&self, event: Box<RawValue>, deadline_ms: u64) -> Result<Value, EventError> {
        self.handle_by(Clock::of_machine(), event, deadline_ms).await
    }

    /// As [`WebSocket::handle`], by this clock.
    ///
    /// # Errors
    /// As [`WebSocket::handle`].
    pub async fn handle_by(&self, clock: Clock, event: Box<RawValue>, deadline_ms: u64) -> Result<Value, EventError> {
        let time = Time { clock, deadline: Timestamp::from_millis(deadline_ms) };
        let malformed = |side| move |source| EventError::Malformed { side, source };
        // Most events are batches of the stream, and large: those are read into what they are without a step between.
        if of_stream(event.get()) {
            let batch = serde_json::from_str(event.get()).map_err(malformed("the table's stream"))?;
            drop(event);
            let answer = Box::pin(self.stream_batch(batch, time)).await;
            return serde_json::to_value(answer).map_err(EventError::Answer);
        }
        let event: Value = serde_json::from_str(event.get()).map_err(malformed("anybody"))?;
        let answer = if authorizer::asked(&event) {
            // It brings a request context as well, and so looks like a connection.
            return Ok(self.authorize(event).await?);
        } else if of_queue(&event) {
            let batch = read::<SqsEvent>(event, "the queue of deliveries")?;
            serde_json::to_value(Box::pin(self.deliver_batch(batch, time)).await)
        } else if event.get("requestContext").is_some() {
            let event = read::<ApiGatewayWebsocketProxyRequest>(event, "the gateway")?;
            serde_json::to_value(Box::pin(self.client_event(event, time)).await)
        } else {
            return Err(EventError::UnknownShape);
        };
        answer.map_err(EventError::Answer)
    }
}

/// Whether an event is a batch of the table's stream: it has records, and those of the queue say so.
fn of_stream(event: &str) -> bool {
    #[derive(Deserialize)]
    struct Sources<'a> {
        #[serde(borrow, rename = "Records")]
        records: Vec<Source<'a>>,
    }
    #[derive(Deserialize)]
    struct Source<'a> {
        #[serde(borrow, default, rename = "eventSource")]
        name: Cow<'a, str>,
    }
    let sources = serde_json::from_str::<Sources<'_>>(event);
    sources.is_ok_and(|sources| sources.records.first().is_none_or(|source| source.name != QUEUE_SOURCE))
}

/// Whether an event's records come from a queue.
fn of_queue(event: &Value) -> bool {
    event.pointer("/Records/0/eventSource").and_then(Value::as_str) == Some(QUEUE_SOURCE)
}

fn read<T: serde::de::DeserializeOwned>(event: Value, side: &'static str) -> Result<T, EventError> {
    serde_json::from_value(event).map_err(|source| EventError::Malformed { side, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_the_queues_is_the_streams() {
        for (event, expected) in [
            (r#"{"Records":[{"dynamodb":{"Keys":{}},"eventSource":"aws:dynamodb"}]}"#, true),
            (r#"{"Records":[{"eventSource":"aws:dynamodb"},{"eventSource":"aws:sqs"}]}"#, true),
            (r#"{"Records":[{"eventSource":"aws:sqs","body":"{}"}]}"#, false),
            // As ever: what is not the queue's is told what it lacks of the stream.
            (r#"{"Records":[{"body":"aws:sqs"}]}"#, true),
            (r#"{"Records":[]}"#, true),
            (r#"{"requestContext":{}}"#, false),
            ("7", false),
        ] {
            assert_eq!(of_stream(event), expected, "{event}");
        }
    }
}
