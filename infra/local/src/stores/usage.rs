//! Which right was used by whom: what a signed call asks for, and of what.
//!
//! On AWS each function has a role of its own, here an access key of its own, so that what the functions do can be held
//! to what their roles allow. `GET /calls` tells it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

/// More than all rights of all functions; a caller that makes up names cannot fill the memory.
const RIGHTS_MAX: usize = 1_024;
/// What DynamoDB takes as a request; nothing that is read here is larger.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
const TARGET: &str = "x-amz-target";

/// A right that was used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Right {
    /// The access key that signed the call.
    pub by: String,
    /// The action as policies write it, such as `dynamodb:PutItem`.
    pub action: String,
    /// Of what: `table`, `table/index/NAME`, `queue/NAME`, `bucket`, `bucket/FOLDER/*`, `connections/METHOD`.
    pub of: String,
    /// The kind of the partition key that is written or deleted, which policies can be bound to: `SESSION#*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
}

/// A service whose calls are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    DynamoDb,
    Sqs,
    S3,
}

/// The rights that were used, and how often. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Usage(Arc<Mutex<BTreeMap<Right, u64>>>);

#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    right: Right,
    calls: u64,
}

impl Usage {
    /// Notes one call.
    fn note(&self, right: Right) {
        let mut rights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(calls) = rights.get_mut(&right) {
            *calls += 1;
        } else if rights.len() < RIGHTS_MAX {
            rights.insert(right, 1);
        }
    }

    /// Notes a call of the management API of connections.
    pub(crate) fn note_connection(&self, method: &Method, headers: &HeaderMap) {
        if let Some(by) = signer(headers) {
            let action = "execute-api:ManageConnections".to_owned();
            self.note(Right { by, action, of: format!("connections/{method}"), keys: None });
        }
    }

    /// The address at which it is told.
    pub(super) fn routes(&self) -> Router {
        let usage = self.clone();
        let tell = async move || {
            let rights = usage.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Json(rights.into_iter().map(|(right, calls)| Told { right, calls }).collect::<Vec<_>>())
        };
        Router::new().route("/calls", get(tell))
    }

    /// Has the calls of a service's router noted.
    pub(super) fn beside(&self, of: Of, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state((self.clone(), of), look))
    }
}

async fn look(State((usage, of)): State<(Usage, Of)>, request: Request, next: Next) -> Response {
    let Some(by) = signer(request.headers()) else { return next.run(request).await };
    if of == Of::S3 {
        if let Some((action, of)) = of_objects(request.method(), request.uri()) {
            usage.note(Right { by, action: action.to_owned(), of, keys: None });
        }
        return next.run(request).await;
    }
    let target = request.headers().get(TARGET).and_then(|value| value.to_str().ok());
    let Some(action) = target.and_then(|target| target.split_once('.')).map(|(_, action)| action.to_owned()) else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    for right in of_body(&by, of, &action, &body) {
        usage.note(right);
    }
    next.run(Request::from_parts(parts, Body::from(body))).await
}

/// Whose signature a call bears (`Credential=KEY/date/region/service/aws4_request`).
fn signer(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (_, credential) = text.split_once("Credential=")?;
    credential.split_once('/').map(|(key, _)| key.to_owned())
}

/// The part of a request that says what it is about.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Asked<'a> {
    #[serde(borrow, default)]
    index_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    queue_url: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    item: Option<Keyed<'a>>,
    #[serde(borrow, default)]
    key: Option<Keyed<'a>>,
}

/// A transaction: AWS asks for the rights of its parts, and for none of its own. A part is named as its call, without `Item`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Transaction<'a> {
    #[serde(borrow, default)]
    transact_items: Vec<BTreeMap<Cow<'a, str>, Asked<'a>>>,
}

#[derive(Deserialize)]
struct Keyed<'a> {
    #[serde(borrow, default, rename = "PK")]
    partition: Option<Attribute<'a>>,
}

#[derive(Deserialize)]
struct Attribute<'a> {
    #[serde(borrow, default, rename = "S")]
    text: Option<Cow<'a, str>>,
}

/// The rights that a call needs. The service itself says what is wrong with a body that cannot be read.
fn of_body(by: &str, of: Of, action: &str, body: &[u8]) -> Vec<Right> {
    if action != "TransactWriteItems" {
        return vec![right(by, of, action, serde_json::from_slice(body).unwrap_or_default())];
    }
    let asked: Transaction<'_> = serde_json::from_slice(body).unwrap_or_default();
    let parts = asked.transact_items.into_iter().flatten();
    parts.map(|(part, asked)| right(by, of, &format!("{part}Item"), asked)).collect()
}

fn right(by: &str, of: Of, action: &str, asked: Asked<'_>) -> Right {
    let (service, of) = match of {
        Of::Sqs => {
            let queue = asked.queue_url.as_deref().and_then(|url| url.rsplit('/').next()).unwrap_or_default();
            ("sqs", format!("queue/{queue}"))
        }
        Of::DynamoDb | Of::S3 => match asked.index_name {
            Some(index) => ("dynamodb", format!("table/index/{index}")),
            None => ("dynamodb", "table".to_owned()),
        },
    };
    let written = matches!(action, "PutItem" | "UpdateItem" | "DeleteItem");
    let key = asked.item.or(asked.key).and_then(|keyed| keyed.partition?.text).filter(|_| written);
    let keys = key.map(|key| format!("{}#*", key.split('#').next().unwrap_or_default()));
    // A batch needs no right of its own.
    let action = match of.starts_with("queue/") {
        true => action.strip_suffix("Batch").unwrap_or(action),
        false => action,
    };
    Right { by: by.to_owned(), action: format!("{service}:{action}"), of, keys }
}

/// The action of a call of S3, and what it is about. Keys are told by their first folder, which policies are bound to.
fn of_objects(method: &Method, uri: &Uri) -> Option<(&'static str, String)> {
    let path = uri.path().trim_start_matches('/');
    let key = path.split_once('/').map(|(_, key)| key).filter(|key| !key.is_empty());
    let folder = |key: &str| format!("bucket/{}/*", key.split('/').next().unwrap_or_default());
    match (method.as_str(), key) {
        ("GET" | "HEAD", Some(key)) => Some(("s3:GetObject", folder(key))),
        ("PUT", Some(key)) => Some(("s3:PutObject", folder(key))),
        ("DELETE", Some(key)) => Some(("s3:DeleteObject", folder(key))),
        ("GET" | "HEAD", None) => Some(("s3:ListBucket", "bucket".to_owned())),
        // Several at once: their keys are in the body, and all of one function lie in one folder.
        ("POST", None) if uri.query().is_some_and(|query| query.contains("delete")) => {
            Some(("s3:DeleteObject", folder("jobs")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use super::*;

    #[test]
    fn what_a_call_is_about_is_read_from_its_body() {
        let rows = [
            (
                Of::DynamoDb,
                "PutItem",
                r#"{"TableName":"t","Item":{"x":{"N":"1"},"PK":{"S":"CONN#a"}}}"#,
                "dynamodb:PutItem table CONN#*",
            ),
            (
                Of::DynamoDb,
                "DeleteItem",
                r#"{"Key":{"PK":{"S":"SESSION#\u0031"}}}"#,
                "dynamodb:DeleteItem table SESSION#*",
            ),
            (Of::DynamoDb, "UpdateItem", r#"{"Key":{"PK":{"S":"TENANT#a"}}}"#, "dynamodb:UpdateItem table TENANT#*"),
            (Of::DynamoDb, "GetItem", r#"{"Key":{"PK":{"S":"JOB#1"}}}"#, "dynamodb:GetItem table -"),
            (Of::DynamoDb, "Query", r#"{"IndexName":"due"}"#, "dynamodb:Query table/index/due -"),
            (Of::DynamoDb, "Query", "{", "dynamodb:Query table -"),
            (
                Of::DynamoDb,
                "TransactWriteItems",
                r#"{"TransactItems":[{"Put":{"Item":{"PK":{"S":"JOB#1"}}}},{"Delete":{"Key":{"PK":{"S":"TENANT#a"}}}}]}"#,
                "dynamodb:PutItem table JOB#*, dynamodb:DeleteItem table TENANT#*",
            ),
            (
                Of::Sqs,
                "SendMessage",
                r#"{"QueueUrl":"http://h/000/longhaul-jobs","MessageBody":"x"}"#,
                "sqs:SendMessage queue/longhaul-jobs -",
            ),
            (
                Of::Sqs,
                "DeleteMessageBatch",
                r#"{"QueueUrl":"http://h/000/longhaul-dead-letters","Entries":[]}"#,
                "sqs:DeleteMessage queue/longhaul-dead-letters -",
            ),
        ];
        for (of, action, body, wanted) in rows {
            let rights = of_body("k", of, action, body.as_bytes());
            let told = rights
                .iter()
                .map(|Right { action, of, keys, .. }| format!("{action} {of} {}", keys.as_deref().unwrap_or("-")));
            assert_eq!(told.collect::<Vec<_>>().join(", "), wanted);
        }
    }

    #[test]
    fn what_a_call_of_s3_is_about_is_read_from_its_address() {
        let rows = [
            (Method::GET, "/b/jobs/1/a", Some("s3:GetObject bucket/jobs/*")),
            (Method::PUT, "/b/jobs/1/a?x-id=PutObject", Some("s3:PutObject bucket/jobs/*")),
            (Method::DELETE, "/b/jobs/1/a", Some("s3:DeleteObject bucket/jobs/*")),
            (Method::GET, "/b?list-type=2&prefix=jobs", Some("s3:ListBucket bucket")),
            (Method::GET, "/b/?list-type=2", Some("s3:ListBucket bucket")),
            (Method::POST, "/b/?delete", Some("s3:DeleteObject bucket/jobs/*")),
            (Method::PUT, "/b", None),
        ];
        for (method, uri, wanted) in rows {
            let found = of_objects(&method, &uri.parse().unwrap()).map(|(action, of)| format!("{action} {of}"));
            assert_eq!(found.as_deref(), wanted, "{method} {uri}");
        }
    }

    #[test]
    fn the_signer_is_the_key_of_the_signature() {
        let mut headers = HeaderMap::new();
        assert_eq!(signer(&headers), None);
        let text =
            "AWS4-HMAC-SHA256 Credential=me/20261130/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0";
        headers.insert(header::AUTHORIZATION, text.parse().unwrap());
        assert_eq!(signer(&headers).as_deref(), Some("me"));
    }
}
