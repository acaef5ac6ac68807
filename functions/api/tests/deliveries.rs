//! The log of a job's webhook deliveries, and another delivery.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod world;

use std::time::Duration;

use longhaul::engine::delivery::{Outcome, Try};
use longhaul::engine::{Delivery, Entry, Epoch, JobId, Seq, Timestamp};
use longhaul::store::JobRef;
use serde_json::{Value, json};
use world::World;

const NOW: Timestamp = Timestamp::from_millis(1_769_846_400_000);

async fn submitted(world: &World, events: Value) -> JobId {
    let mut body = json!({ "agent": "research", "input": { "topic": "abc" }, "webhook": "https://hooks.example/jobs" });
    if events != Value::Null {
        body["webhook_events"] = events;
    }
    let answer = world.by("acme").post("/v1/jobs", &body).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer.job()
}

/// Stores a delivery that was tried once, with this status.
async fn tried(world: &World, job: JobId, seq: u64, status: u16) {
    let reference = JobRef { tenant: "acme".parse().unwrap(), job };
    let ordered = Delivery::ordered(Seq(seq), "longhaul.AgentProgress".to_owned(), NOW);
    assert!(world.store.order_delivery(&reference, &ordered).await.unwrap());
    let stored = world.store.delivery(&reference, Seq(seq)).await.unwrap().unwrap();
    let made = Try { at: NOW, took_ms: 12, outcome: Outcome::Answered { status, excerpt: Some("no".to_owned()) } };
    let after = stored.delivery.begun(NOW).tried(job, made, Some(Duration::from_secs(60)), NOW);
    if after.wants_no_more() {
        world.store.set_webhook_gone(&reference, true, NOW).await.unwrap();
    }
    world.store.write_delivery(&reference, &after, stored.seen).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_log_tells_each_try() {
    let world = World::new().await;
    let job = submitted(&world, json!(["longhaul.AgentProgress"])).await;
    for (seq, status) in [(1, 500), (2, 204), (3, 410)] {
        tried(&world, job, seq, status).await;
    }
    let path = format!("/v1/jobs/{job}/deliveries");
    let answer = world.by("acme").get(&path).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let deliveries = answer.body["deliveries"].as_array().unwrap();
    let statuses: Vec<&str> = deliveries.iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["PENDING", "DELIVERED", "FAILED"]);
    assert_eq!(deliveries[0]["attempts"][0]["status"], json!(500));
    assert_eq!(deliveries[0]["attempts"][0]["excerpt"], json!("no"));
    assert!(deliveries[0]["next_try_at"].as_str().unwrap() > "2026-01-31T08:01:00");
    assert_eq!(deliveries[2]["failure"], json!("gone"));
    assert_eq!(answer.body.get("next"), None);
    let page = world.by("acme").get(&format!("{path}?limit=2")).await;
    assert_eq!(page.body["next"], json!(2));
    let page = world.by("acme").get(&format!("{path}?limit=2&after=2")).await;
    assert_eq!((page.body["deliveries"].as_array().unwrap().len(), page.body.get("next")), (1, None));
    for other in
        [format!("{path}?limit=0"), format!("{path}?limit=101"), format!("{path}?after=x"), format!("{path}?x=1")]
    {
        assert_eq!(world.by("acme").get(&other).await.status, 400, "{other}");
    }
    assert_eq!(world.by("other").get(&path).await.problem(), "no-such-job");
}

#[tokio::test]
async fn a_delivery_is_ordered_again() {
    let world = World::new().await;
    let job = submitted(&world, Value::Null).await;
    tried(&world, job, 3, 410).await;
    let id = world.by("acme").get(&format!("/v1/jobs/{job}/deliveries")).await.body["deliveries"][0]["id"].clone();
    let path = format!("/v1/jobs/{job}/deliveries/{}/resend", id.as_str().unwrap());
    let before = world.messages();
    let answer = world.by("acme").post(&path, &json!({})).await;
    assert_eq!((answer.status.as_u16(), &answer.body["status"]), (202, &json!("PENDING")), "{}", answer.text);
    assert_eq!((&answer.body["tries"], answer.body["attempts"].as_array().unwrap().len()), (&json!(0), 1));
    assert_eq!(world.messages(), before + 1, "and sent for");
    let reference = JobRef { tenant: "acme".parse().unwrap(), job };
    assert!(!world.store.webhook_gone(&reference).await.unwrap(), "the receiver is asked again");
    assert_eq!(world.by("other").post(&path, &json!({})).await.problem(), "no-such-job");
    for unknown in ["evt_1", "3", &format!("evt_{}_4", job.as_uuid().simple()), "%00"] {
        let path = format!("/v1/jobs/{job}/deliveries/{unknown}/resend");
        assert_eq!(world.by("acme").post(&path, &json!({})).await.problem(), "no-such-delivery", "{unknown}");
    }
}

/// An event whose delivery never came to the table can be ordered all the same, and only one that the job reports.
#[tokio::test]
async fn what_was_never_ordered_is_ordered_by_hand() {
    let world = World::new().await;
    let claimed =
        || Entry::Claimed { epoch: Epoch(1), session: "session-1".parse().unwrap(), takeover: false, beside: 0 };
    let silent =
        world.by("acme").post("/v1/jobs", &json!({ "agent": "research", "input": { "topic": "abc" } })).await.job();
    let job = submitted(&world, Value::Null).await;
    for job in [silent, job] {
        world.drive("acme", job, vec![claimed(), Entry::Completed { output: json!(1) }]).await;
    }
    let resend = async |job: JobId, seq: u64| {
        let path = format!("/v1/jobs/{job}/deliveries/evt_{}_{seq}/resend", job.as_uuid().simple());
        world.by("acme").post(&path, &json!({})).await
    };
    for (job, seq) in [(job, 1), (job, 3), (job, 0), (silent, 2)] {
        assert_eq!(resend(job, seq).await.problem(), "no-such-delivery", "{seq}");
    }
    let before = world.messages();
    for attempt in 1..=2 {
        let answer = resend(job, 2).await;
        assert_eq!((answer.status.as_u16(), &answer.body["status"]), (202, &json!("PENDING")), "{}", answer.text);
        assert_eq!(world.messages(), before + attempt);
    }
    let log = world.by("acme").get(&format!("/v1/jobs/{job}/deliveries")).await;
    let deliveries = log.body["deliveries"].as_array().unwrap();
    assert_eq!((deliveries.len(), &deliveries[0]["type"]), (1, &json!("longhaul.AgentJobCompleted")), "{}", log.text);
}

#[tokio::test]
async fn only_known_events_are_chosen_and_only_with_a_webhook() {
    let world = World::new().await;
    for (body, field) in [
        (json!({ "webhook": "https://h.example/", "webhook_events": ["longhaul.AgentNothing"] }), "/webhook_events/0"),
        (json!({ "webhook": "https://h.example/", "webhook_events": "longhaul.AgentProgress" }), "/webhook_events"),
        (json!({ "webhook_events": ["longhaul.AgentProgress"] }), "/webhook_events"),
        (
            json!({ "webhook": "https://h.example/", "webhook_events": vec!["longhaul.AgentProgress"; 33] }),
            "/webhook_events",
        ),
    ] {
        let mut whole = json!({ "agent": "research", "input": { "topic": "abc" } });
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let answer = world.by("acme").post("/v1/jobs", &whole).await;
        assert_eq!((answer.status.as_u16(), answer.field()), (400, field), "{}", answer.text);
    }
}
