//! The SQS actions over messages: requests in their wire form are checked here and carried out by the keeper.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::delivery::ReceiveCall;
use super::error::SqsError;
use super::ids::{QueueName, ReceiptHandle};
use super::message::{NewMessage, ReceivedMessage, in_range};
use super::{Sqs, digest, limits, wire};

impl Sqs {
    /// `SendMessage`. A trace in the header of the request goes with the message unless the sender set one.
    pub(super) async fn send_message(
        &self,
        request: wire::SendMessage,
        trace: Option<String>,
    ) -> Result<wire::Sent, SqsError> {
        let name = QueueName::from_url(&request.queue_url)?;
        let message = NewMessage::check(request.message.into())?.traced(trace);
        let sent = sent(&message);
        self.ask(move |keeper, now| keeper.send(&name, &message, now)).await?;
        Ok(sent)
    }

    /// `SendMessageBatch`. Entries succeed and fail one by one.
    pub(super) async fn send_message_batch(
        &self,
        request: wire::Batch<wire::MessageGiven>,
        trace: Option<String>,
    ) -> Result<wire::BatchOutcome<wire::Sent>, SqsError> {
        let name = QueueName::from_url(&request.queue_url)?;
        check_batch(&request.entries)?;
        let checked: Vec<(String, Result<NewMessage, SqsError>)> =
            request.entries.into_iter().map(|entry| (entry.id, NewMessage::check(entry.entry.into()))).collect();
        let bytes: usize = checked.iter().filter_map(|(_, message)| Some(message.as_ref().ok()?.bytes)).sum();
        if bytes > limits::MESSAGE_MAX_BYTES as usize {
            return Err(SqsError::BatchRequestTooLong(bytes));
        }
        let outcomes = self
            .ask(move |keeper, now| {
                keeper.queue(&name)?;
                let send = |(id, message): (String, Result<NewMessage, SqsError>)| {
                    let outcome = message.map(|message| message.traced(trace.clone())).and_then(|message| {
                        keeper.send(&name, &message, now)?;
                        Ok(sent(&message))
                    });
                    (id, outcome)
                };
                Ok(checked.into_iter().map(send).collect())
            })
            .await?;
        Ok(wire::BatchOutcome::of(outcomes))
    }

    /// `ReceiveMessage`.
    pub(super) async fn receive_message(&self, request: wire::ReceiveMessage) -> Result<wire::Messages, SqsError> {
        let seconds = |name: &str, value: Option<i64>, max: u32| {
            value
                .map(|value| in_range(name, value, 0..=max))
                .transpose()
                .map(|seconds| seconds.map(|seconds| Duration::from_secs(u64::from(seconds))))
        };
        let batch_max = u32::try_from(limits::BATCH_MAX_ENTRIES).unwrap_or(u32::MAX);
        let max = in_range("MaxNumberOfMessages", request.max_number_of_messages.unwrap_or(1), 1..=batch_max)?;
        let call = ReceiveCall {
            apart: false,
            queue: QueueName::from_url(&request.queue_url)?,
            max: usize::try_from(max).unwrap_or(limits::BATCH_MAX_ENTRIES),
            wait: seconds("WaitTimeSeconds", request.wait_time_seconds, limits::WAIT_MAX_SECONDS)?,
            visibility: seconds("VisibilityTimeout", request.visibility_timeout, limits::VISIBILITY_MAX_SECONDS)?,
        };
        let mut system = request.attribute_names;
        system.extend(request.message_system_attribute_names);
        let messages = self.receive_call(call).await?;
        let shown = |message| show(message, &system, &request.message_attribute_names);
        Ok(wire::Messages { messages: messages.into_iter().map(shown).collect() })
    }

    /// `DeleteMessage`.
    pub(super) async fn delete_message(&self, request: wire::DeleteMessage) -> Result<wire::Nothing, SqsError> {
        let name = QueueName::from_url(&request.queue_url)?;
        let handle = ReceiptHandle::new(request.entry.receipt_handle);
        self.ask(move |keeper, _| keeper.delete(&name, &handle)).await?;
        Ok(wire::Nothing {})
    }

    /// `DeleteMessageBatch`.
    pub(super) async fn delete_message_batch(
        &self,
        request: wire::Batch<wire::ReceiptGiven>,
    ) -> Result<wire::BatchOutcome<wire::Nothing>, SqsError> {
        let name = QueueName::from_url(&request.queue_url)?;
        check_batch(&request.entries)?;
        let outcomes = self
            .ask(move |keeper, _| {
                keeper.queue(&name)?;
                let delete = |entry: wire::BatchEntry<wire::ReceiptGiven>| {
                    let handle = ReceiptHandle::new(entry.entry.receipt_handle);
                    (entry.id, keeper.delete(&name, &handle).map(|()| wire::Nothing {}))
                };
                Ok(request.entries.into_iter().map(delete).collect())
            })
            .await?;
        Ok(wire::BatchOutcome::of(outcomes))
    }

    /// `ChangeMessageVisibility`.
    pub(super) async fn change_message_visibility(
        &self,
        request: wire::ChangeMessageVisibility,
    ) -> Result<wire::Nothing, SqsError> {
        let name = QueueName::from_url(&request.queue_url)?;
        let visibility = visibility_of(&request.entry)?;
        let handle = ReceiptHandle::new(request.entry.receipt_handle);
        self.ask(move |keeper, now| keeper.change_visibility(&name, &handle, visibility, now)).await?;
        Ok(wire::Nothing {})
    }

    /// `ChangeMessageVisibilityBatch`.
    pub(super) async fn change_message_visibility_batch(
        &self,
        request: wire::Batch<wire::VisibilityGiven>,
    ) -> Result<wire::BatchOutcome<wire::Nothing>, SqsError> {
        let name = QueueName::from_url(&request.queue_url)?;
        check_batch(&request.entries)?;
        let outcomes = self
            .ask(move |keeper, now| {
                keeper.queue(&name)?;
                let change = |entry: wire::BatchEntry<wire::VisibilityGiven>| {
                    let outcome = visibility_of(&entry.entry).and_then(|visibility| {
                        let handle = ReceiptHandle::new(entry.entry.receipt_handle);
                        keeper.change_visibility(&name, &handle, visibility, now)
                    });
                    (entry.id, outcome.map(|()| wire::Nothing {}))
                };
                Ok(request.entries.into_iter().map(change).collect())
            })
            .await?;
        Ok(wire::BatchOutcome::of(outcomes))
    }
}

impl NewMessage {
    /// Takes the trace of the request when the sender set none on the message.
    fn traced(mut self, trace: Option<String>) -> Self {
        self.trace_header = self.trace_header.or(trace);
        self
    }
}

fn sent(message: &NewMessage) -> wire::Sent {
    wire::Sent {
        message_id: message.message_id.to_string(),
        md5_of_body: digest::of_body(&message.body),
        md5_of_attributes: digest::of_attributes(&message.attributes),
        md5_of_system_attributes: message.system_digest.clone(),
    }
}

fn visibility_of(given: &wire::VisibilityGiven) -> Result<Duration, SqsError> {
    let seconds = given.visibility_timeout.ok_or(SqsError::MissingParameter("VisibilityTimeout"))?;
    let seconds = in_range("VisibilityTimeout", seconds, 0..=limits::VISIBILITY_MAX_SECONDS)?;
    Ok(Duration::from_secs(u64::from(seconds)))
}

/// The rules that every batch has to keep before any entry of it counts.
fn check_batch<E>(entries: &[wire::BatchEntry<E>]) -> Result<(), SqsError> {
    if entries.is_empty() {
        return Err(SqsError::EmptyBatchRequest);
    }
    if entries.len() > limits::BATCH_MAX_ENTRIES {
        return Err(SqsError::TooManyEntriesInBatchRequest(entries.len()));
    }
    let mut ids = HashSet::new();
    for entry in entries {
        let fits = (1..=limits::ENTRY_ID_MAX_CHARS).contains(&entry.id.len());
        let plain = entry.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if !fits || !plain {
            return Err(SqsError::InvalidBatchEntryId);
        }
        if !ids.insert(entry.id.as_str()) {
            return Err(SqsError::BatchEntryIdsNotDistinct(entry.id.clone()));
        }
    }
    Ok(())
}

/// A received message with those attributes that the receiver asked for.
fn show(message: ReceivedMessage, system: &[String], wanted: &[String]) -> wire::Message {
    let md5_of_body = message.md5_of_body();
    let all = system.iter().any(|name| name == "All");
    let mut attributes = message.system_attributes();
    attributes.retain(|name, _| all || system.iter().any(|wanted| wanted == name));
    let message_attributes: BTreeMap<_, _> = message
        .attributes
        .into_iter()
        .filter(|(name, _)| wanted.iter().any(|pattern| asks_for(pattern, name)))
        .collect();
    wire::Message {
        message_id: message.message_id,
        receipt_handle: message.receipt.as_str().to_owned(),
        md5_of_body,
        body: message.body,
        attributes,
        md5_of_attributes: digest::of_attributes(&message_attributes),
        message_attributes,
    }
}

/// Whether a requested name (`All`, `prefix.*` or the full name) covers an attribute.
fn asks_for(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix(".*") {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == "All" || pattern == name,
    }
}
