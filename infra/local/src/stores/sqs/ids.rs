//! Names and handles that callers hold: a queue's name, a message's receipt, a moment.
//!
//! They are types of their own so that a queue URL, a name, an ARN and a receipt handle can never be
//! taken for one another.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::error::SqsError;

/// A queue name is at most this many characters on SQS.
const QUEUE_NAME_MAX_CHARS: usize = 80;

/// The account that owns every queue of the embedded stack. No account exists here; SQS addresses need one.
pub(crate) const ACCOUNT: &str = "000000000000";

/// The name of a queue: letters, digits, `-` and `_`, at most 80 of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Arc<str>);

impl QueueName {
    /// Checks a name by the rules of SQS.
    ///
    /// # Errors
    /// [`SqsError::InvalidParameterValue`] when SQS would refuse the name. FIFO queues (`….fifo`) are
    /// refused too: Longhaul has none, and a queue that silently gives no order would be a trap.
    pub fn parse(name: &str) -> Result<Self, SqsError> {
        if name.ends_with(".fifo") {
            return Err(SqsError::InvalidParameterValue("FIFO queues are not part of the embedded stack".to_owned()));
        }
        let fits = (1..=QUEUE_NAME_MAX_CHARS).contains(&name.len());
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if fits && plain {
            Ok(Self(Arc::from(name)))
        } else {
            Err(SqsError::InvalidParameterValue(
                "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length".to_owned(),
            ))
        }
    }

    /// The queue that a queue URL names by its last path segment.
    pub(crate) fn from_url(url: &str) -> Result<Self, SqsError> {
        let name = url.rsplit('/').next().unwrap_or_default();
        Self::parse(name).map_err(|_| SqsError::QueueDoesNotExist)
    }

    /// The queue that an ARN `arn:aws:sqs:<region>:<account>:<name>` names.
    pub(crate) fn from_arn(arn: &str) -> Option<Self> {
        let mut parts = arn.split(':');
        let head = [parts.next(), parts.next(), parts.next()];
        let (_region, _account, name) = (parts.next()?, parts.next()?, parts.next()?);
        (head == [Some("arn"), Some("aws"), Some("sqs")] && parts.next().is_none())
            .then(|| Self::parse(name).ok())
            .flatten()
    }

    /// The name itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What a receiver must show to delete a message or to change its visibility: opaque, new at each receive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReceiptHandle(String);

impl ReceiptHandle {
    /// Takes a handle that came from outside. It is checked when it is used.
    #[must_use]
    pub fn new(handle: impl Into<String>) -> Self {
        Self(handle.into())
    }

    /// The handle as it goes over the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The number of a queue in its file. Never used again, so that handles of a deleted queue fit no later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueId(pub(crate) i64);

/// The number of a message in its file: grows with time and is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MessageKey(pub(crate) i64);

/// What a receipt handle says inside: which receive of which message of which queue.
///
/// It is computed from what is stored anyway, so handles stay good over a restart without being stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) queue: QueueId,
    pub(crate) message: MessageKey,
    pub(crate) receives: u32,
}

impl Receipt {
    const MARK: &'static str = "longhaul-receipt";

    pub(crate) fn to_handle(self) -> ReceiptHandle {
        let plain = format!("{} {} {} {}", Self::MARK, self.queue.0, self.message.0, self.receives);
        ReceiptHandle(STANDARD.encode(plain))
    }

    pub(crate) fn read(handle: &ReceiptHandle) -> Result<Self, SqsError> {
        let refused = || SqsError::ReceiptHandleIsInvalid(handle.0.clone());
        let bytes = STANDARD.decode(&handle.0).map_err(|_| refused())?;
        let plain = String::from_utf8(bytes).map_err(|_| refused())?;
        let mut parts = plain.split(' ');
        let mark = parts.next();
        let mut number = || parts.next().and_then(|part| part.parse::<i64>().ok());
        let (queue, message, receives) = (number(), number(), number());
        match (mark, queue, message, receives) {
            (Some(Self::MARK), Some(queue), Some(message), Some(receives)) => Ok(Self {
                queue: QueueId(queue),
                message: MessageKey(message),
                receives: u32::try_from(receives).map_err(|_| refused())?,
            }),
            _ => Err(refused()),
        }
    }
}

/// A moment, in milliseconds since the Unix epoch: the unit that SQS shows and the file keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Millis(pub(crate) i64);

impl Millis {
    pub(crate) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    pub(crate) fn after(self, span: Duration) -> Self {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }

    pub(crate) fn after_seconds(self, seconds: u32) -> Self {
        self.after(Duration::from_secs(u64::from(seconds)))
    }

    /// How long it takes from `now` to this moment; nothing when it is over.
    pub(crate) fn ahead_of(self, now: Self) -> Duration {
        let millis = u64::try_from(self.0.saturating_sub(now.0)).unwrap_or_default();
        Duration::from_millis(millis)
    }

    pub(crate) fn seconds(self) -> i64 {
        self.0 / 1000
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

    use super::*;

    #[test]
    fn queue_names_follow_sqs() {
        let long = "q".repeat(80);
        let longer = "q".repeat(81);
        for (name, good) in [
            ("longhaul-jobs", true),
            ("a_B-9", true),
            (long.as_str(), true),
            (longer.as_str(), false),
            ("", false),
            ("with space", false),
            ("a/b", false),
            ("jobs.fifo", false),
        ] {
            assert_eq!(QueueName::parse(name).is_ok(), good, "{name:?}");
        }
    }

    #[test]
    fn arns_name_queues() {
        for (arn, name) in [
            ("arn:aws:sqs:us-east-1:000000000000:jobs", Some("jobs")),
            ("arn:aws:sqs:us-east-1:000000000000:jobs:x", None),
            ("arn:aws:sns:us-east-1:000000000000:jobs", None),
            ("jobs", None),
        ] {
            let found = QueueName::from_arn(arn);
            assert_eq!(found.as_ref().map(QueueName::as_str), name, "{arn}");
        }
    }

    #[test]
    fn receipts_go_there_and_back() {
        let receipt = Receipt { queue: QueueId(3), message: MessageKey(1_790_000_000_000_000), receives: 7 };
        assert_eq!(Receipt::read(&receipt.to_handle()).unwrap(), receipt);
        for broken in ["", "abc", "bG9uZ2hhdWwtcmVjZWlwdCAx", "!!!"] {
            assert!(Receipt::read(&ReceiptHandle::new(broken)).is_err(), "{broken}");
        }
    }
}
