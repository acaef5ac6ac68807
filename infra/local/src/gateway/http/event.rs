//! From an HTTP request to the event that API Gateway sends (HTTP API, payload format 2.0).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::SystemTime;

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::gateway::{epoch_ms, gateway_time, header_text};

/// The header that carries the X-Ray trace.
const TRACE: &str = "x-amzn-trace-id";

/// What the gateway knows of a request besides the request itself.
#[derive(Debug)]
pub(super) struct Arrival<'a> {
    pub(super) request_id: &'a str,
    pub(super) peer: SocketAddr,
    pub(super) host: &'a str,
    pub(super) at: SystemTime,
    pub(super) api_id: &'a str,
}

/// The finished event.
#[derive(Debug)]
pub(super) struct Event(Value);

impl Event {
    /// The trace that the caller is in, if it is in one.
    pub(super) fn trace(&self) -> Option<&str> {
        self.0.get("headers")?.get(TRACE)?.as_str()
    }

    pub(super) fn into_json(self) -> String {
        self.0.to_string()
    }
}

/// Builds the event. The types of `aws_lambda_events` would write fields that API Gateway does not send.
pub(super) fn build(arrival: &Arrival<'_>, account: &str, parts: &Parts, body: &[u8]) -> Event {
    let Arrival { request_id, peer, host, at, api_id } = arrival;
    let path = parts.uri.path();
    let raw_query = parts.uri.query().unwrap_or_default();
    let mut event = Map::new();
    event.insert("version".to_owned(), json!("2.0"));
    event.insert("routeKey".to_owned(), json!("$default"));
    event.insert("rawPath".to_owned(), json!(path));
    event.insert("rawQueryString".to_owned(), json!(raw_query));
    let cookies = cookies(&parts.headers);
    if !cookies.is_empty() {
        event.insert("cookies".to_owned(), json!(cookies));
    }
    event.insert("headers".to_owned(), headers(&parts.headers, *peer));
    let query = query(raw_query);
    if !query.is_empty() {
        event.insert("queryStringParameters".to_owned(), json!(query));
    }
    event.insert(
        "requestContext".to_owned(),
        json!({
            "accountId": account,
            "apiId": api_id,
            "domainName": host,
            "domainPrefix": host.split('.').next().unwrap_or(host),
            "http": {
                "method": parts.method.as_str(),
                "path": path,
                "protocol": format!("{:?}", parts.version),
                "sourceIp": peer.ip().to_string(),
                "userAgent": header_text(&parts.headers, &header::USER_AGENT).unwrap_or_default(),
            },
            "requestId": request_id,
            "routeKey": "$default",
            "stage": "$default",
            "time": gateway_time(*at),
            "timeEpoch": epoch_ms(*at),
        }),
    );
    let (text, encoded) = encode(&parts.headers, body);
    if let Some(text) = text {
        event.insert("body".to_owned(), json!(text));
    }
    event.insert("isBase64Encoded".to_owned(), json!(encoded));
    Event(Value::Object(event))
}

/// All headers but the cookies; several of one name joined by a comma; and those that the gateway itself adds.
fn headers(headers: &HeaderMap, peer: SocketAddr) -> Value {
    let mut all: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in headers {
        if *name == header::COOKIE {
            continue;
        }
        let value = String::from_utf8_lossy(value.as_bytes());
        all.entry(name.as_str())
            .and_modify(|before| {
                before.push(',');
                before.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    let ip = peer.ip().to_string();
    all.entry("x-forwarded-for")
        .and_modify(|before| {
            before.push_str(", ");
            before.push_str(&ip);
        })
        .or_insert(ip);
    all.insert("x-forwarded-proto", "http".to_owned());
    json!(all)
}

fn cookies(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .flat_map(|value| {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            text.split(';').map(|cookie| cookie.trim().to_owned()).collect::<Vec<_>>()
        })
        .filter(|cookie| !cookie.is_empty())
        .collect()
}

/// The decoded query; several values of one name joined by a comma.
fn query(raw: &str) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(raw.as_bytes()) {
        all.entry(name.into_owned())
            .and_modify(|before| {
                before.push(',');
                before.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    all
}

/// The body as text, and whether that is Base64. HTTP APIs decide by the content type; what says it is text and is
/// no UTF-8 is encoded too, since the event could not carry it otherwise.
fn encode(headers: &HeaderMap, body: &[u8]) -> (Option<String>, bool) {
    if body.is_empty() {
        return (None, false);
    }
    match std::str::from_utf8(body) {
        Ok(text) if is_text(headers) => (Some(text.to_owned()), false),
        Ok(_) | Err(_) => (Some(STANDARD.encode(body)), true),
    }
}

fn is_text(headers: &HeaderMap) -> bool {
    // A compressed body is bytes, whatever it will be when it is unpacked.
    if headers.contains_key(header::CONTENT_ENCODING) {
        return false;
    }
    let Some(content_type) = header_text(headers, &header::CONTENT_TYPE) else {
        return true;
    };
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind.starts_with("text/")
        || matches!(kind.as_str(), "application/json" | "application/javascript" | "application/xml")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed assumption must fail the test")]

    use std::time::{Duration, UNIX_EPOCH};

    use axum::http::Request;

    use super::*;

    fn event(request: axum::http::request::Builder, body: &[u8]) -> Value {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let arrival = Arrival {
            request_id: "JKJaXmPLvHcESHA=",
            peer: "127.0.0.1:40000".parse().unwrap(),
            host: "127.0.0.1:4510",
            at: UNIX_EPOCH + Duration::from_millis(1_584_039_838_390),
            api_id: "longhaul",
        };
        serde_json::from_str(&build(&arrival, "000000000000", &parts, body).into_json()).unwrap()
    }

    #[test]
    fn a_full_request_has_the_shape_of_the_gateway() {
        let request = Request::builder()
            .method("POST")
            .uri("/v1/jobs/a%20b?label=x&label=y%26z&empty=")
            .header("Host", "127.0.0.1:4510")
            .header("Content-Type", "application/json")
            .header("User-Agent", "test")
            .header("Accept", "a/b")
            .header("Accept", "c/d")
            .header("Cookie", "one=1; two=2")
            .header("Cookie", "three=3")
            .header("X-Forwarded-For", "192.0.2.1");
        let expected = json!({
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": "/v1/jobs/a%20b",
            "rawQueryString": "label=x&label=y%26z&empty=",
            "cookies": ["one=1", "two=2", "three=3"],
            "headers": {
                "accept": "a/b,c/d",
                "content-type": "application/json",
                "host": "127.0.0.1:4510",
                "user-agent": "test",
                "x-forwarded-for": "192.0.2.1, 127.0.0.1",
                "x-forwarded-proto": "http",
            },
            "queryStringParameters": { "empty": "", "label": "x,y&z" },
            "requestContext": {
                "accountId": "000000000000",
                "apiId": "longhaul",
                "domainName": "127.0.0.1:4510",
                "domainPrefix": "127",
                "http": {
                    "method": "POST",
                    "path": "/v1/jobs/a%20b",
                    "protocol": "HTTP/1.1",
                    "sourceIp": "127.0.0.1",
                    "userAgent": "test",
                },
                "requestId": "JKJaXmPLvHcESHA=",
                "routeKey": "$default",
                "stage": "$default",
                "time": "12/Mar/2020:19:03:58 +0000",
                "timeEpoch": 1_584_039_838_390_i64,
            },
            "body": "{\"a\":1}",
            "isBase64Encoded": false,
        });
        assert_eq!(event(request, b"{\"a\":1}"), expected);
    }

    #[test]
    fn a_bare_request_leaves_out_what_it_does_not_have() {
        let bare = event(Request::builder().uri("/"), b"");
        for absent in ["cookies", "queryStringParameters", "body", "pathParameters"] {
            assert!(bare.get(absent).is_none(), "{absent}");
        }
        assert_eq!(bare["rawQueryString"], "");
    }

    #[test]
    fn bodies_are_encoded_by_their_type() {
        for (content_type, encoding, body, encoded) in [
            (Some("application/json"), None, &b"{}"[..], false),
            (Some("Application/JSON; charset=utf-8"), None, b"{}", false),
            (Some("text/plain"), None, "é".as_bytes(), false),
            (Some("application/problem+json"), None, b"{}", false),
            (None, None, b"{}", false),
            (Some("application/x-www-form-urlencoded"), None, b"a=1", true),
            (Some("application/octet-stream"), None, b"a", true),
            (Some("application/json"), Some("gzip"), b"a", true),
            (Some("application/json"), None, b"\xff\xfe", true),
        ] {
            let mut request = Request::builder().uri("/");
            if let Some(content_type) = content_type {
                request = request.header("content-type", content_type);
            }
            if let Some(encoding) = encoding {
                request = request.header("content-encoding", encoding);
            }
            let event = event(request, body);
            assert_eq!(event["isBase64Encoded"], encoded, "{content_type:?} {encoding:?}");
            let sent = event["body"].as_str().unwrap();
            let arrived = if encoded { STANDARD.decode(sent).unwrap() } else { sent.as_bytes().to_vec() };
            assert_eq!(arrived, body, "{content_type:?} {encoding:?}");
        }
    }
}
