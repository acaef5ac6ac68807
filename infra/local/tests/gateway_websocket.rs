//! The WebSocket gateway between real clients, a real function process and the SDK of the management API.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed assumption must fail the test"
)]

mod functions_under_test;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use aws_sdk_apigatewaymanagement as management;
use functions_under_test::{PATIENCE, Platform, eventually};
use futures::{SinkExt as _, StreamExt as _};
use longhaul_local::gateway::{FRAME_MAX_BYTES, MESSAGE_MAX_BYTES, WebSocketGateway, WebSocketGatewayConfig, listen};
use management::config::{BehaviorVersion, Credentials, Region, retry::RetryConfig};
use management::error::{ProvideErrorMetadata, SdkError};
use management::primitives::Blob;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

struct Api {
    platform: Platform,
    gateway: WebSocketGateway,
}

impl Api {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut WebSocketGatewayConfig)) -> Self {
        let platform = Platform::start().await;
        let mut config = WebSocketGatewayConfig::new(listen(0).await.unwrap(), "live", platform.add(|_| {}).await);
        config.routes = BTreeSet::from(["subscribe".to_owned()]);
        change(&mut config);
        Self { gateway: WebSocketGateway::start(config).unwrap(), platform }
    }

    /// A client that the function lets in.
    async fn client(&self) -> Socket {
        let order = json!({"do": "answer", "answer": {"statusCode": 200}});
        self.client_with(&order).await.unwrap()
    }

    async fn client_with(&self, order: &Value) -> Result<Socket, Box<Error>> {
        let mut url = url::Url::parse(&self.gateway.url()).unwrap();
        url.query_pairs_mut().append_pair("do", &order.to_string()).append_pair("token", "a+b/c=");
        let (socket, _) = connect_async(url.as_str()).await.map_err(Box::new)?;
        Ok(socket)
    }

    /// A client that is let in, and its connection id.
    async fn known_client(&self) -> (Socket, String) {
        let before = self.platform.events().len();
        let socket = self.client().await;
        let event = self.platform.events_after(before + 1).await.remove(before);
        let id = event["requestContext"]["connectionId"].as_str().unwrap().to_owned();
        let sdk = self.sdk();
        // The handshake is over for the client a moment before it is for the gateway.
        let started = Instant::now();
        while sdk.get_connection().connection_id(&id).send().await.is_err() {
            assert!(started.elapsed() < PATIENCE, "the connection is never known");
        }
        (socket, id)
    }

    fn sdk(&self) -> management::Client {
        let config = management::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .endpoint_url(self.gateway.management_url())
            .retry_config(RetryConfig::disabled())
            .build();
        management::Client::from_conf(config)
    }

    async fn post(&self, id: &str, data: impl Into<Vec<u8>>) -> Result<(), String> {
        let call = self.sdk().post_to_connection().connection_id(id).data(Blob::new(data.into())).send().await;
        call.map(drop).map_err(|error| code(&error))
    }

    async fn last_event(&self, count: usize) -> Value {
        self.platform.events_after(count).await.remove(count - 1)
    }
}

/// The name of the error that the SDK has understood.
fn code<E: ProvideErrorMetadata + std::fmt::Debug>(error: &SdkError<E>) -> String {
    match error {
        SdkError::ServiceError(error) => error.err().code().unwrap_or("none").to_owned(),
        other => panic!("no answer of the service: {other:?}"),
    }
}

async fn next(socket: &mut Socket) -> Message {
    tokio::time::timeout(PATIENCE, socket.next()).await.expect("nothing came").expect("the end came").unwrap()
}

/// The close code with which the connection ends.
async fn close_code(socket: &mut Socket) -> u16 {
    loop {
        if let Message::Close(frame) = next(socket).await {
            return frame.expect("a close frame with a code").code.into();
        }
    }
}

#[tokio::test]
async fn events_of_a_connection_reach_the_function() {
    let api = Api::start().await;
    let mut socket = api.client().await;
    let connect = api.last_event(1).await;
    let context = &connect["requestContext"];
    for (name, value) in
        [("routeKey", "$connect"), ("eventType", "CONNECT"), ("stage", "live"), ("messageDirection", "IN")]
    {
        assert_eq!(context[name], value, "{name}");
    }
    assert_eq!(context["domainName"], api.gateway.address().to_string());
    assert_eq!(connect["queryStringParameters"]["token"], "a+b/c=");
    assert_eq!(connect["headers"]["sec-websocket-version"], "13");
    serde_json::from_value::<aws_lambda_events::apigw::ApiGatewayWebsocketProxyRequest>(connect.clone()).unwrap();

    for (body, route) in [
        (json!({"action": "subscribe", "job": "1"}).to_string(), "subscribe"),
        (json!({"action": "unknown"}).to_string(), "$default"),
        (json!({"action": 7}).to_string(), "$default"),
        ("no json".to_owned(), "$default"),
    ] {
        let before = api.platform.events().len();
        socket.send(Message::text(body.clone())).await.unwrap();
        let event = api.last_event(before + 1).await;
        assert_eq!(event["requestContext"]["routeKey"], route, "{body}");
        assert_eq!(event["requestContext"]["eventType"], "MESSAGE");
        assert_eq!(event["requestContext"]["connectionId"], context["connectionId"]);
        assert_eq!(event["requestContext"]["connectedAt"], context["connectedAt"]);
        assert_eq!(event["body"], body);
        // The function sends each event back whole, and its body is the message.
        assert_eq!(next(&mut socket).await, Message::text(body));
    }

    socket.close(None).await.unwrap();
    let disconnect = api.last_event(6).await;
    assert_eq!(disconnect["requestContext"]["eventType"], "DISCONNECT");
    assert_eq!(disconnect["requestContext"]["disconnectStatusCode"], 1005);
    for name in ["connectionId", "connectedAt"] {
        assert_eq!(disconnect["requestContext"][name], context[name], "{name}");
    }
    assert_eq!(api.gateway.connections(), 0);
}

/// They are handled beside each other; by their times the function knows in which order they came.
#[tokio::test]
async fn messages_that_come_at_once_have_their_times_in_order() {
    let api = Api::start().await;
    let mut socket = api.client().await;
    let mut times = vec![0; 40];
    // As many at once as the function takes.
    for numbers in (0..times.len()).collect::<Vec<_>>().chunks(4) {
        for number in numbers {
            socket.feed(Message::text(json!({"action": "subscribe", "number": number}).to_string())).await.unwrap();
        }
        socket.flush().await.unwrap();
        for _ in numbers {
            next(&mut socket).await;
        }
    }
    for event in api.platform.events_after(41).await.into_iter().skip(1) {
        let body: Value = serde_json::from_str(event["body"].as_str().unwrap()).unwrap();
        let number = usize::try_from(body["number"].as_u64().unwrap()).unwrap();
        times[number] = event["requestContext"]["requestTimeEpoch"].as_u64().unwrap();
    }
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
}

/// Each row: what the function does at `$connect`, and the status that refuses the client.
#[tokio::test]
async fn a_client_comes_in_only_if_the_function_says_so() {
    let api = Api::start().await;
    for (order, status) in [
        (json!({"do": "answer", "answer": {"statusCode": 401}}), 401),
        (json!({"do": "answer", "answer": {"statusCode": 403, "body": "no"}}), 403),
        (json!({"do": "answer", "answer": {}}), 500),
        (json!({"do": "answer", "answer": null}), 500),
        (json!({"do": "fail"}), 500),
        (json!({"do": "kill"}), 500),
    ] {
        match *api.client_with(&order).await.expect_err("let in") {
            Error::Http(response) => assert_eq!(response.status(), status, "{order}"),
            other => panic!("{order}: {other}"),
        }
    }
    let all = api.platform.events();
    assert!(all.iter().all(|event| event["requestContext"]["eventType"] == "CONNECT"), "who was not in does not leave");
    assert_eq!(api.gateway.connections(), 0);
}

#[tokio::test]
async fn requests_that_are_no_handshake_are_refused() {
    let api = Api::start().await;
    let address = api.gateway.address();
    for (path, status) in [("/live", 426), ("/other", 403), ("/", 403), ("/live/more", 403)] {
        let response = reqwest::get(format!("http://{address}{path}")).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
    }
    assert!(api.platform.events().is_empty());
}

#[tokio::test]
async fn the_function_chooses_the_subprotocol() {
    let api = Api::start().await;
    let answer =
        json!({"do": "answer", "answer": {"statusCode": 200, "headers": {"Sec-WebSocket-Protocol": "longhaul"}}});
    let mut url = url::Url::parse(&api.gateway.url()).unwrap();
    url.query_pairs_mut().append_pair("do", &answer.to_string());
    let mut request = url.as_str().into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "longhaul, token.abc".parse().unwrap());
    let (_socket, response) = connect_async(request).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "longhaul");
}

#[tokio::test]
async fn a_failing_message_is_told_to_the_client() {
    let api = Api::start().await;
    let (mut socket, id) = api.known_client().await;
    socket.send(Message::text(json!({"do": "fail"}).to_string())).await.unwrap();
    let told: Value = serde_json::from_str(next(&mut socket).await.to_text().unwrap()).unwrap();
    assert_eq!((&told["message"], &told["connectionId"]), (&json!("Internal server error"), &json!(id)));
    assert!(told["requestId"].is_string());
}

#[tokio::test]
async fn functions_post_look_and_close_through_the_sdk() {
    let api = Api::start().await;
    let (mut socket, id) = api.known_client().await;
    let largest = "é".repeat(MESSAGE_MAX_BYTES / 2);
    for text in ["hello", &largest] {
        api.post(&id, text).await.unwrap();
        assert_eq!(next(&mut socket).await, Message::text(text));
    }
    let seen = api.sdk().get_connection().connection_id(&id).send().await.unwrap();
    assert_eq!(seen.identity().unwrap().source_ip(), Some("127.0.0.1"));
    let age = std::time::SystemTime::try_from(*seen.connected_at().unwrap()).unwrap().elapsed().unwrap();
    assert!(age < PATIENCE, "{age:?}");

    api.sdk().delete_connection().connection_id(&id).send().await.unwrap();
    assert_eq!(close_code(&mut socket).await, 1000);
    socket.flush().await.ok();
    let event = api.last_event(2).await;
    assert_eq!(event["requestContext"]["disconnectStatusCode"], 1000);
    assert_eq!(api.post(&id, "late").await, Err("GoneException".to_owned()));
}

#[tokio::test]
async fn posts_that_cannot_be_taken_are_refused_by_name() {
    let api = Api::start().await;
    let (_socket, id) = api.known_client().await;
    for (id, data, code) in [
        (id.as_str(), vec![b'x'; MESSAGE_MAX_BYTES + 1], "PayloadTooLargeException"),
        (&id, vec![0xff, 0xfe], "BadRequestException"),
        ("not-an-id", b"x".to_vec(), "BadRequestException"),
        ("L0SM9cOFvHcCIhw=", b"x".to_vec(), "GoneException"),
    ] {
        assert_eq!(api.post(id, data).await, Err(code.to_owned()), "{id}");
    }
    let unsigned = reqwest::Client::new()
        .post(format!("{}/@connections/{id}", api.gateway.management_url()))
        .body("x")
        .send()
        .await
        .unwrap();
    assert_eq!(unsigned.status(), 403);
}

#[tokio::test]
async fn a_connection_is_gone_before_the_function_has_let_it_in() {
    let api = Api::start().await;
    let waiting = {
        let order = json!({"do": "sleep", "ms": 700});
        let mut url = url::Url::parse(&api.gateway.url()).unwrap();
        url.query_pairs_mut().append_pair("do", &order.to_string());
        tokio::spawn(async move { connect_async(url.as_str()).await.map(|(socket, _)| socket) })
    };
    let event = api.last_event(1).await;
    let id = event["requestContext"]["connectionId"].as_str().unwrap();
    assert_eq!(api.post(id, "early").await, Err("GoneException".to_owned()));
    waiting.await.unwrap().expect("let in in the end");
}

#[tokio::test]
async fn a_slow_client_gets_429_and_blocks_nobody() {
    let api = Api::start().await;
    let (slow, slow_id) = api.known_client().await;
    let (mut quick, quick_id) = api.known_client().await;
    let text = "x".repeat(MESSAGE_MAX_BYTES);
    let mut posted = 0;
    let refusal = loop {
        let started = Instant::now();
        match api.post(&slow_id, text.as_str()).await {
            Ok(()) => posted += 1,
            Err(code) => break code,
        }
        assert!(started.elapsed() < Duration::from_secs(2), "a post waits for the client");
        assert!(posted < 1000, "nothing is ever refused");
    };
    assert_eq!(refusal, "LimitExceededException");
    api.post(&quick_id, "still here").await.unwrap();
    assert_eq!(next(&mut quick).await, Message::text("still here"));
    // Everything that was taken arrives, in order and once, when the client reads again.
    let mut slow = slow;
    for _ in 0..posted {
        assert_eq!(next(&mut slow).await, Message::text(text.as_str()));
    }
    eventually("room", || Some(())).await;
    api.post(&slow_id, "and on").await.unwrap();
    assert_eq!(next(&mut slow).await, Message::text("and on"));
}

#[tokio::test]
async fn large_messages_come_in_frames_of_the_allowed_size() {
    let api = Api::start().await;
    let (mut socket, _) = api.known_client().await;
    // Three frames of the largest size and a last one: 128 KB in all, and JSON nobody understands.
    let piece = vec![b'x'; FRAME_MAX_BYTES];
    for (opcode, last) in
        [(Data::Text, false), (Data::Continue, false), (Data::Continue, false), (Data::Continue, true)]
    {
        socket.send(Message::Frame(Frame::message(piece.clone(), OpCode::Data(opcode), last))).await.unwrap();
    }
    let event = api.last_event(2).await;
    assert_eq!(event["body"].as_str().unwrap().len(), MESSAGE_MAX_BYTES);
}

/// Each row: what the client sends, and the code that ends its connection.
#[tokio::test]
async fn clients_that_break_the_rules_are_closed() {
    let api = Api::start().await;
    let big = Message::text("x".repeat(FRAME_MAX_BYTES + 1));
    for (name, message, code) in [("a big frame", big, 1009), ("bytes", Message::binary(vec![1, 2, 3]), 1003)] {
        let before = api.platform.events().len();
        let (mut socket, id) = api.known_client().await;
        socket.send(message).await.unwrap();
        assert_eq!(close_code(&mut socket).await, code, "{name}");
        drop(socket);
        let event = api.last_event(before + 2).await;
        assert_eq!(event["requestContext"]["disconnectStatusCode"], code, "{name}");
        assert_eq!(api.post(&id, "late").await, Err("GoneException".to_owned()), "{name}");
    }
}

#[tokio::test]
async fn silence_ends_a_connection_and_traffic_keeps_it() {
    let api = Api::start_with(|config| config.idle_timeout = Duration::from_secs(2)).await;
    let (mut socket, _) = api.known_client().await;
    let started = Instant::now();
    // Longer than silence may last, in steps that also a busy machine takes in that time.
    while started.elapsed() < Duration::from_millis(2_500) {
        socket.send(Message::Ping(Vec::new().into())).await.unwrap();
        assert!(matches!(next(&mut socket).await, Message::Pong(_)));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(close_code(&mut socket).await, 1001);
    drop(socket);
    let event = api.last_event(2).await;
    assert_eq!(event["requestContext"]["disconnectReason"], "Going away: idle timeout");
}

#[tokio::test]
async fn age_ends_a_connection_whatever_goes_over_it() {
    let api = Api::start_with(|config| config.max_age = Duration::from_millis(500)).await;
    let (mut socket, id) = api.known_client().await;
    let talk = async {
        while api.post(&id, "x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (code, ()) = tokio::join!(close_code(&mut socket), talk);
    assert_eq!(code, 1001);
}

#[tokio::test]
async fn a_lost_client_is_told_to_the_function_once() {
    let api = Api::start().await;
    let (socket, id) = api.known_client().await;
    drop(socket);
    let event = api.last_event(2).await;
    assert_eq!(event["requestContext"]["disconnectStatusCode"], 1006);
    assert_eq!(event["requestContext"]["connectionId"], id);
    assert_eq!(api.post(&id, "late").await, Err("GoneException".to_owned()));
    assert_eq!(api.platform.events().len(), 2);
}

#[tokio::test]
async fn clients_are_told_when_the_gateway_goes_down() {
    let api = Api::start().await;
    let (mut socket, _) = api.known_client().await;
    let Api { gateway, platform } = api;
    drop(gateway);
    assert_eq!(close_code(&mut socket).await, 1001);
    drop(platform);
}
