//! The stream: in order, woken by writes, resumed where its reader was, trimmed behind its readers.

use std::time::{Duration, Instant};

use aws_lambda_events::event::dynamodb::Event;
use longhaul_local::stores::dynamodb::StreamRecord;
use serde_json::json;

use super::{append, dynamodb_of};
use crate::stores_under_test::{handed_over, stores, stores_in};

const PATIENCE: Duration = Duration::from_secs(10);

fn seqs(records: &[StreamRecord]) -> Vec<String> {
    let keys = handed_over(records).into_iter().map(|record| record["dynamodb"]["Keys"]["SK"]["S"].clone());
    keys.filter_map(|key| key.as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn records_have_the_form_of_the_lambda_event() {
    let under_test = stores().await;
    let client = dynamodb_of(&under_test.stores);
    append(&client, "a", 1, "n").await;
    let mut reader = under_test.stores.dynamodb.stream_reader("websocket").unwrap();
    let records = handed_over(&reader.next_batch(10, PATIENCE).await.unwrap());
    let record = &records[0];
    assert_eq!(record["eventName"], "INSERT");
    assert_eq!(record["eventSource"], "aws:dynamodb");
    assert_eq!(record["eventSourceARN"], reader.stream_arn());
    let keys = json!({"PK": {"S": "JOB#a"}, "SK": {"S": "J#0000000001"}});
    assert_eq!(record["dynamodb"]["Keys"], keys);
    assert_eq!(record["dynamodb"]["NewImage"]["nonce"], json!({"S": "n"}));
    assert_eq!(record["dynamodb"]["StreamViewType"], "NEW_IMAGE");
    assert!(record["eventID"].as_str().is_some_and(|id| !id.is_empty()));
    // The type by which functions read the event must take it.
    let event: Event = serde_json::from_value(json!({"Records": records})).unwrap();
    assert_eq!(event.records[0].event_name, "INSERT");
}

#[tokio::test]
async fn a_write_wakes_the_reader_that_waits() {
    let under_test = stores().await;
    let client = dynamodb_of(&under_test.stores);
    let mut reader = under_test.stores.dynamodb.stream_reader("websocket").unwrap();
    // The client's connection is made before the clock runs.
    append(&client, "a", 1, "n").await;
    let first = reader.next_batch(10, PATIENCE).await.unwrap();
    reader.commit(&first[0].sequence_number()).await.unwrap();
    let mut delays = Vec::new();
    for seq in 2..12 {
        let (batch, written) = tokio::join!(reader.next_batch(10, PATIENCE), async {
            append(&client, "a", seq, "n").await;
            Instant::now()
        });
        let batch = batch.unwrap();
        delays.push(written.elapsed());
        assert_eq!(seqs(&batch), [format!("J#{seq:010}")]);
        reader.commit(&batch[0].sequence_number()).await.unwrap();
    }
    // Without the signal the usual round would end with the net under it, 250 ms after it began.
    delays.sort();
    assert!(delays[5] < Duration::from_millis(125), "{delays:?}");
}

#[tokio::test]
async fn an_empty_stream_is_waited_for_and_no_longer() {
    let under_test = stores().await;
    let mut reader = under_test.stores.dynamodb.stream_reader("websocket").unwrap();
    let began = Instant::now();
    assert!(reader.next_batch(10, Duration::from_millis(300)).await.unwrap().is_empty());
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn a_reader_goes_on_behind_what_it_committed_also_after_a_restart() {
    let under_test = stores().await;
    let client = dynamodb_of(&under_test.stores);
    for seq in 1..=5 {
        append(&client, "a", seq, "n").await;
    }
    let mut reader = under_test.stores.dynamodb.stream_reader("websocket").unwrap();
    let first = reader.next_batch(3, PATIENCE).await.unwrap();
    assert_eq!(seqs(&first), ["J#0000000001", "J#0000000002", "J#0000000003"]);
    let same = reader.next_batch(3, PATIENCE).await.unwrap();
    assert_eq!(first, same, "what is not committed comes again");
    reader.commit(&first[1].sequence_number()).await.unwrap();
    drop(reader);
    // Dropped, not shut down: what a crash leaves.
    drop(under_test.stores);
    let again = stores_in(under_test.folder.path()).await;
    let mut reader = again.dynamodb.stream_reader("websocket").unwrap();
    let rest = reader.next_batch(10, PATIENCE).await.unwrap();
    assert_eq!(seqs(&rest), ["J#0000000003", "J#0000000004", "J#0000000005"]);
    let mut other = again.dynamodb.stream_reader("other").unwrap();
    assert_eq!(other.next_batch(10, PATIENCE).await.unwrap().len(), 5, "a new name begins at the oldest record");
}

#[tokio::test]
async fn the_stream_is_trimmed_behind_its_slowest_reader() {
    let under_test = stores().await;
    let client = dynamodb_of(&under_test.stores);
    for seq in 1..=6 {
        append(&client, "a", seq, "n").await;
    }
    let table = &under_test.stores.dynamodb;
    assert_eq!(table.trim_stream().await.unwrap(), 0, "nobody has read anything");
    let mut fast = table.stream_reader("fast").unwrap();
    let mut slow = table.stream_reader("slow").unwrap();
    let records = fast.next_batch(10, PATIENCE).await.unwrap();
    fast.commit(&records[5].sequence_number()).await.unwrap();
    assert_eq!(table.trim_stream().await.unwrap(), 0, "one reader has read nothing");
    slow.commit(&records[3].sequence_number()).await.unwrap();
    assert_eq!(table.trim_stream().await.unwrap(), 4);
    assert_eq!(slow.next_batch(10, PATIENCE).await.unwrap().len(), 2);
    slow.commit(&records[5].sequence_number()).await.unwrap();
    assert_eq!(table.trim_stream().await.unwrap(), 1, "the last record stays");
    // Sequence numbers go on from it.
    append(&client, "a", 7, "n").await;
    let next = fast.next_batch(10, PATIENCE).await.unwrap();
    assert_eq!(seqs(&next), ["J#0000000007"]);
    assert!(next[0].sequence_number() > records[5].sequence_number());
}

#[tokio::test]
async fn positions_and_names_that_cannot_be_are_refused() {
    let under_test = stores().await;
    for name in ["", "a/b", "..", "a b"] {
        assert!(under_test.stores.dynamodb.stream_reader(name).is_err(), "{name:?}");
    }
    let mut reader = under_test.stores.dynamodb.stream_reader("r").unwrap();
    for sequence_number in ["", "abc", "12", "999999999999999999999999999999999999999"] {
        assert!(reader.commit(sequence_number).await.is_err(), "{sequence_number:?}");
    }
}
