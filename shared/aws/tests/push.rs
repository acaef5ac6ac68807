//! What the gateway's answers mean, over the wire.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic: that is how it fails")]

use std::collections::BTreeMap;

use longhaul_aws::push::{Push, Pushed};
use longhaul_aws::{Clients, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A gateway on the loopback that answers one request as told, and gives back what it was sent.
async fn gateway(listener: TcpListener, status: &'static str, kind: &'static str) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.windows(5).any(|window| window == b"hello") {
        let mut part = [0_u8; 4_096];
        let read = stream.read(&mut part).await.unwrap();
        assert!(read > 0, "the request ended early: {}", String::from_utf8_lossy(&request));
        request.extend(part.iter().take(read));
    }
    let answer = format!("HTTP/1.1 {status}\r\n{kind}content-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8_lossy(&request).into_owned()
}

async fn clients() -> std::sync::Arc<Clients> {
    let environment = BTreeMap::from([
        ("LONGHAUL_TABLE", "jobs"),
        ("LONGHAUL_QUEUE_URL", "http://127.0.0.1/jobs"),
        ("LONGHAUL_DEAD_LETTER_QUEUE_URL", "http://127.0.0.1/dead-letters"),
        ("LONGHAUL_BUCKET", "payloads"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ]);
    let config = Config::from_lookup(|name| environment.get(name).map(|value| (*value).to_owned())).unwrap();
    std::sync::Arc::new(Clients::load(&config).await)
}

#[tokio::test]
async fn each_answer_has_its_meaning() {
    let clients = clients().await;
    for (status, kind, expected) in [
        ("200 OK", "", Some(Pushed::Sent)),
        ("410 Gone", "x-amzn-errortype: GoneException\r\n", Some(Pushed::Gone)),
        ("400 Bad Request", "x-amzn-errortype: BadRequestException\r\n", Some(Pushed::Gone)),
        ("413 Payload Too Large", "x-amzn-errortype: PayloadTooLargeException\r\n", Some(Pushed::TooLarge)),
        ("429 Too Many Requests", "x-amzn-errortype: LimitExceededException\r\n", Some(Pushed::Throttled)),
        ("403 Forbidden", "x-amzn-errortype: ForbiddenException\r\n", None),
        ("500 Internal Server Error", "", None),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/live", listener.local_addr().unwrap());
        let push = Push::new(&clients, &endpoint);
        let (pushed, request) = tokio::join!(push.post("L0SM9cOFvHcCIhw=", "hello"), gateway(listener, status, kind));
        assert!(request.starts_with("POST /live/@connections/L0SM9cOFvHcCIhw%3D"), "{request}");
        match (pushed, expected) {
            (Ok(pushed), Some(expected)) => assert_eq!(pushed, expected, "{status}"),
            (Err(error), None) => assert_eq!(error.connection, "L0SM9cOFvHcCIhw=", "{status}"),
            (pushed, expected) => assert!(pushed.is_err() && expected.is_none(), "{status} became {pushed:?}"),
        }
    }
}

#[tokio::test]
async fn a_gateway_that_is_not_there_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/live", listener.local_addr().unwrap());
    drop(listener);
    assert!(Push::new(&clients().await, &endpoint).post("one=", "hello").await.is_err());
}
