//! Interactive jobs stand in the queue beside their tenant's other jobs, on every way by which they come into it.

use longhaul::engine::job::{Order, Priority};
use longhaul::engine::{JobId, Timestamp};
use longhaul::outside;
use longhaul::store::{Continuation, JobRef, Store};
use longhaul_sweeper::Sweeper;
use longhaul_worker::Worker;
use serde_json::{Value, json};

use crate::agents::Bench;
use crate::ground::{Ground, PATIENCE, deadline_in, now, order};
use crate::worker::{LONG, invoke, nothing_stays, record};

fn interactive(tenant: &str, agent: &str) -> Order {
    Order { priority: Priority::Interactive, ..order(tenant, agent, Value::Null) }
}

/// The job of the next message, and the message's group.
async fn next(ground: &Ground) -> (JobId, String) {
    let record = ground.batch(1).await["Records"][0].clone();
    let body: Value = serde_json::from_str(record["body"].as_str().unwrap()).unwrap();
    let group = record["attributes"]["MessageGroupId"].as_str().unwrap().to_owned();
    (body["job"].as_str().unwrap().parse().unwrap(), group)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interactive_job_overtakes_a_backlog() {
    let ground = Ground::lay().await;
    for _ in 0..60 {
        ground.submit(order("acme", "ten", Value::Null)).await;
        ground.submit(order("busy", "ten", Value::Null)).await;
    }
    // Workers have as much of both in hand as they take.
    let (sqs, queue) = (&ground.stores.sqs.sqs, &ground.stores.sqs.jobs);
    for _ in 0..2 {
        assert_eq!(sqs.receive(queue, 10, PATIENCE, None).await.unwrap().len(), 10);
    }
    let job = ground.submit(interactive("acme", "ten")).await;
    assert_eq!(next(&ground).await, (job.job, "acme#interactive".to_owned()), "a hundred stand before it");
    let usual = ground.submit(order("acme", "ten", Value::Null)).await;
    let (first, group) = next(&ground).await;
    assert!(first != usual.job && ["acme", "busy"].contains(&group.as_str()), "{first} of {group}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_its_messages_have_its_place() {
    let (ground, bench) = (Ground::lay().await, Bench::default());
    let own = "acme#interactive".to_owned();
    let (store, worker) = (&ground.store, Worker::new(ground.store.clone(), bench.registry()));
    let job = ground.submit(interactive("acme", "waits")).await;
    let usual = ground.submit(order("acme", "waits", Value::Null)).await;
    let event = ground.batch(2).await;
    let groups: Vec<&Value> =
        event["Records"].as_array().unwrap().iter().map(|record| &record["attributes"]["MessageGroupId"]).collect();
    assert!(groups.contains(&&json!("acme")) && groups.contains(&&json!(own)), "{groups:?}");
    assert_eq!(invoke(&worker, &event, LONG).await, nothing_stays());

    // Its time has come, and the sweeper calls it up.
    for waiting in [&job, &usual] {
        let due = ground.job(waiting).await.progress.due.unwrap();
        assert!(store.move_due(waiting, due, Timestamp::from_millis(1)).await.unwrap());
    }
    assert_eq!(Sweeper::new(store.clone()).handle(deadline_in(LONG)).await.unwrap().sent, 2);
    let mut called = [next(&ground).await, next(&ground).await];
    called.sort_by_key(|(_, group)| group.clone());
    assert_eq!(called, [(usual.job, "acme".to_owned()), (job.job, own.clone())]);

    // A person answers.
    let (signal, key) = ("approval".parse().unwrap(), "k".parse().unwrap());
    outside::signal(store, &job, signal, key, json!(1), "ada".to_owned(), now()).await.unwrap();
    assert_eq!(next(&ground).await, (job.job, own.clone()));

    // Its worker has died, and another finds that by the watchdog.
    let session = "dead".parse().unwrap();
    store.beat(&session, Timestamp::from_millis(1)).await.unwrap();
    let gone = JobRef { tenant: job.tenant.clone(), job: JobId::of_key(&job.tenant, "gone") };
    let watchdog = Continuation::watchdog(session, vec![gone, job.clone()]);
    let event = json!({ "Records": [record("w", &serde_json::to_string(&watchdog).unwrap())] });
    assert_eq!(invoke(&worker, &event, LONG).await, nothing_stays());
    assert_eq!(next(&ground).await, (job.job, own.clone()), "a job that is gone is called up by nobody");

    // Somebody cancels it.
    outside::cancel(store, &job, "c".parse().unwrap(), "ada".to_owned(), None, now()).await.unwrap();
    assert_eq!(next(&ground).await, (job.job, own));
}
