//! Jobs of a thread as callers see them: in line, refused, listed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod world;

use http::StatusCode;
use longhaul::engine::{Entry, JobId};
use longhaul::store::{JobRef, Store};
use serde_json::{Value, json};
use world::World;

fn talk(more: &Value) -> Value {
    let mut body = json!({ "agent": "research", "input": { "topic": "queues" }, "thread": "talk" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn submitted(world: &World, more: &Value) -> JobId {
    let answer = world.by("acme").post("/v1/jobs", &talk(more)).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.text);
    assert_eq!(answer.body["thread"], "talk");
    answer.job()
}

#[tokio::test]
async fn jobs_of_a_thread_stand_in_line() {
    let world = World::new().await;
    let first = submitted(&world, &json!({})).await;
    assert_eq!(world.count("TransactWriteItems"), 1, "the job and its place in one call");
    assert_eq!((world.count("PutItem"), world.count("SendMessage")), (0, 1));
    let second = submitted(&world, &json!({ "on_busy": "enqueue" })).await;
    let third = submitted(&world, &json!({ "on_busy": "interrupt" })).await;
    for (job, ahead) in [(first, Value::Null), (second, json!(first)), (third, json!(second))] {
        let shown = world.by("acme").get(&format!("/v1/jobs/{job}")).await;
        assert_eq!((&shown.body["status"], &shown.body["waits_for"]), (&json!("PENDING"), &ahead), "{}", shown.text);
    }

    let refused = world.by("acme").post("/v1/jobs", &talk(&json!({ "on_busy": "reject" }))).await;
    assert_eq!((refused.status, refused.problem()), (StatusCode::CONFLICT, "thread-busy"));
    assert_eq!(refused.body["job"], json!(first), "{}", refused.text);
    assert!(refused.body["detail"].as_str().unwrap().contains(&first.to_string()));
    // Another tenant's thread of the same name is another thread.
    let other = world.by("other").post("/v1/jobs", &talk(&json!({ "on_busy": "reject" }))).await;
    assert_eq!(other.status, StatusCode::ACCEPTED);
    // One that waits takes in a cancel like any other.
    let cancelled = world.by("acme").post(&format!("/v1/jobs/{second}/cancel"), &json!({})).await;
    assert_eq!(cancelled.status, StatusCode::ACCEPTED, "{}", cancelled.text);
}

#[tokio::test]
async fn somebody_may_wait_for_a_job() {
    let world = World::new().await;
    let submit = async |more: Value| {
        let mut body = json!({ "agent": "research", "input": { "topic": "queues" } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.by("acme").post("/v1/jobs", &body).await
    };
    let usual = submit(json!({ "priority": "normal" })).await;
    assert_eq!((usual.status, usual.body.get("priority")), (StatusCode::ACCEPTED, None), "{}", usual.text);
    let waited_for = submit(json!({ "priority": "interactive" })).await;
    assert_eq!(waited_for.body["priority"], "interactive", "{}", waited_for.text);
    let shown = world.by("acme").get(&format!("/v1/jobs/{}", waited_for.job())).await;
    assert_eq!(shown.body["priority"], "interactive");
    assert!(world.shelves.lock().unwrap().messages[1].contains("interactive"));
    let refused = submit(json!({ "priority": "urgent" })).await;
    assert_eq!((refused.problem(), refused.field()), ("invalid-field", "/priority"), "{}", refused.text);
}

#[tokio::test]
async fn a_refusal_leaves_nothing_and_a_repetition_finds_its_job() {
    let world = World::new().await;
    let reject = talk(&json!({ "on_busy": "reject" }));
    let keyed = world.by("acme").with("idempotency-key", "k1");
    let first = keyed.post("/v1/jobs", &reject).await;
    assert_eq!(first.status, StatusCode::ACCEPTED);
    let again = keyed.post("/v1/jobs", &reject).await;
    assert_eq!((again.status, again.job()), (StatusCode::ACCEPTED, first.job()), "it is not in its own way");

    let refused = world.by("acme").with("idempotency-key", "k2").post("/v1/jobs", &reject).await;
    assert_eq!(refused.problem(), "thread-busy");
    let unborn = JobRef { tenant: "acme".parse().unwrap(), job: JobId::of_key(&"acme".parse().unwrap(), "k2") };
    assert_eq!(world.store.job(&unborn).await.unwrap(), None);
    let elsewhere = keyed.post("/v1/jobs", &json!({ "agent": "research", "input": { "topic": "queues" } })).await;
    assert_eq!(elsewhere.problem(), "idempotency-key-reused", "the thread is part of the request");

    // With its end the thread is free, also before anybody has taken its place out.
    world.drive("acme", first.job(), vec![Entry::Completed { output: json!({}) }]).await;
    let next = world.by("acme").with("idempotency-key", "k2").post("/v1/jobs", &reject).await;
    assert_eq!(next.status, StatusCode::ACCEPTED, "{}", next.text);
}

#[tokio::test]
async fn a_thread_is_an_id_and_a_word() {
    let world = World::new().await;
    for (more, problem, field) in [
        (json!({ "thread": "a b" }), "invalid-field", "/thread"),
        (json!({ "thread": "" }), "invalid-field", "/thread"),
        (json!({ "thread": "x".repeat(129) }), "invalid-field", "/thread"),
        (json!({ "thread": null, "on_busy": "reject" }), "invalid-field", "/on_busy"),
        (json!({ "on_busy": "wait" }), "invalid-field", "/on_busy"),
    ] {
        let answer = world.by("acme").post("/v1/jobs", &talk(&more)).await;
        assert_eq!((answer.problem(), answer.field()), (problem, field), "{more}: {}", answer.text);
    }
    assert_eq!(world.calls(), 0, "nothing was stored");
}

#[tokio::test]
async fn a_thread_has_a_bound_and_a_list() {
    let world = World::new().await;
    let mut jobs = Vec::new();
    for _ in 0..longhaul::engine::limits::THREAD_PLACES_MAX {
        jobs.push(submitted(&world, &json!({})).await);
    }
    let full = world.by("acme").post("/v1/jobs", &talk(&json!({}))).await;
    assert_eq!((full.status, full.problem()), (StatusCode::CONFLICT, "thread-full"), "{}", full.text);
    let clears = world.by("acme").post("/v1/jobs", &talk(&json!({ "on_busy": "interrupt" }))).await;
    assert_eq!(clears.status, StatusCode::ACCEPTED, "{}", clears.text);
    for job in [jobs[0], jobs[1]] {
        let reference = JobRef { tenant: "acme".parse().unwrap(), job };
        world.store.put_places(&world.store.job(&reference).await.unwrap().unwrap().order).await.unwrap();
    }
    let listed = world.by("acme").get("/v1/jobs?thread=talk").await;
    let found: Vec<&Value> = listed.body["jobs"].as_array().unwrap().iter().map(|job| &job["id"]).collect();
    assert_eq!(found, [&json!(jobs[1]), &json!(jobs[0])]);
    assert_eq!(listed.body["jobs"][0]["thread"], "talk");
    assert_eq!(world.by("other").get("/v1/jobs?thread=talk").await.body["jobs"], json!([]));
}
