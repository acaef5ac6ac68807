//! AWS Signature Version 4, by AWS's own crate.

use std::time::SystemTime;

use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_runtime_api::client::identity::Identity;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::error::{ModelError, ModelErrorKind};

use super::credentials::AwsCredentials;

/// The name that Bedrock's runtime signs by.
const SERVICE: &str = "bedrock";

/// The headers that sign a `POST` of JSON.
pub(super) fn headers(
    url: &str,
    body: &[u8],
    credentials: &AwsCredentials,
    region: &str,
    now: SystemTime,
) -> Result<HeaderMap, ModelError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
        ModelError::new(ModelErrorKind::Invalid, "the call cannot be signed").with_source(source)
    };
    let token = credentials.session_token.as_ref().map(|token| token.reveal().to_owned());
    let identity: Identity = aws_credential_types::Credentials::new(
        credentials.access_key_id.as_str(),
        credentials.secret_access_key.reveal(),
        token,
        None,
        "longhaul",
    )
    .into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(SERVICE)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| failed(error.into()))?
        .into();
    let typed = std::iter::once(("content-type", "application/json"));
    let request =
        SignableRequest::new("POST", url, typed, SignableBody::Bytes(body)).map_err(|error| failed(error.into()))?;
    let (instructions, _signature) = sign(request, &params).map_err(|error| failed(error.into()))?.into_parts();
    let mut headers = HeaderMap::new();
    for (name, text) in instructions.headers() {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| failed(error.into()))?;
        let mut value = HeaderValue::from_str(text).map_err(|error| failed(error.into()))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// A model's id or ARN as one segment of a path. Colons are written out as AWS's own clients do, since the signature
/// covers the path byte by byte.
pub(super) fn path_segment(text: &str) -> String {
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
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use std::time::Duration;

    use super::*;
    use crate::http::Secret;

    /// The signature that botocore, an implementation that shares nothing with ours, makes of the same request.
    #[test]
    fn signs_like_botocore() {
        let credentials = AwsCredentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: Some(Secret::new("session-token-made-up")),
        };
        let noon_of_march_first = SystemTime::UNIX_EPOCH + Duration::from_secs(1_772_366_400);
        let model = path_segment("anthropic.claude-x-v1:0");
        let url = format!("https://bedrock-runtime.eu-central-1.amazonaws.com/model/{model}/converse-stream");
        let headers = headers(&url, br#"{"messages":[]}"#, &credentials, "eu-central-1", noon_of_march_first).unwrap();
        assert_eq!(headers["x-amz-date"], "20260301T120000Z");
        assert_eq!(headers["x-amz-security-token"], "session-token-made-up");
        assert_eq!(
            headers["authorization"],
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260301/eu-central-1/bedrock/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, \
             Signature=c61f4a4ce3a1316ef258d3b820738ade51014f33b357ad36eb18309b7e375ab1"
        );
    }

    #[test]
    fn an_arn_is_one_segment() {
        assert_eq!(path_segment("arn:aws:bedrock:x/y z"), "arn%3Aaws%3Abedrock%3Ax%2Fy%20z");
    }
}
