//! Faults on order that change what a call does: batches that fail in part, messages that come twice. And the calls of
//! the same process, which have no wire on which a fault could be answered.

use std::future::Future;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::http::dispatch;
use super::{QueueName, ReceiptHandle, Sqs, SqsError};
use crate::stores::faults::{FaultKind, Hit};

/// Answers of a batch and of a receive are read back whole; a receive has ten messages of a mebibyte at most, and JSON
/// can take six bytes for one.
const ANSWER_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Does a call over HTTP, as its fault has it.
pub(super) async fn dispatched(
    sqs: &Sqs,
    action: &str,
    body: &[u8],
    trace: Option<String>,
    hit: Option<Hit>,
) -> Result<Response, SqsError> {
    match hit.map(|hit| (hit.kind, hit)) {
        Some((FaultKind::Partial, hit)) => in_part(sqs, action, body, trace, hit).await,
        Some((FaultKind::Duplicated, _)) if action == "ReceiveMessage" => {
            let answer = dispatch(sqs, action, body, trace).await?;
            let (answer, said) = read(answer).await?;
            come_again(sqs, body, &said).await?;
            Ok(answer)
        }
        Some((FaultKind::Duplicated, _)) => {
            dispatch(sqs, action, body, trace.clone()).await?;
            dispatch(sqs, action, body, trace).await
        }
        Some(_) | None => dispatch(sqs, action, body, trace).await,
    }
}

/// Does a batch without the entries that fail, and names those in the answer.
async fn in_part(sqs: &Sqs, action: &str, body: &[u8], trace: Option<String>, hit: Hit) -> Result<Response, SqsError> {
    let mut request: Value = serde_json::from_slice(body).map_err(SqsError::Malformed)?;
    let entries = request.get_mut("Entries").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
    let count = entries.len();
    let (struck, rest): (Vec<_>, Vec<_>) =
        entries.into_iter().enumerate().partition(|(place, _)| hit.strikes(*place, count));
    let failed = struck.into_iter().map(|(_, entry)| {
        let fault = SqsError::Planned;
        json!({"Id": entry.get("Id"), "SenderFault": false, "Code": fault.shape().code, "Message": fault.to_string()})
    });
    let mut said = json!({"Successful": [], "Failed": []});
    let mut answer = Response::new(Body::empty());
    if !rest.is_empty() {
        if let Some(fields) = request.as_object_mut() {
            fields.insert("Entries".to_owned(), rest.into_iter().map(|(_, entry)| entry).collect());
        }
        let body = serde_json::to_vec(&request).map_err(SqsError::Malformed)?;
        (answer, said) = read(dispatch(sqs, action, &body, trace).await?).await?;
    }
    if let Some(list) = said.get_mut("Failed").and_then(Value::as_array_mut) {
        list.extend(failed);
    }
    let text = serde_json::to_vec(&said).map_err(SqsError::Malformed)?;
    let (mut head, _) = answer.into_parts();
    head.status = StatusCode::OK;
    head.headers.remove(axum::http::header::CONTENT_LENGTH);
    Ok(Response::from_parts(head, Body::from(text)))
}

/// An answer, and what it says.
async fn read(answer: Response) -> Result<(Response, Value), SqsError> {
    let (head, body) = answer.into_parts();
    // It was made in memory and holds no stream that could break.
    let bytes = to_bytes(body, ANSWER_MAX_BYTES).await.unwrap_or_default();
    let said = serde_json::from_slice(&bytes).map_err(SqsError::Malformed)?;
    Ok((Response::from_parts(head, Body::from(bytes)), said))
}

/// Makes visible at once what was just received.
async fn come_again(sqs: &Sqs, request: &[u8], answer: &Value) -> Result<(), SqsError> {
    let request: Value = serde_json::from_slice(request).map_err(SqsError::Malformed)?;
    let queue = QueueName::from_url(request.get("QueueUrl").and_then(Value::as_str).unwrap_or_default())?;
    let messages = answer.get("Messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let receipts: Vec<ReceiptHandle> = messages
        .iter()
        .filter_map(|message| message.get("ReceiptHandle").and_then(Value::as_str).map(ReceiptHandle::new))
        .collect();
    sqs.set_visibility(&queue, &receipts, Duration::ZERO).await.map(|_| ())
}

/// Does a call of this process, or what its fault leaves of it.
pub(super) async fn around<T>(
    hit: Option<Hit>,
    call: impl Future<Output = Result<T, SqsError>>,
) -> Result<T, SqsError> {
    let Some(hit) = hit else { return call.await };
    match hit.kind {
        FaultKind::Throttled => Err(SqsError::Throttled),
        FaultKind::Failed | FaultKind::Cut => Err(SqsError::Planned),
        FaultKind::Held => {
            tokio::time::sleep(hit.hold).await;
            Err(SqsError::Planned)
        }
        FaultKind::FailedAfter | FaultKind::CutAfter => {
            call.await?;
            Err(SqsError::Planned)
        }
        FaultKind::HeldAfter => {
            call.await?;
            tokio::time::sleep(hit.hold).await;
            Err(SqsError::Planned)
        }
        FaultKind::Slow => {
            tokio::time::sleep(hit.hold).await;
            call.await
        }
        FaultKind::Partial | FaultKind::Duplicated => call.await,
    }
}

/// The receipts of a batch that its fault spares, and whether any is not spared.
pub(super) fn spared(hit: Option<Hit>, receipts: &[ReceiptHandle]) -> (Vec<ReceiptHandle>, bool) {
    let Some(hit) = hit.filter(|hit| hit.kind == FaultKind::Partial) else { return (receipts.to_vec(), false) };
    let kept = receipts.iter().enumerate().filter(|(place, _)| !hit.strikes(*place, receipts.len()));
    let kept: Vec<_> = kept.map(|(_, receipt)| receipt.clone()).collect();
    let struck = kept.len() < receipts.len();
    (kept, struck)
}
