//! The same definition on three wire formats: equal journals but for what is the vendors' own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the server of the test is no agent")]

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul::engine::{AgentRef, TenantId};
use longhaul::{Clock, Registry, StepError};
use longhaul_agent::defined::equipment::{Equipment, Providers};
use longhaul_agent::{Functions, Invoked, Paths, Reach, SystemLookup, defined};
use longhaul_definition::{Format, Policy, read};
use longhaul_llm::{Access, Endpoint, Secret, Wire};
use longhaul_sim::Sim;
use longhaul_sim::workshop::Workshop;
use serde_json::{Value, json};

const RESULT: &str = r#"{"report": "Cold, warm."}"#;

/// The two answers of each format: thoughts, words and two calls; then the result.
fn answers(wire: Wire) -> [Value; 2] {
    match wire {
        Wire::Chat => {
            let call = |id: &str, city: &str| {
                json!({"id": id, "type": "function", "function": {
                "name": "weather", "arguments": json!({"city": city}).to_string()}})
            };
            let answer = |message: Value, reason: &str, input: u64, output: u64| {
                json!({
                "id": "chatcmpl-1", "model": "m-1",
                "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                "usage": {"prompt_tokens": input, "completion_tokens": output}})
            };
            [
                answer(
                    json!({"role": "assistant", "content": "Let me see.", "reasoning_content": "Two places.",
                        "tool_calls": [call("c_1", "Oslo"), call("c_2", "Lima")]}),
                    "tool_calls",
                    20,
                    30,
                ),
                answer(json!({"role": "assistant", "content": RESULT}), "stop", 60, 5),
            ]
        }
        Wire::Responses => {
            let message = |text: &str| {
                json!({"type": "message", "id": "msg_1", "role": "assistant",
                "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]})
            };
            let call = |id: &str, city: &str| {
                json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id,
                "name": "weather", "arguments": json!({"city": city}).to_string(), "status": "completed"})
            };
            let thought = json!({"type": "reasoning", "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Two places."}], "encrypted_content": "gAAA"});
            let answer = |output: Value, input: u64, written: u64| {
                json!({"id": "r", "object": "response", "model": "m-1",
                "status": "completed", "output": output, "usage": {"input_tokens": input, "output_tokens": written}})
            };
            [
                answer(json!([thought, message("Let me see."), call("c_1", "Oslo"), call("c_2", "Lima")]), 20, 30),
                answer(json!([message(RESULT)]), 60, 5),
            ]
        }
        Wire::Messages => {
            let call = |id: &str, city: &str| json!({"type": "tool_use", "id": id, "name": "weather", "input": {"city": city}});
            let answer = |content: Value, reason: &str, input: u64, output: u64| {
                json!({"id": "msg_1", "type": "message",
                "role": "assistant", "model": "m-1", "content": content, "stop_reason": reason,
                "usage": {"input_tokens": input, "output_tokens": output}})
            };
            [
                answer(
                    json!([{"type": "thinking", "thinking": "Two places.", "signature": "c2ln"},
                        {"type": "text", "text": "Let me see."}, call("c_1", "Oslo"), call("c_2", "Lima")]),
                    "tool_use",
                    20,
                    30,
                ),
                answer(json!([{"type": "text", "text": RESULT}]), "end_turn", 60, 5),
            ]
        }
        Wire::Converse => unreachable!("not of this test"),
    }
}

struct Weather;

impl Functions for Weather {
    fn invoke<'a>(
        &'a self,
        _tenant: &'a TenantId,
        _function: &'a str,
        event: Value,
        _time_limit: Duration,
    ) -> LocalBoxFuture<'a, Result<Invoked, StepError>> {
        async move { Ok(Invoked::Answered(json!(format!("the weather of {}", event["arguments"]["city"])))) }
            .boxed_local()
    }
}

type Asked = Arc<Mutex<Vec<(Value, Option<String>)>>>;

async fn serve(
    State((wire, asked)): State<(Wire, Asked)>,
    headers: axum::http::HeaderMap,
    body: Bytes,
) -> axum::Json<Value> {
    let request: Value = serde_json::from_slice(&body).unwrap();
    assert!(headers["traceparent"].to_str().unwrap().starts_with("00-"), "the trace goes along");
    let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
    let [first, second] = answers(wire);
    let answer = if request.to_string().contains("the weather of") { second } else { first };
    asked.lock().unwrap().push((request, key));
    axum::Json(answer)
}

/// Runs the definition on a wire: its journal without what may differ, and what the server was asked.
async fn run(wire: Wire) -> (Vec<Value>, Vec<(Value, Option<String>)>) {
    let asked: Asked = Arc::default();
    let app = axum::Router::new().fallback(serve).with_state((wire, Arc::clone(&asked)));
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", socket.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(socket, app).await });
    let mut endpoint = Endpoint { base_url: Some(base_url), ..Endpoint::new(wire, "m") };
    endpoint.features.streaming = false;
    let mut providers = Providers::default();
    providers.add("default", endpoint, Access::Key(Secret::new("test-key-123456")));
    let definition = json!({
        "name": "agent", "description": "Reports.", "instructions": "Report.",
        "models": [{"provider": "default", "output_tokens_max": 500, "temperature": 0.5}],
        "tools": [{"kind": "lambda", "name": "weather", "description": "Weather.", "function": "weather",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}],
        "output_schema": {"type": "object", "properties": {"report": {"type": "string"}}, "required": ["report"],
            "additionalProperties": false},
    });
    let checked = read(&definition.to_string(), Format::Json).unwrap();
    let reach = Reach::new(Policy::default(), Arc::new(SystemLookup)).unwrap();
    let equipment = Equipment::new(Rc::new(providers), reach, Paths::default()).with_functions(Rc::new(Weather));
    let mut registry = Registry::default();
    let reference = AgentRef { name: "agent".parse().unwrap(), version: 1 };
    registry.add_agent(reference, defined::agent(checked.definition, Rc::new(equipment)));
    let mut workshop = Workshop::new(Sim::faultless(), registry);
    workshop.clock = Clock::of_machine();
    let job = workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!({"about": "two places"}))).await;
            while !workshop.sim.job(job.job).is_some_and(|job| job.progress.state.is_terminal()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            job
        })
        .await;
    serving.abort();
    let story = workshop.story(&job);
    let entries = story.lines().map(|line| serde_json::from_str(line).unwrap()).map(without_vendor).collect();
    let asked = asked.lock().unwrap().clone();
    (entries, asked)
}

/// An entry without what is the vendor's own: its fields, its thoughts, its further words about the answer.
fn without_vendor(mut entry: Value) -> Value {
    if let Some(reply) = entry.pointer_mut("/output/reply").and_then(Value::as_object_mut) {
        reply.remove("extras");
        let message = reply["message"].as_object_mut().unwrap();
        message.remove("vendor");
        message["content"].as_array_mut().unwrap().retain(|part| part["type"] != json!("raw"));
    }
    entry
}

#[tokio::test]
async fn one_definition_on_three_wires() {
    let (chat, asked) = run(Wire::Chat).await;
    let last = chat.last().unwrap();
    assert_eq!(last["output"], json!({"report": "Cold, warm."}), "{chat:#?}");
    assert_eq!(asked.len(), 2);
    let keys: Vec<&str> = asked.iter().map(|(_, key)| key.as_deref().unwrap()).collect();
    assert_ne!(keys[0], keys[1], "each turn has its own key");
    assert_eq!(asked[0].0["temperature"], json!(0.5));
    for wire in [Wire::Responses, Wire::Messages] {
        let (journal, asked) = run(wire).await;
        assert_eq!(asked.len(), 2, "{wire:?}");
        for (one, other) in chat.iter().zip(&journal) {
            assert_eq!(one, other, "{wire:?}");
        }
        assert_eq!(chat.len(), journal.len(), "{wire:?}");
    }
}
