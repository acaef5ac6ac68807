//! The sweeper: what is due gets a continuation, whatever happened to the first.

use std::time::Duration;

use longhaul::engine::{Job, JobState, Timestamp};
use longhaul::outside::fresh_nonce;
use longhaul::store::{JobRef, Store};
use longhaul_sweeper::Sweeper;
use serde_json::{Value, json};

use crate::ground::{Ground, deadline_in, now, order};

const LONG: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Stores a job that was submitted `ago`; its continuation was lost.
async fn forgotten(ground: &Ground, tenant: &str, ago: Duration) -> JobRef {
    let mut order = order(tenant, "ten", Value::Null);
    order.submitted_at = Timestamp::from_millis(now().as_millis() - u64::try_from(ago.as_millis()).unwrap());
    let job = Job::accepted(order, fresh_nonce());
    ground.store.submit(&job).await.unwrap();
    JobRef { tenant: job.order.tenant, job: job.order.id }
}

async fn sweep(ground: &Ground, time: Duration) -> Value {
    let sweeper = Sweeper::new(ground.store.clone());
    serde_json::to_value(sweeper.handle(deadline_in(time)).await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_jobs_are_called_up_once() {
    let ground = Ground::lay().await;
    let mut jobs = Vec::new();
    for _ in 0..20 {
        jobs.push(forgotten(&ground, "acme", HOUR).await);
    }
    let fresh = forgotten(&ground, "acme", Duration::ZERO).await;

    insta::assert_json_snapshot!("sweeper_calls_up_what_is_due", sweep(&ground, LONG).await);

    let batch = ground.batch(20).await;
    let mut called: Vec<String> = batch["Records"].as_array().unwrap().iter().map(job_of).collect();
    let mut wanted: Vec<String> = jobs.iter().map(|job| job.job.to_string()).collect();
    called.sort();
    wanted.sort();
    assert_eq!(called, wanted);
    let job = ground.job(&jobs[0]).await;
    assert_eq!((job.progress.state, job.sweeps), (JobState::Pending, 1));
    assert!(job.progress.due > Some(now()));
    assert_eq!(ground.job(&fresh).await.sweeps, 0);
    // What was called up is not called up again a moment later.
    assert_eq!(sweep(&ground, LONG).await["sent"], json!(0));
    assert_eq!(ground.depth().await.visible, 0);
}

/// A worker that is broken uses the messages of a job up, and the sweeper's looks grow apart. At a new start of the stack the
/// job is called up at once; one that waits for its first message, and one that waits, are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_claimed_is_called_up_at_a_new_start() {
    let ground = Ground::lay().await;
    let (unclaimed, fresh) = (forgotten(&ground, "acme", HOUR).await, forgotten(&ground, "acme", Duration::ZERO).await);
    let due = async |job: &JobRef| ground.job(job).await.progress.due.unwrap();
    // Six sweeps, an hour apart at last, whose messages came to nothing.
    for _ in 0..6 {
        let seen = due(&unclaimed).await;
        assert!(ground.store.move_due(&unclaimed, seen, now().plus(HOUR)).await.unwrap());
    }
    assert_eq!(sweep(&ground, LONG).await["sent"], json!(0), "it waits for an hour");
    let before = due(&fresh).await;
    let sweeper = Sweeper::new(ground.store.clone());
    assert_eq!(sweeper.call_up_unclaimed().await.unwrap(), 1);
    let batch = ground.batch(1).await;
    assert_eq!(job_of(&batch["Records"][0]), unclaimed.job.to_string());
    assert!(due(&unclaimed).await < now().plus(2 * LONG), "and is looked after again soon");
    assert_eq!((due(&fresh).await, ground.depth().await.visible), (before, 0));
}

fn job_of(record: &Value) -> String {
    let body: Value = serde_json::from_str(record["body"].as_str().unwrap()).unwrap();
    body["job"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_without_time_leaves_everything_due() {
    let ground = Ground::lay().await;
    let job = forgotten(&ground, "acme", HOUR).await;
    let swept = sweep(&ground, Duration::from_secs(1)).await;
    assert_eq!(swept, json!({ "looked": 0, "sent": 0, "failed": 0, "cut_short": true }));
    assert_eq!(ground.job(&job).await.sweeps, 0);
    assert_eq!(sweep(&ground, LONG).await["sent"], json!(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_that_can_read_nothing_says_so() {
    let ground = Ground::lay().await;
    let sweeper = Sweeper::new(ground.deaf_store().await);
    let error = sweeper.handle(deadline_in(LONG)).await.unwrap_err();
    assert_eq!(error.to_string(), "no shard of the due index could be read");
}
