//! From a function's answer to an HTTP response (payload format 2.0).

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

/// Why an answer cannot be passed on; the caller of the API is only told 500.
#[derive(Debug, thiserror::Error)]
pub(super) enum Malformed {
    #[error("it is no JSON, or a field has the wrong type")]
    Json(#[source] serde_json::Error),
    #[error("{0} is no HTTP status of a response")]
    Status(u16),
    #[error("header {0:?} is no HTTP header")]
    Header(String),
    #[error("the body is said to be Base64 and is not")]
    Base64(#[source] base64::DecodeError),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status_code: u16,
    headers: Option<BTreeMap<String, Value>>,
    cookies: Option<Vec<String>>,
    body: Option<String>,
    is_base64_encoded: Option<bool>,
}

/// Headers that belong to one connection, not to the message; the server sets its own.
const CONNECTION_HEADERS: [HeaderName; 5] =
    [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::TE, header::UPGRADE];

/// Reads the answer to a request of this method. That to a HEAD has no body, and says the length of the one that a GET
/// would have: there the function alone can know it.
pub(super) fn read_to(method: &Method, answer: &[u8]) -> Result<Response, Malformed> {
    let mut response = read(answer)?;
    if method == Method::HEAD {
        let value: Value = serde_json::from_slice(answer).map_err(Malformed::Json)?;
        let headers = value.get("headers").and_then(Value::as_object).into_iter().flatten();
        let mut lengths = headers.filter(|(name, _)| name.eq_ignore_ascii_case(header::CONTENT_LENGTH.as_str()));
        let length = lengths.next().and_then(|(_, length)| length.as_str()?.parse::<u64>().ok());
        if let Some(length) = length {
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        *response.body_mut() = Body::empty();
    }
    Ok(response)
}

/// Reads an answer. One without a status code is taken as the body of a successful JSON response, as the gateway does.
pub(super) fn read(answer: &[u8]) -> Result<Response, Malformed> {
    let value: Value = serde_json::from_slice(answer).map_err(Malformed::Json)?;
    if value.get("statusCode").is_none() {
        return Ok(bare(&value));
    }
    let Answer { status_code, headers, cookies, body, is_base64_encoded } =
        serde_json::from_value(value).map_err(Malformed::Json)?;
    let status = StatusCode::from_u16(status_code)
        .ok()
        .filter(|status| !status.is_informational())
        .ok_or(Malformed::Status(status_code))?;
    let body = body.unwrap_or_default();
    let body = if is_base64_encoded == Some(true) {
        STANDARD.decode(body).map_err(Malformed::Base64)?
    } else {
        body.into_bytes()
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    *response.headers_mut() = read_headers(headers.unwrap_or_default(), cookies.unwrap_or_default())?;
    if !body.is_empty() {
        let default = HeaderValue::from_static("text/plain;charset=UTF-8");
        response.headers_mut().entry(header::CONTENT_TYPE).or_insert(default);
        *response.body_mut() = Body::from(body);
    }
    Ok(response)
}

fn bare(value: &Value) -> Response {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn read_headers(headers: BTreeMap<String, Value>, cookies: Vec<String>) -> Result<HeaderMap, Malformed> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let value = match value {
            Value::String(text) => text,
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return Err(Malformed::Header(name)),
        };
        insert(&mut map, name, &value)?;
    }
    for cookie in cookies {
        insert(&mut map, header::SET_COOKIE.to_string(), &cookie)?;
    }
    for name in CONNECTION_HEADERS {
        map.remove(name);
    }
    Ok(map)
}

fn insert(map: &mut HeaderMap, name: String, value: &str) -> Result<(), Malformed> {
    let header = HeaderName::try_from(&name).ok().zip(HeaderValue::from_str(value).ok());
    let (header, value) = header.ok_or(Malformed::Header(name))?;
    map.append(header, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed assumption must fail the test")]

    use serde_json::json;

    use super::*;

    #[test]
    fn malformed_answers_are_refused() {
        for answer in [
            "not json".to_owned(),
            json!({"statusCode": "many"}).to_string(),
            json!({"statusCode": 99}).to_string(),
            json!({"statusCode": 101}).to_string(),
            json!({"statusCode": 70_000}).to_string(),
            json!({"statusCode": 200, "body": {"an": "object"}}).to_string(),
            json!({"statusCode": 200, "headers": {"a b": "c"}}).to_string(),
            json!({"statusCode": 200, "headers": {"a": "b\r\nset-cookie: c"}}).to_string(),
            json!({"statusCode": 200, "headers": {"a": ["b"]}}).to_string(),
            json!({"statusCode": 200, "cookies": "one=1"}).to_string(),
            json!({"statusCode": 200, "body": "!", "isBase64Encoded": true}).to_string(),
        ] {
            assert!(read(answer.as_bytes()).is_err(), "{answer}");
        }
    }

    #[tokio::test]
    async fn answers_without_a_status_are_bodies() {
        for (answer, body) in
            [(json!("hello"), "hello"), (json!({"a": 1}), r#"{"a":1}"#), (json!(null), "null"), (json!([1]), "[1]")]
        {
            let response = read(answer.to_string().as_bytes()).unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.headers().get("content-type").unwrap(), "application/json");
            let bytes = axum::body::to_bytes(response.into_body(), 100).await.unwrap();
            assert_eq!(bytes, body);
        }
    }

    #[test]
    fn the_answer_to_a_head_says_how_long_the_body_would_be() {
        let answer = json!({"statusCode": 200, "headers": {"Content-Length": "5"}, "body": ""}).to_string();
        let head = read_to(&Method::HEAD, answer.as_bytes()).unwrap();
        assert_eq!(head.headers().get("content-length").unwrap(), "5");
        let get = read_to(&Method::GET, answer.as_bytes()).unwrap();
        assert!(!get.headers().contains_key("content-length"), "the server counts by itself");
        let odd = json!({"statusCode": 200, "headers": {"content-length": "many"}}).to_string();
        assert!(!read_to(&Method::HEAD, odd.as_bytes()).unwrap().headers().contains_key("content-length"));
    }

    #[test]
    fn headers_of_the_connection_are_not_the_functions_business() {
        let answer = json!({"statusCode": 204, "headers": {
            "Content-Length": "5", "Connection": "close", "X-Number": 5, "X-Flag": true, "X-Text": "t",
        }, "cookies": ["a=1", "b=2; HttpOnly"]});
        let response = read(answer.to_string().as_bytes()).unwrap();
        let headers = response.headers();
        assert_eq!(headers.len(), 5, "{headers:?}");
        for (name, value) in [("x-number", "5"), ("x-flag", "true"), ("x-text", "t")] {
            assert_eq!(headers.get(name).unwrap(), value);
        }
        let cookies: Vec<_> = headers.get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["a=1", "b=2; HttpOnly"]);
    }
}
