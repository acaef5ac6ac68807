//! The two queues: continuations, and dead letters.
//!
//! A message says "look after this job" and carries no state. A dead letter's body is such a message too, with the story
//! of the failure beside it, so that the console's "start DLQ redrive" does what its user expects: the message comes
//! back to the worker, which sees by the story that a person wants the job replayed.

use std::time::Duration;

use longhaul::store::{About, Continuation, StoreError};
use longhaul_engine::ids::SignalKey;
use longhaul_engine::job::Priority;
use longhaul_engine::{AgentRef, Failure, Job, TenantId, Timestamp, limits};
use serde::{Deserialize, Serialize};

use crate::dynamo::{AwsStore, unavailable};

/// The message group of watchdogs: they belong to a worker and not to a tenant.
const WATCHDOG_GROUP: &str = "watchdog";

/// What a dead letter says beside its job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The idempotency key of the replay that a redrive of this message asks for.
    pub replay_key: SignalKey,
    /// The agent that failed.
    pub agent: AgentRef,
    /// Why.
    pub failure: Failure,
    /// When.
    pub failed_at: Timestamp,
}

/// A message as the worker receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// What to look after.
    pub continuation: Continuation,
    /// There when somebody moved a dead letter back to the queue: replay the job under its key.
    pub redriven: Option<DeadLetter>,
}

/// Why a message is not understood.
#[derive(Debug, thiserror::Error)]
pub enum IncomingError {
    /// A newer version of the protocol wrote it: leave it in the queue for a newer worker.
    #[error("the message was written by protocol version {found}; this program knows up to {known}", known = limits::PROTOCOL_VERSION)]
    Newer {
        /// Its version.
        found: u64,
    },
    /// It is none of ours.
    #[error("the message is no continuation")]
    Malformed {
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct Message {
    #[serde(flatten)]
    continuation: Continuation,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dead_letter: Option<DeadLetter>,
}

#[derive(Deserialize)]
struct Version {
    v: u64,
}

impl Incoming {
    /// Reads a message's body.
    ///
    /// # Errors
    /// See [`IncomingError`].
    pub fn parse(body: &str) -> Result<Self, IncomingError> {
        let malformed = |source| IncomingError::Malformed { source };
        // The version goes first: a newer message may have another shape altogether.
        let Version { v: found } = serde_json::from_str(body).map_err(malformed)?;
        if found > u64::from(limits::PROTOCOL_VERSION) {
            return Err(IncomingError::Newer { found });
        }
        let Message { continuation, dead_letter } = serde_json::from_str(body).map_err(malformed)?;
        Ok(Self { continuation, redriven: dead_letter })
    }
}

/// The message group of a tenant's jobs, in which its interactive ones have their own. The queue hands out first what is of
/// groups with little in hand, so that these stand beside the tenant's other jobs, however many there are, as another
/// tenant's would. No tenant's name holds the sign between.
fn group(tenant: &TenantId, priority: Priority) -> String {
    match priority {
        Priority::Normal => tenant.to_string(),
        Priority::Interactive => format!("{tenant}#interactive"),
    }
}

/// The body of a continuation's message.
///
/// # Errors
/// [`StoreError::Unavailable`] when it cannot be written as JSON.
pub fn continuation_body(continuation: &Continuation) -> Result<String, StoreError> {
    serde_json::to_string(continuation).map_err(|error| unavailable("writing a continuation", error))
}

/// The body of the dead letter of a job that failed.
///
/// # Errors
/// [`StoreError::Unavailable`] when it cannot be written as JSON.
pub fn dead_letter_body(job: &Job, dead_letter: DeadLetter) -> Result<String, StoreError> {
    let message = Message { continuation: Continuation::of(&job.order), dead_letter: Some(dead_letter) };
    serde_json::to_string(&message).map_err(|error| unavailable("writing a dead letter", error))
}

impl AwsStore {
    pub(crate) async fn send_continuation(
        &self,
        continuation: &Continuation,
        delay: Duration,
    ) -> Result<(), StoreError> {
        let group = match &continuation.about {
            About::Job(job) => group(&job.tenant, continuation.priority),
            About::Watchdog { .. } => WATCHDOG_GROUP.to_owned(),
        };
        // Queues count whole seconds; a message that came too early would find nothing to do.
        let seconds = delay.as_secs().saturating_add(u64::from(delay.subsec_nanos() > 0));
        let seconds = i32::try_from(seconds.min(limits::MESSAGE_DELAY_MAX_SECONDS)).unwrap_or(0);
        let send = self
            .clients()
            .sqs()
            .send_message()
            .queue_url(&self.config().queue_url)
            .message_group_id(group)
            .message_body(continuation_body(continuation)?)
            .set_delay_seconds((seconds > 0).then_some(seconds));
        Box::pin(send.send()).await.map(|_| ()).map_err(|error| unavailable("sending a continuation", error))
    }

    /// Sends a text that is a continuation of whatever version to the queue of continuations, as it is.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn send_as_is(&self, body: &str, group: Option<&str>, delay: Duration) -> Result<(), StoreError> {
        let seconds = i32::try_from(delay.as_secs().min(limits::MESSAGE_DELAY_MAX_SECONDS)).unwrap_or(0);
        let send = self
            .clients()
            .sqs()
            .send_message()
            .queue_url(&self.config().queue_url)
            .set_message_group_id(group.map(str::to_owned))
            .message_body(body)
            .delay_seconds(seconds);
        Box::pin(send.send()).await.map(|_| ()).map_err(|error| unavailable("sending a continuation anew", error))
    }

    pub(crate) async fn send_dead_letter(&self, job: &Job, failure: &Failure) -> Result<(), StoreError> {
        let dead_letter = DeadLetter {
            replay_key: SignalKey::of_redrive(job.progress.tail),
            agent: job.order.agent.clone(),
            failure: failure.clone(),
            failed_at: job.progress.updated_at,
        };
        let send = self
            .clients()
            .sqs()
            .send_message()
            .queue_url(&self.config().dead_letter_queue_url)
            .message_group_id(group(&job.order.tenant, job.order.priority))
            .message_body(dead_letter_body(job, dead_letter)?);
        Box::pin(send.send()).await.map(|_| ()).map_err(|error| unavailable("sending a dead letter", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_newer_or_none_of_ours_is_told_apart() {
        let next = u64::from(limits::PROTOCOL_VERSION) + 1;
        let newer = format!(r#"{{"v": {next}, "kind": "something unheard of"}}"#);
        assert!(matches!(Incoming::parse(&newer), Err(IncomingError::Newer { found }) if found == next));
        for body in [
            "",
            "{}",
            "[]",
            "hello",
            r#"{"v": "1"}"#,
            r#"{"v": 1}"#,
            r#"{"v": 1, "type": "job"}"#,
            r#"{"v": 1, "type": "job", "tenant": "", "job": "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f"}"#,
            r#"{"v": 1, "type": "job", "tenant": "acme", "job": "7"}"#,
            r#"{"v": 1, "type": "party", "tenant": "acme", "job": "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f"}"#,
        ] {
            assert!(matches!(Incoming::parse(body), Err(IncomingError::Malformed { .. })), "{body}");
        }
    }
}
