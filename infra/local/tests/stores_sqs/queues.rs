//! Queues: made, found, listed, changed, purged, deleted, tagged.

use aws_sdk_sqs::types::QueueAttributeName;

use super::stores_under_test::code;
use super::{create, one_queue};

#[tokio::test]
async fn a_queue_has_the_attributes_it_was_given_and_those_of_sqs() {
    let queue = one_queue(&[(QueueAttributeName::VisibilityTimeout, "45")]).await;
    let set = queue.client.set_queue_attributes().queue_url(&queue.url);
    set.attributes(QueueAttributeName::DelaySeconds, "5").send().await.unwrap();
    let get = queue.client.get_queue_attributes().queue_url(&queue.url);
    let all = get.clone().attribute_names(QueueAttributeName::All).send().await.unwrap();
    let attributes = all.attributes().unwrap();
    for (name, value) in [
        (QueueAttributeName::VisibilityTimeout, "45"),
        (QueueAttributeName::DelaySeconds, "5"),
        (QueueAttributeName::MaximumMessageSize, "1048576"),
        (QueueAttributeName::MessageRetentionPeriod, "345600"),
        (QueueAttributeName::ReceiveMessageWaitTimeSeconds, "0"),
        (QueueAttributeName::ApproximateNumberOfMessages, "0"),
        (QueueAttributeName::QueueArn, "arn:aws:sqs:us-east-1:000000000000:tested"),
    ] {
        assert_eq!(attributes.get(&name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!attributes.contains_key(&QueueAttributeName::RedrivePolicy));
    let some = get.attribute_names(QueueAttributeName::DelaySeconds).attribute_names(QueueAttributeName::RedrivePolicy);
    let some = some.send().await.unwrap().attributes.unwrap();
    assert_eq!(some.len(), 1, "{some:?}");
}

#[tokio::test]
async fn making_a_queue_again_is_the_same_queue_or_an_error() {
    let queue = one_queue(&[(QueueAttributeName::VisibilityTimeout, "45")]).await;
    let again = |attribute, value: &str| {
        let request = queue.client.create_queue().queue_name("tested");
        request.attributes(attribute, value).send()
    };
    let cases = [
        ("same", code(again(QueueAttributeName::VisibilityTimeout, "45").await), "ok"),
        ("other value", code(again(QueueAttributeName::VisibilityTimeout, "46").await), "QueueAlreadyExists"),
        ("a default", code(again(QueueAttributeName::DelaySeconds, "0").await), "ok"),
        ("no attributes", code(queue.client.create_queue().queue_name("tested").send().await), "ok"),
    ];
    for (name, found, wanted) in cases {
        assert_eq!(found, wanted, "{name}");
    }
}

#[tokio::test]
async fn queues_are_found_by_name_and_listed_by_page() {
    let queue = one_queue(&[]).await;
    for number in 0..5 {
        create(&queue.client, &format!("list-{number}"), &[]).await;
    }
    let found = queue.client.get_queue_url().queue_name("list-3").send().await.unwrap();
    let url = found.queue_url.unwrap();
    assert!(url.starts_with(&queue.under_test.stores.sqs.endpoint) && url.ends_with("/list-3"), "{url}");
    let list = || queue.client.list_queues().queue_name_prefix("list-");
    assert_eq!(list().send().await.unwrap().queue_urls().len(), 5);
    let first = list().max_results(3).send().await.unwrap();
    let second = list().max_results(3).set_next_token(first.next_token.clone()).send().await.unwrap();
    let names: Vec<_> = [first.queue_urls(), second.queue_urls()].concat();
    let ends: Vec<_> = names.iter().filter_map(|url| url.rsplit('/').next()).collect();
    assert_eq!(ends, ["list-0", "list-1", "list-2", "list-3", "list-4"]);
    assert!(first.next_token.is_some() && second.next_token.is_none());
}

#[tokio::test]
async fn a_purged_queue_is_empty_and_a_deleted_one_is_gone() {
    let queue = one_queue(&[]).await;
    queue.send("in flight").await;
    let old = queue.receive(1, 0).await.remove(0).receipt_handle.unwrap();
    queue.send("visible").await;
    queue.client.purge_queue().queue_url(&queue.url).send().await.unwrap();
    assert_eq!(queue.depth().await, [0, 0, 0]);
    let again = queue.client.purge_queue().queue_url(&queue.url).send().await;
    assert_eq!(code(again), "AWS.SimpleQueueService.PurgeQueueInProgress");

    queue.client.delete_queue().queue_url(&queue.url).send().await.unwrap();
    let send = queue.client.send_message().queue_url(&queue.url).message_body("x").send().await;
    let fault = send.unwrap_err().into_service_error();
    assert!(fault.is_queue_does_not_exist(), "{fault:?}");
    // A queue of the same name is another queue.
    create(&queue.client, "tested", &[]).await;
    assert_eq!(queue.depth().await, [0, 0, 0]);
    let delete = queue.client.delete_message().queue_url(&queue.url).receipt_handle(old).send().await;
    assert_eq!(code(delete), "ReceiptHandleIsInvalid");
}

#[tokio::test]
async fn tags_are_kept() {
    let queue = one_queue(&[]).await;
    let tag = queue.client.tag_queue().queue_url(&queue.url);
    tag.tags("team", "agents").tags("stage", "local").send().await.unwrap();
    queue.client.untag_queue().queue_url(&queue.url).tag_keys("stage").send().await.unwrap();
    let tags = queue.client.list_queue_tags().queue_url(&queue.url).send().await.unwrap();
    assert_eq!(tags.tags.unwrap(), [("team".to_owned(), "agents".to_owned())].into());
}

#[tokio::test]
async fn calls_are_counted_by_action() {
    let queue = one_queue(&[]).await;
    queue.send("a").await;
    queue.send("b").await;
    queue.receive(2, 0).await;
    let counts = queue.under_test.stores.sqs.sqs.counts();
    let wanted = [("CreateQueue", 1), ("SendMessage", 2), ("ReceiveMessage", 1)];
    assert_eq!(counts, wanted.map(|(name, count)| (name.to_owned(), count)).into());
}
