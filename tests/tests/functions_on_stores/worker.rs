//! The worker: batches of messages.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::engine::{Entry, Epoch, JobState, Timestamp, limits};
use longhaul::outside;
use longhaul::store::{Continuation, JobRef, Store};
use longhaul_worker::Worker;
use serde_json::{Value, json};

use crate::agents::Bench;
use crate::faulty::{Fault, Faulty};
use crate::ground::{Ground, deadline_in, now, order, request_id};

/// An invocation as they usually are. In one that is shorter than the time limit of a step, steps start only in its first
/// second, and a busy machine would find the job given back in the middle.
pub(crate) const LONG: Duration = Duration::from_secs(900);

/// Invokes the worker with an event, as the Lambda runtime would.
pub(crate) async fn invoke<S: Store>(worker: &Worker<S>, event: &Value, time: Duration) -> Value {
    let batch = serde_json::from_value(event.clone()).unwrap();
    let answer = worker.handle(batch, &request_id(), deadline_in(time)).await.unwrap();
    serde_json::to_value(answer).unwrap()
}

pub(crate) fn nothing_stays() -> Value {
    json!({ "batchItemFailures": [] })
}

/// A record with this body, beside what Lambda puts on each.
pub(crate) fn record(message_id: &str, body: &str) -> Value {
    json!({
        "messageId": message_id,
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "1764440000000",
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "ApproximateFirstReceiveTimestamp": "1764440000001"
        },
        "messageAttributes": {},
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:longhaul-jobs",
        "awsRegion": "us-east-1"
    })
}

pub(crate) fn body_of(job: &JobRef) -> String {
    json!({ "v": 1, "type": "job", "tenant": job.tenant, "job": job.job }).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_of_ten_steps_is_done_in_one_batch() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    let event = ground.batch(1).await;
    let before = ground.store.counts();
    let worker = Worker::new(ground.store.clone(), bench.registry());

    assert_eq!(invoke(&worker, &event, LONG).await, nothing_stays());

    assert_eq!(ground.state(&job).await, JobState::Completed);
    assert_eq!(bench.runs(), [1; 10]);
    assert_eq!(ground.entries(&job).await.last(), Some(&Entry::Completed { output: json!(45) }));
    // The price in writes: the claim 2, each of ten steps 1, the end 2. The session's are its announcement, a heartbeat
    // with each watchdog message but the first, and its end.
    let counts = spent(&before, &ground.store.counts());
    let of = |name: &str| counts.get(name).copied().unwrap_or_default();
    let heartbeats = of("SendMessage") - 1;
    assert_eq!((of("PutItem"), of("UpdateItem")), (1 + 10 + 1 + 1 + heartbeats, 1 + 1), "{counts:?}");
    assert_eq!(of("DeleteItem"), 1, "{counts:?}");
    // Nothing is left to go on with: the only messages are watchdogs.
    assert_eq!(ground.depth().await.visible, 0);
}

/// What a claim says of the others in its process: nothing, as long as they are no more than a usual batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_says_when_its_process_has_many_jobs_in_hand() {
    for jobs in [limits::NEIGHBOURS_FEW_MAX + 1, limits::NEIGHBOURS_FEW_MAX + 2] {
        let (ground, bench) = (Ground::lay().await, Bench::default());
        let mut records = Vec::new();
        let mut submitted = Vec::new();
        for number in 0..jobs {
            let job = ground.submit(order("acme", "ten", Value::Null)).await;
            records.push(record(&number.to_string(), &body_of(&job)));
            submitted.push(job);
        }
        let worker = Worker::new(ground.store.clone(), bench.registry());
        assert_eq!(invoke(&worker, &json!({ "Records": records }), LONG).await, nothing_stays());
        let first = ground.entries(submitted.first().unwrap()).await.remove(0);
        let Entry::Claimed { beside, .. } = first else { panic!("{first:?}") };
        let others = jobs - 1;
        assert_eq!(beside, if others > limits::NEIGHBOURS_FEW_MAX { others } else { 0 });
    }
}

fn spent(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    after.iter().map(|(name, count)| (name.clone(), count - before.get(name).unwrap_or(&0))).collect()
}

/// Messages that are not this worker's stay in the queue and keep nothing else from being done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b03_what_is_not_understood_stays_in_the_queue() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    let newer =
        json!({ "v": limits::PROTOCOL_VERSION + 1, "type": "job", "tenant": "acme", "job": job.job }).to_string();
    let event = json!({ "Records": [
        record("empty", ""),
        record("no JSON", "hello"),
        record("cut short", r#"{"v":1,"type":"job","#),
        record("nothing", "{}"),
        record("no job", r#"{"v":1,"type":"job","tenant":"acme"}"#),
        record("no such kind", r#"{"v":1,"type":"party"}"#),
        record("a bad id", r#"{"v":1,"type":"job","tenant":"acme","job":"7"}"#),
        record("ours", &body_of(&job)),
        record("newer", &newer),
        record("newer in another shape", r#"{"v":7,"jobs":["a","b"]}"#),
    ]});
    let worker = Worker::new(ground.store.clone(), bench.registry());

    insta::assert_json_snapshot!("worker_keeps_what_it_does_not_understand", invoke(&worker, &event, LONG).await);

    assert_eq!(ground.state(&job).await, JobState::Completed);
}

/// A rollback may last longer than the queue's patience: what a newer version wrote is no dead letter then, but the same
/// message again, for later. Junk is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_newer_version_wrote_outlives_the_queues_patience() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    ground.batch(1).await;
    let newer = json!({ "v": 99, "type": "job", "tenant": "acme", "job": job.job, "more": [1, 2] }).to_string();
    let received = |id: &str, body: &str, times: u32| {
        let mut record = record(id, body);
        record["attributes"]["ApproximateReceiveCount"] = json!(times.to_string());
        record["attributes"]["MessageGroupId"] = json!("acme");
        record
    };
    let event = json!({ "Records": [
        received("seldom", &newer, 7), received("often", &newer, 8), received("junk", "hello", 9),
    ]});
    let worker = Worker::new(ground.store.clone(), bench.registry());
    let batch: aws_lambda_events::sqs::SqsEvent = serde_json::from_value(event).unwrap();
    let often = longhaul_worker::often_received(&batch.records);
    let mut answer = worker.handle(batch, &request_id(), deadline_in(LONG)).await.unwrap();
    // Without time for it the message stays in the queue: an answer that came too late would keep them all there.
    let (before, late) = (answer.clone(), Timestamp::from_millis(deadline_in(Duration::from_millis(100))));
    longhaul_worker::put_off(&ground.store, &often, &mut answer, late).await;
    assert_eq!((&answer, ground.depth().await.delayed), (&before, 0));
    longhaul_worker::put_off(&ground.store, &often, &mut answer, Timestamp::from_millis(deadline_in(LONG))).await;
    let stays: Vec<&str> = answer.batch_item_failures.iter().map(|failure| failure.item_identifier.as_str()).collect();
    assert_eq!(stays, ["seldom", "junk"]);
    assert_eq!(ground.depth().await.delayed, 1, "the other waits in the queue, as it was");
    assert_eq!(ground.state(&job).await, JobState::Pending);
}

/// Nobody here can tell whether they need a call, and only the job's own message has a way for what cannot be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_sessions_jobs_that_cannot_be_read_are_called_up() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let (newer, spoilt) =
        (ground.submit(order("acme", "ten", json!(1))).await, ground.submit(order("acme", "ten", json!(2))).await);
    ground.batch(2).await;
    ground.change((&format!("JOB#{}", newer.job), "JOB"), "v", json!({ "N": "99" })).await;
    ground.spoil(&spoilt).await;
    let dead = "dead".parse().unwrap();
    ground.store.beat(&dead, Timestamp::from_millis(1)).await.unwrap();
    let watchdog = Continuation::watchdog(dead, vec![newer.clone(), spoilt.clone()]);
    let event = json!({ "Records": [record("w", &serde_json::to_string(&watchdog).unwrap())] });
    let worker = Worker::new(ground.store.clone(), bench.registry());
    assert_eq!(invoke(&worker, &event, LONG).await, nothing_stays());
    let event = ground.batch(2).await;
    let mut called: Vec<&str> =
        event["Records"].as_array().unwrap().iter().map(|record| record["body"].as_str().unwrap()).collect();
    called.sort_unstable();
    let mut expected = [body_of(&newer), body_of(&spoilt)];
    expected.sort_unstable();
    assert_eq!(called, expected);
}

/// E11: a continuation that names another tenant than the job's is about no job: nothing runs and nothing changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e11_a_continuation_of_another_tenant_drives_nothing() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    ground.batch(1).await;
    let before = ground.job(&job).await;
    let foreign = longhaul::store::JobRef { tenant: "bolt".parse().unwrap(), job: job.job };
    let letter = json!({
        "v": 1, "type": "job", "tenant": "bolt", "job": job.job,
        "dead_letter": {
            "replay_key": "redrive-3", "agent": "ten@1", "failed_at": 1,
            "failure": { "class": "invalid", "message": "m" },
        },
    });
    let event = json!({ "Records": [record("foreign", &body_of(&foreign)), record("letter", &letter.to_string())]});
    let worker = Worker::new(ground.store.clone(), bench.registry());
    invoke(&worker, &event, LONG).await;
    assert!(bench.runs().iter().all(|runs| *runs == 0), "{:?}", bench.runs());
    assert_eq!((ground.job(&job).await, ground.entries(&job).await), (before, vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_without_an_id_fails_the_whole_batch_on_lambda() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let mut nameless = record("", "hello");
    nameless.as_object_mut().unwrap().remove("messageId");
    let worker = Worker::new(ground.store.clone(), bench.registry());
    let answer = invoke(&worker, &json!({ "Records": [nameless] }), LONG).await;
    assert_eq!(answer, json!({ "batchItemFailures": [{ "itemIdentifier": "" }] }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_a_batch_are_driven_at_the_same_time() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let one = ground.submit(order("acme", "meeting", Value::Null)).await;
    let other = ground.submit(order("bolt", "meeting", Value::Null)).await;
    let event = ground.batch(2).await;
    let worker = Worker::new(ground.store.clone(), bench.registry());
    assert_eq!(invoke(&worker, &event, LONG).await, nothing_stays());
    for job in [one, other] {
        assert_eq!(ground.state(&job).await, JobState::Completed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b04_without_time_nothing_is_begun() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    let event = json!({ "Records": [record("ours", &body_of(&job))] });
    let worker = Worker::new(ground.store.clone(), bench.registry());
    for left in [Duration::ZERO, Duration::from_millis(200), Duration::from_millis(1_200)] {
        let answer = invoke(&worker, &event, left).await;
        assert_eq!(answer, json!({ "batchItemFailures": [{ "itemIdentifier": "ours" }] }), "{left:?}");
    }
    assert_eq!(ground.job(&job).await.progress.epoch, Epoch::default());
    assert_eq!(ground.entries(&job).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_answer_keeps_the_batch_in_the_queue() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    let event = json!({ "Records": [record("one", &body_of(&job)), record("two", &body_of(&job))] });
    let worker = Worker::new(ground.deaf_store().await, bench.registry());
    let answer = invoke(&worker, &event, LONG).await;
    assert_eq!(answer, json!({ "batchItemFailures": [{ "itemIdentifier": "one" }, { "itemIdentifier": "two" }] }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_id_that_names_no_session_does_nothing() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let worker = Worker::new(ground.store.clone(), bench.registry());
    let batch = serde_json::from_value(json!({ "Records": [record("one", "{}")] })).unwrap();
    worker.handle(batch, "not/an/id", deadline_in(LONG)).await.unwrap_err();
}

/// Drives the next message of the queue; watchdogs, which are delayed, do not count.
pub(crate) async fn drive_next(ground: &Ground, worker: &Worker<longhaul_aws::AwsStore>) {
    assert_eq!(invoke(worker, &ground.batch(1).await, LONG).await, nothing_stays());
}

pub(crate) fn replays(entries: &[Entry]) -> Vec<&str> {
    let by = entries.iter().filter_map(|entry| match entry {
        Entry::Replayed { by, .. } => Some(by.as_str()),
        _ => None,
    });
    by.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redriven_dead_letter_is_one_replay() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let worker = Worker::new(ground.store.clone(), bench.registry());
    bench.broken.set(true);
    let job = ground.submit(order("acme", "fragile", Value::Null)).await;
    drive_next(&ground, &worker).await;
    assert_eq!(ground.state(&job).await, JobState::Failed);
    let letter = ground.record_from(&ground.stores.sqs.dead_letters).await.expect("a dead letter");

    // The console moves the letter back; the queue brings it twice, once even in the same batch.
    bench.broken.set(false);
    let twice = json!({ "Records": [letter, letter] });
    assert_eq!(invoke(&worker, &twice, LONG).await, nothing_stays());
    drive_next(&ground, &worker).await;
    assert_eq!(ground.state(&job).await, JobState::Completed);
    assert_eq!(invoke(&worker, &json!({ "Records": [letter] }), LONG).await, nothing_stays());

    assert_eq!(ground.state(&job).await, JobState::Completed);
    let entries = ground.entries(&job).await;
    assert_eq!(replays(&entries), ["queue redrive"]);
    assert_eq!(entries.last(), Some(&Entry::Completed { output: json!(42) }));
    assert_eq!((bench.runs_of("first"), bench.runs_of("second")), (1, 2), "from the last good step");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_of_a_job_that_was_cancelled_since_is_old_news() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let worker = Worker::new(ground.store.clone(), bench.registry());
    bench.broken.set(true);
    let job = ground.submit(order("acme", "fragile", Value::Null)).await;
    drive_next(&ground, &worker).await;
    let letter = ground.record_from(&ground.stores.sqs.dead_letters).await.expect("a dead letter");
    // Somebody replays it by the API and then thinks better of it.
    let key = |key: &str| key.parse().unwrap();
    let edit = Default::default();
    outside::replay(&ground.store, &job, key("r-1"), "ada".to_owned(), None, edit, now()).await.unwrap();
    outside::cancel(&ground.store, &job, key("c-1"), "ada".to_owned(), None, now()).await.unwrap();
    drive_next(&ground, &worker).await;
    assert_eq!(ground.state(&job).await, JobState::Cancelled);

    assert_eq!(invoke(&worker, &json!({ "Records": [letter] }), LONG).await, nothing_stays());

    assert_eq!(ground.state(&job).await, JobState::Cancelled);
    assert_eq!(replays(&ground.entries(&job).await), ["ada"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_whose_job_is_gone_is_done_with() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let worker = Worker::new(ground.store.clone(), bench.registry());
    bench.broken.set(true);
    ground.submit(order("acme", "fragile", Value::Null)).await;
    drive_next(&ground, &worker).await;
    let letter = ground.record_from(&ground.stores.sqs.dead_letters).await.expect("a dead letter");
    // The same letter in a table that never knew the job.
    let elsewhere = Ground::lay().await;
    let worker = Worker::new(elsewhere.store.clone(), bench.registry());
    assert_eq!(invoke(&worker, &json!({ "Records": [letter] }), LONG).await, nothing_stays());
}

/// The watchdog of a session that has fallen silent: its jobs each get a continuation. One of a session that has ended
/// well is nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watchdog_of_a_silent_session_calls_its_jobs_up() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let worker = Worker::new(ground.store.clone(), bench.registry());
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    ground.batch(1).await;
    let watchdog = json!({
        "v": 1, "type": "watchdog", "session": "8f0f1c3a-dead", "jobs": [{ "tenant": job.tenant, "job": job.job }]
    });
    let event = json!({ "Records": [record("watchdog", &watchdog.to_string())] });
    assert_eq!(invoke(&worker, &event, LONG).await, nothing_stays());
    assert_eq!(ground.depth().await.visible, 0);

    let long_ago = Timestamp::from_millis(now().as_millis() - 60_000);
    ground.store.beat(&"8f0f1c3a-dead".parse().unwrap(), long_ago).await.unwrap();
    assert_eq!(invoke(&worker, &event, LONG).await, nothing_stays());
    drive_next(&ground, &worker).await;
    assert_eq!(ground.state(&job).await, JobState::Completed);
    assert_eq!(bench.runs(), [1; 10]);
}

/// A batch of two jobs, of which one meets a fault of the store while it is driven: the other ends, the first one's
/// message stays, and a session that may hold it (`held`) is not taken for one that ended well. One that gave it back is: its
/// watchdogs have nobody to call up, so that a failure makes no messages.
async fn check_fault(fault: Fault, held: bool, time: Duration) {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let faulty = ground.submit(order("bolt", "ten", Value::Null)).await;
    let well = ground.submit(order("acme", "ten", Value::Null)).await;
    let event = json!({ "Records": [record("faulty", &body_of(&faulty)), record("well", &body_of(&well))] });
    let worker = Worker::new(Faulty::new(ground.store.clone(), faulty.clone(), fault), bench.registry());
    let (request, deadline) = (request_id(), deadline_in(time));

    let answer = worker.handle(serde_json::from_value(event).unwrap(), &request, deadline).await.unwrap();

    assert!(now().as_millis() < deadline, "the answer comes too late");
    let answer = serde_json::to_value(answer).unwrap();
    assert_eq!(answer, json!({ "batchItemFailures": [{ "itemIdentifier": "faulty" }] }), "{fault:?}");
    assert_eq!(ground.state(&well).await, JobState::Completed);
    assert_eq!(ground.store.last_beat(&request.parse().unwrap()).await.unwrap().is_some(), held, "{fault:?}");
    assert_eq!(matches!(ground.state(&faulty).await, JobState::Processing { .. }), held, "{fault:?}");
    assert!(!held || ground.depth().await.delayed > 0, "{fault:?}: nobody will look for the session");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_in_one_job_leaves_the_others_alone() {
    check_fault(Fault::Fails, false, LONG).await;
    check_fault(Fault::Unanswered, true, LONG).await;
    check_fault(Fault::Panics, true, LONG).await;
    check_fault(Fault::Hangs, true, Duration::from_secs(5)).await;
}
