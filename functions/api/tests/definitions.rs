//! Agents that tenants define: versions that never change, found by name, held apart by tenant, refused with line and
//! field.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod world;

use http::Method;
use serde_json::{Value, json};
use world::{Answer, World};

fn definition(instructions: &str) -> Value {
    json!({
        "name": "triage",
        "description": "Sorts what comes in.",
        "instructions": instructions,
        "models": [{"provider": "default"}],
        "tools": [{"kind": "ask_person", "name": "decision", "description": "Asks a person."}],
        "input_schema": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
    })
}

async fn put(world: &World, tenant: &str, name: &str, definition: &Value) -> Answer {
    world.by(tenant).send(Method::PUT, &format!("/v1/agents/{name}"), definition.to_string().into_bytes()).await
}

fn check(answer: &Answer, status: u16, problem: &str, case: &str) {
    assert_eq!((answer.status.as_u16(), answer.problem()), (status, problem), "{case}: {}", answer.text);
}

#[tokio::test]
async fn a_definition_becomes_versions_that_jobs_are_pinned_to() {
    let world = World::new().await;
    let first = put(&world, "tn_a", "triage", &definition("Sort.")).await;
    check(&first, 201, "", "new");
    assert_eq!((first.header("location"), &first.body["version"]), ("/v1/agents/triage@1", &json!(1)));
    assert_eq!(first.body["signals"], json!(["decision"]));
    assert_eq!(first.body["created_by"], "user-of-tn_a");

    let again = put(&world, "tn_a", "triage", &definition("Sort.")).await;
    check(&again, 200, "", "the same again");
    assert_eq!(again.body, first.body);
    let second = put(&world, "tn_a", "triage", &definition("Sort well.")).await;
    check(&second, 201, "", "changed");
    assert_eq!(second.body["version"], 2);

    let newest = world.by("tn_a").get("/v1/agents/triage").await;
    assert_eq!(newest.body["definition"]["instructions"], "Sort well.");
    let old = world.by("tn_a").get("/v1/agents/triage@1").await;
    assert_eq!(old.body["definition"], definition("Sort."), "a version is what it was");
    let list = world.by("tn_a").get("/v1/agents").await;
    let listed: Vec<String> = list.body["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| format!("{}@{}", agent["name"].as_str().unwrap(), agent["version"]))
        .collect();
    assert_eq!(listed, ["agent-10@1", "compliance@1", "research@1", "triage@1", "triage@2"]);

    for (agent, pinned) in [("triage", "triage@2"), ("triage@1", "triage@1")] {
        let job = world.by("tn_a").post("/v1/jobs", &json!({"agent": agent, "input": {"text": "hello"}})).await;
        check(&job, 202, "", agent);
        assert_eq!(job.body["agent"], pinned);
    }
    let wrong = world.by("tn_a").post("/v1/jobs", &json!({"agent": "triage", "input": {}})).await;
    check(&wrong, 400, "invalid-input", "the input is held to the definition's schema");
    assert_eq!(wrong.field(), "/input/text");
}

/// What a definition names that is not there is said, and no reason to refuse it: it may come.
#[tokio::test]
async fn what_a_definition_names_and_is_not_there_is_said() {
    let world = World::new().await;
    let mut whole = definition("Sort.");
    whole["models"] = json!([{"provider": "default"}, {"provider": "claude"}]);
    let run = |agent: &str, version: u32| {
        json!({"kind": "run_agent", "name": format!("run_{agent}"), "description": "Runs it.", "agent": agent,
            "version": version, "input_schema": {"type": "object"}})
    };
    whole["tools"] = json!([run("research", 1), run("triage", 1), run("nobody", 1)]);
    let saved = put(&world, "tn_a", "triage", &whole).await;
    check(&saved, 201, "", "saved all the same");
    let warnings: Vec<&str> =
        saved.body["warnings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("/models/1/provider") && warnings[0].contains("`claude`"), "{warnings:?}");
    assert!(warnings[1].contains("/tools/2/agent") && warnings[1].contains("nobody@1"), "{warnings:?}");
    // Another tenant's agent of that name is not there either.
    let of_b = put(&world, "tn_b", "other", &{
        let mut other = definition("Sort.");
        other["name"] = json!("other");
        other["tools"] = json!([run("triage", 1)]);
        other
    })
    .await;
    assert_eq!(of_b.body["warnings"].as_array().unwrap().len(), 1, "{}", of_b.text);
}

/// A failed job of a definition is mended by other instructions, and shows what its failed step had sent.
#[tokio::test]
async fn a_replay_may_put_other_instructions_in_the_place_of_a_definitions() {
    let world = World::new().await;
    let caller = world.by("tn_a");
    check(&put(&world, "tn_a", "triage", &definition("Sort.")).await, 201, "", "new");
    let job = caller.post("/v1/jobs", &json!({"agent": "triage", "input": {"text": "hello"}})).await;
    let id: longhaul::engine::JobId = job.body["id"].as_str().unwrap().parse().unwrap();
    let failure = |sent: Value| {
        let step = longhaul::engine::StepKey::at("", 0);
        let mut failure = longhaul::engine::Failure::new(longhaul::engine::ErrorClass::Refused, "no");
        (failure.step, failure.sent) = (Some(step), (!sent.is_null()).then(|| Box::new(sent)));
        serde_json::to_value(failure).unwrap()
    };
    let entry = |value: Value| serde_json::from_value(value).unwrap();
    let sent = json!({"model": "m", "messages": [{"role": "system", "text": "Sort."}], "tools": []});
    let claimed = entry(json!({"type": "claimed", "epoch": 1, "session": "s-1", "takeover": false}));
    let step = entry(json!({
        "type": "step_failed", "step": "0", "name": "model", "kind": "effect", "attempt": 1, "started_at": 0,
        "failure": failure(sent.clone()),
    }));
    let failed = entry(json!({"type": "failed", "failure": failure(Value::Null)}));
    world.drive("tn_a", id, vec![claimed, step, failed]).await;
    let path = format!("/v1/jobs/{id}");
    assert_eq!(caller.get(&path).await.body["failure"]["sent"], sent);
    let letters = caller.get("/v1/dead-letters").await;
    assert!(letters.body["dead_letters"][0]["failure"].get("sent").is_none(), "not in lists: {}", letters.text);
    let edit = json!({"edit": {"instructions": "Sort well."}});
    check(&caller.post(&format!("{path}/replay"), &edit).await, 202, "", "edited");
    let shown = caller.get(&path).await;
    assert_eq!((&shown.body["instructions"], &shown.body["status"]), (&json!("Sort well."), &json!("PENDING")));
}

#[tokio::test]
async fn e11_agents_belong_to_their_tenant() {
    let world = World::new().await;
    check(&put(&world, "tn_a", "triage", &definition("Sort.")).await, 201, "", "new");
    check(&world.by("tn_b").get("/v1/agents/triage").await, 404, "no-such-agent", "another tenant's");
    check(&world.by("tn_a").get("/v1/agents/triage@2").await, 404, "no-such-agent", "no such version");
    check(&world.by("tn_a").get("/v1/agents/triage@01").await, 404, "no-such-agent", "no version at all");
    let job = world.by("tn_b").post("/v1/jobs", &json!({"agent": "triage", "input": {"text": ""}})).await;
    check(&job, 400, "unknown-agent", "nobody runs another tenant's agent");
    assert!(!job.body["known"].as_array().unwrap().contains(&json!("triage@1")));
    let job = world.by("tn_a").post("/v1/jobs", &json!({"agent": "triagee", "input": {}})).await;
    assert!(job.body["known"].as_array().unwrap().contains(&json!("triage@1")), "{}", job.text);
    // Whose name begins alike is no version of it.
    check(&put(&world, "tn_b", "triage", &definition("Sort.")).await, 201, "", "the same name, another tenant");
}

#[tokio::test]
async fn what_is_wrong_with_a_definition_is_said_with_line_and_field() {
    let world = World::new().await;
    let mut bad = definition("Sort.");
    bad["models"] = json!([]);
    bad["tools"][0]["kind"] = json!("ask_anybody");
    let answer = put(&world, "tn_a", "triage", &bad).await;
    check(&answer, 400, "invalid-definition", "two faults");
    let fields: Vec<&str> =
        answer.body["faults"].as_array().unwrap().iter().map(|fault| fault["field"].as_str().unwrap()).collect();
    assert!(fields.contains(&"/models") && fields.iter().any(|field| field.starts_with("/tools/0")), "{fields:?}");

    let yaml = "name: triage\ndescription: Sorts.\ninstructions: Sort.\nmodels:\n  - provider: default\n    modle: x\n";
    let send = async |text: &str, kind: &str| {
        let caller = world.by("tn_a").with("content-type", kind);
        caller.send(Method::PUT, "/v1/agents/triage", text.as_bytes().to_vec()).await
    };
    let answer = send(yaml, "application/yaml").await;
    check(&answer, 400, "invalid-definition", "a misspelt field");
    assert_eq!(answer.body["faults"][0]["line"], 6, "{}", answer.text);
    check(&send(&yaml.replace("modle", "model"), "application/yaml").await, 201, "", "mended");
    check(&send(yaml, "text/plain").await, 415, "unsupported-media-type", "neither JSON nor YAML");
    check(&send(&format!("{yaml}# {}", "x".repeat(300_000)), "application/yaml").await, 413, "body-too-large", "large");

    for (name, body, status, problem) in [
        ("sort", definition("Sort."), 400, "invalid-field"),
        ("research", definition("Sort."), 400, "invalid-parameter"),
        ("a%20b", definition("Sort."), 400, "invalid-parameter"),
    ] {
        check(&put(&world, "tn_a", name, &body).await, status, problem, name);
    }
    let token = world.token("tn_a", "jobs:read jobs:write jobs:operate");
    let caller = world.anybody().with("authorization", &format!("Bearer {token}"));
    let refused = caller.send(Method::PUT, "/v1/agents/triage", definition("Sort.").to_string().into_bytes()).await;
    check(&refused, 403, "not-allowed", "defining is a right of its own");
    let list = world.by("tn_a").get("/v1/agents").await;
    assert_eq!(list.body["agents"].as_array().unwrap().len(), 4, "nothing but the mended one was saved");
}
