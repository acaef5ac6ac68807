//! The event by which Lambda hands over messages of a queue.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::stores::sqs::{AttributeValue, MessageAttribute, ReceivedMessage};

/// One record. The type of `aws_lambda_events` would write nulls that Lambda leaves out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    message_id: &'a str,
    receipt_handle: &'a str,
    body: &'a str,
    attributes: BTreeMap<&'static str, String>,
    message_attributes: BTreeMap<&'a str, Attribute<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    md5_of_message_attributes: Option<String>,
    md5_of_body: String,
    event_source: &'static str,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: &'a str,
    aws_region: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Attribute<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    string_value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary_value: Option<String>,
    string_list_values: [&'static str; 0],
    binary_list_values: [&'static str; 0],
    data_type: &'a str,
}

/// One message as the JSON text of a record.
pub(super) fn record(message: &ReceivedMessage, queue_arn: &str, region: &str) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Record {
        message_id: &message.message_id,
        receipt_handle: message.receipt.as_str(),
        body: &message.body,
        attributes: message.system_attributes(),
        message_attributes: message.attributes.iter().map(|(name, value)| (name.as_str(), attribute(value))).collect(),
        md5_of_message_attributes: message.md5_of_attributes(),
        md5_of_body: message.md5_of_body(),
        event_source: "aws:sqs",
        event_source_arn: queue_arn,
        aws_region: region,
    })
}

fn attribute(attribute: &MessageAttribute) -> Attribute<'_> {
    let (string_value, binary_value) = match &attribute.value {
        AttributeValue::Text(text) => (Some(text.as_str()), None),
        AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
    };
    Attribute {
        string_value,
        binary_value,
        string_list_values: [],
        binary_list_values: [],
        data_type: &attribute.data_type,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed assumption must fail the test")]

    use serde_json::{Value, json};

    use super::*;
    use crate::lambda::event_sources::packing;
    use crate::stores::sqs::ReceiptHandle;

    fn message() -> ReceivedMessage {
        ReceivedMessage {
            message_id: "059f36b4-87a3-44ab-83d2-661975830a7d".to_owned(),
            receipt: ReceiptHandle::new("AQEBwJ"),
            body: "This is a \"test\".".to_owned(),
            attributes: BTreeMap::new(),
            group: None,
            trace_header: None,
            receive_count: 1,
            sent_at_millis: 1_545_082_649_183,
            first_received_at_millis: 1_545_082_649_185,
            dead_letter_source_arn: None,
        }
    }

    fn built(message: &ReceivedMessage) -> Value {
        let record = record(message, "arn:aws:sqs:us-east-1:000000000000:jobs", "us-east-1").unwrap();
        serde_json::from_str(&packing::event(&[record])).unwrap()
    }

    #[test]
    fn records_have_the_shape_of_lambda() {
        let expected = json!({
            "messageId": "059f36b4-87a3-44ab-83d2-661975830a7d",
            "receiptHandle": "AQEBwJ",
            "body": "This is a \"test\".",
            "attributes": {
                "ApproximateReceiveCount": "1",
                "SentTimestamp": "1545082649183",
                "SenderId": "000000000000",
                "ApproximateFirstReceiveTimestamp": "1545082649185",
            },
            "messageAttributes": {},
            "md5OfBody": "01394a166da5fea10a9092738948d318",
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:jobs",
            "awsRegion": "us-east-1",
        });
        assert_eq!(built(&message()), json!({ "Records": [expected] }));

        let mut full = message();
        full.group = Some("tenant-a".to_owned());
        full.trace_header = Some("Root=1".to_owned());
        full.attributes = BTreeMap::from([
            (
                "bytes".to_owned(),
                MessageAttribute { data_type: "Binary".to_owned(), value: AttributeValue::Binary(b"11".to_vec()) },
            ),
            (
                "number".to_owned(),
                MessageAttribute { data_type: "Number".to_owned(), value: AttributeValue::Text("5".to_owned()) },
            ),
        ]);
        let event = built(&full);
        let record = event.pointer("/Records/0").unwrap();
        assert_eq!(record.pointer("/attributes/MessageGroupId").unwrap(), "tenant-a");
        assert_eq!(record.pointer("/attributes/AWSTraceHeader").unwrap(), "Root=1");
        assert_eq!(
            record.get("messageAttributes").unwrap(),
            &json!({
                "bytes": { "binaryValue": "MTE=", "stringListValues": [], "binaryListValues": [], "dataType": "Binary" },
                "number": { "stringValue": "5", "stringListValues": [], "binaryListValues": [], "dataType": "Number" },
            })
        );
        assert!(record.get("md5OfMessageAttributes").is_some());
    }

    #[test]
    fn events_can_be_read_as_the_events_of_the_library() {
        let event: aws_lambda_events::sqs::SqsEvent = serde_json::from_value(built(&message())).unwrap();
        let [record] = event.records.try_into().unwrap();
        assert_eq!(record.body.as_deref(), Some("This is a \"test\"."));
        assert_eq!(record.attributes.len(), 4);
    }
}
