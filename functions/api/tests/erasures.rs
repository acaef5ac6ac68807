//! Erasing a tenant's data: who may ask for it, what is refused meanwhile, what is told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod world;

use http::Method;
use longhaul::engine::erasure::{Erased, Stage};
use longhaul::engine::{Entry, Erasure, Timestamp};
use serde_json::{Value, json};
use world::{Answer, World};

const ERASURES: &str = "/v1/tenant/erasures";

fn research() -> Value {
    json!({ "agent": "research", "input": { "topic": "queues" } })
}

fn id(answer: &Answer) -> String {
    answer.body["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn it_is_asked_for_by_name_and_by_those_who_may() {
    let world = World::new().await;
    let refused = [
        (json!({ "tenant": "other" }), 400, "invalid-field"),
        (json!({ "tenant": "" }), 400, "invalid-field"),
        (json!({}), 400, "invalid-field"),
        (json!({ "tenant": "acme", "force": true }), 400, "invalid-field"),
    ];
    for (body, status, problem) in refused {
        let answer = world.by("acme").post(ERASURES, &body).await;
        assert_eq!((answer.status.as_u16(), answer.problem()), (status, problem), "{body}");
    }
    let token = world.token("acme", "jobs:read jobs:write jobs:operate agents:write tenant:admin");
    let administrator = world.anybody().with("authorization", &format!("Bearer {token}"));
    let answer = administrator.post(ERASURES, &json!({ "tenant": "acme" })).await;
    assert_eq!((answer.status.as_u16(), answer.problem()), (403, "not-allowed"));
    assert_eq!(answer.body["scope"], "tenant:erase");
    assert_eq!(world.count("PutItem"), 0);
    assert_eq!(world.by("acme").get(ERASURES).await.body, json!({ "erasures": [] }));
}

#[tokio::test]
async fn nothing_new_is_taken_until_it_is_done() {
    let world = World::new().await;
    let caller = world.by("acme");
    let job = caller.post("/v1/jobs", &research()).await.job();
    let asked = caller.post(ERASURES, &json!({ "tenant": "acme" })).await;
    assert_eq!(asked.status, 202, "{}", asked.text);
    let address = asked.header("location").to_owned();
    assert_eq!(address, format!("{ERASURES}/{}", id(&asked)));
    assert_eq!((&asked.body["status"], &asked.body["requested_by"]), (&json!("ENDING_JOBS"), &json!("user-of-acme")));
    assert_eq!(id(&caller.post(ERASURES, &json!({ "tenant": "acme" })).await), id(&asked), "one at a time");

    let path = |end: &str| format!("/v1/jobs/{job}/{end}");
    let calls = [
        (Method::POST, "/v1/jobs".to_owned(), research()),
        (Method::POST, path("fork"), json!({})),
        (Method::POST, path("replay"), json!({})),
        (Method::POST, path("deliveries/evt_1_1/resend"), json!({})),
        (Method::PUT, "/v1/agents/clerk".to_owned(), json!({ "name": "clerk" })),
        (Method::PUT, "/v1/tenant/settings".to_owned(), json!({ "job_kept_days": 7 })),
    ];
    for (method, path, body) in calls {
        let answer = caller.send(method, &path, body.to_string().into_bytes()).await;
        assert_eq!((answer.status.as_u16(), answer.problem()), (409, "tenant-erasing"), "{path}: {}", answer.text);
        assert_eq!(answer.body["erasure"], asked.body["id"], "{path}");
    }
    // Looking and ending go on, and others are not concerned.
    assert_eq!(caller.get(&format!("/v1/jobs/{job}")).await.status, 200);
    assert_eq!(caller.post(&path("cancel"), &json!({})).await.status, 202);
    assert_eq!(world.by("other").post("/v1/jobs", &research()).await.status, 202);
    assert_eq!(world.by("other").get(&address).await.problem(), "no-such-erasure");
    assert_eq!(caller.get(&format!("{ERASURES}/7")).await.problem(), "no-such-erasure");

    // It rests, and then it is done.
    let tenant = "acme".parse().unwrap();
    let stored = world.store.erasure_under_way(&tenant).await.unwrap().unwrap();
    let until = Timestamp::from_millis(1_795_953_600_000);
    let erased = Erased { jobs: 1, items: 9, objects: 2, letters: 0 };
    let resting = Erasure { stage: Stage::Waiting { until }, erased, ..stored.erasure };
    world.store.write_erasure(&resting, stored.seen).await.unwrap().unwrap();
    let shown = caller.get(&address).await;
    assert_eq!(shown.body["status"], "RESTING");
    assert_eq!(shown.body["rests_until"], "2026-11-29T12:00:00.000Z", "{}", shown.text);
    world.store.end_erasure(&Erasure { stage: Stage::Done { at: until }, ..resting }).await.unwrap();
    let shown = caller.get(&address).await;
    assert_eq!((&shown.body["status"], &shown.body["done_at"]), (&json!("DONE"), &json!("2026-11-29T12:00:00.000Z")));
    assert_eq!(shown.body["erased"], json!({ "jobs": 1, "items": 9, "objects": 2, "dead_letters": 0 }));
    assert_eq!(caller.get(ERASURES).await.body["erasures"], json!([shown.body]));
    assert_eq!(caller.post("/v1/jobs", &research()).await.status, 202, "the tenant may begin anew");
    world.drive("acme", job, vec![Entry::Completed { output: json!(1) }]).await;
    assert_ne!(id(&caller.post(ERASURES, &json!({ "tenant": "acme" })).await), id(&asked), "and be erased anew");
}

/// A tenant that submits all the time pays for a look in some seconds, and no more.
#[tokio::test]
async fn a_submission_looks_rarely() {
    let world = World::new().await;
    for _ in 0..5 {
        assert_eq!(world.by("acme").post("/v1/jobs", &research()).await.status, 202);
    }
    assert_eq!(world.count("GetItem"), 1);
}
