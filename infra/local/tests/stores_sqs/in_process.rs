//! The handle that the event source mapping of the same process uses.

use std::time::{Duration, Instant};

use longhaul_local::stores::sqs::{QueueDepth, QueueName, ReceivedMessage, Sqs, SqsError};

use super::{OneQueue, one_queue};

const FLYING: Duration = Duration::from_secs(600);

fn handle_of(queue: &OneQueue) -> (Sqs, QueueName) {
    (queue.under_test.stores.sqs.sqs.clone(), QueueName::parse("tested").unwrap())
}

fn bodies(messages: &[ReceivedMessage]) -> Vec<&str> {
    messages.iter().map(|message| message.body.as_str()).collect()
}

#[tokio::test]
async fn a_mapping_receives_deletes_and_gives_back() {
    let queue = one_queue(&[]).await;
    let (sqs, name) = handle_of(&queue);
    for number in 0..25 {
        queue.send(&number.to_string()).await;
    }
    let received = sqs.receive(&name, 25, Duration::ZERO, Some(FLYING)).await.unwrap();
    assert_eq!(received.len(), 25, "more than ten at once");
    let receipts: Vec<_> = received.iter().map(|message| message.receipt.clone()).collect();
    sqs.delete(&name, &receipts[..20]).await.unwrap();
    let changed = sqs.change_visibility(&name, &receipts[18..], Duration::ZERO).await.unwrap();
    assert_eq!(changed, 5, "two of the seven are deleted already");
    let depth = sqs.depth(&name).await.unwrap();
    assert_eq!(depth, QueueDepth { visible: 5, delayed: 0, in_flight: 0 });
    assert_eq!(received[0].system_attributes()["ApproximateReceiveCount"], "1");
    assert_eq!(received[0].md5_of_body(), "cfcd208495d565ef66e7dff9f98764da");
}

#[tokio::test]
async fn what_was_received_before_comes_by_itself_where_that_is_asked() {
    let queue = one_queue(&[]).await;
    let (sqs, name) = handle_of(&queue);
    for body in ["a", "b", "c"] {
        queue.send(body).await;
    }
    let first = sqs.receive_apart(&name, 2, Duration::ZERO).await.unwrap();
    assert_eq!(bodies(&first), ["a", "b"], "what is new comes together");
    let receipts: Vec<_> = first.iter().map(|message| message.receipt.clone()).collect();
    sqs.change_visibility(&name, &receipts, Duration::ZERO).await.unwrap();
    queue.send("d").await;
    let mut batches = Vec::new();
    loop {
        let batch = sqs.receive_apart(&name, 10, Duration::ZERO).await.unwrap();
        if batch.is_empty() {
            break;
        }
        batches.push(bodies(&batch).join(""));
    }
    batches.sort();
    let again: Vec<&str> = batches.iter().map(String::as_str).filter(|batch| ["a", "b"].contains(batch)).collect();
    assert_eq!(again, ["a", "b"], "{batches:?}");
    assert_eq!(batches.concat().len(), 4, "each once: {batches:?}");
}

#[tokio::test]
async fn a_send_wakes_the_receiver_that_waits() {
    let queue = one_queue(&[]).await;
    let (sqs, name) = handle_of(&queue);
    let waiting = {
        let (sqs, name) = (sqs.clone(), name.clone());
        tokio::spawn(async move { sqs.receive(&name, 10, Duration::from_secs(20), None).await })
    };
    // One turn, in which the receiver takes its place in the line.
    tokio::task::yield_now().await;
    let began = Instant::now();
    queue.send("wake").await;
    assert_eq!(bodies(&waiting.await.unwrap().unwrap()), ["wake"]);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_receiver_that_gave_up_takes_no_message_with_it() {
    let queue = one_queue(&[]).await;
    let (sqs, name) = handle_of(&queue);
    let gone = tokio::time::timeout(Duration::from_millis(10), sqs.receive(&name, 1, Duration::from_secs(20), None));
    assert!(gone.await.is_err());
    queue.send("for whoever stays").await;
    let received = sqs.receive(&name, 1, Duration::ZERO, None).await.unwrap();
    assert_eq!(bodies(&received), ["for whoever stays"]);
    assert_eq!(received[0].receive_count, 1);
}

#[tokio::test]
async fn what_is_in_flight_can_be_released() {
    let queue = one_queue(&[]).await;
    let (sqs, name) = handle_of(&queue);
    queue.send("a").await;
    queue.send("b").await;
    sqs.receive(&name, 2, Duration::ZERO, Some(FLYING)).await.unwrap();
    assert_eq!(sqs.release_in_flight(&name).await.unwrap(), 2);
    assert_eq!(sqs.depth(&name).await.unwrap(), QueueDepth { visible: 2, delayed: 0, in_flight: 0 });
    let again = sqs.receive(&name, 2, Duration::ZERO, None).await.unwrap();
    assert_eq!(bodies(&again), ["a", "b"]);
    assert_eq!(again[0].receive_count, 2);
}

#[tokio::test]
async fn a_queue_is_made_once_and_changed_after() {
    let queue = one_queue(&[]).await;
    let (sqs, _) = handle_of(&queue);
    let name = QueueName::parse("ensured").unwrap();
    let missing = sqs.depth(&name).await;
    assert!(matches!(missing, Err(SqsError::QueueDoesNotExist)), "{missing:?}");
    for visibility in ["30", "60"] {
        let attributes = super::stores_under_test::map(&[("VisibilityTimeout", visibility)]);
        sqs.ensure_queue(&name, attributes).await.unwrap();
    }
    let get = queue.client.get_queue_attributes().queue_url(sqs.queue_url(&name));
    let attribute = aws_sdk_sqs::types::QueueAttributeName::VisibilityTimeout;
    let answer = get.attribute_names(attribute.clone()).send().await.unwrap();
    assert_eq!(answer.attributes().unwrap()[&attribute], "60");
}

#[tokio::test]
async fn stopping_sends_those_who_wait_away_and_refuses_those_who_come() {
    let queue = one_queue(&[]).await;
    let (sqs, name) = handle_of(&queue);
    let waiting = {
        let (sqs, name) = (sqs.clone(), name.clone());
        tokio::spawn(async move { sqs.receive(&name, 10, Duration::from_secs(20), None).await })
    };
    tokio::task::yield_now().await;
    queue.under_test.stores.shutdown().await;
    assert!(waiting.await.unwrap().unwrap().is_empty());
    assert!(matches!(sqs.depth(&name).await, Err(SqsError::Stopped)));
}

#[tokio::test]
async fn dropping_the_stores_ends_the_queues_though_someone_waits() {
    let queue = one_queue(&[]).await;
    let (sqs, name) = handle_of(&queue);
    let waiting = tokio::spawn(async move { sqs.receive(&name, 10, Duration::from_secs(20), None).await });
    tokio::task::yield_now().await;
    queue.send("kept").await;
    assert_eq!(bodies(&waiting.await.unwrap().unwrap()), ["kept"]);
    let (sqs, name) = handle_of(&queue);
    let handle = sqs.clone();
    let waiting = tokio::spawn(async move { handle.receive(&name, 10, Duration::from_secs(20), None).await });
    tokio::task::yield_now().await;
    drop(queue.under_test.stores);
    assert!(waiting.await.unwrap().unwrap().is_empty());
    let name = QueueName::parse("tested").unwrap();
    assert!(matches!(sqs.depth(&name).await, Err(SqsError::Stopped)));
}
