//! The management API: functions post to connections, look at them and close them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::json;

use super::connection::{Closing, Connection, NotTaken};
use super::{MESSAGE_MAX_BYTES, Shared};
use crate::gateway::{is_gateway_id, moment};

/// Why a call is refused. The SDKs read the name from the header `x-amzn-ErrorType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error("Missing Authentication Token")]
    Unsigned,
    #[error("Invalid connectionId")]
    BadConnection,
    #[error("the message is no UTF-8 text")]
    NotText,
    #[error("Gone")]
    Gone,
    #[error("the message is over {MESSAGE_MAX_BYTES} bytes")]
    TooLarge,
    #[error("the client does not keep up, and its buffer is full")]
    BufferFull,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, name) = match self {
            Self::Unsigned => (StatusCode::FORBIDDEN, "MissingAuthenticationTokenException"),
            Self::BadConnection | Self::NotText => (StatusCode::BAD_REQUEST, "BadRequestException"),
            Self::Gone => (StatusCode::GONE, "GoneException"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLargeException"),
            Self::BufferFull => (StatusCode::TOO_MANY_REQUESTS, "LimitExceededException"),
        };
        let body = axum::Json(json!({ "message": self.to_string() }));
        (status, [("x-amzn-errortype", name)], body).into_response()
    }
}

pub(super) fn routes() -> MethodRouter<Arc<Shared>> {
    get(look).post(post).delete(close)
}

type Target = Path<(String, String)>;

/// The connection that a call is about.
fn find(
    shared: &Shared,
    method: &Method,
    Path((stage, id)): Target,
    headers: &HeaderMap,
) -> Result<Arc<Connection>, Refusal> {
    shared.usage.note_connection(method, headers);
    // Whose signature it is does not matter here, but a web page that guesses at local ports has none.
    let signed = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with("AWS4-"));
    if !signed || stage != shared.stage {
        return Err(Refusal::Unsigned);
    }
    if !is_gateway_id(&id) {
        return Err(Refusal::BadConnection);
    }
    shared.find(&id).ok_or(Refusal::Gone)
}

async fn post(State(shared): State<Arc<Shared>>, target: Target, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let connection = find(&shared, &Method::POST, target, &parts.headers)?;
    let text = read(body).await?;
    match connection.post(text) {
        Ok(()) => Ok(StatusCode::OK.into_response()),
        Err(NotTaken::Full) => Err(Refusal::BufferFull),
        Err(NotTaken::Gone) => Err(Refusal::Gone),
    }
}

async fn read(body: Body) -> Result<String, Refusal> {
    match Limited::new(body, MESSAGE_MAX_BYTES).collect().await {
        Ok(body) => String::from_utf8(body.to_bytes().into()).map_err(|_| Refusal::NotText),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::TooLarge),
        Err(_) => Err(Refusal::NotText),
    }
}

async fn look(State(shared): State<Arc<Shared>>, target: Target, headers: HeaderMap) -> Result<Response, Refusal> {
    let connection = find(&shared, &Method::GET, target, &headers)?;
    let client = &connection.client;
    let seconds = |at| moment(at).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let body = json!({
        "connectedAt": seconds(client.connected_at),
        "identity": { "sourceIp": client.source_ip, "userAgent": client.user_agent },
        "lastActiveAt": seconds(connection.last_active_at()),
    });
    Ok(axum::Json(body).into_response())
}

async fn close(State(shared): State<Arc<Shared>>, target: Target, headers: HeaderMap) -> Result<Response, Refusal> {
    find(&shared, &Method::DELETE, target, &headers)?.close(Closing::Deleted);
    Ok(StatusCode::NO_CONTENT.into_response())
}
