//! The storage services killed with SIGKILL under load: whatever was acknowledged is there afterwards.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed step of a test is a failed test"
)]

mod stores_under_test;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_local::stores::sqs::{QueueDepth, QueueName};
use longhaul_local::stores::{StoresConfig, start};
use stores_under_test::{Address, dynamodb_client, handed_over, sqs_client, stores_in};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Tells the child where to serve from.
const FOLDER: &str = "LONGHAUL_TEST_STORES_FOLDER";

/// Acknowledged writes of each kind before the kill.
const WRITES_BEFORE_KILL: usize = 200;

/// Not a test: the process that the test below starts, loads and kills.
#[tokio::test]
#[ignore = "the child process of `acknowledged_writes_survive_a_kill`, which starts it by name"]
async fn serve_until_killed() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("started by the test below"));
    let stores = start(StoresConfig::new(folder)).await.unwrap();
    println!("\nREADY {} {}", stores.sqs.endpoint, stores.dynamodb.endpoint());
    std::future::pending::<()>().await;
}

/// Starts the child and waits until it serves.
async fn serve(folder: &Path) -> (Child, [String; 2]) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "serve_until_killed", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some(addresses) = line.strip_prefix("READY ") {
            let mut addresses = addresses.split(' ').map(ToOwned::to_owned);
            return (child, [addresses.next().unwrap(), addresses.next().unwrap()]);
        }
    }
    panic!("the child ended before it served");
}

fn address(endpoint: &str) -> Address {
    Address { endpoint: endpoint.to_owned(), access_key_id: "test".to_owned(), secret_access_key: "test".to_owned() }
}

/// Writes until the service is gone; gives back what was acknowledged.
async fn send_until_killed(endpoint: String, sender: usize, acknowledged: Arc<AtomicUsize>) -> Vec<String> {
    let client = sqs_client(&address(&endpoint));
    let url = format!("{endpoint}/000000000000/longhaul-jobs");
    let mut sent = Vec::new();
    for number in 0.. {
        let body = format!("{sender}-{number}");
        let send = client.send_message().queue_url(&url).message_body(&body);
        if send.message_group_id(format!("tenant-{sender}")).send().await.is_err() {
            break;
        }
        acknowledged.fetch_add(1, Ordering::Relaxed);
        sent.push(body);
    }
    sent
}

async fn put_until_killed(endpoint: String, writer: usize, acknowledged: Arc<AtomicUsize>) -> Vec<String> {
    let client = dynamodb_client(&address(&endpoint));
    let mut written = Vec::new();
    for number in 0.. {
        let key = format!("{writer}-{number}");
        let put = client.put_item().table_name("longhaul").item("PK", AttributeValue::S(key.clone()));
        let put = put.item("SK", AttributeValue::S("JOB".to_owned()));
        if put.condition_expression("attribute_not_exists(PK)").send().await.is_err() {
            break;
        }
        acknowledged.fetch_add(1, Ordering::Relaxed);
        written.push(key);
    }
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, [sqs_endpoint, dynamodb_endpoint]) = serve(folder.path()).await;
    let (sends, puts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let senders: Vec<_> = (0..4)
        .map(|sender| tokio::spawn(send_until_killed(sqs_endpoint.clone(), sender, Arc::clone(&sends))))
        .collect();
    let writers: Vec<_> = (0..4)
        .map(|writer| tokio::spawn(put_until_killed(dynamodb_endpoint.clone(), writer, Arc::clone(&puts))))
        .collect();
    // In the middle of the load: enough was acknowledged, and more is on its way.
    while sends.load(Ordering::Relaxed).min(puts.load(Ordering::Relaxed)) < WRITES_BEFORE_KILL {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    child.kill().await.unwrap();
    let (mut sent, mut written) = (BTreeSet::new(), BTreeSet::new());
    for sender in senders {
        sent.extend(sender.await.unwrap());
    }
    for writer in writers {
        written.extend(writer.await.unwrap());
    }

    let stores = stores_in(folder.path()).await;
    let mut found = BTreeSet::new();
    loop {
        let queue = &stores.sqs.jobs;
        let batch = stores.sqs.sqs.receive(queue, 100, Duration::ZERO, None).await.unwrap();
        if batch.is_empty() {
            break;
        }
        found.extend(batch.into_iter().map(|message| message.body));
    }
    assert!(sent.is_subset(&found), "lost: {:?}", sent.difference(&found).collect::<Vec<_>>());
    assert!(found.len() <= sent.len() + 4, "at most one unacknowledged send a sender");

    let mut reader = stores.dynamodb.stream_reader("test").unwrap();
    let mut streamed = BTreeSet::new();
    loop {
        let batch = reader.next_batch(500, Duration::ZERO).await.unwrap();
        let Some(last) = batch.last() else { break };
        reader.commit(&last.sequence_number()).await.unwrap();
        streamed.extend(
            handed_over(&batch).iter().map(|record| record["dynamodb"]["Keys"]["PK"]["S"].as_str().unwrap().to_owned()),
        );
    }
    assert!(written.is_subset(&streamed), "lost: {:?}", written.difference(&streamed).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_was_in_flight_at_the_kill_stays_so_until_it_is_released() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, [endpoint, _]) = serve(folder.path()).await;
    let client = sqs_client(&address(&endpoint));
    let url = format!("{endpoint}/000000000000/longhaul-jobs");
    for body in ["flying", "waiting"] {
        client.send_message().queue_url(&url).message_body(body).send().await.unwrap();
    }
    let late = client.send_message().queue_url(&url).message_body("delayed");
    late.delay_seconds(900).send().await.unwrap();
    let received = client.receive_message().queue_url(&url).send().await.unwrap();
    let receipt = received.messages()[0].receipt_handle().unwrap().to_owned();
    child.kill().await.unwrap();

    let stores = stores_in(folder.path()).await;
    let (sqs, jobs) = (&stores.sqs.sqs, &stores.sqs.jobs);
    let depth = sqs.depth(jobs).await.unwrap();
    assert_eq!(depth, QueueDepth { visible: 1, delayed: 1, in_flight: 1 });
    assert_eq!(sqs.release_in_flight(jobs).await.unwrap(), 1);
    let depth = sqs.depth(jobs).await.unwrap();
    assert_eq!(depth, QueueDepth { visible: 2, delayed: 1, in_flight: 0 });
    // The old receipt is still the latest one of its message.
    let receipt = longhaul_local::stores::sqs::ReceiptHandle::new(receipt);
    sqs.delete(jobs, &[receipt]).await.unwrap();
    assert_eq!(sqs.depth(jobs).await.unwrap(), QueueDepth { visible: 1, delayed: 1, in_flight: 0 });
    assert_eq!(*jobs, QueueName::parse("longhaul-jobs").unwrap());
}
