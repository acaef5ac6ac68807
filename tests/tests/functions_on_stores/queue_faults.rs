//! Kind B of the fault log (tests/faults/README.md): what queues and Lambda do to a worker. The events are the log's own,
//! with our jobs in place of its stand-ins.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use axum::http::StatusCode;
use longhaul::engine::claim::{ClaimDecision, Holder, News, decide};
use longhaul::engine::job::Status;
use longhaul::engine::{Batch, Entry, ErrorClass, Failure, JobId, JobState, Seq};
use longhaul::outside::{self, fresh_nonce};
use longhaul::store::{Continuation, JobRef, Store};
use longhaul::{Ctx, Registry, StepError};
use longhaul_aws::sqs::{DeadLetter, continuation_body, dead_letter_body};
use longhaul_worker::Worker;
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::agents::Bench;
use crate::faulty::{Fault, Faulty};
use crate::front::{Fate, Front, error_body, operations};
use crate::ground::{Ground, PATIENCE, now, order};
use crate::worker::{LONG, body_of, drive_next, invoke, nothing_stays, record, replays};

/// An event of the log with real jobs in place of the ones that it names.
fn event(text: &str, jobs: &BTreeMap<&str, JobRef>) -> Value {
    let mut event: Value = serde_json::from_str(text).unwrap();
    for record in event["Records"].as_array_mut().unwrap() {
        let Ok(body) = serde_json::from_str::<Value>(record["body"].as_str().unwrap()) else { continue };
        let job = &jobs[body["job"].as_str().unwrap()];
        let ours = json!({ "v": body["v"], "type": "job", "tenant": job.tenant, "job": job.job });
        record["body"] = json!(ours.to_string());
    }
    event
}

fn kept(answer: &Value) -> Vec<&str> {
    let kept = answer["batchItemFailures"].as_array().unwrap();
    kept.iter().map(|failure| failure["itemIdentifier"].as_str().unwrap()).collect()
}

fn absent() -> JobRef {
    JobRef { tenant: "acme".parse().unwrap(), job: JobId::from_uuid(Uuid::now_v7()) }
}

/// Lets another session claim a job and live.
async fn hold(ground: &Ground, job: &JobRef) {
    let session = "another-session".parse().unwrap();
    let stored = ground.job(job).await;
    ground.store.beat(&session, now()).await.unwrap();
    match decide(&stored, &session, Holder::Dead, News::Something, fresh_nonce(), now()) {
        ClaimDecision::Claim(claim) => drop(ground.store.write_job(job, &claim.write).await.unwrap()),
        other => panic!("no claim was decided but {other:?}"),
    }
}

/// One model call, one run: the copy that comes while the first worker is at work claims nothing. It may be acknowledged,
/// since a watchdog is already on its way: the check that comes later if the worker should die.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_a_copy_that_comes_in_mid_step_does_nothing() {
    let ground = Ground::lay().await;
    let (asked, answered) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
    let bench = Bench::default();
    let mut registry = Registry::default();
    let (at_work, done, noted) = (Rc::clone(&asked), Rc::clone(&answered), bench.clone());
    let agent = async move |ctx: &mut Ctx, _: Value| {
        ctx.step("ask", async || {
            noted.ran("ask");
            at_work.notify_one();
            done.notified().await;
            Ok::<_, StepError>(42)
        })
        .await
    };
    registry.add("asks", 1, agent).unwrap();
    let job = ground.submit(order("tn_a", "asks", Value::Null)).await;
    let jobs = BTreeMap::from([("job_01", job.clone())]);
    let (first, second) =
        (Worker::new(ground.store.clone(), registry.clone()), Worker::new(ground.store.clone(), registry));
    let event_first = event(include_str!("../../faults/B01/event.json"), &jobs);
    let copy = async {
        asked.notified().await;
        let again = event(include_str!("../../faults/B01/event_again.json"), &jobs);
        assert_eq!(invoke(&second, &again, LONG).await, nothing_stays());
        let held = ground.job(&job).await;
        assert!(matches!(held.progress.state, JobState::Processing { .. }), "{held:?}");
        assert_eq!(held.progress.epoch.0, 1);
        assert!(ground.depth().await.delayed >= 1, "the first worker's watchdog");
        answered.notify_one();
    };
    let (answer, ()) = tokio::join!(invoke(&first, &event_first, LONG), copy);
    assert_eq!(answer, nothing_stays());
    assert_eq!(bench.runs_of("ask"), 1);
    let entries = ground.entries(&job).await;
    let outcomes = entries.iter().filter(|entry| matches!(entry, Entry::StepCompleted { .. })).count();
    assert_eq!((outcomes, entries.last()), (1, Some(&Entry::Completed { output: json!(42) })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b03_partial_batch_failure_junk_records() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let mut jobs = BTreeMap::new();
    for name in ["job_A", "job_B", "job_C", "job_D"] {
        jobs.insert(name, ground.submit(order("tn_a", "ten", Value::Null)).await);
    }
    let event = event(include_str!("../../faults/B03/batch.json"), &jobs);
    let down = Faulty::new(ground.store.clone(), jobs["job_B"].clone(), Fault::Fails);
    let answer = invoke(&Worker::new(down, bench.registry()), &event, LONG).await;
    assert_eq!(kept(&answer), ["m-bad", "m-junk", "m-future"]);
    for (name, wanted) in [("job_A", Status::Completed), ("job_C", Status::Completed), ("job_D", Status::Pending)] {
        assert_eq!(ground.state(&jobs[name]).await.status(), wanted, "{name}");
    }
}

/// No FIFO queue is used: a group's second message comes while its first is in flight, so nothing rests on an order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b03_the_queue_has_no_order_to_keep() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let jobs = BTreeMap::from([
        ("job_A", ground.submit(order("tn_a", "ten", Value::Null)).await),
        ("job_B", ground.submit(order("tn_a", "ten", Value::Null)).await),
    ]);
    let (sqs, queue) = (&ground.stores.sqs.sqs, &ground.stores.sqs.jobs);
    for _ in 0..2 {
        // Neither is deleted; both are of one group, their tenant.
        assert_eq!(sqs.receive(queue, 1, PATIENCE, None).await.unwrap().len(), 1);
    }
    assert!(!ground.store.config().queue_url.ends_with(".fifo"));
    // The log's batch all the same: the group that fails stays, the other is done.
    let event = event(include_str!("../../faults/B03/fifo_batch.json"), &jobs);
    let down = Faulty::new(ground.store.clone(), jobs["job_A"].clone(), Fault::Fails);
    let answer = invoke(&Worker::new(down, bench.registry()), &event, LONG).await;
    assert!(!kept(&answer).is_empty() && kept(&answer).iter().all(|id| ["f1", "f2", "f3"].contains(id)), "{answer}");
    assert_eq!(ground.state(&jobs["job_B"]).await, JobState::Completed);
}

/// Each continuation is a send of its own, whose failure is its own: there is no batch that could succeed in part. What
/// the queue did not take is due, and the sweeper sends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b05_no_continuation_is_lost_in_a_batch() {
    let ground = Ground::lay().await;
    let response: Value = serde_json::from_str(include_str!("../../faults/B05/send_batch_response.json")).unwrap();
    let front = Front::before(&ground.stores.sqs.endpoint).await;
    let store = ground.store_with(&[("AWS_ENDPOINT_URL_SQS", front.endpoint.clone())]).await;
    for number in 0..4_usize {
        let failed =
            response["Failed"].as_array().unwrap().iter().find(|entry| entry["Id"] == json!(number.to_string()));
        match failed.map(|entry| entry["SenderFault"] == true) {
            None => front.plan(|_, _| None),
            Some(false) => {
                front.fail("SendMessage", 1, || Fate::error(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"))
            }
            Some(true) => {
                front.fail("SendMessage", 9, || Fate::error(StatusCode::BAD_REQUEST, "InvalidMessageContents"))
            }
        }
        let accepted = outside::submit(&store, order("acme", "ten", Value::Null)).await.unwrap();
        let job = JobRef { tenant: accepted.job.order.tenant, job: accepted.job.order.id };
        let calls = front.take();
        assert_eq!(operations(&calls).into_iter().collect::<Vec<_>>(), ["SendMessage"]);
        let tries = match number {
            1 => 2,
            // Refused for good: not tried again, and the job is due all the same.
            _ => 1,
        };
        assert_eq!(calls.len(), tries, "continuation {number}");
        let sent = ground.depth().await.visible;
        assert_eq!(sent, [1, 2, 3, 3][number], "continuation {number}");
        assert!(ground.job(&job).await.progress.due > Some(now()), "the sweeper's net is under each");
    }
}

/// A send that was taken and answered with an error is sent again: two copies, one run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b05_a_send_that_was_taken_twice_is_one_run() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let front = Front::before(&ground.stores.sqs.endpoint).await;
    let store = ground.store_with(&[("AWS_ENDPOINT_URL_SQS", front.endpoint.clone())]).await;
    front.fail("SendMessage", 1, || Fate::DoneThen(StatusCode::SERVICE_UNAVAILABLE, error_body("ServiceUnavailable")));
    let accepted = outside::submit(&store, order("acme", "ten", Value::Null)).await.unwrap();
    assert_eq!(front.tries("SendMessage"), 2);
    let event = ground.batch(2).await;
    assert_eq!(invoke(&Worker::new(ground.store.clone(), bench.registry()), &event, LONG).await, nothing_stays());
    assert_eq!(bench.runs(), [1; 10]);
    let job = JobRef { tenant: accepted.job.order.tenant, job: accepted.job.order.id };
    assert_eq!(ground.state(&job).await, JobState::Completed);
}

fn flaky(bench: &Bench) -> Registry {
    let bench = bench.clone();
    let mut registry = Registry::default();
    let agent = async move |ctx: &mut Ctx, _: Value| {
        ctx.step("call", async || {
            bench.ran("call");
            if bench.runs_of("call") == 1 {
                return Err(StepError::new(ErrorClass::Transient, "the tool was away"));
            }
            Ok(7)
        })
        .await
    };
    registry.add("flaky", 1, agent).unwrap();
    registry
}

/// The fifth receive is the first attempt, with the first wait behind it: receives count nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b07_receives_are_no_attempts() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let job = ground.submit(order("tn_a", "flaky", Value::Null)).await;
    let event =
        event(include_str!("../../faults/B07/first_seen_count5.json"), &BTreeMap::from([("job_01", job.clone())]));
    let worker = Worker::new(ground.store.clone(), flaky(&bench));
    assert_eq!(invoke(&worker, &event, LONG).await, nothing_stays());
    let entries = ground.entries(&job).await;
    let failed = entries.iter().find_map(|entry| match entry {
        Entry::AttemptFailed { attempt, started_at, retry_at, .. } => Some((*attempt, started_at.until(*retry_at))),
        _ => None,
    });
    let (attempt, wait) = failed.unwrap_or_else(|| panic!("{entries:?}"));
    assert_eq!(attempt, 1);
    assert!((Duration::from_secs(8)..Duration::from_secs(14)).contains(&wait), "the first wait, of 10 s: {wait:?}");
    assert_eq!(ground.state(&job).await.status(), Status::Waiting);
}

/// A message that nobody worked on ends among the dead letters by the queue's own policy. Its job was never begun, is not
/// shown as running, stays due, and goes on when somebody moves the message back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b07_a_message_that_nobody_worked_on_is_not_the_end_of_its_job() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let job = ground.submit(order("tn_a", "ten", Value::Null)).await;
    let (sqs, queue) = (&ground.stores.sqs.sqs, &ground.stores.sqs.jobs);
    let mut receives = 0;
    while let Some(message) = sqs.receive(queue, 1, Duration::ZERO, None).await.unwrap().into_iter().next() {
        receives += 1;
        sqs.change_visibility(queue, std::slice::from_ref(&message.receipt), Duration::ZERO).await.unwrap();
    }
    assert!(receives >= 5, "{receives} receives");
    let letter = ground.record_from(&ground.stores.sqs.dead_letters).await.expect("the message");
    let stored = ground.job(&job).await;
    assert_eq!((stored.progress.state.status(), stored.progress.attempts), (Status::Pending, 0));
    assert!(stored.progress.due.is_some());
    assert_eq!(ground.entries(&job).await, []);
    let worker = Worker::new(ground.store.clone(), bench.registry());
    assert_eq!(invoke(&worker, &json!({ "Records": [letter] }), LONG).await, nothing_stays());
    assert_eq!(ground.state(&job).await, JobState::Completed);
    assert_eq!(bench.runs(), [1; 10]);
}

/// Whatever a job holds, its messages hold ids alone; the largest is a watchdog for a full batch of jobs.
#[test]
fn b09_messages_are_small_whatever_a_job_holds() {
    let sizes: Value = serde_json::from_str(include_str!("../../faults/B09/sizes.json")).unwrap();
    let smallest = sizes["limits"]["sqs_default_old"].as_u64().unwrap();
    let job = JobRef { tenant: "t".repeat(64).parse().unwrap(), job: JobId::from_uuid(Uuid::max()) };
    let session = "s".repeat(80).parse().unwrap();
    for (message, bytes_max) in
        [(Continuation::job(job.clone()), 4 * 1_024), (Continuation::watchdog(session, vec![job; 20]), 4 * 1_024)]
    {
        let body = continuation_body(&message).unwrap();
        // The attributes are the group, which is the tenant's name, and a trace header.
        assert!(body.len() <= bytes_max, "{} bytes", body.len());
        assert!((body.len() as u64) < smallest);
    }
}

/// Messages that are late, doubled or about nothing: acknowledged, and nothing is done or changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b10_stale_continuations_change_nothing() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let worker = Worker::new(ground.store.clone(), bench.registry());
    let mut jobs = BTreeMap::from([("job_gone", absent())]);
    for (name, agent) in [("job_01", "ten"), ("job_done", "ten"), ("job_ahead", "waits"), ("job_behind", "ten")] {
        jobs.insert(name, ground.submit(order("tn_a", agent, Value::Null)).await);
    }
    let key = "c-1".parse().unwrap();
    outside::cancel(&ground.store, &jobs["job_01"], key, "ada".to_owned(), None, now()).await.unwrap();
    for name in ["job_01", "job_done", "job_ahead"] {
        let event = json!({ "Records": [record(name, &body_of(&jobs[name]))] });
        assert_eq!(invoke(&worker, &event, LONG).await, nothing_stays());
    }
    hold(&ground, &jobs["job_behind"]).await;
    let stood = async || {
        let mut stood = Vec::new();
        for job in jobs.values() {
            stood.push((ground.store.job(job).await.unwrap(), ground.entries(job).await));
        }
        stood
    };
    let (before, ran, depth) = (stood().await, bench.runs(), ground.depth().await.visible);
    let states: Vec<Option<Status>> =
        before.iter().map(|(job, _)| job.as_ref().map(|job| job.progress.state.status())).collect();
    let (cancelled, waiting, held, done) = (Status::Cancelled, Status::Waiting, Status::Processing, Status::Completed);
    assert_eq!(states, [Some(cancelled), Some(waiting), Some(held), Some(done), None]);

    let stale = event(include_str!("../../faults/B10/stale.json"), &jobs);
    assert_eq!(invoke(&worker, &stale, LONG).await, nothing_stays());

    assert_eq!(stood().await, before);
    assert_eq!((bench.runs(), ground.depth().await.visible), (ran, depth));
    let dead = ground.stores.sqs.sqs.depth(&ground.stores.sqs.dead_letters).await.unwrap();
    assert_eq!(dead.visible, 0);
}

/// A dead letter of this job, as somebody moves it back.
async fn letter(ground: &Ground, job: &JobRef) -> Value {
    let stored = ground.job(job).await;
    let letter = DeadLetter {
        replay_key: format!("redrive-{}", stored.progress.tail).parse().unwrap(),
        agent: stored.order.agent.clone(),
        failure: Failure::new(ErrorClass::Invalid, "the bench is broken"),
        failed_at: now(),
    };
    record("letter", &dead_letter_body(&stored, letter).unwrap())
}

/// The log's four runs: only the one that is dead goes on, once for two redrives at one moment, from the step that failed;
/// and when it fails again there is a letter again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b11_redriven_letters_of_jobs_in_every_state() {
    let records: Vec<Value> = serde_json::from_str(include_str!("../../faults/B11/dlq_records.json")).unwrap();
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let worker = Worker::new(ground.store.clone(), bench.registry());
    bench.broken.set(true);
    for case in &records {
        let status = case["store_status"].as_str().unwrap();
        let agent = if status == "dead" { "fragile" } else { "ten" };
        let job = ground.submit(order("tn_a", agent, Value::Null)).await;
        if status == "cancelled" {
            let key = "c-1".parse().unwrap();
            outside::cancel(&ground.store, &job, key, "ada".to_owned(), None, now()).await.unwrap();
        }
        if status == "running" {
            hold(&ground, &job).await;
        } else {
            let event = json!({ "Records": [record("one", &body_of(&job))] });
            assert_eq!(invoke(&worker, &event, LONG).await, nothing_stays());
        }
        while ground.depth().await.visible > 0 {
            ground.batch(1).await;
        }
        if status == "dead" {
            dead_and_dead_again(&ground, &bench, &worker, &job).await;
            continue;
        }
        let before = (ground.job(&job).await, ground.entries(&job).await);
        let redriven = json!({ "Records": [letter(&ground, &job).await] });
        assert_eq!(invoke(&worker, &redriven, LONG).await, nothing_stays(), "{status}");
        assert_eq!((ground.job(&job).await, ground.entries(&job).await), before, "{status}");
        assert_eq!(ground.depth().await.visible, 0, "nothing is queued: {status}");
    }
}

/// No worker drives an imported job: a letter of one, moved back, must not open what nobody goes on with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redriven_letter_of_an_imported_job_opens_nothing() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let worker = Worker::new(ground.store.clone(), bench.registry());
    let mut order = order("tn_a", "fragile", Value::Null);
    order.origin = longhaul::engine::job::Origin::Imported(longhaul::engine::job::Imported { at: now() });
    let job = ground.submit(order).await;
    while ground.depth().await.visible > 0 {
        ground.batch(1).await;
    }
    let failure = Failure::new(ErrorClass::Invalid, "the bench is broken");
    let batch = Batch::new(Seq::FIRST, fresh_nonce(), now(), vec![Entry::Failed { failure }]);
    ground.store.append(&job, &batch).await.unwrap();
    let before = (ground.job(&job).await, ground.entries(&job).await);
    let redriven = json!({ "Records": [letter(&ground, &job).await] });
    assert_eq!(invoke(&worker, &redriven, LONG).await, nothing_stays());
    assert_eq!((ground.job(&job).await, ground.entries(&job).await), before);
    assert_eq!(ground.depth().await.visible, 0, "nothing is queued");
}

async fn dead_and_dead_again(ground: &Ground, bench: &Bench, worker: &Worker<longhaul_aws::AwsStore>, job: &JobRef) {
    let dead = &ground.stores.sqs.dead_letters;
    let letter = ground.record_from(dead).await.expect("a letter");
    let redriven = json!({ "Records": [letter] });
    let (one, two) = tokio::join!(invoke(worker, &redriven, LONG), invoke(worker, &redriven, LONG));
    assert_eq!((one, two), (nothing_stays(), nothing_stays()));
    while ground.depth().await.visible > 0 {
        drive_next(ground, worker).await;
    }
    assert_eq!(replays(&ground.entries(job).await), ["queue redrive"]);
    assert_eq!((bench.runs_of("first"), bench.runs_of("second")), (1, 2), "from the step that failed, once");
    assert_eq!(ground.state(job).await, JobState::Failed);
    let again = ground.record_from(dead).await.expect("another letter");
    assert_ne!(again["body"], redriven["Records"][0]["body"], "it asks for a replay of its own");
}

/// When the answer is out, nothing of the invocation is under way and nothing comes after: the process may be frozen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b13_nothing_is_left_running_behind_the_answer() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let (table, queues) =
        (Front::before(ground.stores.dynamodb.endpoint()).await, Front::before(&ground.stores.sqs.endpoint).await);
    let slow =
        [("AWS_ENDPOINT_URL_DYNAMODB", table.endpoint.clone()), ("AWS_ENDPOINT_URL_SQS", queues.endpoint.clone())];
    let store = ground.store_with(&slow).await;
    // Shorter than the time that the worker takes for its last word about its session.
    let delay = Duration::from_millis(100);
    for front in [&table, &queues] {
        front.delay(delay);
    }
    // Before the job is accepted it is stored and enqueued.
    let accepted = outside::submit(&store, order("acme", "ten", Value::Null)).await.unwrap();
    assert_eq!((table.traffic(), queues.traffic()), ((1, 0), (1, 0)));
    assert_eq!(ground.depth().await.visible, 1);
    let event = ground.batch(1).await;
    // With time for all ten steps at their usual limit.
    let answer = invoke(&Worker::new(store, bench.registry()), &event, 10 * LONG).await;
    assert_eq!(answer, nothing_stays());
    // A call that was given up, such as a look for a cancel, is known to be so once its connection is closed.
    let quiet = async {
        while (table.traffic().1, queues.traffic().1) != (0, 0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(delay, quiet).await.expect("no call is under way behind the answer");
    let at_the_answer = (table.traffic(), queues.traffic());
    let job = JobRef { tenant: accepted.job.order.tenant, job: accepted.job.order.id };
    assert_eq!(ground.state(&job).await, JobState::Completed);
    // Time for whatever was left behind to show itself: three heartbeats would not, so a heartbeat and some calls.
    tokio::time::sleep(Duration::from_millis(longhaul::engine::limits::HEARTBEAT_INTERVAL_MS) + 2 * delay).await;
    assert_eq!((table.traffic(), queues.traffic()), at_the_answer);
}
