//! Whatever clients of the WebSocket say and whatever stands in the queue: an answer, never a panic, and nobody else is
//! disturbed by it.
//!
//! `PROPTEST_CASES=100000 cargo test -p longhaul-tests --test functions_on_stores fuzz` makes a longer run; what was found
//! once stays in `fuzz.regressions`.

use std::time::Duration;

use longhaul::engine::JobState;
use longhaul_wire::socket::ServerMessage;
use longhaul_worker::Worker;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use serde_json::{Value, json};

use crate::agents::Bench;
use crate::far_end::FarEnd;
use crate::ground::{Ground, deadline_in, order, request_id};
use crate::worker::{LONG, body_of, record};

/// A part of the cases of an ordinary test: each costs some calls of the stores.
fn config(share: u32) -> ProptestConfig {
    let persistence = FileFailurePersistence::Direct("tests/functions_on_stores/fuzz.regressions");
    let config = ProptestConfig::default();
    ProptestConfig { cases: (config.cases / share).max(1), failure_persistence: Some(Box::new(persistence)), ..config }
}

/// A text near one of these.
fn near(texts: Vec<String>) -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        select(vec![
            "\"",
            "\\",
            "{",
            "}",
            "[",
            ":",
            ",",
            "null",
            "0",
            "18446744073709551616",
            "\u{0}",
            "🙂",
            " ",
            "\"v\":1,"
        ])
        .prop_map(str::to_owned),
        "\\PC{0,3}",
    ];
    let changed = (select(texts), vec((any::<Index>(), 0_usize..12, pieces), 0..4)).prop_map(|(text, changes)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, length, piece) in changes {
            let at = at.index(chars.len() + 1);
            let end = (at + length).min(chars.len());
            drop(chars.splice(at..end, piece.chars()));
        }
        chars.into_iter().collect()
    });
    prop_oneof![6 => changed, 1 => any::<String>()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fuzz_of_websocket_messages() {
    let far = FarEnd::set_up().await;
    far.come_in("A=", "acme").await;
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    let id = job.job;
    let right = vec![
        format!(r#"{{"action":"subscribe","job":"{id}","after":0}}"#),
        format!(r#"{{"action":"subscribe","job":"{id}","after":99999999999}}"#),
        format!(r#"{{"action":"unsubscribe","job":"{id}"}}"#),
        r#"{"action":"ping"}"#.to_owned(),
        String::new(),
    ];
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        TestRunner::new(config(4))
            .run(&near(right), |text| {
                let told = runtime.block_on(async {
                    assert_eq!(far.say("A=", &text).await, json!({ "statusCode": 200 }));
                    far.told("A=")
                });
                // One answer to each message, in a form that clients know.
                prop_assert_eq!(told.len(), 1, "{:?}", told);
                let message: ServerMessage = serde_json::from_value(told[0].clone()).unwrap();
                if let ServerMessage::Problem { problem, .. } = message {
                    prop_assert!((400..500).contains(&problem.status), "{problem:?}");
                }
                Ok(())
            })
            .unwrap();
    });
}

/// Events of the gateway and of the stream that are none: an error that Lambda reports, or an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fuzz_of_websocket_events() {
    let far = FarEnd::set_up().await;
    let right = vec![
        json!({ "requestContext": { "connectionId": "A=", "eventType": "CONNECT" }, "headers": { "Authorization": "Bearer x" } }).to_string(),
        json!({ "requestContext": { "connectionId": "A=", "eventType": "MESSAGE" }, "body": "{}", "isBase64Encoded": false }).to_string(),
        json!({ "requestContext": { "connectionId": "A=", "eventType": "DISCONNECT" } }).to_string(),
        json!({ "Records": [{
            "eventName": "INSERT", "eventSource": "aws:dynamodb", "awsRegion": "x", "dynamodb": {
                "Keys": { "PK": { "S": "JOB#0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f" }, "SK": { "S": "J#0000000001" } },
                "NewImage": { "PK": { "S": "JOB#0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f" }, "SK": { "S": "J#0000000001" }, "v": { "N": "1" } },
                "SequenceNumber": "1", "SizeBytes": 1, "StreamViewType": "NEW_IMAGE", "ApproximateCreationDateTime": 1.0,
            },
        }] })
        .to_string(),
    ];
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        TestRunner::new(config(2))
            .run(&near(right), |text| {
                let Ok(event) = serde_json::from_str::<Box<serde_json::value::RawValue>>(&text) else { return Ok(()) };
                let answered = runtime.block_on(far.function.handle(event, deadline_in(Duration::from_secs(30))));
                if let Ok(answer) = answered {
                    prop_assert!(
                        answer.get("statusCode").is_some() || answer.get("batchItemFailures").is_some(),
                        "{answer}"
                    );
                }
                Ok(())
            })
            .unwrap();
    });
}

/// A batch of anything: each message is done with or named, and the good one beside them is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fuzz_of_the_workers_batches() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let known = ground.submit(order("acme", "ten", Value::Null)).await;
    let worker = Worker::new(ground.store.clone(), bench.registry());
    let letter = json!({
        "v": 1, "type": "job", "tenant": "acme", "job": known.job, "dead_letter": {
            "replay_key": "redrive-9", "agent": { "name": "ten", "version": 1 },
            "failure": { "class": "invalid", "message": "no", "causes": [] }, "failed_at": 1_795_953_600_000_u64,
        },
    });
    let watchdog =
        json!({ "v": 1, "type": "watchdog", "session": "8f0f-dead", "jobs": [{ "tenant": "acme", "job": known.job }] });
    let right = vec![body_of(&known), letter.to_string(), watchdog.to_string()];
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        TestRunner::new(config(8))
            .run(&vec(near(right), 1..5), |bodies| {
                runtime.block_on(async {
                    let good = ground.submit(order("bolt", "fragile", Value::Null)).await;
                    let mut records: Vec<Value> =
                        (0..).zip(&bodies).map(|(number, body)| record(&format!("m-{number}"), body)).collect();
                    records.push(record("good", &body_of(&good)));
                    let batch = serde_json::from_value(json!({ "Records": records })).unwrap();
                    // With time for every step at its usual limit, however busy the machine is.
                    let answer = worker.handle(batch, &request_id(), deadline_in(10 * LONG)).await.unwrap();
                    let kept: Vec<&str> =
                        answer.batch_item_failures.iter().map(|failure| failure.item_identifier.as_str()).collect();
                    assert!(!kept.contains(&"good"), "{kept:?}");
                    assert!(kept.iter().all(|id| id.starts_with("m-")), "{kept:?}");
                    assert_eq!(ground.state(&good).await, JobState::Completed);
                });
                Ok(())
            })
            .unwrap();
    });
}
