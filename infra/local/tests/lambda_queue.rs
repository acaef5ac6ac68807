//! Queue → function: batches, partial failures by AWS's rules, redelivery, windows and concurrency.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed assumption must fail the test"
)]

mod functions_under_test;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use functions_under_test::{PATIENCE, Platform, eventually};
use longhaul_local::lambda::event_sources::{Mapping, QueueMapping, QueueMappingError, Redelivery};
use longhaul_local::lambda::functions::{Function, FunctionConfig};
use longhaul_local::stores::sqs::{QueueDepth, QueueName, Sqs, SqsConfig};
use longhaul_local::stores::{SqsStore, Stores, StoresConfig};
use serde_json::{Value, json};

struct Stack {
    platform: Platform,
    function: Function,
    sqs: Sqs,
    queue: QueueName,
    endpoint: String,
    client: reqwest::Client,
}

impl Stack {
    async fn start() -> Self {
        Self::start_with(30, |_| {}).await
    }

    async fn start_with(visibility_seconds: u32, change: impl FnOnce(&mut FunctionConfig)) -> Self {
        let platform = Platform::start().await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let config = SqsConfig {
            file: platform.data.path().join("queues.sqlite"),
            region: "us-east-1".to_owned(),
            endpoint: endpoint.clone(),
            durable: false,
        };
        let sqs = Sqs::open(config).unwrap();
        tokio::spawn(axum::serve(listener, sqs.router()).into_future());
        let queue = QueueName::parse("jobs").unwrap();
        let attributes = BTreeMap::from([("VisibilityTimeout".to_owned(), visibility_seconds.to_string())]);
        sqs.ensure_queue(&queue, attributes).await.unwrap();
        let function = platform.add(change).await;
        Self { platform, function, sqs, queue, endpoint, client: reqwest::Client::new() }
    }

    /// The stack's own queue, whose calls go wrong as planned.
    async fn start_wrong(folder: &tempfile::TempDir, plan: &Value) -> (Self, Stores) {
        let faults = Some(plan.to_string().parse().unwrap());
        let stores = StoresConfig { faults, ..StoresConfig::new(folder.path()) };
        let stores = longhaul_local::stores::start(stores).await.unwrap();
        let SqsStore { sqs, endpoint, jobs: queue, .. } = stores.sqs.clone();
        (Self { sqs, endpoint, queue, ..Self::start().await }, stores)
    }

    async fn send(&self, body: &str) {
        let call = json!({
            "QueueUrl": self.sqs.queue_url(&self.queue),
            "MessageBody": body,
            "MessageGroupId": "tenant-a",
            "MessageAttributes": {"kind": {"DataType": "String", "StringValue": "continuation"}},
        });
        let answer = self
            .client
            .post(&self.endpoint)
            .header("x-amz-target", "AmazonSQS.SendMessage")
            .header("content-type", "application/x-amz-json-1.0")
            .body(call.to_string())
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    }

    fn mapping(&self) -> QueueMapping {
        QueueMapping {
            sqs: self.sqs.clone(),
            queue: self.queue.clone(),
            function: self.function.clone(),
            batch_size: 10,
            window: Duration::ZERO,
            max_concurrency: 2,
            report_batch_item_failures: true,
            redelivery: Redelivery::Lifelike,
        }
    }

    fn map(&self, change: impl FnOnce(&mut QueueMapping)) -> Mapping {
        let mut mapping = self.mapping();
        change(&mut mapping);
        mapping.start().unwrap()
    }

    async fn depth(&self) -> QueueDepth {
        self.sqs.depth(&self.queue).await.unwrap()
    }

    async fn until_empty(&self) {
        let started = Instant::now();
        while self.depth().await != QueueDepth::default() {
            assert!(started.elapsed() < PATIENCE, "the queue is never empty: {:?}", self.depth().await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn bodies(event: &Value) -> BTreeSet<String> {
    event["Records"].as_array().unwrap().iter().map(|record| record["body"].as_str().unwrap().to_owned()).collect()
}

fn receive_count(event: &Value) -> &str {
    event["Records"][0]["attributes"]["ApproximateReceiveCount"].as_str().unwrap()
}

#[tokio::test]
async fn messages_arrive_as_lambda_sends_them_and_are_deleted() {
    let stack = Stack::start().await;
    let _mapping = stack.map(|_| {});
    stack.send(r#"{"job":"1"}"#).await;
    let event = stack.platform.events_after(1).await.remove(0);
    let record = &event["Records"][0];
    assert_eq!(record["body"], r#"{"job":"1"}"#);
    assert_eq!(record["attributes"]["MessageGroupId"], "tenant-a");
    assert_eq!(record["attributes"]["ApproximateReceiveCount"], "1");
    assert_eq!(record["messageAttributes"]["kind"]["stringValue"], "continuation");
    assert_eq!(record["eventSourceARN"], "arn:aws:sqs:us-east-1:000000000000:jobs");
    assert_eq!((&record["eventSource"], &record["awsRegion"]), (&json!("aws:sqs"), &json!("us-east-1")));
    stack.until_empty().await;
    assert_eq!(stack.platform.events().len(), 1);
}

/// Each row: what the function answers to three messages, and how many of them stay in the queue.
#[tokio::test]
async fn partial_failures_follow_the_rules_of_aws() {
    let failed = |identifiers: Value| {
        let items: Vec<_> = identifiers.as_array().unwrap().iter().map(|id| json!({"itemIdentifier": id})).collect();
        json!({"batchItemFailures": items})
    };
    for (answer, left) in [
        (json!(null), 0),
        (json!({}), 0),
        (json!({"batchItemFailures": []}), 0),
        (json!({"batchItemFailures": null}), 0),
        (failed(json!(["#1"])), 1),
        (failed(json!(["#2", "#0"])), 2),
        (failed(json!(["#0", "#0"])), 1),
        (failed(json!(["#0", "#1", "#2"])), 3),
        (failed(json!([""])), 3),
        (failed(json!([null])), 3),
        (failed(json!(["#0", "unknown"])), 3),
        (failed(json!([7])), 3),
        (json!({"batchItemFailures": [{"messageId": "#0"}]}), 3),
        (json!({"batchItemFailures": ["#0"]}), 3),
        (json!({"batchItemFailures": {"itemIdentifier": "#0"}}), 3),
        (json!("done"), 3),
        (json!([]), 3),
    ] {
        let stack = Stack::start().await;
        for message in 0..3 {
            stack.send(&json!({"do": "answer", "answer": answer, "message": message}).to_string()).await;
        }
        let mapping = stack.map(|_| {});
        let event = stack.platform.events_after(1).await.remove(0);
        assert_eq!(event["Records"].as_array().unwrap().len(), 3, "one receive takes all");
        mapping.stop().await;
        let expected = QueueDepth { in_flight: left, ..QueueDepth::default() };
        assert_eq!(stack.depth().await, expected, "{answer}");
    }
}

/// Each row: whether failures are reported at all, what the function does, and how many messages stay.
#[tokio::test]
async fn errors_fail_the_whole_batch_and_answers_without_reports_none() {
    for (reports, order, left) in [
        (true, "fail", 2),
        (true, "exit", 2),
        (true, "panic", 2),
        (true, "big answer", 2),
        (false, "fail", 2),
        (false, "kill", 2),
        (false, "answer", 0),
    ] {
        let stack = Stack::start().await;
        for message in 0..2 {
            let answer = json!({"batchItemFailures": [{"itemIdentifier": "#0"}]});
            stack.send(&json!({"do": order, "answer": answer, "message": message}).to_string()).await;
        }
        let mapping = stack.map(|mapping| mapping.report_batch_item_failures = reports);
        stack.platform.events_after(1).await;
        mapping.stop().await;
        let expected = QueueDepth { in_flight: left, ..QueueDepth::default() };
        assert_eq!(stack.depth().await, expected, "{order} {reports}");
    }
}

#[tokio::test]
async fn a_batch_whose_process_died_comes_back_at_once() {
    for order in [json!({"do": "kill"}), json!({"do": "sleep", "ms": 60_000})] {
        let stack = Stack::start_with(30, |config| config.timeout = Duration::from_millis(500)).await;
        let _mapping = stack.map(|mapping| mapping.redelivery = Redelivery::Prompt);
        stack.send(&order.to_string()).await;
        let started = Instant::now();
        let events = stack.platform.events_after(2).await;
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        assert_eq!(receive_count(&events[1]), "2");
    }
}

#[tokio::test]
async fn reported_failures_come_back_alone_and_soon() {
    let stack = Stack::start().await;
    for message in 0..3 {
        let answer = json!({"batchItemFailures": [{"itemIdentifier": "#1"}]});
        stack.send(&json!({"do": "answer", "answer": answer, "message": message}).to_string()).await;
    }
    let _mapping = stack.map(|mapping| mapping.redelivery = Redelivery::Prompt);
    let events = stack.platform.events_after(2).await;
    assert_eq!(events[1]["Records"].as_array().unwrap().len(), 1);
    assert_eq!(events[1]["Records"][0]["messageId"], events[0]["Records"][1]["messageId"]);
    assert_eq!(receive_count(&events[1]), "2");
}

#[tokio::test]
async fn in_lifelike_mode_a_failed_batch_waits_for_its_visibility() {
    let stack = Stack::start_with(1, |_| {}).await;
    let _mapping = stack.map(|_| {});
    stack.send(&json!({"do": "kill"}).to_string()).await;
    stack.platform.events_after(1).await;
    let started = Instant::now();
    let events = stack.platform.events_after(2).await;
    assert!(started.elapsed() > Duration::from_millis(700), "{:?}", started.elapsed());
    assert_eq!(receive_count(&events[1]), "2");
}

/// Found by a load through failing stores: messages that went well each time, and were never deleted, became dead letters
/// of jobs that had completed.
#[tokio::test]
async fn finished_messages_are_deleted_though_deletions_fail() {
    for fault in ["failed", "failed_after", "throttled", "cut", "partial"] {
        let folder = tempfile::tempdir().unwrap();
        let plan = json!({"rules": [{"service": "sqs", "action": "DeleteMessageBatch", "fault": fault, "every": 1, "times": 2}]});
        let (stack, _stores) = Stack::start_wrong(&folder, &plan).await;
        stack.send("once").await;
        let _mapping = stack.map(|_| {});
        stack.until_empty().await;
        assert_eq!(receive_count(&stack.platform.events_after(1).await[0]), "1", "{fault}");
        assert_eq!(stack.platform.events().len(), 1, "{fault}");
    }
}

/// A whole second of rest after each would make twenty seconds of this.
#[tokio::test]
async fn receives_that_fail_hold_a_backlog_up_for_a_moment_only() {
    let folder = tempfile::tempdir().unwrap();
    let plan = json!({"rules": [{"service": "sqs", "action": "ReceiveMessage", "fault": "failed", "every": 2}]});
    let (stack, _stores) = Stack::start_wrong(&folder, &plan).await;
    for message in 0..20 {
        stack.send(&format!("{message}")).await;
    }
    let started = Instant::now();
    let _mapping = stack.map(|mapping| mapping.batch_size = 1);
    stack.until_empty().await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(stack.platform.events().len(), 20);
}

#[tokio::test]
async fn a_window_gathers_a_batch() {
    let stack = Stack::start().await;
    let _mapping = stack.map(|mapping| {
        mapping.batch_size = 3;
        mapping.window = Duration::from_secs(60);
    });
    for body in ["a", "b", "c"] {
        stack.send(body).await;
    }
    let event = stack.platform.events_after(1).await.remove(0);
    assert_eq!(bodies(&event), ["a", "b", "c"].map(str::to_owned).into(), "full before its window ended");
}

#[tokio::test]
async fn a_window_ends_with_what_is_there() {
    let stack = Stack::start().await;
    let _mapping = stack.map(|mapping| mapping.window = Duration::from_millis(300));
    let started = Instant::now();
    stack.send("alone").await;
    let event = stack.platform.events_after(1).await.remove(0);
    assert_eq!(bodies(&event), ["alone".to_owned()].into());
    assert!((Duration::from_millis(250)..Duration::from_secs(10)).contains(&started.elapsed()));
}

#[tokio::test]
async fn concurrency_is_bounded_by_the_mapping() {
    let stack = Stack::start().await;
    for _ in 0..6 {
        stack.send(&json!({"do": "sleep", "ms": 60}).to_string()).await;
    }
    let _mapping = stack.map(|mapping| mapping.batch_size = 1);
    let mut most = 0;
    eventually("all six", || {
        most = most.max(stack.platform.functions.instances().len());
        (stack.platform.events().len() == 6).then_some(())
    })
    .await;
    stack.until_empty().await;
    assert_eq!(most, 2);
}

#[tokio::test]
async fn a_batch_over_the_payload_limit_takes_several_invocations() {
    let stack = Stack::start().await;
    for message in 0..8 {
        stack.send(&format!("{message}{}", "x".repeat(1_000_000))).await;
    }
    let mapping = stack.map(|_| {});
    stack.until_empty().await;
    mapping.stop().await;
    let events = stack.platform.events();
    let all: BTreeSet<String> = events.iter().flat_map(bodies).map(|body| body.chars().take(1).collect()).collect();
    assert_eq!((events.len(), all.len()), (2, 8), "six fit into one event, and two into the next");
}

#[tokio::test]
async fn stopping_waits_for_what_is_under_way() {
    let stack = Stack::start().await;
    let mapping = stack.map(|_| {});
    stack.send(&json!({"do": "sleep", "ms": 300}).to_string()).await;
    stack.platform.events_after(1).await;
    mapping.stop().await;
    assert_eq!(stack.depth().await, QueueDepth::default(), "the message was finished and deleted");
    stack.send("later").await;
    // Another mapping finds the message where it was put: whoever had polled it would have counted as its first.
    let other = stack.map(|_| {});
    let events = stack.platform.events_after(2).await;
    assert_eq!((receive_count(&events[1]), events.len()), ("1", 2), "nothing is polled any more");
    other.stop().await;
}

#[tokio::test]
async fn settings_that_aws_refuses_are_refused() {
    let stack = Stack::start().await;
    type Change = fn(&mut QueueMapping);
    let rows: [(Change, QueueMappingError); 6] = [
        (|mapping| mapping.batch_size = 0, QueueMappingError::BatchSize(0)),
        (|mapping| mapping.batch_size = 10_001, QueueMappingError::BatchSize(10_001)),
        (|mapping| mapping.batch_size = 11, QueueMappingError::WindowMissing),
        (|mapping| mapping.window = Duration::from_secs(301), QueueMappingError::Window(Duration::from_secs(301))),
        (|mapping| mapping.max_concurrency = 1, QueueMappingError::Concurrency(1)),
        (|mapping| mapping.max_concurrency = 1001, QueueMappingError::Concurrency(1001)),
    ];
    for (change, expected) in rows {
        let mut mapping = stack.mapping();
        change(&mut mapping);
        assert_eq!(mapping.start().unwrap_err(), expected);
    }
}
