//! One message to one connection, with a few tries.

use longhaul_aws::telemetry::chain;
use std::time::Duration;

use longhaul_aws::push::Pushed;
use longhaul_wire::socket::ServerMessage;

use crate::WebSocket;

/// Waits before the second and each further try of a message. A watcher whose buffer is full for longer than their sum
/// is too slow: it catches up by its cursor.
const WAITS_MS: [u64; 3] = [50, 200, 800];

/// Slow connections that a process remembers.
const SLOW_KEPT_MAX: usize = 1_000;

/// What became of a message after all its tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// The gateway took it, or never will: what follows may be sent.
    Done,
    /// The connection is closed, and forgotten.
    Closed,
    /// The watcher is too slow, or the gateway does not answer: sending on would leave a hole.
    GivenUp,
}

impl WebSocket {
    /// Sends a message of ours.
    pub(crate) async fn tell(&self, connection: &str, message: &ServerMessage) -> Delivered {
        match serde_json::to_string(message) {
            Ok(text) => self.deliver(connection, &text).await,
            Err(error) => {
                tracing::error!(connection, %error, "a message cannot be written as JSON");
                Delivered::Done
            }
        }
    }

    /// Sends a message as it is.
    pub(crate) async fn deliver(&self, connection: &str, text: &str) -> Delivered {
        let mut waits = WAITS_MS.into_iter();
        loop {
            let failed = match self.push.post(connection, text).await {
                Ok(Pushed::Sent) => {
                    self.is_quick(connection);
                    return Delivered::Done;
                }
                Ok(Pushed::Gone) => {
                    self.forget_connection(connection).await;
                    return Delivered::Closed;
                }
                Ok(Pushed::TooLarge) => {
                    // Events are cut to size, so this is a fault of ours; the journal has the whole all the same.
                    tracing::error!(connection, bytes = text.len(), "a message is larger than the gateway takes");
                    return Delivered::Done;
                }
                // Whoever was too slow once is tried once: the others would wait for it at every event.
                Ok(Pushed::Throttled) if self.is_slow(connection) => return Delivered::GivenUp,
                Ok(Pushed::Throttled) => "throttled".to_owned(),
                Err(error) => chain(&error),
            };
            match waits.next() {
                Some(wait) => tokio::time::sleep(Duration::from_millis(wait)).await,
                None => {
                    self.was_slow(connection);
                    tracing::warn!(connection, error = failed, "a watcher is left to catch up by itself");
                    return Delivered::GivenUp;
                }
            }
        }
    }

    fn is_slow(&self, connection: &str) -> bool {
        self.slow.lock().is_ok_and(|slow| slow.contains(connection))
    }

    /// Remembers that a watcher does not keep up. Forgetting it costs one more wait, so that few are kept.
    fn was_slow(&self, connection: &str) {
        if let Ok(mut slow) = self.slow.lock() {
            if slow.len() >= SLOW_KEPT_MAX {
                slow.clear();
            }
            slow.insert(connection.to_owned());
        }
    }

    fn is_quick(&self, connection: &str) {
        if let Ok(mut slow) = self.slow.lock() {
            slow.remove(connection);
        }
    }

    /// Removes a connection that is closed or has no right any more. What fails here expires by itself.
    pub(crate) async fn forget_connection(&self, connection: &str) {
        if let Err(error) = self.store.drop_connection(connection).await {
            tracing::warn!(connection, error = %chain(&error), "a connection was not forgotten");
        }
    }
}
