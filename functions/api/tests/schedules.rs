//! Schedules as callers see them: saved, shown, refused with the field at fault, removed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod world;

use http::{Method, StatusCode};
use longhaul::engine::limits::{SCHEDULE_BYTES_MAX, SCHEDULES_MAX};
use longhaul::engine::{ErasureId, Timestamp};
use longhaul_aws::dynamo::Schedule;
use serde_json::{Value, json};
use uuid::Uuid;
use world::{Answer, Caller, World};

const NIGHTLY: &str = "/v1/schedules/nightly";

fn daily() -> Value {
    json!({ "cron": "0 7 * * *", "job": { "agent": "research", "input": { "topic": "queues" } } })
}

fn with(more: &Value) -> Value {
    let mut body = daily();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn put(caller: &Caller<'_>, path: &str, body: &Value) -> Answer {
    caller.send(Method::PUT, path, body.to_string().into_bytes()).await
}

#[tokio::test]
async fn a_schedule_is_saved_shown_paused_and_removed() {
    let world = World::new().await;
    let caller = world.by("acme");
    assert_eq!(caller.get(NIGHTLY).await.problem(), "no-such-schedule");
    let saved = put(&caller, NIGHTLY, &daily()).await;
    assert_eq!(saved.status, StatusCode::CREATED, "{}", saved.text);
    assert_eq!((&saved.body["name"], &saved.body["changed_by"]), (&json!("nightly"), &json!("user-of-acme")));
    assert_eq!(saved.body["schedule"]["time_zone"], "UTC");
    assert_eq!(saved.body["schedule"]["job"]["agent"], "research@1", "pinned to the version of now");
    assert!(saved.body["next_at"].as_str().unwrap().contains("T07:00:00"), "{}", saved.text);
    assert_eq!(saved.body.get("last"), None);
    assert_eq!(caller.get(NIGHTLY).await.body, saved.body);
    assert_eq!(caller.get("/v1/schedules").await.body, json!({ "schedules": [saved.body] }));
    assert_eq!(world.messages(), 0, "nothing is submitted by that");

    let paused = put(&caller, NIGHTLY, &with(&json!({ "paused": true, "time_zone": "Asia/Tokyo" }))).await;
    assert_eq!((paused.status, paused.body.get("next_at")), (StatusCode::OK, None), "{}", paused.text);
    // What is shown is what can be put.
    let mut again = paused.body["schedule"].clone();
    again["paused"] = json!(false);
    let resumed = put(&caller, NIGHTLY, &again).await;
    assert!(resumed.body["next_at"].as_str().unwrap().contains("T22:00:00"), "07:00 in Tokyo: {}", resumed.text);

    assert_eq!(world.by("other").get(NIGHTLY).await.problem(), "no-such-schedule", "another tenant's is none");
    assert_eq!(world.by("other").get("/v1/schedules").await.body, json!({ "schedules": [] }));
    assert_eq!(world.by("other").send(Method::DELETE, NIGHTLY, Vec::new()).await.problem(), "no-such-schedule");
    let removed = caller.send(Method::DELETE, NIGHTLY, Vec::new()).await;
    assert_eq!((removed.status, &removed.body), (StatusCode::OK, &resumed.body));
    assert_eq!(caller.send(Method::DELETE, NIGHTLY, Vec::new()).await.problem(), "no-such-schedule");
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let world = World::new().await;
    let caller = world.by("acme");
    let job = |more: Value| {
        let mut job = daily()["job"].clone();
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        with(&json!({ "job": job }))
    };
    for (body, problem, field) in [
        // What is missing has no place, so the words name it.
        (json!({ "job": daily()["job"] }), "invalid-field", ""),
        (json!({ "cron": "0 7 * * *" }), "invalid-field", ""),
        (with(&json!({ "cron": "every day" })), "invalid-field", "/cron"),
        (with(&json!({ "cron": "0 0 7 * * *" })), "invalid-field", "/cron"),
        (with(&json!({ "cron": "61 7 * * *" })), "invalid-field", "/cron"),
        (with(&json!({ "cron": "0 0 30 2 *" })), "invalid-field", "/cron"),
        (with(&json!({ "cron": "0 ".repeat(100) })), "invalid-field", "/cron"),
        (with(&json!({ "time_zone": "Berlin" })), "invalid-field", "/time_zone"),
        (with(&json!({ "paused": "no" })), "invalid-field", "/paused"),
        (with(&json!({ "every": "day" })), "invalid-field", "/every"),
        (job(json!({ "thread": "a b" })), "invalid-field", "/job/thread"),
        (job(json!({ "on_busy": "reject" })), "invalid-field", "/job/on_busy"),
        (job(json!({ "webhook": "ftp://x" })), "invalid-field", "/job/webhook"),
        (job(json!({ "agent": "reserch" })), "invalid-field", "/job/agent"),
        (job(json!({ "labels": { "x": "y".repeat(SCHEDULE_BYTES_MAX) } })), "body-too-large", ""),
    ] {
        let answer = put(&caller, NIGHTLY, &body).await;
        assert_eq!((answer.problem(), answer.field()), (problem, field), "{body}: {}", answer.text);
    }
    let answer = put(&caller, NIGHTLY, &job(json!({ "input": { "topic": 7 } }))).await;
    assert_eq!(
        (answer.problem(), &answer.body["violations"][0]["field"]),
        ("invalid-input", &json!("/job/input/topic"))
    );
    let answer = put(&caller, "/v1/schedules/a%20b", &daily()).await;
    assert_eq!((answer.problem(), answer.field()), ("invalid-parameter", "name"), "{}", answer.text);
    assert_eq!(caller.get("/v1/schedules").await.body, json!({ "schedules": [] }));
}

#[tokio::test]
async fn who_may_submit_may_schedule() {
    let world = World::new().await;
    let reader = world.token("acme", "jobs:read");
    let reader = world.anybody().with("authorization", &format!("Bearer {reader}"));
    let writer = world.token("acme", "jobs:write");
    let writer = world.anybody().with("authorization", &format!("Bearer {writer}"));
    assert_eq!(put(&reader, NIGHTLY, &daily()).await.body["scope"], "jobs:write");
    assert_eq!(put(&writer, NIGHTLY, &daily()).await.status, StatusCode::CREATED);
    assert_eq!(writer.get(NIGHTLY).await.body["scope"], "jobs:read");
    assert_eq!(writer.get("/v1/schedules").await.body["scope"], "jobs:read");
    assert_eq!(reader.get(NIGHTLY).await.status, StatusCode::OK);
    assert_eq!(reader.send(Method::DELETE, NIGHTLY, Vec::new()).await.body["scope"], "jobs:write");
    assert_eq!(world.anybody().get("/v1/schedules").await.status, StatusCode::UNAUTHORIZED);
}

/// A schedule as the sweeper would find it.
async fn stored(world: &World) -> Schedule {
    world.store.schedule(&"acme".parse().unwrap(), &"nightly".parse().unwrap()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_change_of_the_job_loses_no_time_that_has_come() {
    let world = World::new().await;
    let caller = world.by("acme");
    put(&caller, NIGHTLY, &daily()).await;
    let saved = stored(&world).await;
    let come = Some(Timestamp::from_millis(1_795_953_600_000));
    let due = Schedule { next: come, mark: longhaul::outside::fresh_nonce(), ..saved.clone() };
    assert!(world.store.write_schedule(&due, Some(saved.mark)).await.unwrap());
    put(&caller, NIGHTLY, &with(&json!({ "job": { "agent": "research", "input": { "topic": "leases" } } }))).await;
    assert_eq!(stored(&world).await.next, come);
    put(&caller, NIGHTLY, &with(&json!({ "cron": "0 8 * * *" }))).await;
    assert!(stored(&world).await.next > come, "other times begin now");
}

/// One that cannot be read hides no other: it is named with what is wrong, and can be saved over or removed.
#[tokio::test]
async fn one_that_cannot_be_read_is_named_beside_the_others() {
    let world = World::new().await;
    let caller = world.by("acme");
    let saved = put(&caller, NIGHTLY, &daily()).await;
    let one = stored(&world).await;
    let spoilt = |name: &str, request: &str, last: Option<&str>| Schedule {
        name: name.parse().unwrap(),
        request: request.to_owned(),
        last: last.map(str::to_owned),
        ..one.clone()
    };
    let later = one.request.replacen('{', r#"{"holidays":"DE-BE","#, 1);
    for schedule in [
        spoilt("a-cut", r#"{"cron":"0 7 * * *""#, None),
        spoilt("later", &later, None),
        spoilt("x-last", &one.request, Some("[]")),
        spoilt("y-budget", &one.request.replacen(r#""input""#, r#""budget":{"joules":7},"input""#, 1), None),
    ] {
        assert!(world.store.write_schedule(&schedule, None).await.unwrap());
    }
    let list = caller.get("/v1/schedules").await;
    let of = |part: &str| -> Vec<String> {
        let list = list.body[part].as_array().unwrap();
        list.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((list.status, of("schedules")), (StatusCode::OK, vec!["later".to_owned(), "nightly".to_owned()]));
    assert_eq!(of("unreadable"), ["a-cut", "x-last", "y-budget"]);
    let detail = list.body["unreadable"][2]["detail"].as_str().unwrap();
    assert!(detail.contains("joules"), "{detail}");
    let shown = caller.get("/v1/schedules/later").await;
    assert_eq!((shown.status, &shown.body["schedule"]), (StatusCode::OK, &saved.body["schedule"]));

    let removed = caller.send(Method::DELETE, "/v1/schedules/a-cut", Vec::new()).await;
    assert_eq!((removed.status, removed.text.as_str()), (StatusCode::NO_CONTENT, ""));
    assert_eq!(caller.get("/v1/schedules/a-cut").await.problem(), "no-such-schedule");
    for path in ["/v1/schedules/y-budget", "/v1/schedules/x-last"] {
        // What its owner says anew can be read, and a firing that nobody can read goes with it.
        let again = put(&caller, path, &daily()).await;
        assert_eq!(
            (again.status, &again.body["schedule"]),
            (StatusCode::OK, &saved.body["schedule"]),
            "{}",
            again.text
        );
    }
    assert_eq!(caller.get("/v1/schedules").await.body.get("unreadable"), None);
}

#[tokio::test]
async fn a_tenant_has_so_many_and_none_while_its_data_goes() {
    let world = World::new().await;
    let caller = world.by("acme");
    put(&caller, NIGHTLY, &daily()).await;
    let one = stored(&world).await;
    for number in 1..SCHEDULES_MAX {
        let other = Schedule { name: format!("n{number}").parse().unwrap(), ..one.clone() };
        assert!(world.store.write_schedule(&other, None).await.unwrap());
    }
    let answer = put(&caller, "/v1/schedules/one-more", &daily()).await;
    assert_eq!((answer.problem(), answer.field()), ("invalid-parameter", "name"), "{}", answer.text);
    assert_eq!(put(&caller, NIGHTLY, &daily()).await.status, StatusCode::OK, "one that stands is changed");
    assert_eq!(caller.get("/v1/schedules").await.body["schedules"].as_array().unwrap().len(), SCHEDULES_MAX);

    let tenant = "leaver".parse().unwrap();
    let id = ErasureId::from_uuid(Uuid::from_u128(7));
    let erasure = longhaul::engine::Erasure::asked(id, tenant, "ada".to_owned(), Timestamp::from_millis(1));
    world.store.begin_erasure(&erasure).await.unwrap();
    assert_eq!(put(&world.by("leaver"), NIGHTLY, &daily()).await.problem(), "tenant-erasing");
}
