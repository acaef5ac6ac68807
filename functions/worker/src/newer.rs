//! Messages about jobs that a newer version of the protocol has written: after a rollback this worker meets them, and must
//! neither touch nor lose them.
//!
//! Each is given back to the queue, untouched. But the queue counts how often it was received and makes a dead letter of
//! what comes too often, as if a person had to look at it. Before that, the same text is sent anew, for later, and the old
//! message is done with: the job is where it was, and waits for the worker that can read it.

use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsMessage};
use longhaul::Clock;
use longhaul::engine::{Seq, Timestamp, limits};
use longhaul::store::{About, Store, StoreError};
use longhaul_aws::AwsStore;
use longhaul_aws::sqs::{Incoming, IncomingError};
use longhaul_aws::telemetry::chain;

/// Receives after which a message is sent anew: under the ten at which the queue makes a dead letter of it, since a
/// message may be received once more than its count says.
const RECEIVES_MAX: u32 = 8;
/// Time for the answer to the queue: half of what the batch before it leaves.
const ANSWER_RESERVE_MS: u64 = limits::DEADLINE_RESERVE_MS / 8;

/// Messages of a batch that have been received so often that they may have to be sent anew.
#[must_use]
pub fn often_received(messages: &[SqsMessage]) -> Vec<SqsMessage> {
    let often = |message: &&SqsMessage| {
        let received = message.attributes.get("ApproximateReceiveCount").and_then(|count| count.parse::<u32>().ok());
        received.is_some_and(|received| received >= RECEIVES_MAX)
    };
    messages.iter().filter(often).cloned().collect()
}

/// Sends those of the messages anew that are to stay in the queue because of what a newer version has written, and takes
/// them out of the answer. What is not done shortly before the deadline is left: the message stays in the queue then, and
/// an answer that comes too late would keep the whole batch there.
pub async fn put_off(store: &AwsStore, messages: &[SqsMessage], answer: &mut SqsBatchResponse, deadline: Timestamp) {
    let reserve = Duration::from_millis(ANSWER_RESERVE_MS);
    let left = Clock::of_machine().now().until(deadline).saturating_sub(reserve);
    if left.is_zero() || tokio::time::timeout(left, put_off_in_time(store, messages, answer)).await.is_err() {
        tracing::warn!(messages = messages.len(), "no time to send messages of a newer version anew; they stay");
    }
}

async fn put_off_in_time(store: &AwsStore, messages: &[SqsMessage], answer: &mut SqsBatchResponse) {
    for message in messages {
        let (Some(id), Some(body)) = (&message.message_id, &message.body) else { continue };
        let stays = answer.batch_item_failures.iter().any(|failure| failure.item_identifier == *id);
        if !stays || !is_of_a_newer_version(store, body).await {
            continue;
        }
        let group = message.attributes.get("MessageGroupId").map(String::as_str);
        match store.send_as_is(body, group, Duration::from_secs(limits::MESSAGE_DELAY_MAX_SECONDS)).await {
            Ok(()) => {
                tracing::warn!(message_id = id, "a newer version's message was sent anew, for later");
                answer.batch_item_failures.retain(|failure| failure.item_identifier != *id);
            }
            Err(error) => tracing::error!(message_id = id, error = %chain(&error), "a message was not sent anew"),
        }
    }
}

/// Whether the message, its job or its job's journal is of a version that this worker does not know.
async fn is_of_a_newer_version(store: &AwsStore, body: &str) -> bool {
    let job = match Incoming::parse(body) {
        Err(IncomingError::Newer { .. }) => return true,
        Err(IncomingError::Malformed { .. }) => return false,
        Ok(incoming) => match incoming.continuation.about {
            About::Job(job) => job,
            About::Watchdog { .. } => return false,
        },
    };
    matches!(store.job(&job).await, Err(StoreError::Newer { .. }))
        || matches!(store.journal(job.job, Seq::FIRST).await, Err(StoreError::Newer { .. }))
}
