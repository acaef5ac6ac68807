//! An agent without Rust: checked, saved, run by the stack's own worker with a model and a tool of the test's own.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use longhaul_tests::program::{Stack, entries};
use serde_json::{Value, json};

const CLERK: &str = r#"
name: clerk
description: Files what it is told.
instructions: File the text, then say its number.
models:
  - provider: script
tools:
  - kind: http
    name: file_text
    description: Files a text.
    method: POST
    url: "http://SERVER/files"
    body: { text: "{text}" }
    input_schema:
      type: object
      properties: { text: { type: string } }
      required: [text]
    effect: keyed
output_schema:
  type: object
  properties: { number: { type: integer } }
  required: [number]
"#;

/// What the two servers were asked.
#[derive(Default)]
struct Asked {
    model: Vec<Value>,
    keys: Vec<String>,
}

type Shared = Arc<Mutex<Asked>>;

/// A Chat Completions server that calls the tool once and then gives the number that it was told.
async fn chat(State(asked): State<Shared>, Json(request): Json<Value>) -> Json<Value> {
    let told = request["messages"].as_array().unwrap().iter().rfind(|message| message["role"] == "tool").cloned();
    asked.lock().unwrap().model.push(request);
    let message = match told {
        None => json!({"role": "assistant", "content": null, "tool_calls": [{
            "id": "call_1", "type": "function",
            "function": {"name": "file_text", "arguments": "{\"text\":\"a letter\"}"},
        }]}),
        Some(told) => {
            assert!(told["content"].as_str().unwrap().contains("4711"), "the model sees what the tool said: {told}");
            json!({"role": "assistant", "content": "{\"number\": 4711}"})
        }
    };
    let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    Json(json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    }))
}

async fn file(State(asked): State<Shared>, headers: HeaderMap, Json(body): Json<Value>) -> Json<Value> {
    assert_eq!(body, json!({"text": "a letter"}));
    asked.lock().unwrap().keys.push(headers["idempotency-key"].to_str().unwrap().to_owned());
    Json(json!({"number": 4711}))
}

#[test]
fn a_definition_is_checked_saved_and_run() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let asked = Shared::default();
    let routes = Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/files", post(file))
        .with_state(Arc::clone(&asked));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let server: SocketAddr = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, routes).await });
    let providers = json!({"script": {
        "wire": "chat", "model": "scripted", "base_url": format!("http://{server}/v1"),
        "features": {"streaming": false},
    }});
    let stack = Stack::up_with(
        &["--think-ms", "0"],
        &[("LONGHAUL_PROVIDERS", &providers.to_string()), ("LONGHAUL_TOOL_HOSTS", "127.0.0.1")],
    );
    let path = stack.data().join("clerk.yaml");
    let said = |arguments: &[&str]| {
        let output = stack.run(arguments);
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    let file = path.to_str().unwrap();
    let good = CLERK.replace("SERVER", &server.to_string());

    std::fs::write(&path, good.replace("effect: keyed", "effect: sometimes")).unwrap();
    let (success, text) = said(&["agents", "check", file]);
    assert!(!success && text.contains("clerk.yaml:18: /tools/0/effect"), "{text}");
    let (success, text) = said(&["agents", "apply", file]);
    assert!(!success && text.contains("nothing was saved"), "{text}");

    std::fs::write(&path, &good).unwrap();
    for (change, wanted) in [("", "saved as clerk@1"), ("", "says the same as clerk@1"), ("# new\n", "clerk@1")] {
        std::fs::write(&path, format!("{good}{change}")).unwrap();
        let (success, text) = said(&["agents", "apply", file]);
        assert!(success && text.contains(wanted), "{text}");
    }
    std::fs::write(&path, good.replace("File the text", "File the text well")).unwrap();
    assert!(said(&["agents", "apply", file]).1.contains("saved as clerk@2"));
    assert!(said(&["agents", "ls"]).1.contains("clerk@2"));

    let outcome = stack.json(&["run", "clerk@1", "--input", "{\"please\": \"file a letter\"}", "--json"]);
    assert_eq!((&outcome["status"], &outcome["result"]), (&json!("COMPLETED"), &json!({"number": 4711})), "{outcome}");
    let job = stack.show(outcome["id"].as_str().unwrap());
    assert_eq!(job["job"]["agent"], "clerk@1", "the job is pinned to the version that it named");
    assert!(entries(&job, "step_completed").len() >= 3, "two turns and a call: {job}");
    let asked = asked.lock().unwrap();
    assert_eq!(asked.keys.len(), 1, "the tool was called once");
    assert!(asked.keys[0].starts_with(outcome["id"].as_str().unwrap()), "under a key of its own");
    assert_eq!(asked.model.len(), 2);
    let system = asked.model[0]["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("File the text, then"), "the first version's words: {system}");
}
