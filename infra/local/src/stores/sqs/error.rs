//! What can go wrong with a queue, and how SQS says it on the wire.
//!
//! Clients of the JSON protocol read two names: the shape in `__type` and the older code in the header
//! `x-amzn-query-error`. Both stand in one table here, so that no answer can carry one without the other.

use std::path::PathBuf;
use std::sync::Arc;

/// Why a queue action failed.
#[derive(Debug, thiserror::Error)]
pub enum SqsError {
    /// No queue has this name.
    #[error("The specified queue does not exist.")]
    QueueDoesNotExist,
    /// A queue of this name exists with other attributes; the text names the attribute.
    #[error("A queue already exists with the same name and a different value for attribute {0}")]
    QueueNameExists(String),
    /// The receipt handle was not made by this server, or for another queue.
    #[error("The input receipt handle \"{0}\" is not a valid receipt handle.")]
    ReceiptHandleIsInvalid(String),
    /// A parameter is outside what SQS takes; the text says which and why.
    #[error("{0}")]
    InvalidParameterValue(String),
    /// A required parameter is not there; the text names it.
    #[error("The request must contain the parameter {0}.")]
    MissingParameter(&'static str),
    /// No queue attribute has this name, or it cannot be set.
    #[error("Unknown Attribute {0}.")]
    InvalidAttributeName(String),
    /// A queue attribute was given a value it cannot have; the text names the attribute.
    #[error("Invalid value for the parameter {0}.")]
    InvalidAttributeValue(String),
    /// The body holds characters that SQS does not carry.
    #[error(
        "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
    )]
    InvalidMessageContents,
    /// A batch with no entry.
    #[error("There should be at least one entry in the request.")]
    EmptyBatchRequest,
    /// A batch with more than ten entries; the number says how many.
    #[error("Maximum number of entries per request are 10. You have sent {0}.")]
    TooManyEntriesInBatchRequest(usize),
    /// Two entries of a batch have the same id, which the text names.
    #[error("Id {0} repeated.")]
    BatchEntryIdsNotDistinct(String),
    /// An entry's id is not one to eighty letters, digits, `-` or `_`.
    #[error(
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long."
    )]
    InvalidBatchEntryId,
    /// The messages of a batch are larger together than one message may be; the number is their size in bytes.
    #[error("Batch requests cannot be longer than 1048576 bytes. You have sent {0} bytes.")]
    BatchRequestTooLong(usize),
    /// The message is not being worked on, so it has no visibility to change.
    #[error("The specified message isn't in flight.")]
    MessageNotInflight,
    /// The queue was purged less than a minute ago; the text names the queue.
    #[error("Only one PurgeQueue operation on {0} is allowed every 60 seconds.")]
    PurgeQueueInProgress(String),
    /// As many messages are in flight as a standard queue may have.
    #[error("Too many messages in flight.")]
    OverLimit,
    /// A task or queue that was named by ARN or handle is not there.
    #[error("{0}")]
    ResourceNotFound(String),
    /// SQS knows this, the embedded stack or this kind of queue does not.
    #[error("{0}")]
    UnsupportedOperation(String),
    /// The request names no action of SQS.
    #[error("Unknown operation {0}.")]
    UnknownOperation(String),
    /// The body of the request is not the JSON of the action.
    #[error("The request is not valid JSON for this action.")]
    Malformed(#[source] serde_json::Error),
    /// The queue file could not be opened or created.
    #[error("the queue file {path} cannot be opened")]
    Open {
        /// The file.
        path: PathBuf,
        /// What SQLite or the system said.
        #[source]
        source: rusqlite::Error,
    },
    /// The queue file could not be read or written. Nothing that was answered with this error is stored.
    #[error("the queue file failed; nothing of this request is stored")]
    NotStored(#[source] Arc<rusqlite::Error>),
    /// What stands in the queue file cannot be read by this version.
    #[error("the queue file holds something this version cannot read: {0}")]
    Unreadable(String),
    /// The system refused the thread that owns the queue file.
    #[error("the queue thread cannot be started")]
    Thread(#[source] std::io::Error),
    /// A fault plan has the service refuse this call as one too many.
    #[error("The request was denied due to request throttling.")]
    Throttled,
    /// A fault plan has the service fail in this call.
    #[error("The request processing has failed because of an unknown error, exception or failure.")]
    Planned,
    /// The server is shutting down or gone.
    #[error("the queue server has stopped")]
    Stopped,
}

/// How an error looks on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ErrorShape {
    /// The name in `__type`.
    pub(crate) shape: &'static str,
    /// The code in `x-amzn-query-error`, and in the failed entries of a batch.
    pub(crate) code: &'static str,
    /// Whether the sender can mend it (status 400) or the server (status 500, which SDKs repeat).
    pub(crate) sender_fault: bool,
}

const fn sender(shape: &'static str, code: &'static str) -> ErrorShape {
    ErrorShape { shape, code, sender_fault: true }
}

impl SqsError {
    /// The names of this error on the wire.
    pub(crate) fn shape(&self) -> ErrorShape {
        match self {
            Self::QueueDoesNotExist => {
                sender("com.amazonaws.sqs#QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue")
            }
            Self::QueueNameExists(_) => sender("com.amazonaws.sqs#QueueNameExists", "QueueAlreadyExists"),
            Self::ReceiptHandleIsInvalid(_) => {
                sender("com.amazonaws.sqs#ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid")
            }
            Self::InvalidParameterValue(_) => {
                sender("com.amazon.coral.service#InvalidParameterValueException", "InvalidParameterValue")
            }
            Self::MissingParameter(_) => {
                sender("com.amazon.coral.service#MissingRequiredParameterException", "MissingParameter")
            }
            Self::InvalidAttributeName(_) => sender("com.amazonaws.sqs#InvalidAttributeName", "InvalidAttributeName"),
            Self::InvalidAttributeValue(_) => {
                sender("com.amazonaws.sqs#InvalidAttributeValue", "InvalidAttributeValue")
            }
            Self::InvalidMessageContents => {
                sender("com.amazonaws.sqs#InvalidMessageContents", "InvalidMessageContents")
            }
            Self::EmptyBatchRequest => {
                sender("com.amazonaws.sqs#EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest")
            }
            Self::TooManyEntriesInBatchRequest(_) => sender(
                "com.amazonaws.sqs#TooManyEntriesInBatchRequest",
                "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
            ),
            Self::BatchEntryIdsNotDistinct(_) => {
                sender("com.amazonaws.sqs#BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct")
            }
            Self::InvalidBatchEntryId => {
                sender("com.amazonaws.sqs#InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId")
            }
            Self::BatchRequestTooLong(_) => {
                sender("com.amazonaws.sqs#BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong")
            }
            Self::MessageNotInflight => {
                sender("com.amazonaws.sqs#MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight")
            }
            Self::PurgeQueueInProgress(_) => {
                sender("com.amazonaws.sqs#PurgeQueueInProgress", "AWS.SimpleQueueService.PurgeQueueInProgress")
            }
            Self::Throttled => sender("com.amazonaws.sqs#RequestThrottled", "RequestThrottled"),
            Self::OverLimit => sender("com.amazonaws.sqs#OverLimit", "OverLimit"),
            Self::ResourceNotFound(_) => {
                sender("com.amazonaws.sqs#ResourceNotFoundException", "ResourceNotFoundException")
            }
            Self::UnsupportedOperation(_) => {
                sender("com.amazonaws.sqs#UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation")
            }
            Self::UnknownOperation(_) => {
                sender("com.amazon.coral.service#UnknownOperationException", "UnknownOperation")
            }
            Self::Malformed(_) => sender("com.amazon.coral.service#SerializationException", "MalformedInput"),
            Self::Open { .. }
            | Self::NotStored(_)
            | Self::Unreadable(_)
            | Self::Thread(_)
            | Self::Planned
            | Self::Stopped => ErrorShape {
                shape: "com.amazon.coral.service#InternalFailure",
                code: "InternalFailure",
                sender_fault: false,
            },
        }
    }
}
