//! Messages to open WebSocket connections.

use std::sync::Arc;

use aws_sdk_apigatewaymanagement::Client;
use aws_sdk_apigatewaymanagement::error::ProvideErrorMetadata;
use aws_sdk_apigatewaymanagement::operation::delete_connection::DeleteConnectionError;
use aws_sdk_apigatewaymanagement::operation::post_to_connection::PostToConnectionError;
use aws_sdk_apigatewaymanagement::primitives::Blob;

use crate::clients::Clients;

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// The gateway took it.
    Sent,
    /// The connection is closed: forget it.
    Gone,
    /// The message is larger than the gateway takes.
    TooLarge,
    /// The gateway, or this one watcher's own buffer, is full: try later, or let the watcher catch up by itself.
    Throttled,
}

/// The gateway gave no usable answer.
#[derive(Debug, thiserror::Error)]
#[error("the gateway could not be asked about connection {connection}")]
pub struct PushError {
    /// The connection.
    pub connection: String,
    /// What came back.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// The sending end of the WebSocket gateway.
#[derive(Debug, Clone)]
pub struct Push {
    client: Client,
}

impl Push {
    /// Pushes through the management endpoint at `endpoint`.
    #[must_use]
    pub fn new(clients: &Arc<Clients>, endpoint: &str) -> Self {
        Self { client: clients.gateway(endpoint) }
    }

    /// Sends a message to a connection, once.
    ///
    /// # Errors
    /// [`PushError`] when the gateway cannot be asked.
    pub async fn post(&self, connection: &str, message: &str) -> Result<Pushed, PushError> {
        let data = Blob::new(message.as_bytes());
        let error = match Box::pin(self.client.post_to_connection().connection_id(connection).data(data).send()).await {
            Ok(_) => return Ok(Pushed::Sent),
            Err(error) => error,
        };
        match error.as_service_error() {
            Some(PostToConnectionError::GoneException(_)) => Ok(Pushed::Gone),
            Some(PostToConnectionError::PayloadTooLargeException(_)) => Ok(Pushed::TooLarge),
            Some(PostToConnectionError::LimitExceededException(_)) => Ok(Pushed::Throttled),
            // Ids that the gateway never gave out are refused as such: that connection does not exist either.
            Some(other) if other.code() == Some("BadRequestException") => Ok(Pushed::Gone),
            Some(_) | None => Err(PushError { connection: connection.to_owned(), source: error.into() }),
        }
    }

    /// Closes a connection; one that is closed already is none to the gateway, and that is well.
    ///
    /// # Errors
    /// [`PushError`] when the gateway cannot be asked.
    pub async fn close(&self, connection: &str) -> Result<(), PushError> {
        let error = match Box::pin(self.client.delete_connection().connection_id(connection).send()).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        match error.as_service_error() {
            Some(DeleteConnectionError::GoneException(_)) => Ok(()),
            Some(other) if other.code() == Some("BadRequestException") => Ok(()),
            Some(_) | None => Err(PushError { connection: connection.to_owned(), source: error.into() }),
        }
    }
}
