//! The routes of the stand-in.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::{Stream, StreamExt, stream};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Rehearsal;
use super::answer::answer;
use super::ledger::{Fault, Ledger};
use super::wire::{Asked, CHUNK_CHARS, Content, FINGERPRINT, MODEL_NAME, Reply, error_body};

/// Largest request read, in bytes: a whole long document with room to spare.
const REQUEST_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Tokens of a full chunk, for the pace.
const CHUNK_TOKENS: u32 = CHUNK_CHARS as u32 / 4;

struct Shared {
    options: Rehearsal,
    ledger: Ledger,
}

pub(super) fn router(options: Rehearsal) -> Router {
    let shared = Arc::new(Shared { options, ledger: Ledger::default() });
    Router::new()
        .route("/v1/chat/completions", post(completions))
        .route("/v1/models", get(models))
        .route("/rehearsal/requests", get(requests))
        .route("/rehearsal/faults", post(faults))
        .fallback(async || failure(StatusCode::NOT_FOUND, "no such route", None))
        .layer(DefaultBodyLimit::max(REQUEST_MAX_BYTES))
        .with_state(shared)
}

async fn models() -> Json<Value> {
    let model = json!({"id": MODEL_NAME, "object": "model", "created": 0, "owned_by": FINGERPRINT});
    Json(json!({"object": "list", "data": [model]}))
}

async fn requests(State(shared): State<Arc<Shared>>) -> Response {
    Json(shared.ledger.requests()).into_response()
}

async fn faults(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    match serde_json::from_slice::<Vec<Fault>>(&body) {
        Ok(faults) if faults.iter().all(Fault::has_effect) => {
            Json(json!({"waiting": shared.ledger.plan(faults)})).into_response()
        }
        Ok(_) => failure(StatusCode::BAD_REQUEST, "a fault without effect", None),
        Err(error) => failure(StatusCode::BAD_REQUEST, &format!("no list of faults: {error}"), None),
    }
}

fn failure(status: StatusCode, message: &str, code: Option<&str>) -> Response {
    let kind = match status.as_u16() {
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    (status, Json(error_body(message, kind, code))).into_response()
}

async fn completions(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => return failure(StatusCode::BAD_REQUEST, &format!("the body is not JSON: {error}"), None),
    };
    let asked = match Asked::read(&body) {
        Ok(asked) => asked,
        Err(message) => return failure(StatusCode::BAD_REQUEST, &message, None),
    };
    let now = Timestamp::now();
    let schema = asked.schema.as_ref().map(|schema| schema.name.as_str());
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    let (sequence, fault) = shared.ledger.begin(schema, hash(&body), key, now);
    let extra = fault.as_ref().and_then(|fault| fault.think_ms).map_or(Duration::ZERO, Duration::from_millis);
    tokio::time::sleep(shared.options.think_time + extra).await;
    if let Some((fault, status)) = fault.as_ref().and_then(|fault| Some((fault, fault.status?))) {
        let mut response = scripted_failure(status);
        if let Some(seconds) = fault.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        shared.ledger.finish(sequence);
        return response;
    }
    if fault.as_ref().is_some_and(|fault| fault.refuse) {
        let content = Content::Refusal("The rehearsal was told to refuse.".to_owned());
        return respond(&shared, sequence, now, &asked, content, fault.as_ref());
    }
    // Long documents take a while, and other requests must not wait for them.
    match tokio::task::spawn_blocking(move || (answer(&asked), asked)).await {
        Ok((answer, asked)) => respond(&shared, sequence, now, &asked, Content::Answer(answer), fault.as_ref()),
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &format!("no answer could be made: {error}"), None),
    }
}

fn scripted_failure(status: u16) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let code = (status == StatusCode::TOO_MANY_REQUESTS).then_some("rate_limit_exceeded");
    failure(status, "the rehearsal was told to fail", code)
}

/// SHA-256 of the messages.
fn hash(body: &Value) -> String {
    let messages = body.get("messages").unwrap_or(&Value::Null).to_string();
    Sha256::digest(messages.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn respond(
    shared: &Arc<Shared>,
    sequence: u64,
    now: Timestamp,
    asked: &Asked,
    content: Content,
    fault: Option<&Fault>,
) -> Response {
    let reply = Reply::new(sequence, now.as_second(), asked, content);
    let (kind, pieces) = if asked.stream {
        let mut events: Vec<String> =
            reply.chunks(asked.include_usage).iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        events.push("data: [DONE]\n\n".to_owned());
        ("text/event-stream", events)
    } else {
        ("application/json", vec![reply.whole().to_string()])
    };
    let pieces = paced(pieces, shared.options.tokens_per_second.filter(|_| asked.stream));
    let end = Arc::clone(shared);
    let body = match fault.and_then(|fault| fault.cut_after_bytes) {
        Some(bytes) => Body::from_stream(cut(pieces, bytes)),
        None => {
            let done = stream::once(async move {
                end.ledger.finish(sequence);
                Ok::<_, Infallible>(String::new())
            });
            Body::from_stream(pieces.map(Ok).chain(done))
        }
    };
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], body).into_response()
}

/// The pieces, each after its share of time.
fn paced(pieces: Vec<String>, tokens_per_second: Option<u32>) -> impl Stream<Item = String> + Send + use<> {
    let pause = tokens_per_second.filter(|pace| *pace > 0).map(|pace| Duration::from_secs(1) * CHUNK_TOKENS / pace);
    stream::iter(pieces).then(move |piece| async move {
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
        piece
    })
}

/// The first so many bytes, then the end of the connection.
fn cut(
    pieces: impl Stream<Item = String> + Send + 'static,
    bytes: usize,
) -> impl Stream<Item = Result<Vec<u8>, std::io::Error>> + Send + 'static {
    let head = pieces.scan(bytes, |left, piece| {
        let part: Vec<u8> = piece.into_bytes().into_iter().take(*left).collect();
        *left = left.saturating_sub(part.len());
        std::future::ready((!part.is_empty()).then_some(Ok(part)))
    });
    let torn = stream::once(async {
        // What was written should leave before the connection is reset.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Err(std::io::Error::other("cut as scripted"))
    });
    head.chain(torn)
}
