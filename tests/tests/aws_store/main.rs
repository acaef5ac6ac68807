//! What the AWS store does beyond the trait: its exact price, lists, watchers, the stream, and what it leaves behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic: that is how it fails"
)]

mod lists;
mod watchers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use longhaul::outside::fresh_nonce;
use longhaul::store::{Continuation, Store, StoreError};
use longhaul_aws::connections::Asked;
use longhaul_aws::{AwsStore, Config};
use longhaul_engine::{Job, JobId, JobState, Seq, Timestamp, limits};
use longhaul_tests::sample;
use longhaul_tests::sample::{
    NOW, claim, failure, job, job_of, later, noise, outcome, outcomes, reference, session, write,
};
use longhaul_tests::stage::{AwsStage, Stage};
use serde_json::json;

use crate::watchers::{connection, item_of, records};

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
    store.ask(&connection("one="), &job, Asked::to_hear(Seq(0), 0)).await.unwrap();
    assert_eq!(payloads(&stage, job.job).len(), 2);
    assert!(!store.forget(job.job).await.unwrap(), "it is still there");
    assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap().len(), 61);

    // It ended two lifetimes ago.
    let mut ended = write(&read, JobState::Completed, None);
    ended.progress.updated_at = Timestamp::from_millis(NOW.as_millis() - 2 * 1_000 * limits::JOB_KEPT_DEFAULT_SECONDS);
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
