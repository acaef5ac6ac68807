//! The far end of what the WebSocket function calls: the gateway's management API, the issuer's keys, a webhook.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Router, body};
use longhaul::engine::TenantId;
use longhaul_aws::connections::Connection;
use longhaul_local::stack::{AUDIENCE, ISSUER, Issuer};
use longhaul_websocket::WebSocket;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::ground::{Ground, deadline_in, deaf_endpoint, now};

/// What webhooks of the tenant `acme` are signed with; those of `rotating` by the next one, too.
pub(crate) const SECRET: &str = "whsec_dGhlIHNlY3JldCBvZiBhY21lIGluIHRoZSB0ZXN0cw==";
pub(crate) const SECRET_NEXT: &str = "whsec_dGhlIG5leHQgc2VjcmV0IGluIHRoZSB0ZXN0cyBoZXJl";

/// What the gateway answers to posts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// The connection is closed.
    Gone,
    /// Its buffer is full, for so many posts more.
    Full(u32),
    /// The gateway does not work.
    Broken,
    /// We have no right to post.
    Forbidden,
    /// The id is none.
    Malformed,
    /// No answer comes.
    Hangs,
}

/// One call that came in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// The connection, or the webhook's path.
    pub(crate) to: String,
    pub(crate) content_type: String,
    pub(crate) body: Value,
    pub(crate) headers: HeaderMap,
    /// The body as it came.
    pub(crate) bytes: Vec<u8>,
}

#[derive(Default)]
struct Seen {
    calls: Vec<Call>,
    /// When each connection was posted to, whatever became of it.
    posts: BTreeMap<String, Vec<Instant>>,
    /// Connections that were to be closed, in the order of the calls.
    closed: Vec<String>,
    /// Bytes of the largest post.
    largest: usize,
    moods: BTreeMap<String, Mood>,
    /// What the webhook answers, one after the other, and then 204: a status, and seconds of `Retry-After`.
    webhook: Vec<(u16, Option<u64>)>,
}

/// An event as Lambda hands it over.
pub(crate) fn text(event: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(event).unwrap()
}

/// The servers of one test, and the function that calls them.
pub(crate) struct FarEnd {
    pub(crate) ground: Ground,
    pub(crate) function: WebSocket,
    pub(crate) base: String,
    issuer: Issuer,
    seen: Arc<Mutex<Seen>>,
    _folder: tempfile::TempDir,
}

impl FarEnd {
    pub(crate) async fn set_up() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let issuer = Issuer::open(folder.path()).unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let router = Router::new()
            .route("/live/@connections/{id}", post(take_post).delete(take_close))
            .route("/hooks/{name}", post(take_report))
            .with_state(Arc::clone(&seen))
            .merge(issuer.routes().unwrap());
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let ground = Ground::lay().await;
        let function = function(&ground, &base, &[]).await;
        Self { ground, function, base, issuer, seen, _folder: folder }
    }

    /// The same function over a table that does not answer.
    pub(crate) async fn deaf_function(&self) -> WebSocket {
        function(&self.ground, &self.base, &[("AWS_ENDPOINT_URL_DYNAMODB", deaf_endpoint())]).await
    }

    pub(crate) fn token(&self, tenant: &str, lifetime: Duration) -> String {
        self.issuer.mint(tenant, "ada", lifetime).unwrap()
    }

    pub(crate) fn set_mood(&self, connection: &str, mood: Mood) {
        self.seen.lock().unwrap().moods.insert(connection.to_owned(), mood);
    }

    pub(crate) fn webhook_answers(&self, answers: &[u16]) {
        self.webhook_asks(&answers.iter().map(|status| (*status, None)).collect::<Vec<_>>());
    }

    /// As [`FarEnd::webhook_answers`], with what each answer asks the sender to wait.
    pub(crate) fn webhook_asks(&self, answers: &[(u16, Option<u64>)]) {
        self.seen.lock().unwrap().webhook = answers.to_vec();
    }

    /// The same function with some variables changed.
    pub(crate) async fn function_with(&self, changes: &[(&'static str, String)]) -> WebSocket {
        function(&self.ground, &self.base, changes).await
    }

    pub(crate) fn clear_mood(&self, connection: &str) {
        self.seen.lock().unwrap().moods.remove(connection);
    }

    /// How often a connection was posted to so far.
    pub(crate) fn posts(&self, connection: &str) -> usize {
        self.posted(connection).len()
    }

    /// And when.
    pub(crate) fn posted(&self, connection: &str) -> Vec<Instant> {
        self.seen.lock().unwrap().posts.get(connection).cloned().unwrap_or_default()
    }

    /// Connections that were to be closed so far, sorted.
    pub(crate) fn closed(&self) -> Vec<String> {
        let mut closed = self.seen.lock().unwrap().closed.clone();
        closed.sort();
        closed
    }

    /// Bytes of the largest post so far.
    pub(crate) fn largest_post(&self) -> usize {
        self.seen.lock().unwrap().largest
    }

    /// Takes what has come in for one connection or webhook.
    pub(crate) fn take(&self, to: &str) -> Vec<Call> {
        let mut seen = self.seen.lock().unwrap();
        let (taken, left) = seen.calls.drain(..).partition(|call| call.to == to);
        seen.calls = left;
        taken
    }

    /// The bodies of [`FarEnd::take`].
    pub(crate) fn told(&self, connection: &str) -> Vec<Value> {
        self.take(connection).into_iter().map(|call| call.body).collect()
    }

    /// Invokes the function with an event, as the Lambda runtime would.
    pub(crate) async fn invoke(&self, event: Value) -> Value {
        self.function.handle(text(&event), deadline_in(Duration::from_secs(30))).await.unwrap()
    }

    /// A client's handshake with these headers and parameters.
    pub(crate) async fn connect(&self, connection: &str, headers: Value, parameters: Value) -> Value {
        self.invoke(self.handshake(connection, headers, parameters)).await
    }

    /// The event of such a handshake.
    pub(crate) fn handshake(&self, connection: &str, headers: Value, parameters: Value) -> Value {
        let mut event = json!({ "headers": headers, "multiValueHeaders": {} });
        if parameters != Value::Null {
            event["queryStringParameters"] = parameters;
        }
        event["requestContext"] = context(connection, "$connect", "CONNECT");
        event["isBase64Encoded"] = json!(false);
        event
    }

    /// A client of this tenant comes in.
    pub(crate) async fn come_in(&self, connection: &str, tenant: &str) {
        let bearer = format!("Bearer {}", self.token(tenant, Duration::from_secs(600)));
        let answer = self.connect(connection, json!({ "Authorization": bearer }), Value::Null).await;
        assert_eq!(answer, json!({ "statusCode": 200 }));
    }

    /// A client whose token has expired since it came in.
    pub(crate) async fn expired(&self, connection: &str, tenant: &str) -> Connection {
        let at = |seconds: u64| longhaul::engine::Timestamp::from_millis(now().as_millis() - seconds * 1_000);
        let connection = Connection {
            id: connection.to_owned(),
            tenant: tenant.parse::<TenantId>().unwrap(),
            subject: "ada".to_owned(),
            token_expires_at: at(1),
            connected_at: at(600),
            opened: None,
        };
        self.ground.store.put_connection(&connection).await.unwrap();
        connection
    }

    /// A client's message.
    pub(crate) async fn say(&self, connection: &str, text: &str) -> Value {
        self.say_at(connection, text, 1_795_953_600_001).await
    }

    /// A client's message that the gateway took at this time.
    pub(crate) async fn say_at(&self, connection: &str, text: &str, asked_ms: u64) -> Value {
        let mut context = context(connection, "$default", "MESSAGE");
        context["requestTimeEpoch"] = json!(asked_ms);
        context["messageId"] = json!("JKJaXcwCCGwCJlg=");
        self.invoke(json!({ "requestContext": context, "body": text, "isBase64Encoded": false })).await
    }

    /// A client goes.
    pub(crate) async fn go(&self, connection: &str) -> Value {
        self.gone(connection, 1_795_953_600_000).await
    }

    /// Word that a client has gone which the gateway had let in at this time.
    pub(crate) async fn gone(&self, connection: &str, opened: u64) -> Value {
        let mut context = context(connection, "$disconnect", "DISCONNECT");
        context["connectedAt"] = json!(opened);
        context["disconnectStatusCode"] = json!(1_005);
        context["disconnectReason"] = json!("Client-side close frame status not set");
        let headers = json!({ "Host": "127.0.0.1", "x-api-key": "", "X-Forwarded-For": "", "x-restapi": "" });
        self.invoke(json!({ "headers": headers, "requestContext": context, "isBase64Encoded": false })).await
    }
}

async fn function(ground: &Ground, base: &str, changes: &[(&'static str, String)]) -> WebSocket {
    let mut environment = vec![
        ("LONGHAUL_PUSH_ENDPOINT", format!("{base}/live")),
        ("LONGHAUL_WEBHOOK_LOOPBACK", "1".to_owned()),
        (
            "LONGHAUL_WEBHOOK_SECRETS",
            json!({ "acme": SECRET, "rotating": format!("{SECRET_NEXT} {SECRET}") }).to_string(),
        ),
        ("LONGHAUL_JWKS_URL", format!("{base}/.well-known/jwks.json")),
        ("LONGHAUL_JWT_ISSUER", ISSUER.to_owned()),
        ("LONGHAUL_JWT_AUDIENCE", AUDIENCE.to_owned()),
    ];
    environment.extend_from_slice(changes);
    WebSocket::new(ground.store_with(&environment).await).unwrap()
}

fn context(connection: &str, route: &str, kind: &str) -> Value {
    json!({
        "routeKey": route,
        "eventType": kind,
        "extendedRequestId": "JKJaXHwSiGwFq0Q=",
        "requestTime": "29/Nov/2026:12:00:00 +0000",
        "messageDirection": "IN",
        "stage": "live",
        "connectedAt": 1_795_953_600_000_u64,
        "requestTimeEpoch": 1_795_953_600_001_u64,
        "identity": { "sourceIp": "127.0.0.1", "userAgent": "a client" },
        "requestId": "JKJaXHwSiGwFq0Q=",
        "domainName": "127.0.0.1",
        "connectionId": connection,
        "apiId": "longhaul"
    })
}

async fn take_post(State(seen): State<Arc<Mutex<Seen>>>, Path(connection): Path<String>, request: Request) -> Response {
    let call = read(connection.clone(), request).await;
    let mood = {
        let mut seen = seen.lock().unwrap();
        seen.posts.entry(connection.clone()).or_default().push(Instant::now());
        seen.largest = seen.largest.max(call.bytes.len());
        seen.moods.get(&connection).copied()
    };
    if mood == Some(Mood::Hangs) {
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let mut seen = seen.lock().unwrap();
    let refused = |status: StatusCode, name: &'static str| (status, [("x-amzn-errortype", name)], "{}").into_response();
    match seen.moods.get_mut(&connection) {
        Some(Mood::Gone) => return refused(StatusCode::GONE, "GoneException"),
        Some(Mood::Broken) => return refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError"),
        Some(Mood::Full(times)) if *times > 0 => {
            *times -= 1;
            return refused(StatusCode::TOO_MANY_REQUESTS, "LimitExceededException");
        }
        Some(Mood::Forbidden) => return refused(StatusCode::FORBIDDEN, "ForbiddenException"),
        Some(Mood::Malformed) => return refused(StatusCode::BAD_REQUEST, "BadRequestException"),
        Some(Mood::Full(_) | Mood::Hangs) | None => {}
    }
    seen.calls.push(call);
    StatusCode::OK.into_response()
}

async fn take_close(State(seen): State<Arc<Mutex<Seen>>>, Path(connection): Path<String>) -> Response {
    let mood = {
        let mut seen = seen.lock().unwrap();
        seen.closed.push(connection.clone());
        seen.moods.get(&connection).copied()
    };
    match mood {
        Some(Mood::Hangs) => std::future::pending().await,
        Some(Mood::Gone) => (StatusCode::GONE, [("x-amzn-errortype", "GoneException")], "{}").into_response(),
        Some(Mood::Forbidden) => {
            (StatusCode::FORBIDDEN, [("x-amzn-errortype", "ForbiddenException")], "{}").into_response()
        }
        Some(Mood::Full(_) | Mood::Broken | Mood::Malformed) | None => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn take_report(State(seen): State<Arc<Mutex<Seen>>>, Path(name): Path<String>, request: Request) -> Response {
    let call = read(name, request).await;
    let mut seen = seen.lock().unwrap();
    seen.calls.push(call);
    let (status, wait) = if seen.webhook.is_empty() { (204, None) } else { seen.webhook.remove(0) };
    // Where a redirect leads, and more text than anybody wants to keep.
    let body = if status == 204 { String::new() } else { format!("status {status}\u{7} {}", "x".repeat(100_000)) };
    let mut response =
        (StatusCode::from_u16(status).unwrap(), [("location", "/hooks/elsewhere")], body).into_response();
    if let Some(seconds) = wait {
        response.headers_mut().insert("retry-after", seconds.into());
    }
    response
}

async fn read(to: String, request: Request) -> Call {
    let types = request.headers().get_all("content-type").iter();
    let content_type = types.map(|value| value.to_str().unwrap()).collect::<Vec<_>>().join(" and ");
    let headers = request.headers().clone();
    let bytes = body::to_bytes(request.into_body(), usize::MAX).await.unwrap().to_vec();
    Call { to, content_type, body: serde_json::from_slice(&bytes).unwrap(), headers, bytes }
}
