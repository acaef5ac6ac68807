//! Stream → function: filter, order, retries, halving, reports, and a place that survives restarts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a failed assumption must fail the test"
)]

mod functions_under_test;
mod stores_under_test;

use std::path::Path;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use functions_under_test::Platform;
use longhaul_local::lambda::event_sources::{Mapping, RetryPolicy, StreamFilter, StreamMapping, StreamMappingError};
use longhaul_local::lambda::functions::{Function, FunctionConfig};
use longhaul_local::stores::Stores;
use serde_json::{Value, json};
use stores_under_test::{Address, dynamodb_client, stores_in};
use tempfile::TempDir;

struct Stack {
    platform: Platform,
    function: Function,
    stores: Stores,
    table: aws_sdk_dynamodb::Client,
    folder: TempDir,
}

impl Stack {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut FunctionConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (stores, table) = open(folder.path()).await;
        let platform = Platform::start().await;
        Self { function: platform.add(change).await, platform, stores, table, folder }
    }

    /// The same stack after a restart of its stores.
    async fn restart(mut self) -> Self {
        drop(self.table);
        self.stores.shutdown().await;
        (self.stores, self.table) = open(self.folder.path()).await;
        self
    }

    async fn put(&self, key: &str, order: Option<Value>) {
        let mut put = self.table.put_item().table_name("longhaul");
        put = put.item("PK", AttributeValue::S("JOB#1".to_owned())).item("SK", AttributeValue::S(key.to_owned()));
        if let Some(order) = order {
            put = put.item("order", AttributeValue::S(order.to_string()));
        }
        put.send().await.unwrap();
    }

    fn map(&self, change: impl FnOnce(&mut StreamMapping)) -> Result<Mapping, StreamMappingError> {
        let mut mapping = StreamMapping {
            reader: self.stores.dynamodb.stream_reader("push").unwrap(),
            function: self.function.clone(),
            batch_size: 100,
            window: Duration::ZERO,
            filters: vec![StreamFilter::journal_entries()],
            retry: RetryPolicy { max_retries: 1, bisect: false },
            report_batch_item_failures: false,
        };
        change(&mut mapping);
        mapping.start()
    }

    /// The sort keys of each event, once there are that many.
    async fn events(&self, count: usize) -> Vec<Vec<String>> {
        self.platform.events_after(count).await.iter().map(keys).collect()
    }
}

async fn open(folder: &Path) -> (Stores, aws_sdk_dynamodb::Client) {
    let stores = stores_in(folder).await;
    let table = dynamodb_client(&Address::of(&stores, stores.dynamodb.endpoint()));
    (stores, table)
}

fn keys(event: &Value) -> Vec<String> {
    let key = |record: &Value| record["dynamodb"]["Keys"]["SK"]["S"].as_str().unwrap().to_owned();
    event["Records"].as_array().unwrap().iter().map(key).collect()
}

#[tokio::test]
async fn appended_entries_arrive_in_order_and_nothing_else_does() {
    let stack = Stack::start().await;
    stack.put("JOB", None).await;
    stack.put("J#0000000001", None).await;
    stack.put("JOB", None).await;
    stack.put("J#0000000002", None).await;
    stack.put("J#0000000002", Some(json!({"is": "a change"}))).await;
    let mapping = stack.map(|_| {}).unwrap();
    assert_eq!(stack.events(1).await, [["J#0000000001", "J#0000000002"]]);
    stack.put("J#0000000003", None).await;
    assert_eq!(stack.events(2).await[1], ["J#0000000003"]);
    mapping.stop().await;

    let event = stack.platform.events().remove(0);
    let record = &event["Records"][0];
    for (pointer, value) in [
        ("/eventName", json!("INSERT")),
        ("/eventSource", json!("aws:dynamodb")),
        ("/eventVersion", json!("1.1")),
        ("/awsRegion", json!("us-east-1")),
        ("/dynamodb/StreamViewType", json!("NEW_IMAGE")),
        ("/dynamodb/NewImage/PK/S", json!("JOB#1")),
        ("/eventSourceARN", json!(stack.stores.dynamodb.stream_reader("other").unwrap().stream_arn())),
    ] {
        assert_eq!(record.pointer(pointer), Some(&value), "{pointer} of {record}");
    }
    serde_json::from_value::<aws_lambda_events::dynamodb::Event>(event).unwrap();
}

/// Each row: the policy, whether failures are reported, what the bad third record makes the function do, and how many
/// records each invocation got.
#[tokio::test]
async fn a_bad_record_holds_up_the_stream_only_as_long_as_the_policy_says() {
    let report = |item: &str| json!({"do": "answer", "answer": {"batchItemFailures": [{"itemIdentifier": item}]}});
    for (name, max_retries, bisect, reports, order, portions) in [
        ("no retry", 0, false, false, json!({"do": "fail"}), vec![4]),
        ("one retry", 1, false, false, json!({"do": "fail"}), vec![4, 4]),
        ("a process that dies", 1, false, false, json!({"do": "kill"}), vec![4, 4]),
        ("halving", 1, true, false, json!({"do": "fail"}), vec![4, 2, 2, 1, 1, 1]),
        // The report names the third record of the event; in what is left of the batch there is none.
        ("a report", 1, false, true, report("#2"), vec![4, 2]),
        ("a malformed report", 0, false, true, report(""), vec![4]),
        ("a report nobody asked for", 1, true, false, report("#2"), vec![4]),
    ] {
        let stack = Stack::start().await;
        for (number, order) in [None, None, Some(order), None].into_iter().enumerate() {
            stack.put(&format!("J#000000000{number}"), order).await;
        }
        let mapping = stack
            .map(|mapping| {
                mapping.retry = RetryPolicy { max_retries, bisect };
                mapping.report_batch_item_failures = reports;
            })
            .unwrap();
        let tried: Vec<_> = stack.events(portions.len()).await.iter().map(Vec::len).collect();
        assert_eq!(tried, portions, "{name}");
        stack.put("J#0000000009", None).await;
        let events = stack.events(portions.len() + 1).await;
        assert_eq!(events.last().unwrap(), &["J#0000000009"], "{name}: the stream goes on");
        mapping.stop().await;
    }
}

#[tokio::test]
async fn a_throttled_function_loses_no_record() {
    let stack = Stack::start_with(|config| config.max_concurrency = 1).await;
    let busy = {
        let function = stack.function.clone();
        tokio::spawn(async move { function.invoke(r#"{"do":"sleep","ms":1200}"#, None).await })
    };
    stack.platform.events_after(1).await;
    let _mapping = stack.map(|mapping| mapping.retry = RetryPolicy { max_retries: 0, bisect: false }).unwrap();
    stack.put("J#0000000001", None).await;
    let events = stack.platform.events_after(2).await;
    assert_eq!(keys(&events[1]), ["J#0000000001"]);
    busy.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_place_in_the_stream_survives_restarts() {
    let stack = Stack::start().await;
    stack.put("J#0000000001", None).await;
    let mapping = stack.map(|_| {}).unwrap();
    stack.events(1).await;
    mapping.stop().await;
    stack.put("J#0000000002", None).await;
    let stack = stack.restart().await;
    stack.put("J#0000000003", None).await;
    let mapping = stack.map(|_| {}).unwrap();
    assert_eq!(stack.events(2).await[1], ["J#0000000002", "J#0000000003"]);
    mapping.stop().await;
}

#[tokio::test]
async fn records_that_were_being_retried_at_the_stop_come_again() {
    let stack = Stack::start().await;
    stack.put("J#0000000001", Some(json!({"do": "fail"}))).await;
    let mapping = stack.map(|mapping| mapping.retry.max_retries = 1000).unwrap();
    stack.events(2).await;
    mapping.stop().await;
    let before = stack.platform.events().len();
    let stack = stack.restart().await;
    let mapping = stack.map(|mapping| mapping.retry.max_retries = 0).unwrap();
    assert_eq!(stack.events(before + 1).await[before], ["J#0000000001"]);
    mapping.stop().await;
}

#[tokio::test]
async fn a_window_gathers_records() {
    let stack = Stack::start().await;
    let _mapping = stack.map(|mapping| mapping.window = Duration::from_secs(3)).unwrap();
    for number in 1..=3 {
        stack.put(&format!("J#000000000{number}"), None).await;
    }
    assert_eq!(stack.events(1).await[0].len(), 3);
}

#[tokio::test]
async fn settings_that_aws_refuses_are_refused() {
    let stack = Stack::start().await;
    let refusal = |change: fn(&mut StreamMapping)| stack.map(change).unwrap_err();
    assert_eq!(refusal(|mapping| mapping.batch_size = 0), StreamMappingError::BatchSize(0));
    assert_eq!(refusal(|mapping| mapping.batch_size = 10_001), StreamMappingError::BatchSize(10_001));
    let long = Duration::from_secs(301);
    assert_eq!(refusal(|mapping| mapping.window = Duration::from_secs(301)), StreamMappingError::Window(long));
}
