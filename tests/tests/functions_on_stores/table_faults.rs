//! Kind C of the fault log (tests/faults/README.md): what DynamoDB does to us, at its limits and on a bad day.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::StatusCode;
use longhaul::engine::claim::{ClaimDecision, Holder, News, decide};
use longhaul::engine::job::Status;
use longhaul::engine::{Batch, Entry, Job, JobState, Seq, Timestamp};
use longhaul::outside::{self, OutsideError, fresh_nonce};
use longhaul::store::{Append, JobRef, Store, StoreError, Submit, Write};
use longhaul::{Ctx, Registry, StepError};
use longhaul_aws::AwsStore;
use longhaul_aws::connections::{Asked, Connection};
use longhaul_aws::dynamo::{JobFilter, table_definition};
use longhaul_tests::sample::{self, noise};
use longhaul_worker::Worker;
use serde_json::{Value, json};

use crate::agents::Bench;
use crate::front::{Fate, Front, operations};
use crate::ground::{Ground, now, order};
use crate::worker::{LONG, body_of, invoke, nothing_stays, record};

/// The ground with a front before its table, and the store that goes through it.
pub(crate) async fn fronted() -> (Ground, Front, AwsStore) {
    let ground = Ground::lay().await;
    let front = Front::before(ground.stores.dynamodb.endpoint()).await;
    let store = ground.store_with(&[("AWS_ENDPOINT_URL_DYNAMODB", front.endpoint.clone())]).await;
    (ground, front, store)
}

fn event_of(job: &JobRef) -> Value {
    json!({ "Records": [record("one", &body_of(job))] })
}

/// What the table holds at most is never met: large outcomes go elsewhere before the write. Each is made once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c01_results_of_any_size_are_saved() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let mut results: Vec<Value> = (0..30).map(|_| json!(noise(20 * 1_024))).collect();
    results.push(json!(noise(1_200_000)));
    results.push(json!({ "h": "x".repeat(399_990 - 8) }));
    results.push(json!("🙂".repeat(100_000)));
    results.push(json!({ "漢".repeat(300): noise(65_500) }));
    let (expected, noted) = (results.clone(), bench.clone());
    let mut registry = Registry::default();
    let agent = async move |ctx: &mut Ctx, _: Value| {
        for (number, result) in results.iter().enumerate() {
            ctx.step("tool", async || {
                noted.ran(&format!("{number}"));
                Ok::<_, StepError>(result.clone())
            })
            .await?;
        }
        Ok(results.len())
    };
    registry.add("large", 1, agent).unwrap();
    let job = ground.submit(order("tn_a", "large", Value::Null)).await;
    let worker = Worker::new(ground.store.clone(), registry);
    assert_eq!(invoke(&worker, &event_of(&job), LONG).await, nothing_stays());
    let outputs: Vec<Value> = ground
        .entries(&job)
        .await
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::StepCompleted { output, .. } => Some(output),
            _ => None,
        })
        .collect();
    assert!(outputs == expected, "the outcomes come back otherwise than they were");
    assert_eq!(bench.runs(), [1; 34]);
    assert_eq!(ground.state(&job).await, JobState::Completed);
}

/// What one conditional write came to.
type Outcome = Result<&'static str, StoreError>;

/// Each of the protocol's conditional writes, on a job of its own.
async fn conditional_writes(
    ground: &Ground,
    front: &Front,
    store: &AwsStore,
    fate: impl Fn() -> Fate + Clone + Send + 'static,
) -> Vec<(&'static str, Outcome, usize)> {
    let mut outcomes = Vec::new();
    let fresh = Job::accepted(order("acme", "ten", Value::Null), fresh_nonce());
    front.fail("PutItem", usize::MAX, fate.clone());
    let submitted = store.submit(&fresh).await.map(|submit| match submit {
        Submit::Created => "done",
        Submit::Exists(_) => "exists",
    });
    outcomes.push(("submit", submitted, front.tries("PutItem")));
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    let appended =
        store.append(&job, &Batch { at: Seq(1), ..sample::outcomes(1, 1) }).await.map(|append| match append {
            Append::Written => "done",
            Append::Conflict(_) => "conflict",
        });
    outcomes.push(("checkpoint", appended, front.tries("PutItem")));
    front.fail("UpdateItem", usize::MAX, fate);
    let stored = ground.job(&job).await;
    let ClaimDecision::Claim(claim) =
        decide(&stored, &"s-1".parse().unwrap(), Holder::Dead, News::Something, fresh_nonce(), now())
    else {
        panic!("no claim was decided")
    };
    let claimed = store.write_job(&job, &claim.write).await.map(|write| match write {
        Write::Written { .. } => "done",
        Write::Refused(_) => "refused",
    });
    outcomes.push(("claim", claimed, front.tries("UpdateItem")));
    outcomes
}

/// Only submissions to threads are transactions, so that what comes here are single reasons, as errors of their own, a
/// write's that met such a transaction among them. None of them becomes "already done", and only those are tried again that
/// can pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c02_no_throttle_or_conflict_is_taken_for_an_answer() {
    let (ground, front, store) = fronted().await;
    let rows: Vec<Value> = serde_json::from_str(include_str!("../../faults/C02/reasons.json")).unwrap();
    let mut met = BTreeSet::new();
    for row in &rows {
        let mut reasons = row["reasons"].as_array().unwrap().iter().filter_map(Value::as_str);
        // The reason that is no condition's; a condition's alone is an answer, and the real table gives it below.
        let reason = reasons.find(|reason| !["None", "ConditionalCheckFailed"].contains(reason));
        let (status, name, tries) = match (row["class"].as_str().unwrap(), reason) {
            ("lost_race_or_duplicate", None) => continue,
            ("contention" | "contention_reread", Some("TransactionConflict")) => {
                (StatusCode::BAD_REQUEST, "TransactionConflictException", 4)
            }
            ("throttle", Some("ThrottlingError")) => (StatusCode::BAD_REQUEST, "ThrottlingException", 4),
            ("throttle", Some("ProvisionedThroughputExceeded")) => {
                (StatusCode::BAD_REQUEST, "ProvisionedThroughputExceededException", 4)
            }
            ("bug", Some("ValidationError")) => (StatusCode::BAD_REQUEST, "ValidationException", 1),
            ("bug", Some("ItemCollectionSizeLimitExceeded")) => {
                (StatusCode::BAD_REQUEST, "ItemCollectionSizeLimitExceededException", 1)
            }
            ("unknown", None) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", 4),
            other => panic!("a row that is not known: {other:?}"),
        };
        if !met.insert(name) {
            continue;
        }
        for (what, outcome, tried) in
            conditional_writes(&ground, &front, &store, move || Fate::error(status, name)).await
        {
            assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{what} under {name}: {outcome:?}");
            assert_eq!(tried, tries, "{what} under {name}");
        }
    }
    assert_eq!(met.len(), 6);
    // A lost race is an answer, with what stands there.
    front.plan(|_, _| None);
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    assert_eq!(store.append(&job, &sample::outcomes(1, 1)).await.unwrap(), Append::Written);
    assert!(matches!(store.append(&job, &sample::outcomes(1, 1)).await.unwrap(), Append::Conflict(_)));
}

/// Why the lists of reasons do not apply: over a job's whole life no transaction is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c02_no_transaction_is_made() {
    let (_ground, front, store) = fronted().await;
    let bench = Bench::default();
    let worker = Worker::new(store.clone(), bench.registry());
    let accepted = outside::submit(&store, order("acme", "ten", Value::Null)).await.unwrap();
    let job = JobRef { tenant: accepted.job.order.tenant, job: accepted.job.order.id };
    assert_eq!(invoke(&worker, &event_of(&job), LONG).await, nothing_stays());
    let calls = front.take();
    let known = BTreeSet::from(["DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem"]);
    assert!(operations(&calls).is_subset(&known), "{:?}", operations(&calls));
    assert!(calls.len() >= 14);
}

pub(crate) fn connection(id: &str) -> Connection {
    Connection {
        id: id.to_owned(),
        tenant: "acme".parse().unwrap(),
        subject: "ada".to_owned(),
        token_expires_at: now().plus(Duration::from_secs(600)),
        connected_at: now(),
        opened: None,
    }
}

/// An answer of 200 that leaves a part undone is not taken for done: the part is asked for again until it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c04_what_a_batch_leaves_undone_is_done_after_all() {
    let (ground, front, store) = fronted().await;
    let shapes: Value = serde_json::from_str(include_str!("../../faults/C04/responses.json")).unwrap();
    assert!(shapes["first"]["UnprocessedItems"].is_object() && shapes["keys_first"]["UnprocessedKeys"].is_object());
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(ground.submit(order("acme", "ten", Value::Null)).await);
    }
    // Writes: both sides of a subscription.
    let watcher = connection("A=");
    store.put_connection(&watcher).await.unwrap();
    front.fail("BatchWriteItem", 1, || Fate::InPart);
    store.ask(&watcher, &jobs[0], Asked::to_hear(Seq(0), 0)).await.unwrap();
    assert_eq!(front.tries("BatchWriteItem"), 2);
    assert_eq!(ground.store.subscribers(jobs[0].job).await.unwrap().len(), 1);
    front.fail("BatchWriteItem", 2, || Fate::InPart);
    store.drop_connection("A=").await.unwrap();
    assert_eq!(ground.store.subscribers(jobs[0].job).await.unwrap(), [], "none is left behind");
    // Reads: a list under load is whole, never shorter.
    let all = JobFilter::default();
    front.fail("BatchGetItem", 3, || Fate::InPart);
    let page = store.list_jobs(&"acme".parse().unwrap(), &all, None, 10).await.unwrap();
    assert_eq!(page.jobs.len(), 5);
    assert_eq!(front.tries("BatchGetItem"), 4);
    // And where it stays so, "try again" is said, not "there is none".
    front.fail("BatchGetItem", usize::MAX, || Fate::InPart);
    let page = store.list_jobs(&"acme".parse().unwrap(), &all, None, 10).await;
    assert!(matches!(page, Err(StoreError::Unavailable { .. })), "{page:?}");
}

/// An idempotency key is its job's id. As long as the job is there, past its time or not, the key is the job's: a new job
/// under it would stand in front of the old one's journal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c05_a_key_is_its_jobs_for_as_long_as_the_job_is_there() {
    let ground = Ground::lay().await;
    let first = order("tn_a", "ten", json!({ "n": 1 }));
    let job = ground.submit(first.clone()).await;
    let stored = ground.job(&job).await;
    let mut ended = sample::write(&stored, JobState::Completed, None);
    // It ended so long ago that its time is over.
    ended.progress.updated_at = Timestamp::from_millis(now().as_millis() - 400 * 24 * 3_600_000);
    ground.store.write_job(&job, &ended).await.unwrap();
    let again = outside::submit(&ground.store, first.clone()).await.unwrap();
    assert!(again.existed && again.job.progress.state == JobState::Completed);
    let mut other = first;
    other.input = json!({ "n": 2 });
    let refused = outside::submit(&ground.store, other).await;
    assert!(matches!(refused, Err(OutsideError::OtherRequest)), "{refused:?}");
}

/// A lease does not end by being deleted: the session that holds it has been silent, that is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c05_a_lease_whose_session_is_still_stored_is_taken_over() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let job = ground.submit(order("tn_a", "ten", Value::Null)).await;
    let session = "long-gone".parse().unwrap();
    let stored = ground.job(&job).await;
    let then = Timestamp::from_millis(now().as_millis() - 10_000);
    match decide(&stored, &session, Holder::Dead, News::Something, fresh_nonce(), then) {
        ClaimDecision::Claim(claim) => drop(ground.store.write_job(&job, &claim.write).await.unwrap()),
        other => panic!("no claim was decided but {other:?}"),
    }
    ground.store.beat(&session, Timestamp::from_millis(now().as_millis() - 3_600_000)).await.unwrap();
    let worker = Worker::new(ground.store.clone(), bench.registry());
    assert_eq!(invoke(&worker, &event_of(&job), LONG).await, nothing_stays());
    assert_eq!(ground.state(&job).await, JobState::Completed);
    assert!(ground.store.last_beat(&session).await.unwrap().is_some(), "its item is still there");
}

/// All numbers of an attribute, wherever it is written: in an item, or as a value of an update that names it.
fn written(calls: &[(String, Value)], name: &str) -> Vec<u64> {
    let number = |value: &Value| value["N"].as_str().map(|text| text.parse::<u64>().unwrap());
    let mut found = Vec::new();
    for (_, call) in calls {
        found.extend(number(&call["Item"][name]));
        let expression = call["UpdateExpression"].as_str().unwrap_or_default();
        let names = call["ExpressionAttributeNames"].as_object().into_iter().flatten();
        let called: Vec<&str> = names.filter(|(_, known)| *known == name).map(|(short, _)| short.as_str()).collect();
        for assignment in expression.split([',', ' ']).collect::<Vec<_>>().windows(3) {
            if assignment[1] == "=" && (assignment[0] == name || called.contains(&assignment[0])) {
                found.extend(number(&call["ExpressionAttributeValues"][assignment[2]]));
            }
        }
    }
    found
}

/// DynamoDB takes an expiry in whole seconds. One in milliseconds lies fifty thousand years ahead: nothing would ever go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c05_expiries_are_in_whole_seconds() {
    let (_ground, front, store) = fronted().await;
    let bench = Bench::default();
    let accepted = outside::submit(&store, order("acme", "ten", Value::Null)).await.unwrap();
    let job = JobRef { tenant: accepted.job.order.tenant, job: accepted.job.order.id };
    invoke(&Worker::new(store.clone(), bench.registry()), &event_of(&job), LONG).await;
    let watcher = connection("A=");
    store.put_connection(&watcher).await.unwrap();
    store.ask(&watcher, &job, Asked::to_hear(Seq(0), 0)).await.unwrap();
    let expiries = written(&front.take(), longhaul_aws::dynamo::EXPIRY_ATTRIBUTE);
    assert!(expiries.len() >= 3, "session, job and connection: {expiries:?}");
    let (soon, late) = (now().as_seconds(), now().plus(Duration::from_secs(400 * 24 * 3_600)).as_seconds());
    assert!(expiries.iter().all(|expiry| (soon..late).contains(expiry)), "{expiries:?}");
}

/// A read that DynamoDB may answer out of the past is answered with nothing at all here. Only the indexes, which cannot be
/// read otherwise, are; and nothing rests on them but the sweeper's next look and lists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c06_every_read_of_the_table_is_consistent() {
    let (_ground, front, store) = fronted().await;
    front.plan(|operation, asked| {
        let consistent = asked["ConsistentRead"] == true;
        match operation {
            "GetItem" if !consistent => Some(Fate::Instead(StatusCode::OK, json!({}))),
            "Query" if !consistent => {
                Some(Fate::Instead(StatusCode::OK, json!({ "Items": [], "Count": 0, "ScannedCount": 0 })))
            }
            "BatchGetItem" => {
                let tables = asked["RequestItems"].as_object().unwrap();
                let stale = tables.values().any(|table| table["ConsistentRead"] != true);
                stale.then(|| Fate::Instead(StatusCode::OK, json!({ "Responses": {} })))
            }
            _ => None,
        }
    });
    let bench = Bench::default();
    let worker = Worker::new(store.clone(), bench.registry());
    let submit = async || {
        let accepted = outside::submit(&store, order("acme", "ten", Value::Null)).await.unwrap();
        JobRef { tenant: accepted.job.order.tenant, job: accepted.job.order.id }
    };
    let job = submit().await;
    assert_eq!(store.job(&job).await.unwrap().expect("at once").progress.state, JobState::Pending);
    assert_eq!(invoke(&worker, &event_of(&job), LONG).await, nothing_stays());
    assert_eq!(store.job(&job).await.unwrap().unwrap().progress.state, JobState::Completed);
    let cancelled = submit().await;
    let key = "c-1".parse().unwrap();
    outside::cancel(&store, &cancelled, key, "ada".to_owned(), None, now()).await.unwrap();
    assert_eq!(invoke(&worker, &event_of(&cancelled), LONG).await, nothing_stays());
    assert_eq!(store.job(&cancelled).await.unwrap().unwrap().progress.state.status(), Status::Cancelled);
    // A list that lags is an empty list, and no error; it drives nothing.
    let page = store.list_jobs(&"acme".parse().unwrap(), &JobFilter::default(), None, 10).await.unwrap();
    assert!(page.jobs.is_empty());
    // The reads that no job of the above came to.
    store.last_beat(&"s-1".parse().unwrap()).await.unwrap();
    store.connection("A=").await.unwrap();
    store.subscribers(job.job).await.unwrap();
    store.forget(job.job).await.unwrap();
    let calls = front.take();
    let lagging: Vec<String> = calls
        .iter()
        .filter(|(operation, asked)| {
            let read = ["GetItem", "Query", "Scan"].contains(&operation.as_str());
            read && asked["ConsistentRead"] != true
        })
        .map(|(operation, asked)| format!("{operation} of {}", asked["IndexName"]))
        .collect();
    assert_eq!(lagging, ["Query of \"jobs\""]);
    assert!(operations(&calls).is_superset(&BTreeSet::from(["GetItem", "Query"])));
}

/// No key is shared by all jobs of a status or of a day: a job's items are its own partition, the index of due jobs has
/// shards, the other one is by tenant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c09_no_key_is_everybodys() {
    const JOBS: usize = 400;
    let (_ground, front, store) = fronted().await;
    for number in 0..JOBS {
        let tenant = format!("tn_{}", number % 40);
        store.submit(&Job::accepted(order(&tenant, "ten", Value::Null), fresh_nonce())).await.unwrap();
    }
    let calls = front.take();
    let definition = table_definition("t");
    let indexes = definition["GlobalSecondaryIndexes"].as_array().unwrap().iter().map(|index| &index["KeySchema"]);
    let hashes: Vec<&str> = indexes
        .chain([&definition["KeySchema"]])
        .map(|keys| keys.as_array().unwrap().iter().find(|key| key["KeyType"] == "HASH").unwrap())
        .map(|key| key["AttributeName"].as_str().unwrap())
        .collect();
    assert_eq!(hashes, ["due_shard", "tenant", "found_by", "PK"]);
    for (hash, most) in [("PK", 1), ("due_shard", JOBS / 4), ("tenant", JOBS / 40), ("found_by", JOBS / 40)] {
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, call) in &calls {
            *uses.entry(call["Item"][hash]["S"].as_str().unwrap()).or_default() += 1;
        }
        let busiest = uses.values().max().unwrap();
        assert!(*busiest <= most, "{hash}: one key has {busiest} of {JOBS} jobs");
    }
}

/// Both names of a throttle are tried again, and the job is done all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c09_a_job_is_done_under_throttles() {
    let (ground, front, store) = fronted().await;
    let mut calls = 0_u32;
    front.plan(move |_, _| {
        calls += 1;
        let name = ["ProvisionedThroughputExceededException", "ThrottlingException"][calls as usize / 3 % 2];
        calls.is_multiple_of(3).then(|| Fate::error(StatusCode::BAD_REQUEST, name))
    });
    let bench = Bench::default();
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    let worker = Worker::new(store, bench.registry());
    assert_eq!(invoke(&worker, &event_of(&job), LONG).await, nothing_stays());
    assert_eq!(ground.state(&job).await, JobState::Completed);
    assert_eq!(bench.runs(), [1; 10]);
}

/// What a step says while it runs costs no write, however much it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c09_deltas_are_not_written() {
    let (ground, front, store) = fronted().await;
    let mut registry = Registry::default();
    let agent = async |ctx: &mut Ctx, _: Value| {
        let live = ctx.live();
        ctx.effect("ask", async move |key| {
            for number in 0..400 {
                live.say(&key, &format!("word {number} "));
                tokio::task::yield_now().await;
            }
            Ok::<_, StepError>("all of it".to_owned())
        })
        .await
    };
    registry.add("says", 1, agent).unwrap();
    let job = ground.submit(order("acme", "says", Value::Null)).await;
    assert_eq!(invoke(&Worker::new(store, registry), &event_of(&job), LONG).await, nothing_stays());
    assert_eq!(ground.state(&job).await, JobState::Completed);
    let calls = front.take();
    let batches = calls.iter().filter(|(operation, call)| {
        operation == "PutItem" && call["Item"]["SK"]["S"].as_str().unwrap_or_default().starts_with("J#")
    });
    assert_eq!(batches.count(), 3, "the claim, the outcome, the end");
}
