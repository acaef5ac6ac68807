//! What a message carries from sender to receiver.

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeName, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
};

use super::one_queue;

fn attribute(data_type: &str, text: Option<&str>, bytes: Option<&[u8]>) -> MessageAttributeValue {
    MessageAttributeValue::builder()
        .data_type(data_type)
        .set_string_value(text.map(ToOwned::to_owned))
        .set_binary_value(bytes.map(Blob::new))
        .build()
        .unwrap()
}

#[tokio::test]
async fn everything_that_was_sent_arrives_with_its_sums() {
    let queue = one_queue(&[]).await;
    let trace = MessageSystemAttributeValue::builder()
        .data_type("String")
        .string_value("Root=1-5759e988-bd862e3fe1be46a994272793")
        .build()
        .unwrap();
    let sent = queue
        .client
        .send_message()
        .queue_url(&queue.url)
        .message_body("hello, world \u{1F44B}")
        .message_group_id("tenant-1")
        .message_attributes("city", attribute("String", Some("Any City"), None))
        .message_attributes("number.of-things", attribute("Number.int", Some("42"), None))
        .message_attributes("blob", attribute("Binary.png", None, Some(&[0, 1, 254, 255])))
        .message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, trace)
        .send()
        .await
        .unwrap();
    // Reckoned independently from AWS's description of the sums.
    assert_eq!(sent.md5_of_message_body(), Some("13394292ba3c64949fcea31d89d39d93"));
    assert_eq!(sent.md5_of_message_attributes(), Some("6f9bb5fb109962df81e9b6ccf30d0018"));
    assert_eq!(sent.md5_of_message_system_attributes(), Some("62a56dd927315f2b2e12832b84617ea5"));

    let received = queue.receive(10, 0).await;
    let message = &received[0];
    assert_eq!(message.message_id(), sent.message_id());
    assert_eq!(message.body(), Some("hello, world \u{1F44B}"));
    assert_eq!(message.md5_of_body(), sent.md5_of_message_body());
    assert_eq!(message.md5_of_message_attributes(), sent.md5_of_message_attributes());
    let attributes = message.message_attributes().unwrap();
    assert_eq!(attributes.len(), 3);
    assert_eq!(attributes["city"].string_value(), Some("Any City"));
    assert_eq!(attributes["number.of-things"].data_type(), "Number.int");
    assert_eq!(attributes["blob"].binary_value().unwrap().as_ref(), [0, 1, 254, 255]);
    let system = message.attributes().unwrap();
    let named = |name: &MessageSystemAttributeName| system[name].as_str();
    assert_eq!(named(&MessageSystemAttributeName::ApproximateReceiveCount), "1");
    assert_eq!(named(&MessageSystemAttributeName::MessageGroupId), "tenant-1");
    assert_eq!(named(&MessageSystemAttributeName::AwsTraceHeader), "Root=1-5759e988-bd862e3fe1be46a994272793");
    let sent_at: i64 = named(&MessageSystemAttributeName::SentTimestamp).parse().unwrap();
    let first: i64 = named(&MessageSystemAttributeName::ApproximateFirstReceiveTimestamp).parse().unwrap();
    assert!(sent_at > 1_700_000_000_000 && first >= sent_at, "{sent_at} {first}");
}

/// One family: what a receiver asks for, and which attributes it gets.
#[tokio::test]
async fn receivers_get_the_attributes_they_ask_for() {
    let queue = one_queue(&[]).await;
    let send = queue.client.send_message().queue_url(&queue.url).message_body("x");
    send.message_attributes("a.one", attribute("String", Some("1"), None))
        .message_attributes("a.two", attribute("String", Some("2"), None))
        .message_attributes("b", attribute("String", Some("3"), None))
        .send()
        .await
        .unwrap();
    for (wanted, found) in [
        (vec!["All"], vec!["a.one", "a.two", "b"]),
        (vec![".*"], vec!["a.one", "a.two", "b"]),
        (vec!["a.*"], vec!["a.one", "a.two"]),
        (vec!["b", "c"], vec!["b"]),
        (vec![], vec![]),
    ] {
        let names = wanted.iter().map(|name| (*name).to_owned()).collect();
        let request = queue.client.receive_message().queue_url(&queue.url).visibility_timeout(0);
        let answer = request.set_message_attribute_names(Some(names)).send().await.unwrap();
        let message = &answer.messages()[0];
        let mut names: Vec<_> = message
            .message_attributes()
            .map(|attributes| attributes.keys().map(String::as_str).collect())
            .unwrap_or_default();
        names.sort_unstable();
        assert_eq!(names, found, "asked for {wanted:?}");
        assert_eq!(message.md5_of_message_attributes().is_some(), !found.is_empty());
        assert!(message.attributes().is_none(), "no system attribute was asked for");
    }
}

#[tokio::test]
async fn the_largest_message_fits_and_one_byte_more_does_not() {
    let queue = one_queue(&[]).await;
    let largest = "x".repeat(1_048_576);
    queue.send(&largest).await;
    let received = queue.receive(1, 0).await;
    assert_eq!(received[0].body().map(str::len), Some(1_048_576));
    let larger = queue.client.send_message().queue_url(&queue.url).message_body(largest + "y");
    assert_eq!(super::stores_under_test::code(larger.send().await), "InvalidParameterValue");
}
