//! What an agent reaches outside, on the embedded stack: keys out of the data folder, a function, and calls that are in
//! flight when their job is cancelled (F08).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use longhaul_tests::program::{Stack, entries, wait_for};
use serde_json::{Value, json};

/// How soon after a cancel the connection of a call in flight is closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);
/// How long the tool takes to act.
const TOOL_TAKES: Duration = Duration::from_secs(4);

#[derive(Default)]
struct Seen {
    model: Vec<(Value, String)>,
    /// When the connection of a stream was closed by the other side.
    closed: Option<Instant>,
    acting: Vec<(String, String)>,
    acted: usize,
    functions: Vec<(String, Value)>,
}

type Shared = Arc<Mutex<Seen>>;

/// Notes when a body that never ends is dropped.
struct Noticed(Shared);

impl Drop for Noticed {
    fn drop(&mut self) {
        self.0.lock().unwrap().closed = Some(Instant::now());
    }
}

fn piece(text: &str) -> Bytes {
    let choice = json!({"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": null});
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]});
    Bytes::from(format!("data: {chunk}\n\n"))
}

/// An answer that speaks for a minute, word by word.
fn endless(seen: Shared) -> Response {
    let words = futures::stream::unfold((0, Noticed(seen)), |(number, noticed)| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        (number < 600).then(|| (Ok::<_, std::io::Error>(piece("word ")), (number + 1, noticed)))
    });
    ([("content-type", "text/event-stream")], Body::from_stream(words)).into_response()
}

async fn chat(State(seen): State<Shared>, headers: HeaderMap, Json(request): Json<Value>) -> Response {
    let key = headers.get("authorization").map(|key| key.to_str().unwrap().to_owned()).unwrap_or_default();
    assert!(headers.contains_key("traceparent"), "the trace goes along");
    let messages = request["messages"].as_array().unwrap().clone();
    seen.lock().unwrap().model.push((request, key));
    let instructions = messages[0]["content"].as_str().unwrap();
    if instructions.starts_with("Speak") {
        return endless(seen);
    }
    let told = messages.iter().rfind(|message| message["role"] == "tool").map(|told| told["content"].clone());
    let tool = instructions.trim_start_matches("Call ").trim_end_matches('.');
    let message = match told {
        None => json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": tool, "arguments": "{\"amount\": 5}"}}]}),
        Some(told) => json!({"role": "assistant", "content": told}),
    };
    let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    let answer = json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    });
    Json(answer).into_response()
}

async fn act(State(seen): State<Shared>, headers: HeaderMap) -> Json<Value> {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    seen.lock().unwrap().acting.push((header("authorization"), header("idempotency-key")));
    tokio::time::sleep(TOOL_TAKES).await;
    seen.lock().unwrap().acted += 1;
    Json(json!({"receipt": 17}))
}

async fn invoke(State(seen): State<Shared>, Path(name): Path<String>, Json(event): Json<Value>) -> Json<Value> {
    seen.lock().unwrap().functions.push((name, event));
    Json(json!("charged"))
}

fn definition(name: &str, instructions: &str, tools: Value) -> Value {
    json!({
        "name": name, "description": "For the test.", "instructions": instructions,
        "models": [{"provider": "script"}], "tools": tools,
    })
}

struct World {
    stack: Stack,
    seen: Shared,
    runtime: tokio::runtime::Runtime,
}

impl World {
    fn up() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let seen = Shared::default();
        let routes = Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/act", post(act))
            .route("/2015-03-31/functions/{name}/invocations", post(invoke))
            .with_state(Arc::clone(&seen));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(async move { axum::serve(listener, routes).await });
        let providers = json!({"script": {
            "wire": "chat", "model": "m", "base_url": format!("{server}/v1"), "key_secret": "ssm:script-key",
        }});
        let stack = Stack::up_with(
            &["--think-ms", "0"],
            &[
                ("LONGHAUL_PROVIDERS", &providers.to_string()),
                ("LONGHAUL_TOOL_HOSTS", "127.0.0.1"),
                ("LONGHAUL_TOOL_FUNCTIONS", "charge"),
                ("AWS_ENDPOINT_URL_LAMBDA", &server),
            ],
        );
        // The file is read at each use, so it may come after the start.
        let secrets = json!({
            "tenants": {"local": {"ssm:act-key": "key-of-act"}},
            "deployment": {"ssm:script-key": "key-of-script"},
        });
        std::fs::write(stack.data().join("secrets.json"), secrets.to_string()).unwrap();
        let schema = json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
        let act = json!([{"kind": "http", "name": "act", "description": "Acts.", "method": "POST",
            "url": format!("{server}/act"), "auth": {"secret": "ssm:act-key"}, "input_schema": schema}]);
        let lambda = |function: &str| {
            json!([{"kind": "lambda", "name": function, "description": "Charges.", "function": function,
                "input_schema": schema}])
        };
        for whole in [
            definition("speaker", "Speak.", json!([])),
            definition("actor", "Call act.", act),
            definition("charger", "Call charge.", lambda("charge")),
            definition("stranger", "Call refund.", lambda("refund")),
        ] {
            let path = stack.data().join("agent.json");
            std::fs::write(&path, whole.to_string()).unwrap();
            let hosts = ["agents", "apply", path.to_str().unwrap()];
            let applied = stack.run(&hosts);
            assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
        }
        Self { stack, seen, runtime }
    }

    /// Asks that a job end, over HTTP.
    fn cancel(&self, id: &str) -> Instant {
        let url = format!("{}/v1/jobs/{id}/cancel", self.stack.address("api"));
        let token = self.stack.token("local");
        self.runtime.block_on(async {
            let request = reqwest::Client::new().post(url).bearer_auth(token).header("idempotency-key", "c");
            let request = request.header("content-type", "application/json").body("{}");
            let asked_at = Instant::now();
            let answer = request.send().await.unwrap();
            assert!(answer.status().is_success(), "{answer:?}");
            asked_at
        })
    }
}

#[test]
fn f08_calls_in_flight_are_closed_or_settled() {
    let world = World::up();
    // (a) in the middle of a stream: the server sees the connection close, and what was said is paid for.
    let id = world.stack.submit("speaker", &json!({}));
    wait_for("the model to be asked", || !world.seen.lock().unwrap().model.is_empty());
    std::thread::sleep(Duration::from_secs(1));
    assert!(world.seen.lock().unwrap().closed.is_none());
    let asked_at = world.cancel(&id);
    wait_for("the connection to close", || world.seen.lock().unwrap().closed.is_some());
    let took = world.seen.lock().unwrap().closed.unwrap().duration_since(asked_at);
    eprintln!("the connection was closed {took:?} after the cancel was sent");
    assert!(took <= CLOSED_WITHIN, "{took:?}");
    let job = world.stack.ended(&id);
    assert_eq!(job["job"]["status"], "CANCELLED");
    let failed = entries(&job, "step_failed");
    assert_eq!(failed.len(), 1, "{job}");
    assert!(failed[0]["usage"]["output_tokens"].as_u64().unwrap() > 10, "{}", failed[0]);
    assert_eq!(world.seen.lock().unwrap().model[0].1, "Bearer key-of-script", "the key out of the file");

    // (d) in the call of a tool that must not act twice: its outcome is recorded, and nothing follows.
    let id = world.stack.submit("actor", &json!({}));
    wait_for("the tool to be called", || !world.seen.lock().unwrap().acting.is_empty());
    world.cancel(&id);
    let job = world.stack.ended(&id);
    assert_eq!(job["job"]["status"], "CANCELLED");
    let completed = entries(&job, "step_completed");
    let acted = completed.iter().find(|entry| entry["name"] == "act").expect("the tool's outcome");
    assert!(acted["output"]["text"].as_str().unwrap().contains("17"), "{acted}");
    let seen = world.seen.lock().unwrap();
    assert_eq!((seen.acting.len(), seen.acted), (1, 1));
    assert_eq!(seen.acting[0].0, "Bearer key-of-act", "the tenant's key out of the file");
    assert!(seen.acting[0].1.starts_with(&id), "{:?}", seen.acting);
    assert_eq!(seen.model.len(), 2, "one turn of each job");
}

#[test]
fn functions_are_called_where_they_run() {
    let world = World::up();
    let outcome = world.stack.json(&["run", "charger", "--input", "{}", "--json"]);
    assert_eq!((&outcome["status"], &outcome["result"]), (&json!("COMPLETED"), &json!("charged")), "{outcome}");
    {
        let seen = world.seen.lock().unwrap();
        let (name, event) = &seen.functions[0];
        assert_eq!(
            (name.as_str(), &event["arguments"]["amount"], &event["tenant"]),
            ("charge", &json!(5), &json!("local"))
        );
        assert!(event["idempotency_key"].as_str().unwrap().starts_with(outcome["id"].as_str().unwrap()), "{event}");
        assert_eq!(event["traceparent"].as_str().unwrap().len(), 55);
    }
    // One that is not listed is refused, in words that the model and a person understand.
    let outcome = world.stack.json(&["run", "stranger", "--input", "{}", "--json"]);
    assert!(outcome["result"].as_str().unwrap().contains("LONGHAUL_TOOL_FUNCTIONS"), "{outcome}");
    assert_eq!(world.seen.lock().unwrap().functions.len(), 1);
}
