//! Faults on order, as an SDK meets them: the real error types, writes that went through without an answer, batches that
//! fail in part, messages that come twice.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed step of a test is a failed test"
)]

use std::time::Duration;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry};
use longhaul_local::stores::sqs::QueueDepth;
use longhaul_local::stores::{Stores, StoresConfig, start};
use serde_json::{Value, json};

mod stores_under_test;
use stores_under_test::{Address, code, dynamodb_client, sqs_of};

struct Faulty {
    stores: Stores,
    _folder: tempfile::TempDir,
    /// The client of the table, which tries once.
    table: aws_sdk_dynamodb::Client,
}

async fn faulty() -> Faulty {
    let folder = tempfile::tempdir().unwrap();
    let config = StoresConfig { faults: Some("{}".parse().unwrap()), ..StoresConfig::new(folder.path()) };
    let stores = start(config).await.unwrap();
    let table = dynamodb_client(&Address::of(&stores, stores.dynamodb.endpoint()));
    let once = table.config().to_builder().retry_config(aws_sdk_dynamodb::config::retry::RetryConfig::disabled());
    Faulty { table: aws_sdk_dynamodb::Client::from_conf(once.build()), stores, _folder: folder }
}

impl Faulty {
    async fn plan(&self, plan: Value) -> (u16, Value) {
        let url = self.stores.faults_endpoint.as_ref().unwrap();
        let answer = reqwest::Client::new().post(url).json(&plan).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn rule(&self, rule: Value) {
        assert_eq!(self.plan(json!({"rules": [rule]})).await, (200, json!({"rules": 1})));
    }

    async fn put(&self, name: &str) -> Result<(), SdkError<aws_sdk_dynamodb::operation::put_item::PutItemError>> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let put = self.table.put_item().table_name("longhaul").item("PK", text(name)).item("SK", text("x"));
        put.send().await.map(|_| ())
    }

    async fn is_there(&self, name: &str) -> bool {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let get = self.table.get_item().table_name("longhaul").key("PK", text(name)).key("SK", text("x"));
        get.send().await.unwrap().item.is_some()
    }

    fn queue_url(&self) -> String {
        self.stores.sqs.sqs.queue_url(&self.stores.sqs.jobs)
    }

    async fn depth(&self) -> QueueDepth {
        self.stores.sqs.sqs.depth(&self.stores.sqs.jobs).await.unwrap()
    }
}

#[tokio::test]
async fn a_write_goes_wrong_before_or_after_it_stands() {
    let faulty = faulty().await;
    // The fault, whether the item is there afterwards, and what the SDK makes of it.
    let rows = [
        ("failed", false, "InternalServerError"),
        ("failed_after", true, "InternalServerError"),
        ("cut", false, "no answer"),
        ("cut_after", true, "no answer"),
        ("held", false, "no answer"),
        ("held_after", true, "no answer"),
        ("slow", true, "ok"),
    ];
    for (fault, stands, expected) in rows {
        faulty.rule(json!({"action": "PutItem", "fault": fault, "every": 1, "hold_ms": 50})).await;
        let outcome = faulty.put(fault).await;
        let met = match &outcome {
            Err(SdkError::ServiceError(_)) | Ok(()) => code(outcome),
            Err(_) => "no answer".to_owned(),
        };
        assert_eq!(met, expected, "{fault}");
        assert_eq!(faulty.is_there(fault).await, stands, "{fault}");
    }
}

#[tokio::test]
async fn throttles_are_those_that_an_sdk_knows() {
    let faulty = faulty().await;
    faulty.rule(json!({"service": "dynamodb", "action": "PutItem", "fault": "throttled", "every": 1})).await;
    let mut met = std::collections::BTreeSet::new();
    for _ in 0..40 {
        met.insert(code(faulty.put("never").await));
    }
    let names = ["ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException"];
    assert_eq!(met.into_iter().collect::<Vec<_>>(), names);
    assert!(!faulty.is_there("never").await);
    // And the SDK's own repetition gets over it.
    faulty.rule(json!({"action": "PutItem", "fault": "throttled", "every": 1, "times": 2})).await;
    let patient = dynamodb_client(&Address::of(&faulty.stores, faulty.stores.dynamodb.endpoint()));
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let put = patient.put_item().table_name("longhaul").item("PK", text("at last")).item("SK", text("x"));
    put.send().await.unwrap();
    assert!(faulty.is_there("at last").await);

    faulty.rule(json!({"service": "sqs", "action": "SendMessage", "fault": "throttled", "every": 1})).await;
    let once = sqs_of(&faulty.stores);
    let once = once.config().to_builder().retry_config(aws_sdk_sqs::config::retry::RetryConfig::disabled()).build();
    let sent = aws_sdk_sqs::Client::from_conf(once).send_message().queue_url(faulty.queue_url()).message_body("x");
    assert_eq!(code(sent.send().await), "RequestThrottled");
    assert_eq!(faulty.depth().await, QueueDepth::default());
}

#[tokio::test]
async fn a_batch_fails_in_part_and_says_so() {
    let faulty = faulty().await;
    let sqs = sqs_of(&faulty.stores);
    for size in [10, 1] {
        faulty.rule(json!({"action": "SendMessageBatch", "fault": "partial", "every": 1})).await;
        let entries = (0..size).map(|number| {
            SendMessageBatchRequestEntry::builder().id(number.to_string()).message_body("x").build().unwrap()
        });
        let batch = sqs.send_message_batch().queue_url(faulty.queue_url()).set_entries(Some(entries.collect()));
        let sent = batch.send().await.unwrap();
        assert!(!sent.failed().is_empty());
        assert_eq!(sent.failed().len() + sent.successful().len(), size);
        let failed = &sent.failed()[0];
        assert_eq!((failed.code(), failed.sender_fault()), ("InternalFailure", false));
        assert_eq!(faulty.depth().await.visible, sent.successful().len());
        // What was sent is received, and deleted but for the part that fails.
        let receive = sqs.receive_message().queue_url(faulty.queue_url()).max_number_of_messages(10);
        let received = receive.send().await.unwrap().messages.unwrap_or_default();
        if received.is_empty() {
            continue;
        }
        faulty.rule(json!({"action": "DeleteMessageBatch", "fault": "partial", "every": 1})).await;
        let entries = received.iter().enumerate().map(|(number, message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(number.to_string());
            entry.receipt_handle(message.receipt_handle().unwrap()).build().unwrap()
        });
        let batch = sqs.delete_message_batch().queue_url(faulty.queue_url()).set_entries(Some(entries.collect()));
        let deleted = batch.send().await.unwrap();
        assert!(!deleted.failed().is_empty());
        assert_eq!(faulty.depth().await.in_flight, deleted.failed().len());
        faulty.stores.sqs.sqs.release_in_flight(&faulty.stores.sqs.jobs).await.unwrap();
        assert_eq!(faulty.plan(json!({})).await.0, 200);
        let purge = sqs.purge_queue().queue_url(faulty.queue_url());
        purge.send().await.unwrap();
    }
}

#[tokio::test]
async fn messages_come_twice() {
    let faulty = faulty().await;
    let sqs = sqs_of(&faulty.stores);
    faulty.rule(json!({"action": "SendMessage", "fault": "duplicated", "every": 1})).await;
    sqs.send_message().queue_url(faulty.queue_url()).message_body("sent").send().await.unwrap();
    assert_eq!(faulty.depth().await.visible, 2);
    faulty.rule(json!({"action": "ReceiveMessage", "fault": "duplicated", "every": 1, "times": 2})).await;
    let queue = &faulty.stores.sqs.jobs;
    let receive = || faulty.stores.sqs.sqs.receive(queue, 1, Duration::ZERO, None);
    let first = receive().await.unwrap();
    // Over HTTP the same.
    let receive_message = sqs.receive_message().queue_url(faulty.queue_url()).max_number_of_messages(10);
    let over_http = receive_message.send().await.unwrap().messages.unwrap_or_default();
    assert_eq!((first.len(), over_http.len()), (1, 2));
    assert_eq!(faulty.depth().await, QueueDepth { visible: 2, ..QueueDepth::default() });
    // A receipt that is not the latest deletes nothing: the message stays for whoever had it last.
    faulty.stores.sqs.sqs.delete(queue, &[first[0].receipt.clone()]).await.unwrap();
    assert_eq!(faulty.depth().await.visible, 2);
}

#[tokio::test]
async fn calls_of_the_same_process_go_wrong_too() {
    let faulty = faulty().await;
    let (sqs, queue) = (&faulty.stores.sqs.sqs, &faulty.stores.sqs.jobs);
    let send = || sqs_of(&faulty.stores).send_message().queue_url(faulty.queue_url()).message_body("x").send();
    for (fault, in_flight) in [("failed", 0), ("cut_after", 1), ("held_after", 1), ("throttled", 0)] {
        send().await.unwrap();
        let before = faulty.depth().await.in_flight;
        faulty.rule(json!({"action": "ReceiveMessage", "fault": fault, "every": 1, "hold_ms": 1})).await;
        sqs.receive(queue, 1, Duration::ZERO, None).await.unwrap_err();
        assert_eq!(faulty.depth().await.in_flight - before, in_flight, "{fault}");
    }
    faulty.plan(json!({})).await;
    sqs.release_in_flight(queue).await.unwrap();
    let receipts: Vec<_> = sqs
        .receive(queue, 10, Duration::ZERO, None)
        .await
        .unwrap()
        .into_iter()
        .map(|message| message.receipt)
        .collect();
    assert_eq!(receipts.len(), 4);
    faulty.rule(json!({"action": "DeleteMessageBatch", "fault": "partial", "every": 1})).await;
    sqs.delete(queue, &receipts).await.unwrap_err();
    assert!((1..=4).contains(&faulty.depth().await.in_flight));
    faulty.rule(json!({"action": "DeleteMessageBatch", "fault": "failed_after", "every": 1})).await;
    sqs.delete(queue, &receipts).await.unwrap_err();
    assert_eq!(faulty.depth().await, QueueDepth::default(), "deleted, and said not to be");
}

#[tokio::test]
async fn a_plan_is_checked_and_told_with_what_came_of_it() {
    let faulty = faulty().await;
    let rows = [
        (json!({"rules": [{"fault": "cut"}]}), 400, "rule 1: give either every or probability"),
        (json!({"rules": [{"fault": "explosion", "every": 1}]}), 422, "unknown variant `explosion`"),
    ];
    for (plan, status, expected) in rows {
        let (answered, body) = faulty.plan(plan).await;
        assert_eq!(answered, status);
        assert!(body["error"].as_str().unwrap().contains(expected), "{body}");
    }
    let url = faulty.stores.faults_endpoint.clone().unwrap();
    let foreign = reqwest::Client::new().post(&url).body("{}").send().await.unwrap();
    assert_eq!(foreign.status(), 415, "a form of a strange page");

    faulty.rule(json!({"action": "PutItem", "fault": "failed", "every": 2})).await;
    for name in ["a", "b", "c"] {
        let _outcome = faulty.put(name).await;
    }
    let told: Value = reqwest::get(&url).await.unwrap().json().await.unwrap();
    assert_eq!(
        told,
        json!([{"action": "PutItem", "fault": "failed", "every": 2, "hold_ms": 4000, "calls": 3, "hits": 1}])
    );
}

#[tokio::test]
async fn nobody_orders_faults_of_stores_that_were_started_without() {
    let under_test = stores_under_test::stores().await;
    assert_eq!(under_test.stores.faults_endpoint, None);
}
