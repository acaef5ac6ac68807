//! How a fault looks on the wire: what DynamoDB and SQS answer then, in the shapes that SDKs know.

use std::future::Future;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde_json::json;

use super::{FaultKind, Hit, Service};
use crate::stores::sqs;

/// The content type of both services' answers.
const DYNAMODB_CONTENT_TYPE: &str = "application/x-amz-json-1.0";

/// The three ways in which DynamoDB says "too much": by the table's own bound, by the service's, by the account's.
const DYNAMODB_THROTTLES: [(&str, &str); 3] = [
    (
        "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        "The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning \
         level with the UpdateTable API.",
    ),
    ("com.amazon.coral.availability#ThrottlingException", "Rate of requests exceeds the allowed throughput."),
    (
        "com.amazonaws.dynamodb.v20120810#RequestLimitExceeded",
        "Throughput exceeds the current throughput limit for your account.",
    ),
];

/// Does the call, or what its fault leaves of it.
pub(crate) async fn around(hit: Option<Hit>, service: Service, call: impl Future<Output = Response>) -> Response {
    let Some(hit) = hit else { return call.await };
    match hit.kind {
        FaultKind::Throttled => throttled(service, hit.roll),
        FaultKind::Failed => failed(service),
        FaultKind::FailedAfter => {
            // What was done stands; its answer is thrown away.
            drop(call.await);
            failed(service)
        }
        FaultKind::Cut => cut(),
        FaultKind::CutAfter => {
            drop(call.await);
            cut()
        }
        FaultKind::Held => held(hit.hold).await,
        FaultKind::HeldAfter => {
            drop(call.await);
            held(hit.hold).await
        }
        FaultKind::Slow => {
            tokio::time::sleep(hit.hold).await;
            call.await
        }
        // These change what the call does and not how it is answered; whoever does the call sees to them.
        FaultKind::Partial | FaultKind::Duplicated => call.await,
    }
}

fn throttled(service: Service, roll: u64) -> Response {
    match service {
        Service::Dynamodb => {
            let which = usize::try_from(roll % 3).unwrap_or_default();
            let (shape, message) = DYNAMODB_THROTTLES.get(which).copied().unwrap_or_default();
            dynamodb(StatusCode::BAD_REQUEST, shape, message)
        }
        Service::Sqs => sqs::refused_as_planned(&sqs::SqsError::Throttled),
    }
}

fn failed(service: Service) -> Response {
    match service {
        Service::Dynamodb => dynamodb(
            StatusCode::INTERNAL_SERVER_ERROR,
            "com.amazonaws.dynamodb.v20120810#InternalServerError",
            "Internal server error",
        ),
        Service::Sqs => sqs::refused_as_planned(&sqs::SqsError::Planned),
    }
}

fn dynamodb(status: StatusCode, shape: &str, message: &str) -> Response {
    let body = json!({"__type": shape, "message": message}).to_string();
    let mut response = (status, body).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(DYNAMODB_CONTENT_TYPE));
    response
}

/// An answer that ends before it has begun: the server gives the connection up when the body breaks.
fn cut() -> Response {
    let broken = stream::iter([Err::<Vec<u8>, _>(std::io::Error::other("cut as planned"))]);
    let mut response = Response::new(Body::from_stream(broken));
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("2"));
    response
}

async fn held(hold: Duration) -> Response {
    tokio::time::sleep(hold).await;
    cut()
}
