//! An append over real HTTP: asked once without the SDK, and through it where that came to nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use longhaul::store::{Append, JobRef, Store};
use longhaul_aws::{AwsStore, Clients, Config};
use longhaul_engine::{Batch, Entry, JobId, Nonce, Seq, Timestamp, limits};
use serde_json::{Value, json};
use uuid::Uuid;

/// Longer than the first try may take.
const SILENT: Duration = Duration::from_millis(3_500);

/// How the table's service answers a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    Done,
    /// The condition failed: this stands there.
    Stands(Nonce),
    /// The condition failed, and what stood there has gone.
    Gone,
    /// An error by its name, with its status.
    Error(u16, &'static str),
    /// It is done, and nobody hears of it in time.
    DoneLate,
}

#[derive(Default)]
struct Service {
    answers: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<(HeaderMap, Value)>>,
}

async fn answer(State(service): State<Arc<Service>>, headers: HeaderMap, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap();
    let mut item = request["Item"].clone();
    service.seen.lock().unwrap().push((headers, request));
    let next = service.answers.lock().unwrap().pop_front().expect("an answer for each request");
    let error = |status: u16, name: &str, more: Value| {
        let mut body = json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{name}"), "message": "as told" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
    };
    match next {
        Answer::Done => "{}".into_response(),
        Answer::Stands(nonce) => {
            item["nonce"] = json!({ "S": nonce.as_uuid().to_string() });
            error(400, "ConditionalCheckFailedException", json!({ "Item": item }))
        }
        Answer::Gone => error(400, "ConditionalCheckFailedException", json!({})),
        Answer::Error(status, name) => error(status, name, json!({})),
        Answer::DoneLate => {
            tokio::time::sleep(SILENT).await;
            "{}".into_response()
        }
    }
}

async fn store(answers: &[Answer]) -> (Arc<Service>, AwsStore) {
    let service = Arc::new(Service { answers: Mutex::new(answers.iter().copied().collect()), ..Service::default() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let routes = Router::new().fallback(answer).with_state(Arc::clone(&service));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    let environment = BTreeMap::from([
        ("LONGHAUL_TABLE", "jobs"),
        ("LONGHAUL_QUEUE_URL", "http://127.0.0.1/jobs"),
        ("LONGHAUL_DEAD_LETTER_QUEUE_URL", "http://127.0.0.1/dead-letters"),
        ("LONGHAUL_BUCKET", "payloads"),
        ("AWS_ENDPOINT_URL_DYNAMODB", address.as_str()),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", "of-the-role"),
    ]);
    let config = Config::from_lookup(|name| environment.get(name).map(|value| (*value).to_owned())).unwrap();
    let clients = Arc::new(Clients::load(&config).await);
    (service, AwsStore::new(clients, Arc::new(config)))
}

fn batch(nonce: Nonce) -> Batch {
    let entries = vec![Entry::Completed { output: json!("done") }];
    Batch {
        v: limits::PROTOCOL_VERSION,
        at: Seq(3),
        nonce,
        written_at: Timestamp::from_millis(1_795_953_600_000),
        entries,
    }
}

/// What the service says to one request after the other, and what the append says.
async fn check(answers: &[Answer], expected: &str) {
    let mine = Nonce::from_uuid(Uuid::from_u128(1));
    let (service, store) = store(answers).await;
    let job = JobRef { tenant: "acme".parse().unwrap(), job: JobId::from_uuid(Uuid::from_u128(7)) };
    let said = match store.append(&job, &batch(mine)).await {
        Ok(Append::Written) => "written".to_owned(),
        Ok(Append::Conflict(found)) => format!("{} at {} stands there", found.nonce.as_uuid(), found.at),
        Err(error) => longhaul_aws::telemetry::chain(&error),
    };
    assert!(said.contains(expected), "{answers:?} became {said}");
    let seen = service.seen.lock().unwrap();
    assert_eq!(seen.len(), answers.len(), "{answers:?}");
    for (headers, request) in seen.iter() {
        assert_eq!(headers["x-amz-target"], "DynamoDB_20120810.PutItem");
        assert_eq!(headers["content-type"], "application/x-amz-json-1.0");
        assert_eq!(headers["x-amz-security-token"], "of-the-role");
        assert!(headers["authorization"].to_str().unwrap().contains("/eu-west-1/dynamodb/aws4_request"));
        // The SDK's request and ours are the same.
        assert_eq!(*request, seen[0].1);
    }
    assert_eq!(store.counts(), BTreeMap::from([("PutItem".to_owned(), 1)]), "{answers:?}");
}

#[tokio::test]
async fn each_answer_to_an_append_has_its_meaning() {
    use Answer::{Done, Error, Gone, Stands};
    let (mine, other) = (Nonce::from_uuid(Uuid::from_u128(1)), Nonce::from_uuid(Uuid::from_u128(2)));
    let conflict = format!("{} at 3 stands there", other.as_uuid());
    check(&[Done], "written").await;
    check(&[Stands(other)], &conflict).await;
    check(&[Stands(mine)], "written").await;
    check(&[Gone], "does not exist").await;
    for (status, name) in [
        (400, "ThrottlingException"),
        (400, "ProvisionedThroughputExceededException"),
        (400, "TransactionConflictException"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailable"),
    ] {
        check(&[Error(status, name), Done], "written").await;
        check(&[Error(status, name), Error(status, name), Done], "written").await;
        // The try before it had gone through.
        check(&[Error(status, name), Stands(mine)], "written").await;
        check(&[Error(status, name), Stands(other)], &conflict).await;
    }
    // Not to be had by trying again.
    for name in ["ValidationException", "AccessDeniedException", "ResourceNotFoundException"] {
        check(&[Error(400, name)], name).await;
    }
    // Four tries in all, whoever makes them.
    check(&[Error(500, "InternalServerError"); 4], "InternalServerError").await;
}

#[tokio::test]
async fn an_append_that_was_done_and_not_answered_in_time_knows_its_echo() {
    let mine = Nonce::from_uuid(Uuid::from_u128(1));
    check(&[Answer::DoneLate, Answer::Stands(mine)], "written").await;
}
