//! What SQS refuses, and with which code.

use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry};

use super::one_queue;
use super::stores_under_test::code;

const BAD: &str = "InvalidParameterValue";
const NO_QUEUE: &str = "AWS.SimpleQueueService.NonExistentQueue";

#[tokio::test]
async fn calls_over_a_message_are_refused_by_the_rules_of_sqs() {
    let queue = one_queue(&[(QueueAttributeName::MaximumMessageSize, "1024")]).await;
    let (client, url) = (&queue.client, queue.url.as_str());
    let send = |body: &str| client.send_message().queue_url(url).message_body(body);
    let receive = || client.receive_message().queue_url(url);
    let change = |handle: &str, seconds| {
        let request = client.change_message_visibility().queue_url(url).receipt_handle(handle);
        request.visibility_timeout(seconds).send()
    };
    let delete = |handle: &str| client.delete_message().queue_url(url).receipt_handle(handle).send();
    let nowhere = url.replace("tested", "nowhere");
    let value = MessageAttributeValue::builder().data_type("Text").string_value("x").build().unwrap();

    queue.send("visible").await;
    let handle = queue.receive(1, 0).await.remove(0).receipt_handle.unwrap();
    change(&handle, 0).await.unwrap();
    let cases = [
        ("empty body", code(send("").send().await), "MissingParameter"),
        ("no body", code(client.send_message().queue_url(url).send().await), "MissingParameter"),
        ("control character", code(send("\u{1}").send().await), "InvalidMessageContents"),
        ("over the queue's size", code(send(&"x".repeat(1025)).send().await), BAD),
        ("delay over 900 s", code(send("x").delay_seconds(901).send().await), BAD),
        ("unknown attribute type", code(send("x").message_attributes("a", value).send().await), BAD),
        ("send to no queue", code(client.send_message().queue_url(&nowhere).message_body("x").send().await), NO_QUEUE),
        ("eleven messages", code(receive().max_number_of_messages(11).send().await), BAD),
        ("no message", code(receive().max_number_of_messages(0).send().await), BAD),
        ("wait over 20 s", code(receive().wait_time_seconds(21).send().await), BAD),
        ("visibility over 12 h", code(receive().visibility_timeout(43_201).send().await), BAD),
        ("receive from no queue", code(client.receive_message().queue_url(&nowhere).send().await), NO_QUEUE),
        ("delete by nonsense", code(delete("nonsense").await), "ReceiptHandleIsInvalid"),
        ("change by nonsense", code(change("nonsense", 1).await), "ReceiptHandleIsInvalid"),
        ("change of a visible message", code(change(&handle, 1).await), "AWS.SimpleQueueService.MessageNotInflight"),
        ("change over 12 h", code(change(&handle, 43_201).await), BAD),
    ];
    for (name, found, wanted) in cases {
        assert_eq!(found, wanted, "{name}");
    }
}

#[tokio::test]
async fn twelve_hours_count_from_the_receive() {
    let queue = one_queue(&[]).await;
    queue.send("x").await;
    let handle = queue.receive(1, 1).await.remove(0).receipt_handle.unwrap();
    // A moment after the receive, twelve hours more are over the limit; in the same millisecond they are not yet.
    for _ in 0..1_000 {
        let request = queue.client.change_message_visibility().queue_url(&queue.url);
        let change = request.receipt_handle(&handle).visibility_timeout(43_200).send().await;
        if change.is_err() {
            assert_eq!(code(change), BAD);
            return;
        }
    }
    panic!("twelve hours count from the change");
}

#[tokio::test]
async fn batches_are_refused_as_a_whole_when_their_form_is_wrong() {
    let queue = one_queue(&[]).await;
    let batch = |entries: &[(&str, usize)]| {
        let entries = entries.iter().map(|(id, bytes)| {
            let entry = SendMessageBatchRequestEntry::builder().id(*id);
            entry.message_body("x".repeat(*bytes)).build().unwrap()
        });
        let request = queue.client.send_message_batch().queue_url(&queue.url);
        request.set_entries(Some(entries.collect())).send()
    };
    let eleven: Vec<String> = (0..11).map(|number| number.to_string()).collect();
    let eleven: Vec<_> = eleven.iter().map(|id| (id.as_str(), 1)).collect();
    let long_id = "i".repeat(81);
    let name = |code: &str| format!("AWS.SimpleQueueService.{code}");
    let cases = [
        ("empty", code(batch(&[]).await), name("EmptyBatchRequest")),
        ("eleven", code(batch(&eleven).await), name("TooManyEntriesInBatchRequest")),
        ("same ids", code(batch(&[("a", 1), ("a", 1)]).await), name("BatchEntryIdsNotDistinct")),
        ("id with blank", code(batch(&[("a b", 1)]).await), name("InvalidBatchEntryId")),
        ("long id", code(batch(&[(&long_id, 1)]).await), name("InvalidBatchEntryId")),
        ("together too long", code(batch(&[("a", 600_000), ("b", 600_000)]).await), name("BatchRequestTooLong")),
    ];
    for (name, found, wanted) in cases {
        assert_eq!(found, wanted, "{name}");
    }
    assert_eq!(queue.depth().await, [0, 0, 0], "nothing of a refused batch is stored");
}

#[tokio::test]
async fn calls_over_a_queue_are_refused_by_the_rules_of_sqs() {
    let queue = one_queue(&[]).await;
    let (client, url) = (&queue.client, queue.url.as_str());
    let set = |attribute, value: &str| {
        let request = client.set_queue_attributes().queue_url(url);
        request.attributes(attribute, value).send()
    };
    let get = |name: &str| {
        let request = client.get_queue_attributes().queue_url(url);
        request.attribute_names(QueueAttributeName::from(name)).send()
    };
    let make = |name: &str| client.create_queue().queue_name(name).send();
    let nowhere = url.replace("tested", "nowhere");
    let cases = [
        ("name with blank", code(make("a b").await), BAD),
        ("FIFO", code(make("jobs.fifo").await), BAD),
        ("no such queue", code(client.get_queue_url().queue_name("nowhere").send().await), NO_QUEUE),
        ("delete no queue", code(client.delete_queue().queue_url(&nowhere).send().await), NO_QUEUE),
        ("purge no queue", code(client.purge_queue().queue_url(&nowhere).send().await), NO_QUEUE),
        ("unknown attribute", code(get("Nonsense").await), "InvalidAttributeName"),
        ("set a computed one", code(set(QueueAttributeName::QueueArn, "x").await), "InvalidAttributeName"),
        ("visibility", code(set(QueueAttributeName::VisibilityTimeout, "43201").await), "InvalidAttributeValue"),
        ("no number", code(set(QueueAttributeName::DelaySeconds, "soon").await), "InvalidAttributeValue"),
    ];
    for (name, found, wanted) in cases {
        assert_eq!(found, wanted, "{name}");
    }
}
