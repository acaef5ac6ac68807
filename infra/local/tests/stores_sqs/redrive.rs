//! Dead letters: buried when received too often, and moved back by a task.

use aws_sdk_sqs::types::{Message, MessageSystemAttributeName, QueueAttributeName};

use super::stores_under_test::code;
use super::{OneQueue, bodies, create, depth, one_queue, receive};

const DEAD_ARN: &str = "arn:aws:sqs:us-east-1:000000000000:dead";
const SOURCE_ARN: &str = "arn:aws:sqs:us-east-1:000000000000:tested";

fn policy(max_receives: u32) -> String {
    format!(r#"{{"deadLetterTargetArn":"{DEAD_ARN}","maxReceiveCount":{max_receives}}}"#)
}

/// A queue whose messages may be received twice, and its dead-letter queue.
async fn with_dead_letters() -> (OneQueue, String) {
    let queue = one_queue(&[(QueueAttributeName::VisibilityTimeout, "0")]).await;
    let dead = create(&queue.client, "dead", &[]).await;
    let set = queue.client.set_queue_attributes().queue_url(&queue.url);
    set.attributes(QueueAttributeName::RedrivePolicy, policy(2)).send().await.unwrap();
    (queue, dead)
}

fn attribute(message: &Message, name: MessageSystemAttributeName) -> String {
    message.attributes().unwrap().get(&name).cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_message_received_too_often_is_buried() {
    let (queue, dead) = with_dead_letters().await;
    let id = queue.send("poison").await;
    for count in ["1", "2"] {
        let received = queue.receive(1, 0).await;
        let found = attribute(&received[0], MessageSystemAttributeName::ApproximateReceiveCount);
        assert_eq!(found, count);
    }
    assert!(queue.receive(1, 0).await.is_empty(), "a third receive buries it");
    assert_eq!(queue.depth().await, [0, 0, 0]);
    let buried = receive(&queue.client, &dead, 1, 0).await;
    assert_eq!(bodies(&buried), ["poison"]);
    assert_eq!(buried[0].message_id(), Some(id.as_str()), "it is the same message");
    let source = attribute(&buried[0], MessageSystemAttributeName::DeadLetterQueueSourceArn);
    assert_eq!(source, SOURCE_ARN);
    let count = attribute(&buried[0], MessageSystemAttributeName::ApproximateReceiveCount);
    assert_eq!(count, "3", "receives count across queues");
}

#[tokio::test]
async fn one_call_counts_as_one_receive() {
    let (queue, dead) = with_dead_letters().await;
    queue.send("x").await;
    // Visible again at once, ten asked for: it goes out once a call and is not buried before its time.
    for _ in 0..2 {
        assert_eq!(bodies(&queue.receive(10, 0).await), ["x"]);
    }
    assert_eq!(depth(&queue.client, &dead).await, [0, 0, 0]);
}

#[tokio::test]
async fn a_burial_wakes_the_receiver_of_dead_letters() {
    let (queue, dead) = with_dead_letters().await;
    queue.send("poison").await;
    let undertaker = {
        let (client, dead) = (queue.client.clone(), dead.clone());
        tokio::spawn(async move { receive(&client, &dead, 1, 20).await })
    };
    for _ in 0..3 {
        queue.receive(1, 0).await;
    }
    assert_eq!(bodies(&undertaker.await.unwrap()), ["poison"]);
}

#[tokio::test]
async fn sources_and_permissions_of_a_dead_letter_queue() {
    let (queue, dead) = with_dead_letters().await;
    let sources = queue.client.list_dead_letter_source_queues().queue_url(&dead).send().await.unwrap();
    assert_eq!(sources.queue_urls().join(" "), queue.url);

    let allow = |policy: &str| {
        let set = queue.client.set_queue_attributes().queue_url(&dead);
        set.attributes(QueueAttributeName::RedriveAllowPolicy, policy).send()
    };
    let name_it = || {
        let set = queue.client.set_queue_attributes().queue_url(&queue.url);
        set.attributes(QueueAttributeName::RedrivePolicy, policy(3)).send()
    };
    let by_queue = |arn: &str| format!(r#"{{"redrivePermission":"byQueue","sourceQueueArns":["{arn}"]}}"#);
    for (policy, wanted) in [
        (r#"{"redrivePermission":"denyAll"}"#.to_owned(), "InvalidParameterValue"),
        (by_queue(DEAD_ARN), "InvalidParameterValue"),
        (by_queue(SOURCE_ARN), "ok"),
        (r#"{"redrivePermission":"allowAll"}"#.to_owned(), "ok"),
    ] {
        allow(&policy).await.unwrap();
        assert_eq!(code(name_it().await), wanted, "{policy}");
    }
}

#[tokio::test]
async fn a_policy_that_leads_nowhere_is_refused_and_an_empty_one_removed() {
    let (queue, _) = with_dead_letters().await;
    let set = |policy: String| {
        let set = queue.client.set_queue_attributes().queue_url(&queue.url);
        set.attributes(QueueAttributeName::RedrivePolicy, policy).send()
    };
    for (policy, wanted) in [
        (policy(2).replace(":dead", ":nowhere"), "InvalidParameterValue"),
        (policy(2).replace(":dead", ":tested"), "InvalidParameterValue"),
        (String::new(), "ok"),
    ] {
        assert_eq!(code(set(policy.clone()).await), wanted, "{policy}");
    }
    queue.send("never buried").await;
    for _ in 0..5 {
        assert_eq!(queue.receive(1, 0).await.len(), 1);
    }
}

/// Buries `count` messages.
async fn bury(queue: &OneQueue, count: usize) {
    for number in 0..count {
        queue.send(&number.to_string()).await;
    }
    while queue.depth().await != [0, 0, 0] {
        queue.receive(10, 0).await;
    }
}

/// Waits until the latest move task of the dead-letter queue has ended, and gives back its status.
async fn ended(queue: &OneQueue) -> (String, i64) {
    loop {
        let list = queue.client.list_message_move_tasks().source_arn(DEAD_ARN).max_results(10);
        let tasks = list.send().await.unwrap();
        let latest = &tasks.results()[0];
        let status = latest.status().unwrap_or_default();
        if status != "RUNNING" {
            assert!(latest.task_handle().is_none());
            return (status.to_owned(), latest.approximate_number_of_messages_moved());
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_move_task_puts_dead_letters_back_where_they_came_from() {
    let (queue, dead) = with_dead_letters().await;
    bury(&queue, 3).await;
    assert_eq!(depth(&queue.client, &dead).await, [3, 0, 0]);
    let before: Vec<_> = ids(&receive_without_taking(&queue, &dead).await);
    queue.client.start_message_move_task().source_arn(DEAD_ARN).send().await.unwrap();
    assert_eq!(ended(&queue).await, ("COMPLETED".to_owned(), 3));
    assert_eq!(depth(&queue.client, &dead).await, [0, 0, 0]);
    let set = queue.client.set_queue_attributes().queue_url(&queue.url);
    set.attributes(QueueAttributeName::VisibilityTimeout, "30").send().await.unwrap();
    let back = queue.receive(10, 0).await;
    assert_eq!(back.len(), 3);
    for message in &back {
        let count = attribute(message, MessageSystemAttributeName::ApproximateReceiveCount);
        assert_eq!(count, "1", "it begins anew");
        assert!(!before.contains(&message.message_id().unwrap().to_owned()), "under a new id");
    }
}

async fn receive_without_taking(queue: &OneQueue, url: &str) -> Vec<Message> {
    let request = queue.client.receive_message().queue_url(url).visibility_timeout(0);
    request.max_number_of_messages(10).send().await.unwrap().messages.unwrap_or_default()
}

fn ids(messages: &[Message]) -> Vec<String> {
    messages.iter().filter_map(|message| message.message_id.clone()).collect()
}

#[tokio::test]
async fn a_move_task_can_have_a_destination_and_a_rate_and_be_cancelled() {
    let (queue, dead) = with_dead_letters().await;
    let other = create(&queue.client, "other", &[]).await;
    bury(&queue, 4).await;
    let start = |rate: i32| {
        let start = queue.client.start_message_move_task().source_arn(DEAD_ARN);
        start.destination_arn("arn:aws:sqs:us-east-1:000000000000:other").max_number_of_messages_per_second(rate).send()
    };
    let task = start(1).await.unwrap().task_handle.unwrap();
    assert_eq!(code(start(1).await), "InvalidParameterValue", "one task at a time");
    let cancel = || queue.client.cancel_message_move_task().task_handle(&task).send();
    let cancelled = cancel().await.unwrap().approximate_number_of_messages_moved();
    assert!(cancelled < 4, "one a second cannot have moved all four: {cancelled}");
    assert_eq!(ended(&queue).await.0, "CANCELLED");
    assert_eq!(code(cancel().await), "AWS.SimpleQueueService.UnsupportedOperation");
    start(500).await.unwrap();
    assert_eq!(ended(&queue).await.0, "COMPLETED");
    assert_eq!(depth(&queue.client, &dead).await, [0, 0, 0]);
    assert_eq!(depth(&queue.client, &other).await, [4, 0, 0]);
}

#[tokio::test]
async fn move_tasks_that_cannot_be_are_refused() {
    let (queue, dead) = with_dead_letters().await;
    let start = |arn: &str| queue.client.start_message_move_task().source_arn(arn).send();
    let cancel = queue.client.cancel_message_move_task().task_handle("none").send().await;
    let cases = [
        ("not a dead-letter queue", code(start(SOURCE_ARN).await), "InvalidParameterValue"),
        ("no queue", code(start("arn:aws:sqs:us-east-1:000000000000:no").await), "ResourceNotFoundException"),
        ("no ARN", code(start("dead").await), "InvalidParameterValue"),
        ("no task", code(cancel), "ResourceNotFoundException"),
    ];
    for (name, found, wanted) in cases {
        assert_eq!(found, wanted, "{name}");
    }
    // A dead letter that was sent to the dead-letter queue directly came from nowhere.
    let send = queue.client.send_message().queue_url(&dead).message_body("from nowhere");
    send.send().await.unwrap();
    start(DEAD_ARN).await.unwrap();
    assert_eq!(ended(&queue).await, ("FAILED".to_owned(), 0));
    assert_eq!(depth(&queue.client, &dead).await, [1, 0, 0], "and stays where it is");
}
