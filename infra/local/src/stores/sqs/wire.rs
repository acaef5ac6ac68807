//! The JSON of the SQS actions that the embedded stack answers, as AWS defines it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::SqsError;
use super::message::{GivenAttributes, GivenMessage, MessageAttribute};
use super::settings::AttributeMap;

/// An answer without content.
#[derive(Debug, Serialize)]
pub(super) struct Nothing {}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CreateQueue {
    pub(super) queue_name: String,
    #[serde(default)]
    pub(super) attributes: AttributeMap,
    #[serde(default, rename = "tags")]
    pub(super) tags: AttributeMap,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetQueueUrl {
    pub(super) queue_name: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct QueueUrl {
    pub(super) queue_url: String,
}

/// Any request that names a queue and nothing else.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct OfQueue {
    pub(super) queue_url: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListQueues {
    #[serde(default)]
    pub(super) queue_name_prefix: String,
    pub(super) next_token: Option<String>,
    pub(super) max_results: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct QueueUrls {
    pub(super) queue_urls: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListDeadLetterSourceQueues {
    pub(super) queue_url: String,
    pub(super) next_token: Option<String>,
    pub(super) max_results: Option<i64>,
}

#[derive(Debug, Serialize)]
pub(super) struct SourceUrls {
    #[serde(rename = "queueUrls")]
    pub(super) queue_urls: Vec<String>,
    #[serde(rename = "NextToken", skip_serializing_if = "Option::is_none")]
    pub(super) next_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetQueueAttributes {
    pub(super) queue_url: String,
    #[serde(default)]
    pub(super) attribute_names: Vec<String>,
}

/// Attributes of a queue, asked for or given.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Attributes {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) attributes: AttributeMap,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SetQueueAttributes {
    pub(super) queue_url: String,
    pub(super) attributes: AttributeMap,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct TagQueue {
    pub(super) queue_url: String,
    pub(super) tags: AttributeMap,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct UntagQueue {
    pub(super) queue_url: String,
    pub(super) tag_keys: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Tags {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tags: AttributeMap,
}

/// What `SendMessage` and an entry of `SendMessageBatch` have in common.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MessageGiven {
    message_body: Option<String>,
    delay_seconds: Option<i64>,
    #[serde(default)]
    message_attributes: GivenAttributes,
    #[serde(default)]
    message_system_attributes: GivenAttributes,
    message_group_id: Option<String>,
    message_deduplication_id: Option<String>,
}

impl From<MessageGiven> for GivenMessage {
    fn from(given: MessageGiven) -> Self {
        Self {
            body: given.message_body,
            attributes: given.message_attributes,
            system_attributes: given.message_system_attributes,
            group: given.message_group_id,
            delay_seconds: given.delay_seconds,
            deduplication: given.message_deduplication_id,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SendMessage {
    pub(super) queue_url: String,
    #[serde(flatten)]
    pub(super) message: MessageGiven,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Sent {
    #[serde(rename = "MessageId")]
    pub(super) message_id: String,
    #[serde(rename = "MD5OfMessageBody")]
    pub(super) md5_of_body: String,
    #[serde(rename = "MD5OfMessageAttributes", skip_serializing_if = "Option::is_none")]
    pub(super) md5_of_attributes: Option<String>,
    #[serde(rename = "MD5OfMessageSystemAttributes", skip_serializing_if = "Option::is_none")]
    pub(super) md5_of_system_attributes: Option<String>,
}

/// A batch: a queue, and entries each with an id of the caller's.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", bound(deserialize = "E: Deserialize<'de>"))]
pub(super) struct Batch<E> {
    pub(super) queue_url: String,
    #[serde(default = "Vec::new")]
    pub(super) entries: Vec<BatchEntry<E>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "E: Deserialize<'de>"))]
pub(super) struct BatchEntry<E> {
    #[serde(rename = "Id")]
    pub(super) id: String,
    #[serde(flatten)]
    pub(super) entry: E,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BatchOutcome<T> {
    pub(super) successful: Vec<BatchDone<T>>,
    pub(super) failed: Vec<BatchFailed>,
}

#[derive(Debug, Serialize)]
pub(super) struct BatchDone<T> {
    #[serde(rename = "Id")]
    id: String,
    #[serde(flatten)]
    done: T,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BatchFailed {
    id: String,
    sender_fault: bool,
    code: &'static str,
    message: String,
}

impl<T> BatchOutcome<T> {
    /// Sorts the outcomes of the entries.
    pub(super) fn of(outcomes: Vec<(String, Result<T, SqsError>)>) -> Self {
        let mut outcome = Self { successful: Vec::new(), failed: Vec::new() };
        for (id, result) in outcomes {
            match result {
                Ok(done) => outcome.successful.push(BatchDone { id, done }),
                Err(fault) => outcome.failed.push(BatchFailed {
                    id,
                    sender_fault: fault.shape().sender_fault,
                    code: fault.shape().code,
                    message: fault.to_string(),
                }),
            }
        }
        outcome
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ReceiveMessage {
    pub(super) queue_url: String,
    /// The older name of the next field.
    #[serde(default)]
    pub(super) attribute_names: Vec<String>,
    #[serde(default)]
    pub(super) message_system_attribute_names: Vec<String>,
    #[serde(default)]
    pub(super) message_attribute_names: Vec<String>,
    pub(super) max_number_of_messages: Option<i64>,
    pub(super) visibility_timeout: Option<i64>,
    pub(super) wait_time_seconds: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Messages {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) messages: Vec<Message>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Message {
    pub(super) message_id: String,
    pub(super) receipt_handle: String,
    #[serde(rename = "MD5OfBody")]
    pub(super) md5_of_body: String,
    pub(super) body: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) attributes: BTreeMap<&'static str, String>,
    #[serde(rename = "MD5OfMessageAttributes", skip_serializing_if = "Option::is_none")]
    pub(super) md5_of_attributes: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) message_attributes: BTreeMap<String, MessageAttribute>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DeleteMessage {
    pub(super) queue_url: String,
    #[serde(flatten)]
    pub(super) entry: ReceiptGiven,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ReceiptGiven {
    pub(super) receipt_handle: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ChangeMessageVisibility {
    pub(super) queue_url: String,
    #[serde(flatten)]
    pub(super) entry: VisibilityGiven,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct VisibilityGiven {
    pub(super) receipt_handle: String,
    pub(super) visibility_timeout: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct StartMessageMoveTask {
    pub(super) source_arn: String,
    pub(super) destination_arn: Option<String>,
    pub(super) max_number_of_messages_per_second: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct TaskHandle {
    pub(super) task_handle: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListMessageMoveTasks {
    pub(super) source_arn: String,
    pub(super) max_results: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MoveTasks {
    pub(super) results: Vec<MoveTaskShown>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MoveTaskShown {
    /// Only a running task shows its handle, as on SQS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task_handle: Option<String>,
    pub(super) status: &'static str,
    pub(super) source_arn: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) destination_arn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_number_of_messages_per_second: Option<u32>,
    pub(super) approximate_number_of_messages_moved: u64,
    pub(super) approximate_number_of_messages_to_move: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure_reason: Option<String>,
    pub(super) started_timestamp: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Cancelled {
    pub(super) approximate_number_of_messages_moved: u64,
}
