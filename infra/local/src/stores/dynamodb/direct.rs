//! The calls of the hot path, answered by the engine in process.
//!
//! The engine's own server reads each body several times over, and stands behind another connection. A job's step is one
//! `PutItem`, so that the items' own actions are handed to the engine as they are read; whatever else there is, and
//! everything that it refuses for another reason than a condition, its server answers, in its own words. A request that
//! was refused has changed nothing, so it can be made again, and of a batch the same puts and deletes can be.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dynoxide::{Database, DynoxideError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

/// The engine's answer; none where its server is to be asked.
pub(super) fn answer(database: &Database, action: &str, body: &[u8]) -> Option<Response> {
    match action {
        "PutItem" => call(body, |request| database.put_item(request)),
        "GetItem" => call(body, |request| database.get_item(request)),
        "UpdateItem" => call(body, |request| database.update_item(request)),
        "DeleteItem" => call(body, |request| database.delete_item(request)),
        "Query" => call(body, |request| database.query(request)),
        "BatchWriteItem" => call(body, |request| database.batch_write_item(request)),
        _ => None,
    }
}

fn call<Request: DeserializeOwned, Answer: Serialize>(
    body: &[u8],
    run: impl FnOnce(Request) -> Result<Answer, DynoxideError>,
) -> Option<Response> {
    let request = serde_json::from_slice(body).ok()?;
    match run(request) {
        // Something was done, so the server must not be asked again, come what may.
        Ok(answer) => Some(match serde_json::to_vec(&answer) {
            Ok(body) => respond(StatusCode::OK, body),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }),
        Err(refused @ DynoxideError::ConditionalCheckFailedException(..)) => {
            Some(respond(StatusCode::BAD_REQUEST, refused.to_json().into_bytes()))
        }
        Err(_) => None,
    }
}

/// The answer to a write that asked for nothing back.
pub(super) fn done() -> Response {
    respond(StatusCode::OK, b"{}".to_vec())
}

fn respond(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    let id = Uuid::now_v7().simple().to_string();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert("x-amzn-requestid", id);
    }
    response
}
