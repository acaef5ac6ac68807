//! Jobs through their life as callers see it: submitted, watched, signalled, ended, replayed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod control;
mod lists;
mod reading;
mod submitting;
#[path = "../world/mod.rs"]
mod world;

use http::Method;
use longhaul::engine::entry::{StepId, WaitFor};
use longhaul::engine::{Entry, Epoch, ErrorClass, Failure, JobId, StepKey, StepKind, Timestamp, Usage};
use serde_json::{Value, json};
use world::{World, read};

fn research(topic: &str) -> Value {
    json!({ "agent": "research", "input": { "topic": topic } })
}

fn claimed() -> Entry {
    Entry::Claimed { epoch: Epoch(1), session: "session-1".parse().unwrap(), takeover: false, beside: 0 }
}

fn step(position: u64) -> Entry {
    Entry::StepCompleted {
        id: StepId { key: StepKey::at("", position), name: "plan".into(), kind: StepKind::Step, branch: None },
        attempt: 1,
        started_at: Timestamp::from_millis(1_769_846_399_000),
        output: json!({ "n": position }),
        usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
        look: false,
    }
}

fn waiting() -> Entry {
    Entry::Waiting {
        id: StepId { key: StepKey::at("", 9), name: "approval".into(), kind: StepKind::Signal, branch: None },
        on: WaitFor::Signal { signal: "approval".parse().unwrap() },
        until: None,
    }
}

fn failed() -> Entry {
    let failure = Failure::new(ErrorClass::Refused, "the model refused");
    Entry::Failed { failure: Failure { step: Some(StepKey::at("", 1)), ..failure } }
}

fn completed() -> Entry {
    Entry::Completed { output: json!({ "report": "…" }) }
}

async fn submitted(world: &World, tenant: &str) -> JobId {
    let answer = world.by(tenant).post("/v1/jobs", &research("how queues make agents reliable")).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer.job()
}

/// E11: another tenant's job is answered as one that does not exist, and nothing about it changes.
#[tokio::test]
async fn e11_foreign_jobs() {
    let world = World::new().await;
    let job = submitted(&world, "tn_a").await;
    world.drive("tn_a", job, vec![claimed(), step(0), failed()]).await;
    let absent = JobId::from_uuid(uuid::Uuid::now_v7());
    let (writes, sent) = (world.count("PutItem") + world.count("UpdateItem"), world.messages());
    let stranger = world.by("tn_b");
    for (method, tail) in [
        (Method::GET, ""),
        (Method::GET, "/events"),
        (Method::GET, "/events?after=0&wait=20"),
        (Method::GET, "/journal"),
        (Method::POST, "/cancel"),
        (Method::POST, "/signals/approval"),
        (Method::POST, "/replay"),
    ] {
        let mut answers = Vec::new();
        for id in [job, absent] {
            let answer = stranger.send(method.clone(), &format!("/v1/jobs/{id}{tail}"), vec![]).await;
            assert_eq!((answer.status.as_u16(), answer.problem()), (404, "no-such-job"), "{method} {tail}");
            let text = answer.text.replace(&id.to_string(), "ID").replace(answer.header("x-request-id"), "R");
            answers.push(text);
        }
        assert_eq!(answers[0], answers[1], "{method} {tail}");
    }
    // Ids inside bodies choose nothing: no field of a submission names another job, and an agent is the tenant's own.
    for (body, field) in [
        (json!({ "agent": "agent-10", "parent_job_id": job }), "/parent_job_id"),
        (json!({ "agent": "agent-10", "parent": job }), "/parent"),
        (json!({ "agent": "agent-10", "config": { "job_id": job, "run_id": job } }), "/config"),
        (json!({ "agent": "agent-10", "id": job }), "/id"),
        (json!({ "agent": "agent-10", "tenant": "tn_a" }), "/tenant"),
        (json!({ "agent": "agent-10", "agent_id": "agent of tn_a" }), "/agent_id"),
    ] {
        let answer = stranger.post("/v1/jobs", &body).await;
        assert_eq!((answer.problem(), answer.field()), ("invalid-field", field), "{}", answer.text);
    }
    assert_eq!(stranger.get("/v1/jobs").await.body["jobs"], json!([]));
    assert_eq!(stranger.get("/v1/dead-letters").await.body["dead_letters"], json!([]));
    assert_eq!(world.count("PutItem") + world.count("UpdateItem"), writes);
    assert_eq!(world.messages(), sent);
}

/// E07 and the way through Lambda: events of an HTTP API become requests, base64 and stages included.
#[tokio::test]
async fn e07_bodies_of_lambda_events() {
    use tower::ServiceExt;
    let world = World::new().await;
    let token = world.token("tn_a", "jobs:write");
    let event = |body: Value, base64: bool, headers: Value| {
        let mut all =
            json!({ "authorization": format!("Bearer {token}"), "content-type": "application/json", "host": "h.test" });
        all.as_object_mut().unwrap().extend(headers.as_object().cloned().unwrap_or_default());
        json!({
            "version": "2.0", "routeKey": "ANY /{proxy+}", "rawPath": "/v1/jobs", "rawQueryString": "",
            "headers": all, "body": body, "isBase64Encoded": base64,
            "requestContext": {
                "accountId": "1", "apiId": "a", "domainName": "h.test", "domainPrefix": "h", "requestId": "gateway-1",
                "routeKey": "ANY /{proxy+}", "stage": "$default", "time": "", "timeEpoch": 0,
                "http": { "method": "POST", "path": "/v1/jobs", "protocol": "HTTP/1.1", "sourceIp": "::1", "userAgent": "" },
            },
        })
    };
    let send = async |event: Value| {
        // As the runtime does it: the event, what looks at it first, the library's request.
        let payload = serde_json::from_value(event).unwrap();
        let event = longhaul_api::readable(lambda_http::LambdaEvent::new(payload, lambda_http::Context::default()));
        let request = lambda_http::Request::from(event.payload);
        read(world.router.clone().oneshot(request).await.unwrap()).await
    };
    let plain = send(event(json!(research("café").to_string()), false, json!({}))).await;
    assert_eq!((plain.status.as_u16(), plain.header("x-request-id")), (202, "gateway-1"), "{}", plain.text);
    let cases: Vec<Value> = serde_json::from_str(include_str!("../faults/E07/events.json")).unwrap();
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let answer = send(event(case["body"].clone(), case["isBase64Encoded"] == true, case["headers"].clone())).await;
        let status = answer.status.as_u16();
        match case["expect"].as_u64() {
            // The stand-in `prompt` of the cases is no field of ours: it was read, and refused by name.
            Some(202) => assert_eq!(answer.field(), "/prompt", "{name}: {}", answer.text),
            Some(wanted) => assert_eq!(u64::from(status), wanted, "{name}: {}", answer.text),
            None => assert!(case["expect"].as_str().unwrap().contains(&status.to_string()), "{name}: {status}"),
        }
    }
    // The same with a body that would have been taken.
    let broken = send(event(json!(research("café").to_string()), true, json!({}))).await;
    assert_eq!((broken.status.as_u16(), broken.problem()), (400, "invalid-json"), "{}", broken.text);
    // Limits are those of the decoded bytes.
    let large = "A".repeat(1_500_000);
    assert_eq!(send(event(json!(large), true, json!({}))).await.status, 413);
}

#[tokio::test]
async fn what_everybody_may_see() {
    let world = World::new().await;
    assert_eq!(world.anybody().get("/healthz").await.body, json!({ "status": "ok" }));
    let described = world.anybody().get("/openapi.json").await;
    let whole = serde_json::to_value(longhaul_api::openapi()).unwrap();
    assert_eq!(described.body, whole);
    let agents = world.by("tn_a").get("/v1/agents").await;
    let names: Vec<&str> =
        agents.body["agents"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["agent-10", "compliance", "research"]);
}

/// The description, by golden file: a change of it is a change of the public interface.
#[test]
fn the_description() {
    insta::assert_json_snapshot!("openapi", longhaul_api::openapi());
}

/// How long a tenant's jobs are kept is the tenant's own, never under a day, and counts for jobs that end from then on.
#[tokio::test]
async fn a_tenant_settles_how_long_its_jobs_are_kept() {
    let world = World::new().await;
    let path = "/v1/tenant/settings";
    let caller = world.by("tn_a");
    assert_eq!(caller.get(path).await.body, json!({ "job_kept_days": 30 }));
    for (body, field) in [
        (json!({ "job_kept_days": 0 }), "/job_kept_days"),
        (json!({ "job_kept_days": 3_661 }), "/job_kept_days"),
        (json!({ "job_kept_days": "7" }), "/job_kept_days"),
        (json!({ "job_kept_hours": 7 }), "/job_kept_hours"),
        (json!({}), ""),
    ] {
        let answer = caller.send(Method::PUT, path, body.to_string().into_bytes()).await;
        assert_eq!((answer.problem(), answer.field()), ("invalid-field", field), "{}", answer.text);
    }
    let token = world.token("tn_a", "jobs:read jobs:write jobs:operate agents:write");
    let refused = world.anybody().with("authorization", &format!("Bearer {token}"));
    let week = json!({ "job_kept_days": 7 });
    assert_eq!(refused.send(Method::PUT, path, week.to_string().into_bytes()).await.problem(), "not-allowed");

    let expiry_of = async |tenant: &str| {
        let job = submitted(&world, tenant).await;
        world.drive(tenant, job, vec![claimed(), completed()]).await;
        let key = serde_json::json!({ "PK": { "S": format!("JOB#{job}") }, "SK": { "S": "JOB" } });
        let item = world.raw_item(&key).await;
        let seconds = |name: &str| item["Item"][name]["N"].as_str().unwrap().parse::<u64>().unwrap();
        (seconds("expires_at") - seconds("updated_at") / 1_000) / (24 * 3_600)
    };
    assert_eq!(expiry_of("tn_a").await, 30);
    let settled = caller.send(Method::PUT, path, week.to_string().into_bytes()).await;
    assert_eq!((settled.status.as_u16(), &settled.body), (200, &week));
    assert_eq!(caller.get(path).await.body, week);
    assert_eq!(expiry_of("tn_a").await, 7);
    assert_eq!(expiry_of("tn_b").await, 30, "another tenant's are its own");
    assert_eq!(world.by("tn_b").get(path).await.body, json!({ "job_kept_days": 30 }));
}
