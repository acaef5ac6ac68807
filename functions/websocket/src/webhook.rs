//! One try of a webhook delivery: one CloudEvent in structured mode (CloudEvents 1.0, HTTP binding 3.2), signed after
//! Standard Webhooks, sent to the address that the job's caller named.
//!
//! The address is judged as it is written and again as the number that is connected to; redirects are not followed, since
//! a receiver that moved is named anew by whoever knows it; and of the answer no more is read than a person wants to see.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use longhaul::engine::delivery::Outcome;
use longhaul::engine::{TenantId, Timestamp};
use longhaul_reach::{AddressError, Guard, Policy, SystemLookup};
use longhaul_wire::Event;
use longhaul_wire::text::shortened;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, Url};
use standardwebhooks::Webhook;
use tokio::time::{Instant, timeout_at};

use crate::secrets::{SecretsError, SigningSecrets};

/// The media type of a CloudEvent that is sent whole as a body.
const CLOUD_EVENT: &str = "application/cloudevents+json; charset=utf-8";
/// Headers of Standard Webhooks.
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// Time for one try: a receiver should take an event and think about it later.
const TRY_SECONDS_MAX: u64 = 15;
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 4 * 1024;
/// Characters of an answer that are kept for the log.
const EXCERPT_LENGTH_MAX: usize = 256;
/// Secrets that sign at once: one in use, and the one before it while it is rotated.
const SECRETS_MAX: usize = 2;

/// What came of a try, and when the receiver wants the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tried {
    pub(crate) outcome: Outcome,
    pub(crate) retry_after: Option<Duration>,
}

impl Tried {
    const fn without_answer(outcome: Outcome) -> Self {
        Self { outcome, retry_after: None }
    }
}

/// Sends events to webhooks.
#[derive(Debug)]
pub(crate) struct Webhooks {
    policy: Arc<Policy>,
    secrets: SigningSecrets,
    /// Made at the first try: it costs some milliseconds that a cold start should not pay.
    client: OnceLock<Client>,
}

impl Webhooks {
    /// Webhooks that sign with these secrets. They reach this very machine only where that is allowed: on AWS the Lambda
    /// runtime itself listens there.
    #[must_use]
    pub(crate) fn new(loopback_allowed: bool, secrets: SigningSecrets) -> Self {
        let loopback = ["127.0.0.1", "::1", "localhost"].map(str::to_owned).to_vec();
        let allowed_hosts = if loopback_allowed { loopback } else { Vec::new() };
        let policy = Arc::new(Policy { allowed_hosts, refused_hosts: Vec::new() });
        Self { policy, secrets, client: OnceLock::new() }
    }

    /// Sends an event once, under the delivery's id, for at most `limit`.
    pub(crate) async fn send(
        &self,
        tenant: &TenantId,
        address: &str,
        id: &str,
        event: &Event,
        now: Timestamp,
        limit: Duration,
    ) -> Tried {
        let url = match self.judged(address) {
            Ok(url) => url,
            Err(reason) => return Tried::without_answer(Outcome::Refused { reason }),
        };
        let request = match self.signed(tenant, id, event, now).await {
            Ok(request) => request,
            Err(error) => return Tried::without_answer(Outcome::NotSent { reason: error.to_string() }),
        };
        let limit = limit.min(Duration::from_secs(TRY_SECONDS_MAX));
        let ends = Instant::now() + limit;
        match timeout_at(ends, self.post(url, request)).await {
            Ok(Ok(response)) => answered(response, ends).await,
            Ok(Err(error)) => no_answer(error),
            Err(_) => {
                let reason = format!("no answer within {} s", limit.as_secs());
                Tried::without_answer(Outcome::NoAnswer { reason })
            }
        }
    }

    /// The address, if it is one that may be reached: https to the outside, and http only to this very machine.
    fn judged(&self, address: &str) -> Result<Url, String> {
        let refused = |error: &AddressError| format!("the webhook's address {error}");
        let url = self.policy.judge(address).map_err(|error| refused(&error))?;
        let exempt = url.host_str().is_some_and(|host| self.policy.allows(host));
        if url.scheme() == "https" || exempt {
            Ok(url)
        } else {
            Err("the webhook's address does not begin with https://".to_owned())
        }
    }

    /// Headers and body. Each try is signed anew, with its own time.
    async fn signed(
        &self,
        tenant: &TenantId,
        id: &str,
        event: &Event,
        now: Timestamp,
    ) -> Result<(HeaderMap, Vec<u8>), SignError> {
        let body = serde_json::to_vec(event).map_err(SignError::Event)?;
        let seconds = i64::try_from(now.as_seconds()).unwrap_or(i64::MAX);
        let mut signatures = Vec::new();
        for secret in self.secrets.of(tenant).await?.iter().take(SECRETS_MAX) {
            // What is wrong with a secret is not said by showing it.
            let signer = Webhook::new(secret.reveal()).map_err(|_| SignError::Secret)?;
            signatures.push(signer.sign(id, seconds, &body).map_err(|_| SignError::Secret)?);
        }
        if signatures.is_empty() {
            return Err(SignError::Secret);
        }
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| SignError::Secret);
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static(CLOUD_EVENT)),
            (WEBHOOK_ID, value(id)?),
            (WEBHOOK_TIMESTAMP, value(&seconds.to_string())?),
            (WEBHOOK_SIGNATURE, value(&signatures.join(" "))?),
        ]);
        Ok((headers, body))
    }

    async fn post(&self, url: Url, (headers, body): (HeaderMap, Vec<u8>)) -> Result<Response, reqwest::Error> {
        self.client()?.post(url).headers(headers).body(body).send().await
    }

    fn client(&self) -> Result<&Client, reqwest::Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let guard = Guard::new(Arc::clone(&self.policy), Arc::new(SystemLookup));
        let client = longhaul_reach::client(guard).build()?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// Why an event could not be signed.
#[derive(Debug, thiserror::Error)]
enum SignError {
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    #[error("a webhook secret of the tenant is none: it is `whsec_` and Base64")]
    Secret,
    #[error("the event cannot be written as JSON")]
    Event(#[source] serde_json::Error),
}

/// Reads an answer. A status says everything; a body that breaks off, or that has not come when the try ends, says no less.
async fn answered(mut response: Response, ends: Instant) -> Tried {
    let status = response.status();
    let retry_after = wait_asked_for(response.headers(), SystemTime::now());
    let read = timeout_at(ends, longhaul_reach::read_up_to(&mut response, ANSWER_BYTES_MAX)).await;
    let body = read.ok().and_then(Result::ok).map_or_else(Vec::new, |(body, _)| body);
    let excerpt = (!status.is_success() && !body.is_empty()).then(|| excerpt(&body));
    Tried { outcome: Outcome::Answered { status: status.as_u16(), excerpt }, retry_after }
}

/// The beginning of an answer as a person may be shown it.
fn excerpt(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    shortened(text.trim(), EXCERPT_LENGTH_MAX)
}

/// The wait of a `Retry-After` header (RFC 9110, 10.2.3): seconds, or a date.
fn wait_asked_for(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    httpdate::parse_http_date(text).ok()?.duration_since(now).ok()
}

/// A failure below HTTP. The address is left out: it may hold what is nobody's business.
fn no_answer(error: reqwest::Error) -> Tried {
    let error = error.without_url();
    if let Some(inward) = longhaul_reach::inward(&error) {
        return Tried::without_answer(Outcome::Refused {
            reason: format!("the webhook's address is refused: {inward}"),
        });
    }
    let reason = if error.is_timeout() {
        "the receiver did not answer in time"
    } else if error.is_connect() {
        "no connection to the receiver"
    } else {
        "the connection to the receiver broke"
    };
    Tried::without_answer(Outcome::NoAnswer { reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::BTreeMap;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;

    /// A receiver that takes one request, answers these bytes and holds the connection until the sender lets go.
    fn receiver(answer: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/end", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut piece = [0; 4096];
            let _begun = connection.read(&mut piece).unwrap();
            connection.write_all(answer.as_bytes()).unwrap();
            while connection.read(&mut piece).is_ok_and(|bytes| bytes > 0) {}
        });
        address
    }

    #[tokio::test]
    async fn a_status_counts_whatever_becomes_of_the_body() {
        let tenant: TenantId = "acme".parse().unwrap();
        let secret = longhaul_aws::config::Secret::new("whsec_dGhlIHNlY3JldCBvZiBhY21lIGluIHRoZSB0ZXN0cw==".to_owned());
        let secrets = SigningSecrets::OfSettings(BTreeMap::from([(tenant.clone(), vec![secret])]));
        let webhooks = Webhooks::new(true, secrets);
        let event: Event = serde_json::from_value(json!({
            "specversion": "1.0", "id": "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f/1",
            "source": "/v1/jobs/0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f", "type": "longhaul.AgentJobCompleted",
            "time": "2026-11-30T15:00:00.000Z", "datacontenttype": "application/json", "sequence": "0000000001", "data": {}
        }))
        .unwrap();
        // The status, further headers, and the body, of which more was announced than ever comes.
        for (status, header, body, retry_after) in [
            (200, "content-length: 9", "", None),
            (200, "content-length: 9", "taken", None),
            (202, "transfer-encoding: chunked", "5\r\ntaken\r\n", None),
            (410, "content-length: 9", "gone", None),
            (503, "retry-after: 60\r\ncontent-length: 9", "later", Some(Duration::from_secs(60))),
        ] {
            let address = receiver(format!("HTTP/1.1 {status} Said\r\n{header}\r\n\r\n{body}"));
            let limit = Duration::from_secs(1);
            let tried = webhooks.send(&tenant, &address, "msg_1", &event, Timestamp::from_millis(1), limit).await;
            let outcome = Outcome::Answered { status, excerpt: None };
            assert_eq!(tried, Tried { outcome, retry_after }, "{status} with {body:?}");
        }
    }

    #[test]
    fn events_go_outside_by_https_and_to_this_machine_where_allowed() {
        // The address, and whether it is taken on AWS and in development.
        for (address, on_aws, in_development) in [
            ("https://hooks.example/longhaul?key=1", true, true),
            ("https://8.8.8.8/end", true, true),
            ("http://127.0.0.1:9000/end", false, true),
            ("https://127.0.0.1:9000/end", false, true),
            ("http://127.0.0.1:9001/2018-06-01/runtime/init/error", false, true),
            ("http://[::1]/end", false, true),
            ("http://localhost/end", false, true),
            ("http://2130706433/end", false, true),
            ("http://127.0.0.2/end", false, false),
            ("https://10.0.0.1/end", false, false),
            ("https://169.254.169.254/latest/meta-data", false, false),
            ("https://[::ffff:169.254.169.254]/end", false, false),
            ("https://[::ffff:10.0.0.1]/end", false, false),
            ("https://[fd00::1]/end", false, false),
            ("https://printer.local/end", false, false),
            ("https://a:b@hooks.example/end", false, false),
            ("http://hooks.example/end", false, false),
            ("http://localhost.example/end", false, false),
            ("ftp://127.0.0.1/end", false, false),
            ("file:///etc/passwd", false, false),
            ("hooks.example", false, false),
            ("", false, false),
        ] {
            let none = || SigningSecrets::OfSettings(Default::default());
            let judged = |loopback| Webhooks::new(loopback, none()).judged(address);
            assert_eq!(judged(false).is_ok(), on_aws, "{address} on AWS");
            assert_eq!(judged(true).is_ok(), in_development, "{address} in development");
        }
    }

    #[test]
    fn a_wait_is_read_as_it_may_be_written() {
        let now = httpdate::parse_http_date("Mon, 30 Nov 2026 01:00:00 GMT").unwrap();
        for (text, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Mon, 30 Nov 2026 01:02:00 GMT", Some(120)),
            ("Mon, 30 Nov 2026 00:59:00 GMT", None),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            assert_eq!(wait_asked_for(&headers, now), seconds.map(Duration::from_secs), "{text:?}");
        }
    }
}
