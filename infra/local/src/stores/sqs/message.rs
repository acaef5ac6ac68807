//! A message: as a sender gives it (checked by the rules of SQS) and as a receiver gets it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::SqsError;
use super::ids::ReceiptHandle;
use super::{digest, limits};

/// The system attribute (and header) that carries a trace from sender to receiver.
pub(super) const TRACE_HEADER: &str = "AWSTraceHeader";

/// The value of a message attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// Of a `String` or `Number` attribute.
    Text(String),
    /// Of a `Binary` attribute.
    Binary(Vec<u8>),
}

/// One attribute that the sender put on a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WireAttribute", into = "WireAttribute")]
pub struct MessageAttribute {
    /// `String`, `Number` or `Binary`, each perhaps with a label of the sender's (`Number.float`).
    pub data_type: String,
    /// The value.
    pub value: AttributeValue,
}

/// The attribute on the wire and in the file: two optional values, of which exactly one is right.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireAttribute {
    data_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    string_value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    binary_value: Option<String>,
}

impl TryFrom<WireAttribute> for MessageAttribute {
    type Error = String;

    fn try_from(wire: WireAttribute) -> Result<Self, Self::Error> {
        let kind = wire.data_type.split('.').next().unwrap_or_default();
        let value = match (kind, wire.string_value, wire.binary_value) {
            ("String" | "Number", Some(text), None) => AttributeValue::Text(text),
            ("Binary", None, Some(encoded)) => {
                let bytes = STANDARD.decode(encoded).map_err(|fault| fault.to_string())?;
                AttributeValue::Binary(bytes)
            }
            _ => return Err(format!("type {} and value do not go together", wire.data_type)),
        };
        Ok(Self { data_type: wire.data_type, value })
    }
}

impl From<MessageAttribute> for WireAttribute {
    fn from(attribute: MessageAttribute) -> Self {
        let (string_value, binary_value) = match attribute.value {
            AttributeValue::Text(text) => (Some(text), None),
            AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        Self { data_type: attribute.data_type, string_value, binary_value }
    }
}

impl MessageAttribute {
    fn bytes(&self) -> usize {
        let value = match &self.value {
            AttributeValue::Text(text) => text.len(),
            AttributeValue::Binary(bytes) => bytes.len(),
        };
        self.data_type.len() + value
    }
}

/// The attributes that a sender gave, still as JSON: they are checked one by one so that the error can name
/// the attribute.
pub(super) type GivenAttributes = BTreeMap<String, serde_json::Value>;

/// What a sender gave, before it is checked.
#[derive(Debug, Default)]
pub(super) struct GivenMessage {
    pub(super) body: Option<String>,
    pub(super) attributes: GivenAttributes,
    pub(super) system_attributes: GivenAttributes,
    pub(super) group: Option<String>,
    pub(super) delay_seconds: Option<i64>,
    pub(super) deduplication: Option<String>,
}

/// A message that SQS would take, ready to be stored.
#[derive(Debug, Clone)]
pub(super) struct NewMessage {
    pub(super) message_id: Uuid,
    pub(super) body: String,
    pub(super) attributes: BTreeMap<String, MessageAttribute>,
    pub(super) trace_header: Option<String>,
    pub(super) group: Option<Arc<str>>,
    pub(super) delay_seconds: Option<u32>,
    /// Body and attributes together, which is what the limit counts.
    pub(super) bytes: usize,
    /// The sum of the system attributes, which the answer to the sender carries.
    pub(super) system_digest: Option<String>,
}

impl NewMessage {
    /// Checks a message by the rules of SQS that do not depend on its queue.
    pub(super) fn check(given: GivenMessage) -> Result<Self, SqsError> {
        let body = given.body.filter(|body| !body.is_empty());
        let body = body.ok_or(SqsError::MissingParameter("MessageBody"))?;
        if !body.chars().all(carried) {
            return Err(SqsError::InvalidMessageContents);
        }
        if given.deduplication.is_some() {
            return Err(SqsError::InvalidParameterValue(
                "The request includes a parameter that is not valid for this queue type: MessageDeduplicationId"
                    .to_owned(),
            ));
        }
        let attributes = check_attributes(given.attributes)?;
        let system = check_system_attributes(given.system_attributes)?;
        let system_digest = digest::of_attributes(&system);
        let attribute_bytes: usize = attributes.iter().map(|(name, attribute)| name.len() + attribute.bytes()).sum();
        Ok(Self {
            message_id: Uuid::new_v4(),
            bytes: body.len() + attribute_bytes,
            body,
            attributes,
            trace_header: trace_of(system),
            group: given.group.map(|group| check_group(&group)).transpose()?,
            delay_seconds: given.delay_seconds.map(check_delay).transpose()?,
            system_digest,
        })
    }
}

/// The characters that an SQS message can hold: those of XML 1.0.
fn carried(character: char) -> bool {
    matches!(character, '\u{9}' | '\u{A}' | '\u{D}' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

fn check_attributes(given: GivenAttributes) -> Result<BTreeMap<String, MessageAttribute>, SqsError> {
    if given.len() > limits::MESSAGE_ATTRIBUTES_MAX {
        return Err(SqsError::InvalidParameterValue(format!(
            "Number of message attributes [{}] exceeds the allowed maximum [{}].",
            given.len(),
            limits::MESSAGE_ATTRIBUTES_MAX
        )));
    }
    given
        .into_iter()
        .map(|(name, value)| {
            let lower = name.to_ascii_lowercase();
            let reserved = lower.starts_with("aws.") || lower.starts_with("amazon.");
            let dots = name.starts_with('.') || name.ends_with('.') || name.contains("..");
            let fits = (1..=limits::ATTRIBUTE_NAME_MAX_CHARS).contains(&name.len());
            let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
            if reserved || dots || !fits || !plain {
                return Err(SqsError::InvalidParameterValue(format!(
                    "The message attribute name '{name}' is invalid."
                )));
            }
            let attribute = read_attribute(&name, value)?;
            Ok((name, attribute))
        })
        .collect()
}

fn read_attribute(name: &str, value: serde_json::Value) -> Result<MessageAttribute, SqsError> {
    let refused = |reason: String| {
        SqsError::InvalidParameterValue(format!("The message attribute '{name}' is invalid: {reason}"))
    };
    let attribute: MessageAttribute = serde_json::from_value(value).map_err(|fault| refused(fault.to_string()))?;
    let (number, empty) = match &attribute.value {
        AttributeValue::Text(text) if attribute.data_type.starts_with("Number") => {
            (text.parse::<f64>().is_ok_and(f64::is_finite), text.is_empty())
        }
        AttributeValue::Text(text) => (text.chars().all(carried), text.is_empty()),
        AttributeValue::Binary(bytes) => (true, bytes.is_empty()),
    };
    if empty || attribute.data_type.len() > limits::ATTRIBUTE_NAME_MAX_CHARS {
        return Err(refused("it must have a value, and a type of at most 256 characters".to_owned()));
    }
    if !number {
        return Err(refused("its value does not fit its type".to_owned()));
    }
    Ok(attribute)
}

fn check_system_attributes(given: GivenAttributes) -> Result<BTreeMap<String, MessageAttribute>, SqsError> {
    given
        .into_iter()
        .map(|(name, value)| {
            if name != TRACE_HEADER {
                return Err(SqsError::InvalidParameterValue(format!(
                    "The message system attribute name '{name}' is invalid."
                )));
            }
            let attribute = read_attribute(&name, value)?;
            Ok((name, attribute))
        })
        .collect()
}

fn trace_of(mut system: BTreeMap<String, MessageAttribute>) -> Option<String> {
    match system.remove(TRACE_HEADER)?.value {
        AttributeValue::Text(text) => Some(text),
        AttributeValue::Binary(_) => None,
    }
}

fn check_group(group: &str) -> Result<Arc<str>, SqsError> {
    let fits = (1..=limits::GROUP_MAX_CHARS).contains(&group.len());
    if fits && group.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(Arc::from(group))
    } else {
        Err(SqsError::InvalidParameterValue(format!(
            "Value {group} for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include \
             alphanumeric and punctuation characters. 1 to 128 in length."
        )))
    }
}

fn check_delay(seconds: i64) -> Result<u32, SqsError> {
    in_range("DelaySeconds", seconds, 0..=limits::DELAY_MAX_SECONDS)
}

/// A number parameter within its range, or the error that SQS answers.
pub(super) fn in_range(name: &str, value: i64, range: std::ops::RangeInclusive<u32>) -> Result<u32, SqsError> {
    u32::try_from(value).ok().filter(|number| range.contains(number)).ok_or_else(|| {
        SqsError::InvalidParameterValue(format!(
            "Value {value} for parameter {name} is invalid. Reason: Must be between {} and {}, if provided.",
            range.start(),
            range.end()
        ))
    })
}

/// A message that was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The id that the sender was told.
    pub message_id: String,
    /// What to show to delete this message or change its visibility.
    pub receipt: ReceiptHandle,
    /// The body.
    pub body: String,
    /// What the sender put on it.
    pub attributes: BTreeMap<String, MessageAttribute>,
    /// The fairness group (`MessageGroupId`), if it was sent with one.
    pub group: Option<String>,
    /// The trace header (`AWSTraceHeader`), if it was sent with one.
    pub trace_header: Option<String>,
    /// How often it was received, this receive included, in all queues it was in.
    pub receive_count: u32,
    /// When it was sent, in milliseconds since the Unix epoch.
    pub sent_at_millis: i64,
    /// When it was first received, in milliseconds since the Unix epoch.
    pub first_received_at_millis: i64,
    /// The ARN of the queue that it was redriven from, when this is a dead-letter queue.
    pub dead_letter_source_arn: Option<String>,
}

impl ReceivedMessage {
    /// The MD5 of the body, as SQS and its Lambda event carry it.
    #[must_use]
    pub fn md5_of_body(&self) -> String {
        digest::of_body(&self.body)
    }

    /// The MD5 of the sender's attributes; `None` when there are none.
    #[must_use]
    pub fn md5_of_attributes(&self) -> Option<String> {
        digest::of_attributes(&self.attributes)
    }

    /// The system attributes by their names at SQS, as a receive call and the Lambda event carry them.
    #[must_use]
    pub fn system_attributes(&self) -> BTreeMap<&'static str, String> {
        let mut map = BTreeMap::from([
            ("SenderId", super::ids::ACCOUNT.to_owned()),
            ("SentTimestamp", self.sent_at_millis.to_string()),
            ("ApproximateReceiveCount", self.receive_count.to_string()),
            ("ApproximateFirstReceiveTimestamp", self.first_received_at_millis.to_string()),
        ]);
        let optional = [
            ("MessageGroupId", &self.group),
            (TRACE_HEADER, &self.trace_header),
            ("DeadLetterQueueSourceArn", &self.dead_letter_source_arn),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                map.insert(name, value.clone());
            }
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// One family: what is sent, and the code SQS answers with (`None`: it takes the message).
    fn check(name: &str, given: GivenMessage, code: Option<&str>) {
        let outcome = NewMessage::check(given);
        let found = outcome.as_ref().err().map(|fault| fault.shape().code);
        assert_eq!(found, code, "{name}: {outcome:?}");
    }

    fn body(text: &str) -> GivenMessage {
        GivenMessage { body: Some(text.to_owned()), ..GivenMessage::default() }
    }

    fn attribute(name: &str, value: serde_json::Value) -> GivenMessage {
        GivenMessage { attributes: BTreeMap::from([(name.to_owned(), value)]), ..body("x") }
    }

    #[test]
    fn messages_follow_the_rules_of_sqs() {
        let bad = Some("InvalidParameterValue");
        let text = json!({"DataType": "String", "StringValue": "v"});
        check("plain", body("hello \u{1F600}\n"), None);
        check("no body", GivenMessage::default(), Some("MissingParameter"));
        check("empty body", body(""), Some("MissingParameter"));
        check("control character", body("a\u{1}"), Some("InvalidMessageContents"));
        check("noncharacter", body("a\u{FFFF}"), Some("InvalidMessageContents"));
        check("delay", GivenMessage { delay_seconds: Some(900), ..body("x") }, None);
        check("long delay", GivenMessage { delay_seconds: Some(901), ..body("x") }, bad);
        check("negative delay", GivenMessage { delay_seconds: Some(-1), ..body("x") }, bad);
        check("group", GivenMessage { group: Some("tenant-1".to_owned()), ..body("x") }, None);
        check("blank in group", GivenMessage { group: Some("a b".to_owned()), ..body("x") }, bad);
        check("long group", GivenMessage { group: Some("g".repeat(129)), ..body("x") }, bad);
        check("fifo only", GivenMessage { deduplication: Some("d".to_owned()), ..body("x") }, bad);
        check("attribute", attribute("a.b-c_1", text.clone()), None);
        check("number", attribute("n", json!({"DataType": "Number.int", "StringValue": "-1e3"})), None);
        check("binary", attribute("b", json!({"DataType": "Binary", "BinaryValue": "AAE="})), None);
        check("no number", attribute("n", json!({"DataType": "Number", "StringValue": "x"})), bad);
        check("no value", attribute("s", json!({"DataType": "String"})), bad);
        check("empty value", attribute("s", json!({"DataType": "String", "StringValue": ""})), bad);
        check("wrong base64", attribute("b", json!({"DataType": "Binary", "BinaryValue": "?"})), bad);
        check("unknown type", attribute("s", json!({"DataType": "Text", "StringValue": "v"})), bad);
        check("reserved name", attribute("AWS.x", text.clone()), bad);
        check("name with blank", attribute("a b", text.clone()), bad);
        let many = (0..11).map(|n| (format!("a{n}"), text.clone())).collect();
        check("eleven attributes", GivenMessage { attributes: many, ..body("x") }, bad);
        let trace = |name: &str| GivenMessage {
            system_attributes: BTreeMap::from([(name.to_owned(), text.clone())]),
            ..body("x")
        };
        check("trace", trace("AWSTraceHeader"), None);
        check("unknown system attribute", trace("Other"), bad);
    }

    #[test]
    fn size_counts_body_names_types_and_values() {
        let given = attribute("name", json!({"DataType": "String", "StringValue": "four"}));
        let bytes = NewMessage::check(given).map(|message| message.bytes);
        assert_eq!(bytes.ok(), Some("x".len() + "name".len() + "String".len() + "four".len()));
    }
}
