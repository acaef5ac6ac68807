//! What the stack reaches outside of AWS: a model server, a tool server and a receiver of webhooks, on one port.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

/// What came in.
#[derive(Default)]
pub(crate) struct Asked {
    /// `Authorization` of each call of the model.
    pub(crate) model: Vec<String>,
    /// Whole address and body of each webhook.
    pub(crate) webhooks: Vec<(String, Vec<u8>)>,
}

type Shared = Arc<Mutex<Asked>>;

/// The servers.
pub(crate) struct Outside {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Shared,
    pub(crate) runtime: tokio::runtime::Runtime,
}

/// Bytes of an answer that no compression brings under the limit of an entry.
const LARGE_BYTES: usize = 300_000;

/// A text that cannot be compressed much, the same at every call.
pub(crate) fn large_text(mark: &str) -> String {
    let mut text = mark.to_owned();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    while text.len() < LARGE_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:016x}", state ^ (state >> 29)));
    }
    text
}

impl Outside {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let asked = Shared::default();
        let routes = Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/hook", post(webhook))
            .with_state(Arc::clone(&asked));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, routes).await });
        Self { address, asked, runtime }
    }
}

/// A Chat Completions server. It asks a person first and answers at length when it was told something; an agent whose
/// instructions say so has its key refused, and repeated in the refusal, as some servers do.
async fn chat(State(asked): State<Shared>, headers: HeaderMap, Json(request): Json<Value>) -> Response {
    let key = headers.get("authorization").map_or("", |value| value.to_str().unwrap()).to_owned();
    asked.lock().unwrap().model.push(key.clone());
    let messages = request["messages"].as_array().unwrap();
    if messages[0]["content"].as_str().unwrap().contains("Be refused") {
        let refusal =
            json!({"error": {"message": format!("Incorrect API key provided: {key}."), "code": "invalid_api_key"}});
        return (StatusCode::UNAUTHORIZED, Json(refusal)).into_response();
    }
    let told = messages.iter().any(|message| message["role"] == "tool");
    let message = if told {
        json!({"role": "assistant", "content": json!({"text": large_text("answer ")}).to_string()})
    } else {
        json!({"role": "assistant", "content": null, "tool_calls": [{
            "id": "call_1", "type": "function",
            "function": {"name": "ask", "arguments": "{\"question\":\"May I?\"}"},
        }]})
    };
    let finish = if told { "stop" } else { "tool_calls" };
    Json(json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    }))
    .into_response()
}

async fn webhook(State(asked): State<Shared>, request: axum::http::Uri, body: Bytes) -> StatusCode {
    asked.lock().unwrap().webhooks.push((request.to_string(), body.to_vec()));
    StatusCode::NO_CONTENT
}
