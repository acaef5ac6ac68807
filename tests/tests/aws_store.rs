//! What the AWS store does beyond the trait: its exact price, lists, watchers, the stream, and what it leaves behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic: that is how it fails"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use longhaul::outside::fresh_nonce;
use longhaul::store::{Continuation, JobRef, Store, StoreError};
use longhaul_aws::connections::{Connection, Subscriber};
use longhaul_aws::dynamo::{Cursor, JobFilter, JobPage, StreamedBatch};
use longhaul_aws::{AwsStore, Config};
use longhaul_engine::job::Status;
use longhaul_engine::thread::{OnBusy, Thread};
use longhaul_engine::{Job, JobId, JobState, Seq, Timestamp, limits};
use longhaul_local::stores::dynamodb::StreamReader;
use longhaul_tests::sample;
use longhaul_tests::sample::{
    NOW, claim, failure, job, job_of, later, noise, outcome, outcomes, reference, session, signal, tenant, write,
};
use longhaul_tests::stage::{AwsStage, Stage};
use serde_json::{Value, json};

async fn set_up() -> AwsStage {
    Box::pin(AwsStage::set_up()).await
}

/// Holds the calls since the last look to `expected`.
fn cost(store: &AwsStore, what: &str, expected: &[(&str, u64)]) {
    let expected: BTreeMap<String, u64> = expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert_eq!(store.clients().counts().take(), expected, "{what}");
}

#[tokio::test]
async fn each_call_has_its_exact_price() {
    let stage = set_up().await;
    let store = stage.store();
    let read = job();
    let job = reference(&read);

    store.submit(&read).await.unwrap();
    cost(&store, "submit", &[("PutItem", 1)]);
    store.submit(&read).await.unwrap();
    cost(&store, "submit, refused", &[("PutItem", 1)]);
    store.job(&job).await.unwrap();
    cost(&store, "job", &[("GetItem", 1)]);
    let claim = claim(&read, "session-1");
    store.write_job(&job, &claim.write).await.unwrap();
    cost(&store, "write_job", &[("UpdateItem", 1)]);
    store.write_job(&job, &sample::claim(&read, "session-2").write).await.unwrap();
    cost(&store, "write_job, refused", &[("UpdateItem", 1)]);

    store.append(&job, &outcomes(1, 2)).await.unwrap();
    cost(&store, "append", &[("PutItem", 1)]);
    store.append(&job, &outcomes(1, 2)).await.unwrap();
    cost(&store, "append, refused", &[("PutItem", 1)]);
    let large = sample::batch(3, vec![outcome(3, json!(noise(2 * limits::BATCH_INLINE_BYTES_MAX)))]);
    store.append(&job, &large).await.unwrap();
    cost(&store, "append of a large batch", &[("PutItem", 1), ("PutObject", 1)]);
    store.batch_at(job.job, Seq(1)).await.unwrap();
    cost(&store, "batch_at", &[("GetItem", 1)]);
    store.journal(job.job, Seq::FIRST).await.unwrap();
    cost(&store, "journal", &[("GetObject", 1), ("Query", 1)]);

    store.wake(&job, NOW).await.unwrap();
    cost(&store, "wake of a running job", &[("UpdateItem", 2)]);
    let held = store.job(&job).await.unwrap().unwrap();
    let waiting = write(&held, JobState::Waiting { until: None, seen: Seq(4) }, Some(later(60)));
    store.write_job(&job, &waiting).await.unwrap();
    store.clients().counts().take();
    store.wake(&job, NOW).await.unwrap();
    cost(&store, "wake of a waiting job", &[("UpdateItem", 1)]);

    store.due(0, NOW, 10).await.unwrap();
    cost(&store, "due", &[("Query", 1)]);
    store.move_due(&job, NOW, later(1)).await.unwrap();
    cost(&store, "move_due", &[("UpdateItem", 1)]);
    store.beat(&session("session-1"), NOW).await.unwrap();
    cost(&store, "beat", &[("PutItem", 1)]);
    store.last_beat(&session("session-1")).await.unwrap();
    cost(&store, "last_beat", &[("GetItem", 1)]);
    store.end_session(&session("session-1")).await.unwrap();
    cost(&store, "end_session", &[("DeleteItem", 1)]);
    store.send(&Continuation::job(job.clone()), Duration::ZERO).await.unwrap();
    cost(&store, "send", &[("SendMessage", 1)]);
    store.dead_letter(&read, &failure()).await.unwrap();
    cost(&store, "dead_letter", &[("SendMessage", 1)]);
}

/// A job of a tenant, submitted so many seconds after the beginning.
async fn submitted(store: &AwsStore, owner: &str, seconds: u64, change: impl FnOnce(&mut Job)) -> Job {
    let mut order = sample::order_of(owner);
    order.submitted_at = later(seconds);
    let mut job = Job::accepted(order, fresh_nonce());
    change(&mut job);
    store.submit(&job).await.unwrap();
    store.put_places(&job.order).await.unwrap();
    job
}

fn ids(page: &JobPage) -> Vec<JobId> {
    page.jobs.iter().map(|job| job.id).collect()
}

/// All pages of a list, `jobs_max` at a time.
async fn all_pages(store: &AwsStore, owner: &str, filter: &JobFilter, jobs_max: usize) -> Vec<JobId> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = store
            .list_jobs(&tenant(owner), filter, cursor.as_deref().and_then(Cursor::of_jobs), jobs_max)
            .await
            .unwrap();
        assert!(page.jobs.len() <= jobs_max);
        all.extend(ids(&page));
        cursor = page.next;
        if cursor.is_none() {
            return all;
        }
    }
}

#[tokio::test]
async fn a_tenants_jobs_are_listed_newest_first_in_pages() {
    let stage = set_up().await;
    let store = stage.store();
    let mut jobs = Vec::new();
    for seconds in 0..7 {
        jobs.push(
            submitted(&store, "acme", seconds, |job| {
                if seconds % 2 == 0 {
                    job.order.agent.name = "compliance".parse().unwrap();
                    job.order.labels = BTreeMap::from([("team".to_owned(), "red".to_owned())]);
                }
                if seconds % 3 == 0 {
                    job.order.thread = Some(Thread { id: "talk".parse().unwrap(), on_busy: OnBusy::Enqueue });
                }
            })
            .await,
        );
    }
    let foreign = submitted(&store, "other", 3, |_| {}).await;
    let ended = write(&jobs[6], JobState::Completed, None);
    store.write_job(&reference(&jobs[6]), &ended).await.unwrap();
    jobs.reverse();
    // A journal stands in the same partitions and must not show.
    store.append(&reference(&jobs[0]), &outcomes(1, 1)).await.unwrap();

    let every = |keep: fn(usize) -> bool| -> Vec<JobId> {
        jobs.iter().enumerate().filter(|(place, _)| keep(*place)).map(|(_, job)| job.order.id).collect()
    };
    let label = |value: &str| Some(("team".to_owned(), value.to_owned()));
    let none = JobFilter::default;
    for (filter, expected) in [
        (none(), every(|_| true)),
        (JobFilter { agent: Some("compliance".to_owned()), ..none() }, every(|place| place % 2 == 0)),
        (JobFilter { label: label("blue"), ..none() }, every(|place| place % 2 == 1)),
        (JobFilter { label: label("green"), ..none() }, Vec::new()),
        (JobFilter { status: Some(Status::Completed), ..none() }, every(|place| place == 0)),
        (JobFilter { status: Some(Status::Pending), label: label("red"), ..none() }, every(|p| p % 2 == 0 && p > 0)),
        (JobFilter { status: Some(Status::Pending), ..none() }, every(|place| place > 0)),
        (JobFilter { status: Some(Status::Failed), ..none() }, Vec::new()),
        (
            JobFilter { status: Some(Status::Completed), agent: Some("compliance".to_owned()), ..none() },
            every(|place| place == 0),
        ),
        (JobFilter { since: Some(later(4)), ..none() }, every(|place| place <= 2)),
        (JobFilter { until: Some(later(4)), ..none() }, every(|place| place > 2)),
        (JobFilter { since: Some(later(2)), until: Some(later(5)), ..none() }, every(|place| (2..=4).contains(&place))),
        (JobFilter { since: Some(later(3)), until: Some(later(3)), ..none() }, Vec::new()),
        (
            JobFilter { label: label("red"), since: Some(later(1)), until: Some(later(6)), ..none() },
            every(|p| p == 2 || p == 4),
        ),
        (JobFilter { thread: Some("talk".to_owned()), ..none() }, every(|place| place % 3 == 0)),
        (JobFilter { thread: Some("talk".to_owned()), label: label("red"), ..none() }, every(|place| place % 6 == 0)),
        (JobFilter { thread: Some("tal".to_owned()), ..none() }, Vec::new()),
        (JobFilter { thread: Some("t".repeat(5_000)), ..none() }, Vec::new()),
        (JobFilter { label: Some(("t".repeat(5_000), "x".to_owned())), ..none() }, Vec::new()),
    ] {
        for jobs_max in [1, 2, 3, 7, 100] {
            assert_eq!(all_pages(&store, "acme", &filter, jobs_max).await, expected, "{filter:?} by {jobs_max}");
        }
    }
    assert_eq!(all_pages(&store, "other", &none(), 10).await, [foreign.order.id]);
    assert_eq!(all_pages(&store, "nobody", &none(), 10).await, []);

    // A cursor of one tenant shows nothing of another.
    let page = store.list_jobs(&tenant("acme"), &none(), None, 2).await.unwrap();
    let page =
        store.list_jobs(&tenant("other"), &none(), page.next.as_deref().and_then(Cursor::of_jobs), 10).await.unwrap();
    assert!(ids(&page).iter().all(|id| *id == foreign.order.id));
    let page = store.list_jobs(&tenant("acme"), &none(), None, 1).await.unwrap();
    assert_eq!(ids(&page), [jobs[0].order.id]);
    assert_eq!(page.jobs[0].status, Status::Completed);
}

/// What no other test looks at: labels whose names and values run into each other, a job that is opened again, and one
/// that is gone before it was made findable.
#[tokio::test]
async fn a_job_is_found_by_what_it_is_and_not_by_what_it_was() {
    let stage = set_up().await;
    let store = stage.store();
    let labelled = |name: &str, value: &str| JobFilter {
        label: Some((name.to_owned(), value.to_owned())),
        ..JobFilter::default()
    };
    let with = |name: &'static str, value: &'static str| {
        move |job: &mut Job| job.order.labels = BTreeMap::from([(name.to_owned(), value.to_owned())])
    };
    let one = submitted(&store, "acme", 0, with("a=b", "c")).await;
    let two = submitted(&store, "acme", 1, with("a", "b=c")).await;
    assert_eq!(all_pages(&store, "acme", &labelled("a=b", "c"), 5).await, [one.order.id]);
    assert_eq!(all_pages(&store, "acme", &labelled("a", "b=c"), 5).await, [two.order.id]);

    let by_status = |status| JobFilter { status: Some(status), ..JobFilter::default() };
    store.write_job(&reference(&one), &write(&one, JobState::Failed, None)).await.unwrap();
    assert_eq!(all_pages(&store, "acme", &by_status(Status::Failed), 5).await, [one.order.id]);
    let failed = store.job(&reference(&one)).await.unwrap().unwrap();
    store.write_job(&reference(&one), &write(&failed, JobState::Pending, Some(NOW))).await.unwrap();
    assert_eq!(all_pages(&store, "acme", &by_status(Status::Failed), 5).await, []);
    assert_eq!(all_pages(&store, "acme", &by_status(Status::Pending), 5).await, [two.order.id, one.order.id]);

    let gone = Job::accepted(sample::order_of("acme"), fresh_nonce());
    store.put_places(&gone.order).await.unwrap();
    store.clients().counts().take();
    store.forget(gone.order.id).await.unwrap();
    cost(&store, "nothing is left to remove", &[("GetItem", 1), ("ListObjectsV2", 1), ("Query", 2)]);
}

/// One answer costs a bounded number of calls, however many jobs there are that it does not show.
#[tokio::test]
async fn a_list_looks_at_a_bounded_number_of_jobs() {
    let stage = set_up().await;
    let store = stage.store();
    for seconds in 0..1_050 {
        submitted(&store, "acme", seconds, |_| {}).await;
    }
    let blocked = JobFilter { status: Some(Status::Blocked), ..JobFilter::default() };
    store.clients().counts().take();
    let page = store.list_jobs(&tenant("acme"), &blocked, None, 1).await.unwrap();
    cost(&store, "a list that finds nothing", &[("BatchGetItem", 10), ("Query", 10)]);
    assert!(page.jobs.is_empty());
    let next = page.next.as_deref().and_then(Cursor::of_jobs);
    assert!(next.is_some(), "and says where to go on");
    let page = store.list_jobs(&tenant("acme"), &blocked, next, 1).await.unwrap();
    assert_eq!((page.jobs.len(), page.next), (0, None));
    store.clients().counts().take();
    let page = store.list_jobs(&tenant("acme"), &JobFilter::default(), None, 20).await.unwrap();
    assert_eq!(page.jobs.len(), 20);
    cost(&store, "a list that finds at once", &[("BatchGetItem", 1), ("Query", 1)]);
}

#[tokio::test]
async fn failed_jobs_are_listed_until_they_are_replayed() {
    let stage = set_up().await;
    let store = stage.store();
    let mut failed = Vec::new();
    for seconds in [30, 10, 20] {
        let read = submitted(&store, "acme", 0, |_| {}).await;
        let mut write = write(&read, JobState::Failed, None);
        write.progress.updated_at = later(seconds);
        store.write_job(&reference(&read), &write).await.unwrap();
        failed.push((seconds, read));
    }
    submitted(&store, "acme", 0, |_| {}).await;
    failed.sort_by_key(|(seconds, _)| std::cmp::Reverse(*seconds));
    let expected: Vec<JobId> = failed.iter().map(|(_, job)| job.order.id).collect();

    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page =
            store.dead_letters(&tenant("acme"), cursor.as_deref().and_then(Cursor::of_dead_letters), 1).await.unwrap();
        found.extend(ids(&page));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, expected);
    assert_eq!(ids(&store.dead_letters(&tenant("other"), None, 10).await.unwrap()), []);

    let reopened = reference(&failed[1].1);
    let stored = store.job(&reopened).await.unwrap().unwrap();
    store.write_job(&reopened, &write(&stored, JobState::Pending, Some(later(60)))).await.unwrap();
    assert_eq!(ids(&store.dead_letters(&tenant("acme"), None, 10).await.unwrap()), [expected[0], expected[2]]);
}

fn connection(id: &str) -> Connection {
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
    store.subscribe(&one, &here, Seq(0)).await.unwrap();
    store.subscribe(&one, &there, Seq(5)).await.unwrap();
    store.subscribe(&two, &here, Seq(0)).await.unwrap();
    store.subscribe(&two, &here, Seq(9)).await.unwrap();
    // Subscriptions share the partition of the journal, which must not see them.
    store.append(&here, &outcomes(1, 1)).await.unwrap();
    assert_eq!(store.journal(here.job, Seq::FIRST).await.unwrap().len(), 1);
    assert_eq!(store.subscribers(here.job).await.unwrap(), [subscriber(&one, 0), subscriber(&two, 9)]);
    assert_eq!(store.subscribers(there.job).await.unwrap(), [subscriber(&one, 5)]);

    store.unsubscribe("one=", here.job).await.unwrap();
    store.unsubscribe("one=", here.job).await.unwrap();
    assert_eq!(store.subscribers(here.job).await.unwrap(), [subscriber(&two, 9)]);

    store.subscribe(&one, &here, Seq(1)).await.unwrap();
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
        store.subscribe(&connection, job, Seq(0)).await.unwrap();
    }
    store.drop_connection("busy=").await.unwrap();
    for job in &jobs {
        assert_eq!(store.subscribers(job.job).await.unwrap(), []);
    }
}

/// The records of the stream until `enough` of them are there.
async fn records(reader: &mut StreamReader, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut all = Vec::new();
    for _ in 0..50 {
        let batch = reader.next_batch(1_000, Duration::from_secs(1)).await.unwrap();
        if let Some(last) = batch.last() {
            reader.commit(last["dynamodb"]["SequenceNumber"].as_str().unwrap()).await.unwrap();
        }
        all.extend(batch);
        if enough(&all) {
            return all;
        }
    }
    panic!("the stream did not bring it: {all:#?}");
}

fn item_of(record: &Value, part: &str) -> serde_dynamo::Item {
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

/// Files below the bucket's folder that belong to a job.
fn payloads(stage: &AwsStage, job: JobId) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![stage.folder().join("s3")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if name.contains(&job.to_string()) {
                found.insert(name);
            }
        }
    }
    found
}

#[tokio::test]
async fn an_expired_job_is_forgotten_with_all_that_was_its() {
    let stage = set_up().await;
    let store = stage.store();
    let mut reader = stage.stores.dynamodb.stream_reader("forget").unwrap();
    let mut read = job();
    read.order.input = json!(noise(2 * limits::INPUT_INLINE_BYTES_MAX));
    let job = reference(&read);
    store.submit(&read).await.unwrap();
    for at in 1..=60 {
        store.append(&job, &outcomes(at, 1)).await.unwrap();
    }
    let large = sample::batch(61, vec![outcome(61, json!(noise(2 * limits::BATCH_INLINE_BYTES_MAX)))]);
    store.append(&job, &large).await.unwrap();
    store.subscribe(&connection("one="), &job, Seq(0)).await.unwrap();
    assert_eq!(payloads(&stage, job.job).len(), 2);
    assert!(!store.forget(job.job).await.unwrap(), "it is still there");
    assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap().len(), 61);

    // It ended two lifetimes ago.
    let mut ended = write(&read, JobState::Completed, None);
    ended.progress.updated_at = Timestamp::from_millis(NOW.as_millis() - 2 * 1_000 * limits::JOB_KEPT_SECONDS);
    store.write_job(&job, &ended).await.unwrap();
    stage.stores.dynamodb.sweep_expired().await.unwrap();
    assert_eq!(store.job(&job).await.unwrap(), None);

    let removed = records(&mut reader, |records| records.iter().any(|record| record["eventName"] == "REMOVE")).await;
    let jobs: Vec<JobId> = removed
        .iter()
        .filter(|record| record["eventName"] == "REMOVE")
        .filter_map(|record| AwsStore::removed_job(item_of(record, "Keys")))
        .collect();
    assert_eq!(jobs, [job.job]);
    assert!(store.forget(job.job).await.unwrap());
    assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap(), []);
    assert_eq!(store.subscribers(job.job).await.unwrap(), []);
    assert_eq!(payloads(&stage, job.job), BTreeSet::new());
    assert!(store.forget(job.job).await.unwrap(), "twice does no harm");
}

#[tokio::test]
async fn a_job_that_goes_on_does_not_expire() {
    let stage = set_up().await;
    let store = stage.store();
    let read = job_of("acme");
    let job = reference(&read);
    store.submit(&read).await.unwrap();
    let mut ended = write(&read, JobState::Failed, None);
    ended.progress.updated_at = Timestamp::from_millis(0);
    store.write_job(&job, &ended).await.unwrap();
    let failed = store.job(&job).await.unwrap().unwrap();
    let mut reopened = write(&failed, JobState::Pending, Some(later(60)));
    // As old as the end was: it is the state that keeps it, not the date.
    reopened.progress.updated_at = Timestamp::from_millis(0);
    store.write_job(&job, &reopened).await.unwrap();
    stage.stores.dynamodb.sweep_expired().await.unwrap();
    assert!(store.job(&job).await.unwrap().is_some());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_with_its_cause() {
    let stage = set_up().await;
    let mut environment = AwsStage::environment(&stage.stores);
    // A port that was free a moment ago and on which nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    environment.insert("AWS_ENDPOINT_URL_DYNAMODB", format!("http://127.0.0.1:{port}"));
    let config = Config::from_lookup(|name| environment.get(name).cloned()).unwrap();
    let store = AwsStore::connect(config).await;
    let error = store.job(&reference(&job())).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable { action: "reading a job", .. }), "{error}");
    let mut causes = Vec::new();
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    assert!(causes.iter().any(|cause| cause.to_lowercase().contains("refused")), "{causes:?}");
}
