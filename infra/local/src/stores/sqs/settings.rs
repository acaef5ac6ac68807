//! The attributes of a queue that someone can set, checked and typed.
//!
//! On the wire and in the file they are a map of strings, as SQS has them; everywhere else they are this.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::SqsError;
use super::ids::QueueName;
use super::limits;

/// The attributes of a queue as they travel and are stored.
pub(super) type AttributeMap = BTreeMap<String, String>;

/// Attributes that SQS keeps for the account's sake and that change nothing here.
const KEPT_AS_GIVEN: [&str; 4] = ["Policy", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled"];

/// Attributes that SQS computes; they can be read and never set.
pub(super) const COMPUTED: [&str; 6] = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
    "QueueArn",
];

/// Where messages go that were received too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RedrivePolicy {
    /// The dead-letter queue.
    pub(super) target: QueueName,
    /// Receives that a message may have; the next attempt to receive it moves it.
    pub(super) max_receives: u32,
    /// The policy as it was given, for whoever reads the attribute.
    text: String,
}

/// Which queues may name this one as their dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RedriveAllow {
    /// Every queue (what SQS does unless told otherwise).
    All,
    /// No queue.
    None { text: String },
    /// These queues.
    Queues { sources: Vec<QueueName>, text: String },
}

/// The attributes of a queue that someone can set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) delay_seconds: u32,
    pub(super) message_max_bytes: u32,
    pub(super) retention_seconds: u32,
    pub(super) wait_seconds: u32,
    pub(super) visibility_seconds: u32,
    pub(super) redrive: Option<RedrivePolicy>,
    pub(super) redrive_allow: RedriveAllow,
    kept: AttributeMap,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            delay_seconds: 0,
            message_max_bytes: limits::MESSAGE_MAX_BYTES,
            retention_seconds: limits::RETENTION_DEFAULT_SECONDS,
            wait_seconds: 0,
            visibility_seconds: limits::VISIBILITY_DEFAULT_SECONDS,
            redrive: None,
            redrive_allow: RedriveAllow::All,
            kept: AttributeMap::new(),
        }
    }
}

impl Settings {
    /// Applies attributes over these settings.
    ///
    /// # Errors
    /// An unknown or computed name, or a value outside what SQS takes. Nothing is applied then.
    pub(super) fn with(&self, given: &AttributeMap) -> Result<Self, SqsError> {
        let mut changed = self.clone();
        for (name, value) in given {
            changed.set(name, value)?;
        }
        Ok(changed)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SqsError> {
        let number = |range: std::ops::RangeInclusive<u32>| whole_number(name, value, range);
        match name {
            "DelaySeconds" => self.delay_seconds = number(0..=limits::DELAY_MAX_SECONDS)?,
            "MaximumMessageSize" => {
                self.message_max_bytes = number(limits::MESSAGE_MAX_BYTES_FLOOR..=limits::MESSAGE_MAX_BYTES)?;
            }
            "MessageRetentionPeriod" => {
                self.retention_seconds = number(limits::RETENTION_MIN_SECONDS..=limits::RETENTION_MAX_SECONDS)?;
            }
            "ReceiveMessageWaitTimeSeconds" => self.wait_seconds = number(0..=limits::WAIT_MAX_SECONDS)?,
            "VisibilityTimeout" => self.visibility_seconds = number(0..=limits::VISIBILITY_MAX_SECONDS)?,
            "RedrivePolicy" => self.redrive = redrive_policy(value)?,
            "RedriveAllowPolicy" => self.redrive_allow = redrive_allow(value)?,
            kept if KEPT_AS_GIVEN.contains(&kept) => {
                self.kept.insert(kept.to_owned(), value.to_owned());
            }
            "FifoQueue" | "ContentBasedDeduplication" | "DeduplicationScope" | "FifoThroughputLimit" => {
                return Err(SqsError::InvalidAttributeName(name.to_owned()));
            }
            other => return Err(SqsError::InvalidAttributeName(other.to_owned())),
        }
        Ok(())
    }

    /// The settings as attributes: what is stored, and the settable part of what is shown.
    pub(super) fn attributes(&self) -> AttributeMap {
        let mut map = self.kept.clone();
        let mut put = |name: &str, value: String| map.insert(name.to_owned(), value);
        put("DelaySeconds", self.delay_seconds.to_string());
        put("MaximumMessageSize", self.message_max_bytes.to_string());
        put("MessageRetentionPeriod", self.retention_seconds.to_string());
        put("ReceiveMessageWaitTimeSeconds", self.wait_seconds.to_string());
        put("VisibilityTimeout", self.visibility_seconds.to_string());
        if let Some(policy) = &self.redrive {
            put("RedrivePolicy", policy.text.clone());
        }
        match &self.redrive_allow {
            RedriveAllow::All => {}
            RedriveAllow::None { text } | RedriveAllow::Queues { text, .. } => {
                put("RedriveAllowPolicy", text.clone());
            }
        }
        map
    }

    /// Whether that queue may name this one as its dead-letter queue.
    pub(super) fn accepts_dead_letters_of(&self, source: &QueueName) -> bool {
        match &self.redrive_allow {
            RedriveAllow::All => true,
            RedriveAllow::None { .. } => false,
            RedriveAllow::Queues { sources, .. } => sources.contains(source),
        }
    }
}

fn whole_number(name: &str, value: &str, range: std::ops::RangeInclusive<u32>) -> Result<u32, SqsError> {
    value
        .parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| SqsError::InvalidAttributeValue(name.to_owned()))
}

/// `maxReceiveCount` may come as a number or as a string of digits, as SQS takes both.
#[derive(Deserialize)]
#[serde(untagged)]
enum Count {
    Number(u32),
    Text(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RedrivePolicyText {
    dead_letter_target_arn: String,
    max_receive_count: Count,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RedrivePolicyShown<'a> {
    dead_letter_target_arn: &'a str,
    max_receive_count: u32,
}

/// Reads a redrive policy. The empty text removes the policy.
fn redrive_policy(text: &str) -> Result<Option<RedrivePolicy>, SqsError> {
    if text.is_empty() {
        return Ok(None);
    }
    let refused = |reason: &str| {
        SqsError::InvalidParameterValue(format!(
            "Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}."
        ))
    };
    let given: RedrivePolicyText =
        serde_json::from_str(text).map_err(|_| refused("Redrive policy is not a valid JSON map"))?;
    let max_receives = match given.max_receive_count {
        Count::Number(count) => Some(count),
        Count::Text(digits) => digits.parse().ok(),
    };
    let max_receives = max_receives
        .filter(|count| (1..=limits::RECEIVE_COUNT_MAX).contains(count))
        .ok_or_else(|| refused("Invalid value for maxReceiveCount"))?;
    let target = QueueName::from_arn(&given.dead_letter_target_arn)
        .ok_or_else(|| refused("Invalid value for deadLetterTargetArn"))?;
    let shown =
        RedrivePolicyShown { dead_letter_target_arn: &given.dead_letter_target_arn, max_receive_count: max_receives };
    let text = serde_json::to_string(&shown).map_err(SqsError::Malformed)?;
    Ok(Some(RedrivePolicy { target, max_receives, text }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RedriveAllowText {
    redrive_permission: String,
    #[serde(default)]
    source_queue_arns: Vec<String>,
}

fn redrive_allow(text: &str) -> Result<RedriveAllow, SqsError> {
    if text.is_empty() {
        return Ok(RedriveAllow::All);
    }
    let refused = || SqsError::InvalidAttributeValue("RedriveAllowPolicy".to_owned());
    let given: RedriveAllowText = serde_json::from_str(text).map_err(|_| refused())?;
    let fits = given.source_queue_arns.len() <= limits::REDRIVE_SOURCES_MAX;
    match (given.redrive_permission.as_str(), given.source_queue_arns.is_empty()) {
        ("allowAll", true) => Ok(RedriveAllow::All),
        ("denyAll", true) => Ok(RedriveAllow::None { text: text.to_owned() }),
        ("byQueue", false) if fits => {
            let sources: Option<Vec<_>> = given.source_queue_arns.iter().map(|arn| QueueName::from_arn(arn)).collect();
            Ok(RedriveAllow::Queues { sources: sources.ok_or_else(refused)?, text: text.to_owned() })
        }
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAD: &str = "arn:aws:sqs:us-east-1:000000000000:dead";

    /// One family: an attribute, and whether SQS takes that value.
    fn check(name: &str, value: &str, good: bool) {
        let given = AttributeMap::from([(name.to_owned(), value.to_owned())]);
        let outcome = Settings::default().with(&given);
        assert_eq!(outcome.is_ok(), good, "{name}={value}: {outcome:?}");
        // What is stored must be readable as what it was.
        if let Ok(settings) = outcome {
            assert_eq!(Settings::default().with(&settings.attributes()).ok(), Some(settings));
        }
    }

    #[test]
    fn values_follow_the_limits_of_sqs() {
        for (name, value, good) in [
            ("DelaySeconds", "0", true),
            ("DelaySeconds", "900", true),
            ("DelaySeconds", "901", false),
            ("DelaySeconds", "-1", false),
            ("DelaySeconds", "1.5", false),
            ("MaximumMessageSize", "1023", false),
            ("MaximumMessageSize", "1024", true),
            ("MaximumMessageSize", "1048576", true),
            ("MaximumMessageSize", "1048577", false),
            ("MessageRetentionPeriod", "59", false),
            ("MessageRetentionPeriod", "1209600", true),
            ("MessageRetentionPeriod", "1209601", false),
            ("ReceiveMessageWaitTimeSeconds", "20", true),
            ("ReceiveMessageWaitTimeSeconds", "21", false),
            ("VisibilityTimeout", "43200", true),
            ("VisibilityTimeout", "43201", false),
            ("Policy", "{}", true),
            ("FifoQueue", "true", false),
            ("QueueArn", "x", false),
            ("Nonsense", "1", false),
            ("RedrivePolicy", "", true),
            ("RedrivePolicy", "{", false),
            ("RedriveAllowPolicy", r#"{"redrivePermission":"denyAll"}"#, true),
            ("RedriveAllowPolicy", r#"{"redrivePermission":"byQueue"}"#, false),
            ("RedriveAllowPolicy", r#"{"redrivePermission":"some"}"#, false),
        ] {
            check(name, value, good);
        }
        for (count, good) in [("3", true), ("\"3\"", true), ("0", false), ("1001", false), ("\"x\"", false)] {
            let policy = format!(r#"{{"deadLetterTargetArn":"{DEAD}","maxReceiveCount":{count}}}"#);
            check("RedrivePolicy", &policy, good);
        }
        let by_queue = format!(r#"{{"redrivePermission":"byQueue","sourceQueueArns":["{DEAD}"]}}"#);
        check("RedriveAllowPolicy", &by_queue, true);
    }
}
