//! A whole api in one process: the real router over the real store, which talks to real servers on the loopback
//! (DynamoDB by dynoxide, small ones for SQS and S3), with tokens of a real issuer.
#![allow(dead_code, reason = "each test file uses its own part")]

#[path = "../../../../shared/wire/tests/issuer/mod.rs"]
pub(crate) mod issuer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;
use issuer::{Issuer, SigningKey};
use jsonwebtoken::Algorithm;
use longhaul::engine::{Batch, Entry, Job, JobId, JobState, Journal, Seq, Timestamp};
use longhaul::outside::fresh_nonce;
use longhaul::store::{Append, JobRef, Store, Write};
use longhaul_api::{Service, router, streams};
use longhaul_aws::dynamo::table_definition;
use longhaul_aws::{AwsStore, Config};
use longhaul_engine::job::{JobWrite, Progress};
use longhaul_wire::token::TokenSettings;
use longhaul_wire::{TokenCheck, agents};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt;

pub(crate) const ISSUER: &str = "https://id.example.test/";
pub(crate) const AUDIENCE: &str = "api://runner";

/// Where events come as a stream.
pub(crate) const STREAMS: &str = "https://streams.example.test";

/// Limits of tenants who test them; all others have the usual ones.
const LIMITS: &str = r#"{"tenants": {
    "few-open": {"jobs_open": 3},
    "slow": {"submissions_per_second": 1, "submissions_burst": 2},
    "small": {"body_bytes": 300}
}}"#;

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The last part of a problem's type; empty when it is none.
    pub(crate) fn problem(&self) -> &str {
        self.body["type"].as_str().and_then(|kind| kind.strip_prefix("urn:longhaul:problem:")).unwrap_or_default()
    }

    /// The field or parameter that a problem names.
    pub(crate) fn field(&self) -> &str {
        self.body["field"].as_str().or(self.body["parameter"].as_str()).unwrap_or_default()
    }

    pub(crate) fn job(&self) -> JobId {
        self.body["id"].as_str().unwrap().parse().unwrap()
    }
}

/// What the services were asked, and what queue and bucket hold.
#[derive(Default)]
pub(crate) struct Shelves {
    /// Calls by operation.
    pub(crate) calls: BTreeMap<String, u64>,
    pub(crate) messages: Vec<String>,
    pub(crate) objects: BTreeMap<String, Bytes>,
}

pub(crate) struct World {
    pub(crate) store: AwsStore,
    pub(crate) router: Router,
    /// The function that streams.
    pub(crate) streams: Router,
    pub(crate) shelves: Arc<Mutex<Shelves>>,
    pub(crate) issuer: Issuer,
    key: SigningKey,
    dynamodb: String,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let key = SigningKey::new("k1", Algorithm::EdDSA);
        let issuer = Issuer::start(issuer::key_set(std::slice::from_ref(&key))).await;
        Self::with_issuer(issuer, key).await
    }

    pub(crate) async fn with_issuer(issuer: Issuer, key: SigningKey) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dynamodb = format!("http://{}", listener.local_addr().unwrap());
        let database = dynoxide::Database::memory().unwrap();
        let table = serde_json::from_value(table_definition("longhaul")).unwrap();
        database.create_table(table).unwrap();
        tokio::spawn(dynoxide::server::serve_with_shutdown(listener, database, async {
            let _ = stopped.await;
        }));
        let shelves = Arc::new(Mutex::new(Shelves::default()));
        let front = front_server(Arc::clone(&shelves), dynamodb.clone()).await;
        let config = Config::from_lookup(|name| {
            let value = match name {
                "LONGHAUL_TABLE" => "longhaul".to_owned(),
                "LONGHAUL_QUEUE_URL" => format!("{front}/1/longhaul-jobs"),
                "LONGHAUL_DEAD_LETTER_QUEUE_URL" => format!("{front}/1/longhaul-dead-letters"),
                "LONGHAUL_WEBHOOK_QUEUE_URL" => format!("{front}/1/longhaul-webhooks"),
                "LONGHAUL_TENANT_LIMITS" => LIMITS.to_owned(),
                "LONGHAUL_BUCKET" => "payloads".to_owned(),
                "LONGHAUL_STREAM_URL" => STREAMS.to_owned(),
                "AWS_REGION" => "eu-west-1".to_owned(),
                "AWS_ACCESS_KEY_ID" => "test".to_owned(),
                "AWS_SECRET_ACCESS_KEY" => "test".to_owned(),
                "AWS_ENDPOINT_URL" => front.clone(),
                _ => return None,
            };
            Some(value)
        })
        .unwrap();
        let store = AwsStore::connect(config.clone()).await;
        let settings = || TokenSettings {
            jwks_url: issuer.url(),
            issuer: ISSUER.into(),
            audience: AUDIENCE.into(),
            tenant_claim: "tenant".into(),
            scope_claim: "scope".into(),
        };
        let service = |store| Service::new(store, TokenCheck::new(settings()), agents::shipped().unwrap());
        let router = router(service(store.clone()));
        let mut streaming = config;
        streaming.response_stream = true;
        let streams = streams(service(AwsStore::connect(streaming).await));
        Self { store, router, streams, shelves, issuer, key, dynamodb, _stop: stop }
    }

    pub(crate) fn token(&self, tenant: &str, scopes: &str) -> String {
        self.token_until(tenant, scopes, 4_102_444_800)
    }

    /// A token that is good for some seconds.
    pub(crate) fn token_for(&self, tenant: &str, scopes: &str, seconds: u64) -> String {
        self.token_until(tenant, scopes, longhaul::Clock::of_machine().now().as_seconds() + seconds)
    }

    fn token_until(&self, tenant: &str, scopes: &str, exp: u64) -> String {
        let claims = json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": format!("user-of-{tenant}"), "tenant": tenant, "scope": scopes,
            "exp": exp,
        });
        self.sign(claims.as_object().unwrap())
    }

    /// A token with exactly these claims.
    pub(crate) fn sign(&self, claims: &serde_json::Map<String, Value>) -> String {
        self.key.sign(claims)
    }

    /// A request by a caller of this tenant who may do everything.
    pub(crate) fn by(&self, tenant: &str) -> Caller<'_> {
        let token = self.token(tenant, "jobs:read jobs:write jobs:operate agents:write tenant:admin tenant:erase");
        Caller { world: self, headers: vec![("authorization".into(), format!("Bearer {token}"))] }
    }

    pub(crate) fn anybody(&self) -> Caller<'_> {
        Caller { world: self, headers: Vec::new() }
    }

    pub(crate) fn messages(&self) -> usize {
        self.shelves.lock().unwrap().messages.len()
    }

    /// Calls of an operation that have reached the services.
    pub(crate) fn count(&self, operation: &str) -> u64 {
        self.shelves.lock().unwrap().calls.get(operation).copied().unwrap_or_default()
    }

    /// All calls that have reached the services.
    pub(crate) fn calls(&self) -> u64 {
        self.shelves.lock().unwrap().calls.values().sum()
    }

    /// An item as it stands in the table.
    pub(crate) async fn raw_item(&self, key: &Value) -> Value {
        let call = reqwest::Client::new()
            .post(&self.dynamodb)
            .header("x-amz-target", "DynamoDB_20120810.GetItem")
            .header("content-type", "application/x-amz-json-1.0")
            .header("authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
            .header("x-amz-date", "20260101T000000Z")
            .body(json!({ "TableName": "longhaul", "Key": key, "ConsistentRead": true }).to_string());
        let text = call.send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
    }

    /// Does what a worker does: appends entries and brings the item in line with them.
    pub(crate) async fn drive(&self, tenant: &str, job: JobId, entries: Vec<Entry>) {
        let reference = JobRef { tenant: tenant.parse().unwrap(), job };
        let journal = Journal::read(self.store.journal(job, Seq::FIRST).await.unwrap()).unwrap();
        let now = Timestamp::from_millis(1_769_846_400_000);
        let batch = Batch::new(journal.next(), fresh_nonce(), now, entries);
        assert_eq!(self.store.append(&reference, &batch).await.unwrap(), Append::Written);
        let state = match batch.entries.last().unwrap() {
            Entry::Completed { .. } => JobState::Completed,
            Entry::Failed { .. } => JobState::Failed,
            Entry::Cancelled { .. } => JobState::Cancelled,
            Entry::Waiting { until, .. } => JobState::Waiting { until: *until, seen: batch.next() },
            _ => return,
        };
        let item: Job = self.store.job(&reference).await.unwrap().unwrap();
        let due = if state.is_terminal() { None } else { item.progress.due };
        let progress = Progress { state, due, tail: batch.next(), ..item.progress };
        let write = JobWrite { nonce: fresh_nonce(), last_write: item.last_write, wakes: None, progress };
        assert!(matches!(self.store.write_job(&reference, &write).await.unwrap(), Write::Written { .. }));
    }
}

/// Somebody with headers.
#[derive(Clone)]
pub(crate) struct Caller<'a> {
    world: &'a World,
    headers: Vec<(String, String)>,
}

impl Caller<'_> {
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, Vec::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, body.to_string().into_bytes()).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if !body.is_empty() && !self.headers.iter().any(|(name, _)| name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Body::from(body)).unwrap();
        read(self.world.router.clone().oneshot(request).await.unwrap()).await
    }
}

/// Reads an answer and checks what every answer must have.
pub(crate) async fn read(response: axum::response::Response) -> Answer {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let nothing = parts.status == StatusCode::NO_CONTENT;
    let body: Value = match nothing {
        true => Value::Null,
        false => serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text:?}")),
    };
    let answer = Answer { status: parts.status, headers: parts.headers, body, text };
    assert!(!answer.header("x-request-id").is_empty());
    if answer.status.as_u16() >= 400 {
        assert_eq!(answer.header("content-type"), "application/problem+json", "{}", answer.text);
        assert_eq!(answer.body["status"], json!(answer.status.as_u16()));
        assert_eq!(answer.body["request_id"], json!(answer.header("x-request-id")));
        assert!(!answer.problem().is_empty(), "{}", answer.text);
    } else if !nothing {
        assert!(answer.header("content-type").starts_with("application/json"));
    }
    answer
}

/// One server for all of AWS: it counts calls by operation, hands DynamoDB's on to dynoxide, and is SQS and S3 itself as
/// far as the api needs them.
async fn front_server(shelves: Arc<Mutex<Shelves>>, dynamodb: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let client = reqwest::Client::new();
    let routes = Router::new().fallback(move |method: Method, uri: http::Uri, headers: HeaderMap, body: Bytes| {
        let (shelves, client, dynamodb) = (Arc::clone(&shelves), client.clone(), dynamodb.clone());
        async move {
            let target = headers.get("x-amz-target").map_or("", |value| value.to_str().unwrap()).to_owned();
            if let Some((service, operation)) = target.split_once('.') {
                *shelves.lock().unwrap().calls.entry(operation.to_owned()).or_default() += 1;
                if service.starts_with("DynamoDB") {
                    let call = client.post(dynamodb).headers(headers).body(body).send().await.unwrap();
                    return (call.status(), call.bytes().await.unwrap());
                }
            }
            shelves.lock().unwrap().answer(&method, uri.path(), body)
        }
    });
    // S3 objects may be larger than what axum takes by default.
    let routes = routes.layer(axum::extract::DefaultBodyLimit::disable());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

impl Shelves {
    fn answer(&mut self, method: &Method, path: &str, body: Bytes) -> (StatusCode, Bytes) {
        match *method {
            Method::POST => {
                let request: Value = serde_json::from_slice(&body).unwrap();
                self.messages.push(request["MessageBody"].as_str().unwrap().to_owned());
                let answer = json!({ "MessageId": self.messages.len().to_string(), "MD5OfMessageBody": "" });
                (StatusCode::OK, Bytes::from(answer.to_string()))
            }
            Method::PUT => {
                self.objects.insert(path.to_owned(), body);
                (StatusCode::OK, Bytes::new())
            }
            Method::GET => match self.objects.get(path) {
                Some(object) => (StatusCode::OK, object.clone()),
                None => (StatusCode::NOT_FOUND, Bytes::new()),
            },
            _ => (StatusCode::NOT_IMPLEMENTED, Bytes::new()),
        }
    }
}
