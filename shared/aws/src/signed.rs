//! Single calls of services for which this project carries no SDK: signed by AWS's own signer, sent by the SDKs' own
//! client.
//!
//! Of Secrets Manager, Parameter Store and Lambda one operation each is called. Their SDKs are among the largest there
//! are, and every build and every cold start would carry them (docs/adr/0012).

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sdk_s3::primitives::{ByteStream, SdkBody};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_runtime_api::client::http::{HttpConnector, SharedHttpConnector};
use aws_smithy_runtime_api::client::identity::Identity;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};

use crate::credentials::CredentialsError;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A call about to be made: a POST, as all of these are.
#[derive(Debug)]
pub(crate) struct Call {
    /// The name that the service signs by.
    pub(crate) service: &'static str,
    /// The whole address.
    pub(crate) url: String,
    /// Headers that the operation asks for.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// The longest answer that is read, in bytes.
    pub(crate) answer_bytes_max: usize,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A header's value, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The error that an AWS service describes: its name and what it says. AWS writes the name into a header or into the
    /// body, and into either with an address or a namespace around it.
    pub(crate) fn fault(&self) -> (String, String) {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = |names: &[&str]| names.iter().find_map(|name| body.get(*name)?.as_str().map(str::to_owned));
        let name = self.header("x-amzn-errortype").map(str::to_owned).or_else(|| text(&["__type", "code", "Code"]));
        let name = name.unwrap_or_default();
        let name = name.rsplit('#').next().unwrap_or_default();
        let name = name.split(':').next().unwrap_or_default().to_owned();
        let said = text(&["message", "Message", "Reason"]).unwrap_or_default();
        (name, said)
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// There are no credentials to sign with.
    #[error("it cannot be signed")]
    Credentials(#[source] CredentialsError),
    /// The request cannot be made or signed.
    #[error("the request cannot be made")]
    Request(#[source] BoxError),
    /// There was no connection: the service was not asked.
    #[error("no connection")]
    Connection(#[source] BoxError),
    /// The connection broke: the service may have acted.
    #[error("the connection broke")]
    Broken(#[source] BoxError),
    /// The answer is longer than it may be.
    #[error("the answer is longer than {bytes_max} bytes")]
    TooLong {
        /// The most.
        bytes_max: usize,
    },
    /// The time was over.
    #[error("no answer within {} ms", limit.as_millis())]
    TimedOut {
        /// The time.
        limit: Duration,
    },
}

/// Makes a call, once.
pub(crate) async fn send(
    connector: &SharedHttpConnector,
    credentials: &Credentials,
    region: &str,
    call: Call,
    limit: Duration,
) -> Result<Answer, CallError> {
    let bytes_max = call.answer_bytes_max;
    let request = signed(credentials, region, call, SystemTime::now()).map_err(CallError::Request)?;
    let exchange = async {
        let response = connector
            .call(request)
            .await
            .map_err(|error| if error.is_user() { CallError::Request(error.into()) } else { lost(error) })?;
        read(response, bytes_max).await
    };
    tokio::time::timeout(limit, exchange).await.unwrap_or(Err(CallError::TimedOut { limit }))
}

/// A failure below HTTP. What could not be connected was not asked; of anything else nobody knows.
fn lost(error: aws_smithy_runtime_api::client::result::ConnectorError) -> CallError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(found) = cause {
        let io = found.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return CallError::Connection(error.into());
        }
        cause = found.source();
    }
    // The connector's only timer is that of connecting.
    if error.is_timeout() { CallError::Connection(error.into()) } else { CallError::Broken(error.into()) }
}

async fn read(response: HttpResponse, bytes_max: usize) -> Result<Answer, CallError> {
    let status = response.status().as_u16();
    let headers = response.headers().iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut chunks = ByteStream::new(response.into_body());
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| CallError::Broken(error.into()))?;
        if body.len().saturating_add(chunk.len()) > bytes_max {
            return Err(CallError::TooLong { bytes_max });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { status, headers, body })
}

fn signed(credentials: &Credentials, region: &str, call: Call, now: SystemTime) -> Result<HttpRequest, BoxError> {
    let identity: Identity = credentials.clone().into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(call.service)
        .time(now)
        .settings(SigningSettings::default())
        .build()?
        .into();
    let named = call.headers.iter().map(|(name, value)| (*name, value.as_str()));
    let signable = SignableRequest::new("POST", call.url.as_str(), named, SignableBody::Bytes(&call.body))?;
    let (instructions, _signature) = sign(signable, &params)?.into_parts();
    let mut request = HttpRequest::new(SdkBody::from(call.body));
    request.set_method("POST")?;
    request.set_uri(call.url.as_str())?;
    for (name, value) in call.headers {
        request.headers_mut().try_insert(name, value)?;
    }
    for (name, value) in instructions.headers() {
        request.headers_mut().try_insert(name.to_owned(), value.to_owned())?;
    }
    Ok(request)
}

/// Everything but the unreserved characters of RFC 3986, percent-encoded: one segment of a path.
pub(crate) fn path_segment(text: &str) -> String {
    let mut segment = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => segment.push(char::from(byte)),
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic: that is how it fails")]

    use super::*;

    /// Each service names its errors in a way of its own.
    #[test]
    fn faults_are_read_wherever_they_stand() {
        type Row = (&'static [(&'static str, &'static str)], &'static str, &'static str, &'static str);
        let rows: [Row; 5] = [
            (&[], r#"{"__type":"ResourceNotFoundException","Message":"none"}"#, "ResourceNotFoundException", "none"),
            (&[], r#"{"__type":"com.amazonaws.ssm#ParameterNotFound"}"#, "ParameterNotFound", ""),
            (
                &[("X-Amzn-ErrorType", "TooManyRequestsException:http://x/")],
                r#"{"Reason":"ConcurrentInvocationLimitExceeded","message":"slow"}"#,
                "TooManyRequestsException",
                "slow",
            ),
            (&[], "<html>", "", ""),
            (&[], "", "", ""),
        ];
        for (headers, body, name, said) in rows {
            let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let answer = Answer { status: 400, headers, body: body.as_bytes().to_vec() };
            assert_eq!(answer.fault(), (name.to_owned(), said.to_owned()), "{body}");
        }
    }
}
