//! llmock's verdict on this client, when its calls are repeated as production repeats them: by the engine's policy.

use std::time::Duration;

use longhaul_engine::retry::{AfterFailure, RetryPolicy, after_failure};
use longhaul_engine::{ErrorClass, JobId, StepKey, TenantId, Timestamp};
use longhaul_llm::{
    Cut, Finish, Message, ModelError, ModelErrorKind, ModelReply, ModelRequest, Provider, ToolSpec, Wire,
};
use serde_json::{Value, json};

use crate::servers::{Server, ask, provider};

/// The distances of production are for hours; these are of the same form.
const POLICY: RetryPolicy = RetryPolicy { attempts_max: 4, wait_first_ms: 100, wait_factor: 3, wait_max_ms: 2_000 };

/// Each format with the path that llmock has for it.
const WIRES: [(Wire, &str, &str); 3] = [
    (Wire::Chat, "/v1", "gpt-4.1"),
    (Wire::Responses, "/v1", "gpt-5"),
    (Wire::Messages, "/anthropic/v1", "claude-opus-4-5"),
];

fn class_of(kind: &ModelErrorKind) -> ErrorClass {
    match kind {
        // As in the agent: an answer that is too long would be cut at the same place.
        ModelErrorKind::Truncated { cut: Cut::OutputLimit | Cut::UnknownFinish { .. } } => ErrorClass::Schema,
        kind => serde_json::from_value(json!(kind.name())).expect("one vocabulary of errors"),
    }
}

/// A call as a step makes it: tried again for as long as the engine says so.
async fn step(model: &Provider, request: &ModelRequest) -> (Result<ModelReply, ModelError>, u32) {
    let job = JobId::of_key(&"t".parse::<TenantId>().unwrap(), "verdict");
    let key = StepKey::at("", 0);
    let mut attempt = 1;
    loop {
        let error = match ask(model, request).await.0 {
            Ok(reply) => return (Ok(reply), attempt),
            Err(error) => error,
        };
        let now = Timestamp::from_millis(0);
        let after = after_failure(&POLICY, job, &key, attempt, class_of(error.kind()), error.kind().retry_after(), now);
        match after {
            AfterFailure::GiveUp => return (Err(error), attempt),
            AfterFailure::Retry { at } => tokio::time::sleep(Duration::from_millis(at.as_millis())).await,
        }
        attempt += 1;
    }
}

fn request(text: &str) -> ModelRequest {
    ModelRequest { time_limit_ms: 10_000, ..ModelRequest::new("", vec![Message::user(text)]) }
}

/// The fault, how often a call is made because of it, and whether it ends well.
fn faults() -> Vec<(&'static str, Value, u32, bool)> {
    let broken = |kind: &str| json!({"type": "stream_fault", "kind": kind, "after_chunks": 2});
    vec![
        ("rate limit", json!({"type": "fail", "status": 429, "retry_after": 1, "times": 2}), 3, true),
        ("rate limit in parts of a second", json!({"type": "fail", "status": 429, "retry_after": 0.5}), 2, true),
        ("server errors", json!({"type": "fail", "status": 500, "times": 3}), 4, true),
        ("unavailable", json!({"type": "fail", "status": 503}), 2, true),
        ("a request that is wrong", json!({"type": "fail", "status": 400}), 1, false),
        ("a key that is wrong", json!({"type": "fail", "status": 401}), 1, false),
        ("a model that is none", json!({"type": "fail", "status": 404}), 1, false),
        ("an outage", json!({"type": "fail", "status": 502, "times": 4}), 4, false),
        ("a stream that ends early", broken("truncate"), 2, true),
        ("a connection that breaks", broken("disconnect"), 2, true),
        ("a piece that is no JSON", broken("malformed"), 2, true),
        (
            "a stream that hangs",
            json!({"type": "stream_fault", "kind": "stall", "after_chunks": 2, "stall_seconds": 30}),
            2,
            true,
        ),
    ]
}

async fn verdict(wire: Wire) {
    let (_, path, name) = WIRES.into_iter().find(|row| row.0 == wire).unwrap();
    let server = Server::llmock().await;
    let model = provider(wire, format!("{}{path}", server.url), name, true);
    for (fault, behaviour, attempts, ends_well) in faults() {
        server.post("/_llmock/scenario", &json!({"behaviors": [behaviour]})).await;
        let mut asked = request(fault);
        if fault == "a stream that hangs" {
            // Short beside the stall, and long enough for the second attempt on a busy machine.
            asked.time_limit_ms = 3_000;
        }
        let (result, made) = step(&model, &asked).await;
        assert_eq!((made, result.is_ok()), (attempts, ends_well), "{wire:?} {fault}: {result:?}");
        if let Ok(reply) = result {
            assert!(!reply.message.text().is_empty(), "{wire:?} {fault}");
        }
    }
    tool_turn(wire, &model).await;
    let verdict = server.get("/_llmock/verdict").await;
    assert_eq!((&verdict["passed"], &verdict["findings"]), (&json!(true), &json!([])), "{wire:?}: {verdict:#}");
    let played: u64 = faults().iter().map(|(_, fault, ..)| fault["times"].as_u64().unwrap_or(1)).sum();
    assert_eq!(verdict["faults_injected"], played, "{wire:?}: each fault was really played");
}

/// A tool turn that llmock makes up from the tool's schema, and its end.
async fn tool_turn(wire: Wire, model: &Provider) {
    let tool = ToolSpec {
        name: "get_weather".to_owned(),
        description: "The weather of a city.".to_owned(),
        parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
    };
    let mut asked = ModelRequest { tools: vec![tool], ..request("What is the weather in Paris?") };
    let reply = step(model, &asked).await.0.unwrap();
    assert_eq!(
        (reply.finish, reply.message.tool_calls[0].name.as_str()),
        (Finish::ToolCalls, "get_weather"),
        "{wire:?}"
    );
    let id = reply.message.tool_calls[0].id.clone();
    asked.messages.extend([reply.message, Message::tool(id, "21 °C")]);
    let last = step(model, &asked).await.0.unwrap();
    assert_eq!(last.finish, Finish::Stop, "{wire:?}");
    assert!(!last.message.text().is_empty(), "{wire:?}");
}

#[tokio::test]
async fn chat_is_judged() {
    verdict(Wire::Chat).await;
}

#[tokio::test]
async fn responses_is_judged() {
    verdict(Wire::Responses).await;
}

#[tokio::test]
async fn messages_is_judged() {
    verdict(Wire::Messages).await;
}
