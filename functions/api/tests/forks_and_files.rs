//! Forks and exported files, over the real router and store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod world;

use http::Method;
use longhaul::engine::entry::StepId;
use longhaul::engine::job::Origin;
use longhaul::engine::{Entry, Epoch, ErrorClass, Failure, JobId, Seq, StepKey, StepKind, Timestamp, Usage};
use longhaul::store::{JobRef, Store};
use longhaul_wire::export::Export;
use serde_json::{Value, json};
use world::World;

fn claimed() -> Entry {
    Entry::Claimed { epoch: Epoch(1), session: "s-1".parse().unwrap(), takeover: false, beside: 0 }
}

fn outcome(position: u64, name: &str, kind: StepKind, output: Value) -> Entry {
    let id = StepId { key: StepKey::at("", position), name: name.to_owned(), kind, branch: None };
    let started_at = Timestamp::from_millis(1);
    Entry::StepCompleted { id, attempt: 1, started_at, output, usage: Usage::default(), look: false }
}

fn failed() -> Entry {
    Entry::Failed { failure: Failure::new(ErrorClass::Refused, "no") }
}

async fn submitted(world: &World, tenant: &str) -> JobId {
    let body = json!({ "agent": "agent-10", "input": { "steps": 3 }, "webhook": "https://acme.example/h?key=s3cret" });
    world.by(tenant).post("/v1/jobs", &body).await.job()
}

#[tokio::test]
async fn a_fork_is_a_new_job_that_names_where_it_comes_from() {
    let world = World::new().await;
    let caller = world.by("acme");
    let job = submitted(&world, "acme").await;
    let steps = [
        outcome(0, "plan", StepKind::Step, json!(1)),
        outcome(1, "pay", StepKind::Effect, json!(2)),
        outcome(2, "stamp", StepKind::EffectOnce, json!(3)),
    ];
    let mut entries = vec![claimed()];
    entries.extend(steps);
    entries.push(failed());
    world.drive("acme", job, entries).await;
    let path = format!("/v1/jobs/{job}/fork");

    // What is wrong is said, and nothing is made.
    let puts = world.count("PutItem");
    for (body, wanted) in [
        (json!({"from": 0}), ("invalid-field", "/from")),
        (json!({"from": 1, "step": "0"}), ("invalid-field", "/step")),
        (json!({"step": ""}), ("invalid-field", "/step")),
        (json!({"from": 99}), ("invalid-field", "/from")),
        (json!({"step": "9"}), ("invalid-field", "/step")),
        (json!({"edit": {"model": ""}}), ("invalid-field", "/edit/model")),
        (json!({"edit": {"budget": {"tokens": 0}}}), ("invalid-field", "/edit/budget/tokens")),
        (json!({"edit": {"input": {"steps": "three"}}}), ("invalid-input", "/edit/input/steps")),
        (json!({"step": "0"}), ("repeats-effects", "")),
        (json!({"unknown": 1}), ("invalid-field", "/unknown")),
    ] {
        let answer = caller.post(&path, &body).await;
        assert_eq!((answer.problem(), answer.field()), wanted, "{body}: {}", answer.text);
    }
    assert_eq!(world.by("other").post(&path, &json!({})).await.status, 404);
    assert_eq!(world.by("acme").get(&path).await.status, 405);
    assert_eq!(world.count("PutItem"), puts);

    let edit = json!({"input": {"steps": 4}, "budget": {"tokens": 5}, "model": "small", "instructions": "Be brief."});
    let keyed = caller.clone().with("idempotency-key", "fork-1");
    let answer = keyed.post(&path, &json!({"step": "1", "repeat_effects": true, "edit": edit})).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    assert_eq!(world.count("PutItem"), puts + 1, "a fork is one write");
    let fork: JobId = answer.body["job"]["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(answer.header("location"), format!("/v1/jobs/{fork}"));
    assert_eq!(answer.body["kept"], json!(1));
    let repeats = json!([
        {"step": "1", "name": "pay", "at_most_once": false},
        {"step": "2", "name": "stamp", "at_most_once": true},
    ]);
    assert_eq!(answer.body["repeats"], repeats);
    assert_ne!(fork, job);
    let view = caller.get(&format!("/v1/jobs/{fork}")).await.body;
    assert_eq!(view["forked_from"], json!({"job": job, "position": 3}));
    assert_eq!((&view["model"], &view["instructions"]), (&json!("small"), &json!("Be brief.")));
    assert_eq!((&view["input"], &view["budget"]), (&json!({"steps": 4}), &json!({"tokens": 5})));
    let reference = JobRef { tenant: "acme".parse().unwrap(), job: fork };
    let order = world.store.job(&reference).await.unwrap().unwrap().order;
    assert!(matches!(order.origin, Origin::Forked(from) if from.job == job && from.at == Seq(3)));
    assert_eq!(order.webhook, None, "the end of the other job is nobody's news a second time");

    // The same again is the same; another body under the key, or a submission, is refused.
    let again = keyed.post(&path, &json!({"step": "1", "repeat_effects": true, "edit": edit})).await;
    assert_eq!(again.body["job"]["id"], json!(fork));
    assert_eq!(keyed.post(&path, &json!({"repeat_effects": true})).await.problem(), "idempotency-key-reused");
    let submission = keyed.post("/v1/jobs", &json!({"agent": "agent-10", "input": {"steps": 4}})).await;
    assert_eq!(submission.problem(), "idempotency-key-reused");
    let good = caller.send(Method::POST, &path, Vec::new()).await;
    assert_eq!(
        (good.status.as_u16(), &good.body["kept"], &good.body["repeats"]),
        (202, &json!(3), &json!([])),
        "{}",
        good.text
    );
}

#[tokio::test]
async fn a_job_is_exported_whole_and_without_secrets() {
    let world = World::new().await;
    let caller = world.by("acme");
    let job = submitted(&world, "acme").await;
    // Larger than an inline entry, than a page, and than an answer.
    let sizes = [10, 300_000, 5_000_000, 9_000_000];
    let text = |size: usize| (0..size / 8).map(|n| format!("{:07}\"", n * 7_919 % 9_999_991)).collect::<String>();
    let mut entries = vec![claimed()];
    for (position, size) in (0_u64..).zip(sizes) {
        entries.push(outcome(position, "read", StepKind::Step, json!(text(size))));
    }
    entries.push(failed());
    for entry in entries.clone() {
        world.drive("acme", job, vec![entry]).await;
    }
    let path = format!("/v1/jobs/{job}/export");
    let first = caller.get(&path).await;
    assert_eq!(first.status, 200, "{}", first.text);
    assert!(first.header("content-disposition").contains(&format!("job-{job}.json")));
    let mut export: Export = serde_json::from_value(first.body).unwrap();
    let mut parts = 1;
    while let Some(next) = export.next {
        let part: Export = serde_json::from_value(caller.get(&format!("{path}?after={next}")).await.body).unwrap();
        export.journal.extend(part.journal);
        export.next = part.next;
        parts += 1;
    }
    let mut fetched = 0;
    for view in export.journal.iter_mut().filter(|view| view.truncated) {
        let (mut text, mut offset) = (String::new(), Some(0));
        while let Some(from) = offset {
            let part = caller.get(&format!("/v1/jobs/{job}/journal/{}?offset={from}", view.seq)).await;
            assert!(part.text.len() < 6_000_000, "an answer of Lambda has 6 MB");
            text.push_str(part.body["text"].as_str().unwrap());
            offset = part.body["next"].as_u64();
        }
        view.entry = serde_json::from_str(&text).unwrap();
        view.truncated = false;
        fetched += 1;
    }
    assert!(fetched >= 2, "{parts} parts, {fetched} entries by themselves");
    let file = serde_json::to_string(&export).unwrap();
    for secret in ["s3cret", "acme.example", "authorization", &world.token("acme", "jobs:read")] {
        assert!(!file.contains(secret), "{secret}");
    }
    let export = Export::read(file.as_bytes()).unwrap();
    let now = Timestamp::from_millis(1);
    let (batches, imported) = export.into_job("acme".parse().unwrap(), now, longhaul::outside::fresh_nonce).unwrap();
    assert_eq!(batches.into_iter().flat_map(|batch| batch.entries).collect::<Vec<_>>(), entries);
    assert_eq!(imported.order.input, json!({"steps": 3}));

    assert_eq!(world.by("other").get(&path).await.status, 404);
    assert_eq!(world.by("other").get(&format!("/v1/jobs/{job}/journal/1")).await.status, 404);
    for (tail, parameter) in
        [("0", "position"), ("x", "position"), ("99", "position"), ("1?offset=99999999", "offset"), ("1?o=1", "o")]
    {
        let answer = caller.get(&format!("/v1/jobs/{job}/journal/{tail}")).await;
        assert_eq!((answer.problem(), answer.field()), ("invalid-parameter", parameter), "{tail}");
    }
}

#[tokio::test]
async fn a_defined_agents_job_brings_its_definition_along() {
    let world = World::new().await;
    let caller = world.by("acme");
    let definition = json!({
        "name": "buyer", "description": "Buys.", "instructions": "Buy.", "models": [{"provider": "default"}],
        "tools": [{"kind": "http", "name": "order", "description": "Orders.", "method": "POST",
                   "url": "https://shop.example.com/orders", "auth": {"secret": "ssm:/acme/shop"},
                   "input_schema": {"type": "object", "properties": {}, "additionalProperties": false}}],
    });
    let saved = caller.send(Method::PUT, "/v1/agents/buyer", definition.to_string().into_bytes()).await;
    let has_agent = saved.status.is_success();
    assert!(has_agent, "{}", saved.text);
    let job = caller.post("/v1/jobs", &json!({"agent": "buyer", "input": "paper"})).await.job();
    let export = caller.get(&format!("/v1/jobs/{job}/export")).await;
    assert_eq!(export.body["definition"], definition);
    assert_eq!(export.body["job"]["agent"], json!("buyer@1"));
}
