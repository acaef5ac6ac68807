//! The events of a WebSocket API as API Gateway sends them, and the answers to them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::gateway::{epoch_ms, gateway_id, gateway_time, header_text};

/// The connection as events tell of it.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) source_ip: String,
    pub(super) user_agent: String,
    pub(super) connected_at: SystemTime,
    stage: String,
    account: String,
    host: String,
}

impl Client {
    pub(super) fn new(stage: &str, account: &str, peer: SocketAddr, headers: &HeaderMap) -> Self {
        Self {
            id: gateway_id(),
            source_ip: peer.ip().to_string(),
            user_agent: header_text(headers, &header::USER_AGENT).unwrap_or_default(),
            connected_at: SystemTime::now(),
            stage: stage.to_owned(),
            account: account.to_owned(),
            host: header_text(headers, &header::HOST).unwrap_or_default(),
        }
    }
}

/// When an event happens, and its request id.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) request_id: String,
    pub(super) at: SystemTime,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self { request_id: gateway_id(), at: SystemTime::now() }
    }

    /// Now, and later than an earlier one by a millisecond at least, which is as fine as events tell the time: functions
    /// handle the messages of a connection beside each other, and see by their times which came first.
    pub(super) fn behind(earlier: Option<SystemTime>) -> Self {
        let now = Self::now();
        let next = earlier.and_then(|earlier| earlier.checked_add(Duration::from_millis(1)));
        Self { at: next.map_or(now.at, |next| now.at.max(next)), ..now }
    }
}

fn context(client: &Client, moment: &Moment, event_type: &str, route_key: &str) -> Map<String, Value> {
    let context = json!({
        "routeKey": route_key,
        "eventType": event_type,
        "extendedRequestId": moment.request_id,
        "requestTime": gateway_time(moment.at),
        "messageDirection": "IN",
        "stage": client.stage,
        "connectedAt": epoch_ms(client.connected_at),
        "requestTimeEpoch": epoch_ms(moment.at),
        "identity": { "sourceIp": client.source_ip, "userAgent": client.user_agent },
        "requestId": moment.request_id,
        "domainName": client.host,
        "connectionId": client.id,
        "apiId": "longhaul",
        "accountId": client.account,
    });
    match context {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// A client wants to come in.
pub(super) fn connect(client: &Client, moment: &Moment, parts: &Parts) -> String {
    let (mut headers, mut all_headers) = (BTreeMap::new(), BTreeMap::<&str, Vec<String>>::new());
    for (name, value) in &parts.headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        all_headers.entry(name.as_str()).or_default().push(value.clone());
        // Of several values, the single-valued map has the last.
        headers.insert(name.as_str(), value);
    }
    let mut event = json!({ "headers": headers, "multiValueHeaders": all_headers });
    let (mut query, mut all_query) = (BTreeMap::new(), BTreeMap::<String, Vec<String>>::new());
    for (name, value) in url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()) {
        all_query.entry(name.to_string()).or_default().push(value.to_string());
        query.insert(name.into_owned(), value.into_owned());
    }
    if let Some(event) = event.as_object_mut() {
        if !query.is_empty() {
            event.insert("queryStringParameters".to_owned(), json!(query));
            event.insert("multiValueQueryStringParameters".to_owned(), json!(all_query));
        }
        event.insert("requestContext".to_owned(), Value::Object(context(client, moment, "CONNECT", "$connect")));
        event.insert("isBase64Encoded".to_owned(), json!(false));
    }
    event.to_string()
}

/// A client sent a message.
pub(super) fn message(client: &Client, moment: &Moment, route_key: &str, body: &str) -> String {
    let mut context = context(client, moment, "MESSAGE", route_key);
    context.insert("messageId".to_owned(), json!(moment.request_id));
    json!({ "requestContext": context, "body": body, "isBase64Encoded": false }).to_string()
}

/// A connection has ended.
pub(super) fn disconnect(client: &Client, moment: &Moment, code: u16, reason: &str) -> String {
    let mut context = context(client, moment, "DISCONNECT", "$disconnect");
    context.insert("disconnectStatusCode".to_owned(), json!(code));
    context.insert("disconnectReason".to_owned(), json!(reason));
    let headers = json!({ "Host": client.host, "x-api-key": "", "X-Forwarded-For": "", "x-restapi": "" });
    json!({ "headers": headers, "requestContext": context, "isBase64Encoded": false }).to_string()
}

/// The function's answer to an event.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    status_code: Option<u16>,
    headers: Option<BTreeMap<String, Value>>,
    body: Option<String>,
}

impl Answer {
    /// Reads an answer; one that has not the form of an answer is one without a status.
    pub(super) fn read(payload: &[u8]) -> Self {
        serde_json::from_slice::<Option<Self>>(payload).ok().flatten().unwrap_or_default()
    }

    /// The status. Without one the gateway does not know what the function wants, and fails.
    pub(super) fn status(&self) -> StatusCode {
        self.status_code
            .and_then(|status| StatusCode::from_u16(status).ok())
            .filter(|status| !status.is_informational())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The subprotocol that the function has chosen of those that the client offered.
    pub(super) fn subprotocol(&self) -> Option<HeaderValue> {
        let (_, value) =
            self.headers.as_ref()?.iter().find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-protocol"))?;
        HeaderValue::from_str(value.as_str()?).ok()
    }

    /// The text that goes back to the client.
    pub(super) fn into_body(self) -> Option<String> {
        self.body.filter(|body| !body.is_empty())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed assumption must fail the test")]

    use std::time::UNIX_EPOCH;

    use axum::http::Request;

    use super::*;

    fn client() -> Client {
        Client {
            id: "L0SM9cOFvHcCIhw=".to_owned(),
            source_ip: "127.0.0.1".to_owned(),
            user_agent: "test".to_owned(),
            connected_at: UNIX_EPOCH + Duration::from_millis(1_584_039_838_000),
            stage: "live".to_owned(),
            account: "000000000000".to_owned(),
            host: "127.0.0.1:4511".to_owned(),
        }
    }

    fn moment() -> Moment {
        Moment { request_id: "JKJaXmPLvHcESHA=".to_owned(), at: UNIX_EPOCH + Duration::from_millis(1_584_039_838_390) }
    }

    fn expected_context(event_type: &str, route_key: &str) -> Value {
        json!({
            "routeKey": route_key,
            "eventType": event_type,
            "extendedRequestId": "JKJaXmPLvHcESHA=",
            "requestTime": "12/Mar/2020:19:03:58 +0000",
            "messageDirection": "IN",
            "stage": "live",
            "connectedAt": 1_584_039_838_000_i64,
            "requestTimeEpoch": 1_584_039_838_390_i64,
            "identity": { "sourceIp": "127.0.0.1", "userAgent": "test" },
            "requestId": "JKJaXmPLvHcESHA=",
            "domainName": "127.0.0.1:4511",
            "connectionId": "L0SM9cOFvHcCIhw=",
            "apiId": "longhaul",
            "accountId": "000000000000",
        })
    }

    #[test]
    fn events_have_the_shape_of_the_gateway() {
        let request = Request::builder()
            .uri("/live?token=a%2Bb&token=c&job=1")
            .header("Host", "127.0.0.1:4511")
            .header("Accept", "a")
            .header("Accept", "b");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let event: Value = serde_json::from_str(&connect(&client(), &moment(), &parts)).unwrap();
        let expected = json!({
            "headers": { "accept": "b", "host": "127.0.0.1:4511" },
            "multiValueHeaders": { "accept": ["a", "b"], "host": ["127.0.0.1:4511"] },
            "queryStringParameters": { "job": "1", "token": "c" },
            "multiValueQueryStringParameters": { "job": ["1"], "token": ["a+b", "c"] },
            "requestContext": expected_context("CONNECT", "$connect"),
            "isBase64Encoded": false,
        });
        assert_eq!(event, expected);

        let event: Value = serde_json::from_str(&message(&client(), &moment(), "subscribe", "{}")).unwrap();
        let mut context = expected_context("MESSAGE", "subscribe");
        context["messageId"] = json!("JKJaXmPLvHcESHA=");
        assert_eq!(event, json!({ "requestContext": context, "body": "{}", "isBase64Encoded": false }));

        let event: Value = serde_json::from_str(&disconnect(&client(), &moment(), 1005, "gone")).unwrap();
        let mut context = expected_context("DISCONNECT", "$disconnect");
        context["disconnectStatusCode"] = json!(1005);
        context["disconnectReason"] = json!("gone");
        assert_eq!(event["requestContext"], context);
        assert_eq!(event["headers"]["Host"], "127.0.0.1:4511");
    }

    #[test]
    fn each_message_of_a_connection_has_a_later_time() {
        let ahead = SystemTime::now() + Duration::from_secs(60);
        let mut times = vec![epoch_ms(Moment::behind(None).at)];
        let mut last = Some(ahead);
        for _ in 0..3 {
            let moment = Moment::behind(last);
            times.push(epoch_ms(moment.at));
            last = Some(moment.at);
        }
        assert_eq!(times[1..], [1, 2, 3].map(|ms| epoch_ms(ahead) + ms), "also when the clock was set back");
        assert!(times[0] < times[1]);
    }

    #[test]
    fn answers_without_a_status_are_failures() {
        for (answer, status) in [
            (r#"{"statusCode":200}"#, 200),
            (r#"{"statusCode":401,"body":"no"}"#, 401),
            ("null", 500),
            ("{}", 500),
            (r#""yes""#, 500),
            (r#"{"statusCode":"200"}"#, 500),
            (r#"{"statusCode":101}"#, 500),
            ("not json", 500),
        ] {
            assert_eq!(Answer::read(answer.as_bytes()).status().as_u16(), status, "{answer}");
        }
    }
}
