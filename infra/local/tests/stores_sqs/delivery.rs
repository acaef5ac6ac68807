//! When and to whom messages are handed out: visibility, delay, long poll, batches, fairness.

use std::time::{Duration, Instant};

use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, QueueAttributeName,
    SendMessageBatchRequestEntry,
};

use super::{bodies, one_queue};

/// Less than any timer would need; reached only when somebody polls.
const AT_ONCE: Duration = Duration::from_millis(900);

#[tokio::test]
async fn a_received_message_is_invisible_until_its_time_is_over() {
    let queue = one_queue(&[(QueueAttributeName::VisibilityTimeout, "1")]).await;
    queue.send("once").await;
    assert_eq!(bodies(&queue.receive(10, 0).await), ["once"]);
    assert_eq!(queue.depth().await, [0, 0, 1]);
    assert!(queue.receive(10, 0).await.is_empty());
    let began = Instant::now();
    let again = queue.receive(10, 20).await;
    assert_eq!(bodies(&again), ["once"], "it comes back");
    assert!(began.elapsed() < Duration::from_secs(3), "and as soon as it may: {:?}", began.elapsed());
    let counts = again[0].attributes().unwrap();
    let name = aws_sdk_sqs::types::MessageSystemAttributeName::ApproximateReceiveCount;
    assert_eq!(counts[&name], "2");
}

#[tokio::test]
async fn a_receipt_is_good_for_the_latest_receive_only() {
    let queue = one_queue(&[]).await;
    queue.send("x").await;
    let request = queue.client.receive_message().queue_url(&queue.url).visibility_timeout(0);
    let first = request.send().await.unwrap().messages.unwrap().remove(0);
    let second = queue.receive(1, 0).await.remove(0);
    assert_ne!(first.receipt_handle(), second.receipt_handle());
    let delete = |handle: &str| queue.client.delete_message().queue_url(&queue.url).receipt_handle(handle).send();
    delete(first.receipt_handle().unwrap()).await.unwrap();
    assert_eq!(queue.depth().await, [0, 0, 1], "the older receipt deletes nothing");
    delete(second.receipt_handle().unwrap()).await.unwrap();
    assert_eq!(queue.depth().await, [0, 0, 0]);
    delete(second.receipt_handle().unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_delayed_message_wakes_the_receiver_that_waits_for_it() {
    let queue = one_queue(&[]).await;
    let send = queue.client.send_message().queue_url(&queue.url).message_body("later");
    send.delay_seconds(1).send().await.unwrap();
    assert_eq!(queue.depth().await, [0, 1, 0]);
    let began = Instant::now();
    assert_eq!(bodies(&queue.receive(10, 20).await), ["later"]);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_queue_delays_what_is_not_delayed_by_its_sender() {
    let queue = one_queue(&[(QueueAttributeName::DelaySeconds, "600")]).await;
    queue.send("delayed by the queue").await;
    let send = queue.client.send_message().queue_url(&queue.url).message_body("not delayed");
    send.delay_seconds(0).send().await.unwrap();
    assert_eq!(bodies(&queue.receive(10, 0).await), ["not delayed"]);
    assert_eq!(queue.depth().await, [0, 1, 1]);
}

#[tokio::test]
async fn an_empty_long_poll_ends_after_its_time() {
    let queue = one_queue(&[(QueueAttributeName::ReceiveMessageWaitTimeSeconds, "1")]).await;
    let began = Instant::now();
    let request = queue.client.receive_message().queue_url(&queue.url);
    assert!(request.send().await.unwrap().messages().is_empty());
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn visibility_can_be_given_up_and_prolonged() {
    let queue = one_queue(&[(QueueAttributeName::VisibilityTimeout, "1")]).await;
    queue.send("a").await;
    let change = |handle: String, seconds| {
        let request = queue.client.change_message_visibility().queue_url(&queue.url);
        request.receipt_handle(handle).visibility_timeout(seconds).send()
    };
    let first = queue.receive(1, 0).await.remove(0).receipt_handle.unwrap();
    change(first.clone(), 0).await.unwrap();
    let second = queue.receive(1, 0).await.remove(0).receipt_handle.unwrap();
    change(second.clone(), 3600).await.unwrap();
    assert!(queue.receive(1, 2).await.is_empty(), "it would have come back after a second");
    let delete = queue.client.delete_message().queue_url(&queue.url).receipt_handle(second.clone());
    delete.send().await.unwrap();
    for (name, handle, code) in
        [("older", first, "InvalidParameterValue"), ("deleted", second, "InvalidParameterValue")]
    {
        assert_eq!(super::stores_under_test::code(change(handle, 5).await), code, "{name}");
    }
}

#[tokio::test]
async fn batches_do_entry_by_entry_what_single_calls_do() {
    let queue = one_queue(&[]).await;
    let entry = |id: &str, body: &str, delay: i32| {
        let entry = SendMessageBatchRequestEntry::builder().id(id).message_body(body);
        entry.delay_seconds(delay).build().unwrap()
    };
    let sent = queue
        .client
        .send_message_batch()
        .queue_url(&queue.url)
        .entries(entry("good", "a", 0))
        .entries(entry("late", "b", 901))
        .entries(entry("also-good", "c", 0))
        .send()
        .await
        .unwrap();
    let ids: Vec<_> = sent.successful().iter().map(|done| done.id()).collect();
    assert_eq!(ids, ["good", "also-good"]);
    assert_eq!(sent.successful()[0].md5_of_message_body(), "0cc175b9c0f1b6a831c399e269772661");
    let failed = &sent.failed()[0];
    assert_eq!((failed.id(), failed.code(), failed.sender_fault()), ("late", "InvalidParameterValue", true));

    let received = queue.receive(10, 0).await;
    assert_eq!(bodies(&received), ["a", "c"]);
    let handle = |place: usize| received[place].receipt_handle().unwrap();
    let change = |id: &str, handle: &str| {
        let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(id).receipt_handle(handle);
        entry.visibility_timeout(0).build().unwrap()
    };
    let request = queue.client.change_message_visibility_batch().queue_url(&queue.url);
    let request = request.entries(change("a", handle(0))).entries(change("none", "nonsense"));
    let changed = request.send().await.unwrap();
    assert_eq!(changed.successful()[0].id(), "a");
    assert_eq!(changed.failed()[0].code(), "ReceiptHandleIsInvalid");
    assert_eq!(queue.depth().await, [1, 0, 1]);

    let delete = |id: &str, handle: &str| {
        let entry = DeleteMessageBatchRequestEntry::builder().id(id).receipt_handle(handle);
        entry.build().unwrap()
    };
    let request = queue.client.delete_message_batch().queue_url(&queue.url);
    let request = request.entries(delete("c", handle(1))).entries(delete("none", "nonsense"));
    let deleted = request.send().await.unwrap();
    assert_eq!(deleted.successful()[0].id(), "c");
    assert_eq!(deleted.failed()[0].code(), "ReceiptHandleIsInvalid");
    assert_eq!(queue.depth().await, [1, 0, 0]);
}

#[tokio::test]
async fn a_noisy_group_does_not_keep_a_quiet_one_waiting() {
    let queue = one_queue(&[]).await;
    for number in 0..20 {
        queue.send_in_group(&format!("noisy {number}"), "noisy").await;
    }
    queue.send_in_group("quiet 0", "quiet").await;
    queue.send_in_group("quiet 1", "quiet").await;
    assert_eq!(bodies(&queue.receive(1, 0).await), ["noisy 0"]);
    let next = queue.receive(1, 0).await;
    assert_eq!(bodies(&next), ["quiet 0"], "sent after twenty others, handed out as the second");
    assert_eq!(bodies(&queue.receive(3, 0).await), ["noisy 1", "quiet 1", "noisy 2"]);
    // A group that is done counts as free again.
    let delete = queue.client.delete_message().queue_url(&queue.url);
    delete.receipt_handle(next[0].receipt_handle().unwrap()).send().await.unwrap();
    queue.send_in_group("quiet 2", "quiet").await;
    assert_eq!(bodies(&queue.receive(1, 0).await), ["quiet 2"]);
}

#[tokio::test]
async fn every_message_goes_to_one_of_many_receivers() {
    let queue = one_queue(&[]).await;
    let receivers: Vec<_> = (0..8)
        .map(|_| {
            let (client, url) = (queue.client.clone(), queue.url.clone());
            tokio::spawn(async move { super::receive(&client, &url, 1, 20).await })
        })
        .collect();
    let began = Instant::now();
    for number in 0..8 {
        queue.send(&number.to_string()).await;
    }
    let mut seen = Vec::new();
    for receiver in receivers {
        seen.extend(receiver.await.unwrap().into_iter().filter_map(|message| message.body));
    }
    seen.sort();
    assert_eq!(seen, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    assert!(began.elapsed() < AT_ONCE * 3, "{:?}", began.elapsed());
}
