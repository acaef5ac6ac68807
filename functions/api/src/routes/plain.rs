//! What everybody may see.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::json;

use crate::answer::json;

/// Says that the function answers. It asks nobody else: what they are worth shows in the calls themselves.
#[utoipa::path(
    get, path = "/healthz", tag = "service", operation_id = "health", security(()),
    responses((status = 200, description = "The service answers.", body = inline(std::collections::BTreeMap<String, String>),
        example = json!({ "status": "ok" })))
)]
pub(crate) async fn health() -> Response {
    json(StatusCode::OK, &json!({ "status": "ok" }))
}

/// The description as JSON; the same for the life of a process.
static DESCRIPTION: LazyLock<String> =
    // The description is plain data with text keys: writing it down cannot fail.
    LazyLock::new(|| serde_json::to_string(&super::openapi()).unwrap_or_default());

/// Gives the description of the interface.
pub(crate) async fn description() -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "public, max-age=300")];
    (headers, DESCRIPTION.as_str()).into_response()
}
