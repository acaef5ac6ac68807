//! The HTTP side of SQS: AWS JSON 1.0, one path, the action named in `X-Amz-Target`.

use std::future::Future;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::SqsError;
use super::{Sqs, planned};
use crate::stores::faults::{self, Service};

/// One mebibyte of messages can take six times the bytes when JSON escapes each character.
const BODY_MAX_BYTES: usize = 8 * 1024 * 1024;

const CONTENT_TYPE: &str = "application/x-amz-json-1.0";
const TARGET: &str = "x-amz-target";
const TARGET_PREFIX: &str = "AmazonSQS.";
const TRACE: &str = "x-amzn-trace-id";
const QUERY_ERROR: &str = "x-amzn-query-error";
const REQUEST_ID: &str = "x-amzn-requestid";

/// The service as a router: everything is a POST, to the root or to the path of a queue URL.
pub(super) fn router(sqs: Sqs) -> Router {
    Router::new()
        .route("/", post(handle))
        .route("/{account}/{queue}", post(handle))
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .with_state(sqs)
}

async fn handle(State(sqs): State<Sqs>, headers: HeaderMap, body: Bytes) -> Response {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let target = text(TARGET).unwrap_or_default();
    let Some(action) = target.strip_prefix(TARGET_PREFIX) else {
        return refusal(&SqsError::UnknownOperation(target.to_owned()));
    };
    let trace = text(TRACE).map(ToOwned::to_owned);
    sqs.counts.add(action);
    let hit = sqs.faults.hit(Service::Sqs, action, &body);
    let done = async {
        let outcome = planned::dispatched(&sqs, action, &body, trace, hit).await;
        outcome.unwrap_or_else(|fault| refusal(&fault))
    };
    faults::around(hit, Service::Sqs, done).await
}

pub(super) async fn dispatch(
    sqs: &Sqs,
    action: &str,
    body: &[u8],
    trace: Option<String>,
) -> Result<Response, SqsError> {
    match action {
        "SendMessage" => reply(body, |request| sqs.send_message(request, trace)).await,
        "SendMessageBatch" => reply(body, |request| sqs.send_message_batch(request, trace)).await,
        "ReceiveMessage" => reply(body, |request| sqs.receive_message(request)).await,
        "DeleteMessage" => reply(body, |request| sqs.delete_message(request)).await,
        "DeleteMessageBatch" => reply(body, |request| sqs.delete_message_batch(request)).await,
        "ChangeMessageVisibility" => reply(body, |request| sqs.change_message_visibility(request)).await,
        "ChangeMessageVisibilityBatch" => reply(body, |request| sqs.change_message_visibility_batch(request)).await,
        "CreateQueue" => reply(body, |request| sqs.create_queue_action(request)).await,
        "GetQueueUrl" => reply(body, |request| sqs.get_queue_url(request)).await,
        "ListQueues" => reply(body, |request| sqs.list_queues(request)).await,
        "ListDeadLetterSourceQueues" => reply(body, |request| sqs.list_dead_letter_source_queues(request)).await,
        "GetQueueAttributes" => reply(body, |request| sqs.get_queue_attributes(request)).await,
        "SetQueueAttributes" => reply(body, |request| sqs.set_queue_attributes(request)).await,
        "PurgeQueue" => reply(body, |request| sqs.purge_queue(request)).await,
        "DeleteQueue" => reply(body, |request| sqs.delete_queue(request)).await,
        "TagQueue" => reply(body, |request| sqs.tag_queue(request)).await,
        "UntagQueue" => reply(body, |request| sqs.untag_queue(request)).await,
        "ListQueueTags" => reply(body, |request| sqs.list_queue_tags(request)).await,
        "StartMessageMoveTask" => reply(body, |request| sqs.start_message_move_task(request)).await,
        "CancelMessageMoveTask" => reply(body, |request| sqs.cancel_message_move_task(request)).await,
        "ListMessageMoveTasks" => reply(body, |request| sqs.list_message_move_tasks(request)).await,
        unknown => Err(SqsError::UnknownOperation(unknown.to_owned())),
    }
}

async fn reply<Q, A, F>(body: &[u8], action: impl FnOnce(Q) -> F) -> Result<Response, SqsError>
where
    Q: DeserializeOwned,
    A: Serialize,
    F: Future<Output = Result<A, SqsError>>,
{
    let request = serde_json::from_slice(body).map_err(SqsError::Malformed)?;
    let answer = action(request).await?;
    let json = serde_json::to_vec(&answer).map_err(SqsError::Malformed)?;
    Ok(with_headers(StatusCode::OK, json))
}

#[derive(Serialize)]
struct Refusal<'a> {
    #[serde(rename = "__type")]
    shape: &'a str,
    message: String,
}

fn refusal(fault: &SqsError) -> Response {
    if !fault.shape().sender_fault {
        tracing::error!(error = fault as &dyn std::error::Error, "a queue request failed");
    }
    refused(fault)
}

/// A fault as it looks on the wire.
pub(in crate::stores) fn refused(fault: &SqsError) -> Response {
    let shape = fault.shape();
    let (status, side) = if shape.sender_fault {
        (StatusCode::BAD_REQUEST, "Sender")
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, "Receiver")
    };
    let body = Refusal { shape: shape.shape, message: fault.to_string() };
    // Two strings always become JSON; an empty body would still carry the code in its header.
    let mut response = with_headers(status, serde_json::to_vec(&body).unwrap_or_default());
    if let Ok(code) = HeaderValue::from_str(&format!("{};{side}", shape.code)) {
        response.headers_mut().insert(QUERY_ERROR, code);
    }
    response
}

fn with_headers(status: StatusCode, json: Vec<u8>) -> Response {
    let mut response = (status, json).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    if let Ok(id) = HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()) {
        headers.insert(REQUEST_ID, id);
    }
    response
}
