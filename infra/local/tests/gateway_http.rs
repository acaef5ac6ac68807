//! The HTTP gateway in front of a real function process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed assumption must fail the test"
)]

mod functions_under_test;

use std::time::Duration;

use axum::routing::get;
use functions_under_test::Platform;
use longhaul_local::gateway::{BODY_MAX_BYTES, HttpGateway, HttpGatewayConfig, listen};
use longhaul_local::lambda::functions::FunctionConfig;
use reqwest::header::{COOKIE, HeaderValue, SET_COOKIE};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};

struct Api {
    platform: Platform,
    gateway: HttpGateway,
    client: Client,
}

impl Api {
    async fn start() -> Self {
        Self::start_with(|_| {}, |_| {}).await
    }

    async fn start_with(
        function: impl FnOnce(&mut FunctionConfig),
        gateway: impl FnOnce(&mut HttpGatewayConfig),
    ) -> Self {
        let platform = Platform::start().await;
        let mut config = HttpGatewayConfig::new(listen(0).await.unwrap(), platform.add(function).await);
        gateway(&mut config);
        let gateway = HttpGateway::start(config).unwrap();
        Self { platform, gateway, client: Client::new() }
    }

    fn request(&self, method: Method, path: &str, order: &Value) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.gateway.url())).header("x-do", order.to_string())
    }

    async fn ordered(&self, order: &Value) -> Response {
        self.request(Method::GET, "/", order).send().await.unwrap()
    }
}

async fn message(response: Response) -> (u16, Value) {
    let id = response.headers().get("apigw-requestid").expect("every answer has a request id");
    assert_eq!(id.len(), 16);
    let status = response.status().as_u16();
    (status, response.json().await.unwrap())
}

#[tokio::test]
async fn a_request_reaches_the_function_as_the_gateway_sends_it() {
    let api = Api::start().await;
    let mut request = api
        .request(Method::PUT, "/v1/jobs/a%2Fb?label=x&label=y&q=%C3%A9", &json!({"do": "mirror"}))
        .header("content-type", "application/json")
        .header("accept", "one/two")
        .header("accept", "three/four")
        .header(COOKIE, HeaderValue::from_static("a=1; b=2"))
        .body(r#"{"input":"é"}"#)
        .build()
        .unwrap();
    *request.timeout_mut() = Some(Duration::from_secs(10));
    let response = api.client.execute(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let request_id = response.headers()["apigw-requestid"].to_str().unwrap().to_owned();
    let event: Value = response.json().await.unwrap();
    for (pointer, value) in [
        ("/version", json!("2.0")),
        ("/rawPath", json!("/v1/jobs/a%2Fb")),
        ("/rawQueryString", json!("label=x&label=y&q=%C3%A9")),
        ("/queryStringParameters", json!({"label": "x,y", "q": "é"})),
        ("/cookies", json!(["a=1", "b=2"])),
        ("/headers/accept", json!("one/two,three/four")),
        ("/headers/host", json!(api.gateway.address().to_string())),
        ("/requestContext/http/method", json!("PUT")),
        ("/requestContext/http/sourceIp", json!("127.0.0.1")),
        ("/requestContext/requestId", json!(request_id)),
        ("/requestContext/stage", json!("$default")),
        ("/body", json!(r#"{"input":"é"}"#)),
        ("/isBase64Encoded", json!(false)),
    ] {
        assert_eq!(event.pointer(pointer), Some(&value), "{pointer} of {event}");
    }
    assert!(event.pointer("/headers/cookie").is_none());
    let library: Result<aws_lambda_events::apigw::ApiGatewayV2httpRequest, _> = serde_json::from_value(event);
    assert_eq!(library.unwrap().request_context.http.method, "PUT");
}

#[tokio::test]
async fn bytes_go_both_ways() {
    let api = Api::start().await;
    let response = api
        .request(Method::POST, "/", &json!({"do": "mirror"}))
        .header("content-type", "application/octet-stream")
        .body(vec![0, 159, 146, 150, 255])
        .send()
        .await
        .unwrap();
    let event: Value = response.json().await.unwrap();
    assert_eq!((&event["body"], &event["isBase64Encoded"]), (&json!("AJ+Slv8="), &json!(true)));
    let answer = json!({"do": "answer", "answer": {
        "statusCode": 201,
        "headers": {"content-type": "application/pdf", "x-text": "t"},
        "cookies": ["a=1; HttpOnly", "b=2"],
        "body": "AJ+Slv8=",
        "isBase64Encoded": true,
    }});
    let response = api.ordered(&answer).await;
    assert_eq!(response.status(), 201);
    assert_eq!(response.headers()["content-type"], "application/pdf");
    assert_eq!(response.headers()["x-text"], "t");
    let cookies: Vec<_> = response.headers().get_all(SET_COOKIE).iter().collect();
    assert_eq!(cookies, ["a=1; HttpOnly", "b=2"]);
    assert_eq!(response.bytes().await.unwrap().as_ref(), [0, 159, 146, 150, 255]);
}

#[tokio::test]
async fn failures_get_the_answers_of_the_gateway() {
    let api = Api::start_with(|config| config.timeout = Duration::from_millis(400), |_| {}).await;
    let internal = json!({"message": "Internal Server Error"});
    for (order, status, body) in [
        (json!({"do": "fail"}), 500, &internal),
        (json!({"do": "exit"}), 500, &internal),
        (json!({"do": "sleep", "ms": 60_000}), 500, &internal),
        (json!({"do": "big answer"}), 500, &internal),
        (json!({"do": "answer", "answer": {"statusCode": "many"}}), 500, &internal),
        (json!({"do": "answer", "answer": {"no": "status"}}), 200, &json!({"no": "status"})),
    ] {
        assert_eq!(message(api.ordered(&order).await).await, (status, body.clone()), "{order}");
    }
}

#[tokio::test]
async fn a_slow_function_is_given_up_and_runs_on() {
    let api = Api::start_with(|_| {}, |config| config.integration_timeout = Duration::from_millis(300)).await;
    let response = api.ordered(&json!({"do": "sleep", "ms": 600})).await;
    assert_eq!(message(response).await, (503, json!({"message": "Service Unavailable"})));
    let instances = api.platform.functions.instances();
    assert_eq!(instances.len(), 1);
    assert!(!instances[0].request_ids.is_empty(), "the invocation is still under way");
}

#[tokio::test]
async fn a_busy_function_is_429() {
    let api = Api::start_with(|config| config.max_concurrency = 1, |_| {}).await;
    let held = api.request(Method::GET, "/", &json!({"do": "sleep", "ms": 500}));
    let held = tokio::spawn(async move { held.send().await.unwrap().status() });
    api.platform.events_after(1).await;
    let refused = api.ordered(&json!({})).await;
    assert_eq!(message(refused).await, (429, json!({"message": "Too Many Requests"})));
    assert_eq!(held.await.unwrap(), 200);
}

/// Each row: how the body is sent, and its size.
#[tokio::test]
async fn oversize_bodies_are_413_and_reach_nobody() {
    let api = Api::start().await;
    // The first is over the gateway's limit, the second within it and over what an invocation can carry.
    for bytes in [BODY_MAX_BYTES + 1, 7 * 1024 * 1024] {
        let request = api.request(Method::POST, "/", &json!({})).header("content-type", "text/plain");
        let response = request.body(vec![b'x'; bytes]).send().await.unwrap();
        assert_eq!(message(response).await, (413, json!({"message": "Request Entity Too Large"})), "{bytes}");
    }
    assert!(api.platform.events().is_empty());
}

#[tokio::test]
async fn hosts_that_no_address_can_have_are_400() {
    let api = Api::start().await;
    for host in ["a b", "x.127.0.0.1.999", "[::1", "a^b"] {
        let response = api.request(Method::GET, "/", &json!({})).header("host", host).send().await.unwrap();
        assert_eq!(message(response).await.0, 400, "{host}");
    }
    assert!(api.platform.events().is_empty());
}

#[tokio::test]
async fn requests_without_a_path_are_400() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let api = Api::start().await;
    for line in ["OPTIONS *", "CONNECT 127.0.0.1:80"] {
        let mut stream = tokio::net::TcpStream::connect(api.gateway.address()).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{line}: {answer}");
    }
    assert!(api.platform.events().is_empty());
}

#[tokio::test]
async fn the_callers_own_routes_come_first() {
    let routes = axum::Router::new().route("/.well-known/jwks.json", get(async || r#"{"keys":[]}"#));
    let api = Api::start_with(|_| {}, |config| config.routes = routes).await;
    let url = format!("{}/.well-known/jwks.json", api.gateway.url());
    assert_eq!(api.client.get(url).send().await.unwrap().text().await.unwrap(), r#"{"keys":[]}"#);
    assert!(api.platform.events().is_empty());
    assert_eq!(api.ordered(&json!({"do": "mirror"})).await.status(), 200);
}

#[tokio::test]
async fn other_origins_may_call_only_when_told_so() {
    for (permissive, allowed) in [(false, None), (true, Some("*"))] {
        let api = Api::start_with(|_| {}, |config| config.permissive_cors = permissive).await;
        let preflight = api
            .request(Method::OPTIONS, "/v1/jobs", &json!({"do": "mirror"}))
            .header("origin", "https://example.com")
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,idempotency-key")
            .send()
            .await
            .unwrap();
        let header = |name: &str| preflight.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header("access-control-allow-origin").as_deref(), allowed);
        let names = header("access-control-allow-headers");
        assert_eq!(names.as_deref(), allowed.map(|_| "authorization,idempotency-key"));
        assert_eq!(api.platform.events().len(), usize::from(!permissive), "a preflight is the gateway's own business");
    }
}
