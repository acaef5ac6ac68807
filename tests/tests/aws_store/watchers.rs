//! Who watches, and the stream that they are told from.

use std::time::Duration;

use longhaul::store::{JobRef, Store};
use longhaul_aws::connections::{Asked, Connection, Subscriber};
use longhaul_aws::dynamo::StreamedBatch;
use longhaul_engine::{Seq, limits};
use longhaul_local::stores::dynamodb::StreamReader;
use longhaul_tests::sample;
use longhaul_tests::sample::{NOW, claim, job, later, noise, outcome, outcomes, reference, session, signal, tenant};
use longhaul_tests::stage::Stage;
use serde_json::{Value, json};

use crate::set_up;

pub(crate) fn connection(id: &str) -> Connection {
    Connection {
        id: id.to_owned(),
        tenant: tenant("acme"),
        subject: "ada".to_owned(),
        token_expires_at: later(3_600),
        connected_at: NOW,
        opened: None,
    }
}

#[tokio::test]
async fn watchers_come_and_go() {
    let stage = set_up().await;
    let store = stage.store();
    let (one, two) = (connection("one="), connection("two="));
    let (here, there) = (reference(&job()), reference(&job()));
    assert_eq!(store.connection("one=").await.unwrap(), None);
    for connection in [&one, &two] {
        store.put_connection(connection).await.unwrap();
        assert_eq!(store.connection(&connection.id).await.unwrap().as_ref(), Some(connection));
    }
    let subscriber = |connection: &Connection, after| Subscriber {
        connection: connection.id.clone(),
        tenant: tenant("acme"),
        after: Seq(after),
        token_expires_at: later(3_600),
        together: false,
    };
    store.ask(&one, &here, Asked::to_hear(Seq(0), 0)).await.unwrap();
    store.ask(&one, &there, Asked::to_hear(Seq(5), 0)).await.unwrap();
    store.ask(&two, &here, Asked::to_hear(Seq(0), 0)).await.unwrap();
    store.ask(&two, &here, Asked::to_hear(Seq(9), 0)).await.unwrap();
    // Subscriptions share the partition of the journal, which must not see them.
    store.append(&here, &outcomes(1, 1)).await.unwrap();
    assert_eq!(store.journal(here.job, Seq::FIRST).await.unwrap().len(), 1);
    assert_eq!(store.subscribers(here.job).await.unwrap(), [subscriber(&one, 0), subscriber(&two, 9)]);
    assert_eq!(store.subscribers(there.job).await.unwrap(), [subscriber(&one, 5)]);

    store.ask(&one, &here, Asked::no_more(0)).await.unwrap();
    store.ask(&one, &here, Asked::no_more(0)).await.unwrap();
    assert_eq!(store.subscribers(here.job).await.unwrap(), [subscriber(&two, 9)]);

    store.ask(&one, &here, Asked::to_hear(Seq(1), 0)).await.unwrap();
    store.drop_connection("one=").await.unwrap();
    store.drop_connection("one=").await.unwrap();
    assert_eq!(store.connection("one=").await.unwrap(), None);
    assert_eq!(store.subscribers(here.job).await.unwrap(), [subscriber(&two, 9)]);
    assert_eq!(store.subscribers(there.job).await.unwrap(), []);
    assert_eq!(store.connection("two=").await.unwrap(), Some(two));
}

#[tokio::test]
async fn a_connection_with_many_subscriptions_leaves_none() {
    let stage = set_up().await;
    let store = stage.store();
    let connection = connection("busy=");
    store.put_connection(&connection).await.unwrap();
    let jobs: Vec<JobRef> = (0..40).map(|_| reference(&job())).collect();
    for job in &jobs {
        store.ask(&connection, job, Asked::to_hear(Seq(0), 0)).await.unwrap();
    }
    store.drop_connection("busy=").await.unwrap();
    for job in &jobs {
        assert_eq!(store.subscribers(job.job).await.unwrap(), []);
    }
}

/// The records of the stream until `enough` of them are there.
pub(crate) async fn records(reader: &mut StreamReader, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut all = Vec::new();
    for _ in 0..50 {
        let batch = reader.next_batch(1_000, Duration::from_secs(1)).await.unwrap();
        if let Some(last) = batch.last() {
            reader.commit(&last.sequence_number()).await.unwrap();
        }
        all.extend(batch.iter().map(|record| serde_json::from_str::<Value>(&record.json("us-east-1")).unwrap()));
        if enough(&all) {
            return all;
        }
    }
    panic!("the stream did not bring it: {all:#?}");
}

pub(crate) fn item_of(record: &Value, part: &str) -> serde_dynamo::Item {
    serde_json::from_value(record["dynamodb"][part].clone()).unwrap()
}

#[tokio::test]
async fn the_stream_brings_each_batch_once() {
    let stage = set_up().await;
    let store = stage.store();
    let mut reader = stage.stores.dynamodb.stream_reader("watch").unwrap();
    let read = job();
    let job = reference(&read);
    store.submit(&read).await.unwrap();
    store.beat(&session("session-1"), NOW).await.unwrap();
    let batches = [
        outcomes(1, 2),
        sample::batch(3, vec![outcome(3, json!("a step at a time ".repeat(1_000)))]),
        sample::batch(4, vec![outcome(4, json!(noise(2 * limits::BATCH_INLINE_BYTES_MAX)))]),
        sample::batch(5, vec![signal("last")]),
    ];
    for batch in &batches {
        store.append(&job, batch).await.unwrap();
    }
    store.write_job(&job, &claim(&read, "session-1").write).await.unwrap();
    let records = records(&mut reader, |records| records.iter().any(|record| record["eventName"] == "MODIFY")).await;
    let mut found = Vec::new();
    for record in &records {
        if let Some(streamed) = store.streamed_batch(item_of(record, "NewImage")).await.unwrap() {
            found.push(streamed);
        }
    }
    let expected: Vec<_> = batches.into_iter().map(|batch| StreamedBatch { job: job.clone(), batch }).collect();
    assert!(found == expected, "the stream brought {} batches", found.len());
}
