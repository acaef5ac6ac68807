//! What a tenant may use, and what it is told when it uses that.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod world;

use longhaul::engine::{Entry, Epoch, JobId, Timestamp};
use longhaul::store::{JobRef, Store};
use serde_json::{Value, json};
use world::World;

fn research(topic: &str) -> Value {
    json!({ "agent": "research", "input": { "topic": topic } })
}

fn now() -> Timestamp {
    longhaul::Clock::of_machine().now()
}

#[tokio::test]
async fn no_more_jobs_are_open_than_may_be() {
    let world = World::new().await;
    let caller = world.by("few-open");
    let mut jobs = Vec::new();
    for topic in ["one", "two", "three"] {
        let answer = caller.clone().with("idempotency-key", topic).post("/v1/jobs", &research(topic)).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        jobs.push(answer.job());
    }
    let refused = caller.post("/v1/jobs", &research("four")).await;
    assert_eq!((refused.status.as_u16(), refused.problem()), (429, "limit-reached"), "{}", refused.text);
    assert_eq!((&refused.body["limit"], &refused.body["value"]), (&json!("jobs_open"), &json!(3)));
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert!(refused.body["detail"].as_str().unwrap().contains("cancel"), "{}", refused.text);
    let again = caller.clone().with("idempotency-key", "two").post("/v1/jobs", &research("two")).await;
    assert_eq!((again.status.as_u16(), again.job()), (202, jobs[1]), "the same request finds its job");
    assert_eq!(world.by("another").post("/v1/jobs", &research("four")).await.status, 202, "others are not concerned");

    // A fork is one more job, too; its request finds what it has made, however much is used.
    world.drive("few-open", jobs[0], vec![claimed()]).await;
    let path = format!("/v1/jobs/{}/fork", jobs[0]);
    let refused = caller.clone().with("idempotency-key", "fork").post(&path, &json!({})).await;
    assert_eq!((refused.status.as_u16(), &refused.body["limit"]), (429, &json!("jobs_open")), "{}", refused.text);
    let unmade = world.store.job(&reference(JobId::of_key(&"few-open".parse().unwrap(), "fork"))).await.unwrap();
    assert_eq!(unmade, None, "nothing was made of it");

    // One ends; the stream's reader says so, and within a second or so that is known here.
    world.drive("few-open", jobs[0], vec![Entry::Completed { output: json!(1) }]).await;
    world.store.note_ends(&"few-open".parse().unwrap(), 1).await.unwrap();
    let forked =
        until_admitted(async || caller.clone().with("idempotency-key", "fork").post(&path, &json!({})).await).await;
    let again = caller.clone().with("idempotency-key", "fork").post(&path, &json!({})).await;
    assert_eq!((again.status.as_u16(), &again.body["job"]["id"]), (202, &forked.body["job"]["id"]), "{}", again.text);
    assert_eq!(caller.post("/v1/jobs", &research("five")).await.status, 429, "the fork took the place");
}

/// Asks until the tenant is let in.
async fn until_admitted(ask: impl AsyncFn() -> world::Answer) -> world::Answer {
    let begun = std::time::Instant::now();
    loop {
        let answer = ask().await;
        if answer.status == 202 {
            return answer;
        }
        assert!(answer.status == 429 && begun.elapsed() < std::time::Duration::from_secs(20), "{}", answer.text);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

fn reference(job: JobId) -> JobRef {
    JobRef { tenant: "few-open".parse().unwrap(), job }
}

fn claimed() -> Entry {
    Entry::Claimed { epoch: Epoch(1), session: "session-1".parse().unwrap(), takeover: false, beside: 0 }
}

/// The sweeper's count stands above what the books say.
#[tokio::test]
async fn open_jobs_are_counted() {
    let world = World::new().await;
    let tenant = "few-open".parse().unwrap();
    let caller = world.by("few-open");
    for topic in ["one", "two"] {
        assert_eq!(caller.post("/v1/jobs", &research(topic)).await.status, 202);
    }
    world.store.note_ends(&tenant, 7).await.unwrap();
    assert_eq!(world.store.used(&tenant, now()).await.unwrap().open, 0, "a book that is wrong");
    assert_eq!(world.store.count_open_jobs(now()).await.unwrap(), Some(1));
    assert_eq!(world.store.used(&tenant, now()).await.unwrap().open, 2);
    assert_eq!(world.store.count_open_jobs(now()).await.unwrap(), Some(1), "while it has some it is counted");
}

#[tokio::test]
async fn submissions_come_no_faster_than_they_may() {
    let world = World::new().await;
    let caller = world.by("slow");
    let mut statuses = Vec::new();
    let mut refused = None;
    for n in 0..6 {
        let answer = caller.post("/v1/jobs", &research(&format!("topic {n}"))).await;
        statuses.push(answer.status.as_u16());
        refused = Some(answer).filter(|answer| answer.status == 429).or(refused);
    }
    let admitted = statuses.iter().filter(|status| **status == 202).count();
    assert!((2..=4).contains(&admitted), "a burst of two, and one for each second: {statuses:?}");
    let refused = refused.expect("one that was refused");
    assert_eq!((&refused.body["limit"], &refused.body["value"]), (&json!("submissions_per_second"), &json!(1)));
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=3).contains(&wait), "{wait}");
    until_admitted(async || caller.post("/v1/jobs", &research("later")).await).await;
}

#[tokio::test]
async fn a_body_is_no_larger_than_it_may_be() {
    let world = World::new().await;
    assert_eq!(world.by("small").post("/v1/jobs", &research("short")).await.status, 202);
    let refused = world.by("small").post("/v1/jobs", &research(&"x".repeat(300))).await;
    assert_eq!((refused.status.as_u16(), refused.problem()), (413, "body-too-large"));
    assert_eq!(refused.body["bytes_max"], json!(300));
    assert_eq!(world.by("another").post("/v1/jobs", &research(&"x".repeat(300))).await.status, 202);
}

/// What the limits cost: a tenant far from them pays one small write for many submissions, and it is made beside them.
#[tokio::test]
async fn a_tenant_within_its_limits_pays_next_to_nothing() {
    let world = World::new().await;
    let caller = world.by("busy");
    for n in 0..60 {
        let answer = caller.post("/v1/jobs", &research(&format!("topic {n}"))).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
    }
    assert_eq!(world.count("PutItem"), 60);
    let writes = world.count("UpdateItem");
    // One to learn, which finds no book and is made again; then one for 25, and one each five seconds on a slow machine.
    assert!(writes <= 2 + 60 / 25 + 12, "{writes} writes of the book for 60 submissions");
}
