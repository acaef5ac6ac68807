//! The report of a job's end to the address that its caller named: one CloudEvent in structured mode.
//!
//! It is sent at least once and may come late or, when the receiver stays away, not at all: the job is in the API. A
//! receiver takes the same event once by its `id`.

use std::sync::OnceLock;
use std::time::Duration;

use longhaul_wire::Event;
use reqwest::header::{CONTENT_TYPE, USER_AGENT};
use reqwest::{Client, StatusCode, Url};
use url::Host;

/// The media type of a CloudEvent that is sent whole as a body.
const CLOUD_EVENT: &str = "application/cloudevents+json; charset=utf-8";
/// How we introduce ourselves.
const AGENT: &str = concat!("longhaul/", env!("CARGO_PKG_VERSION"));
/// Time for one try: a receiver should take a report and think about it later.
const TRY_SECONDS_MAX: u64 = 3;
/// Waits before the second and the third try. The stream's next batch waits as long, so it is not for long.
const WAITS_MS: [u64; 2] = [250, 1_000];

/// Why a report was not taken. Addresses may hold secrets, so that only the host is shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookError {
    /// The address is no place to report to.
    #[error("a webhook's address begins with https://, or with http:// and a loopback host")]
    Address,
    /// No connection can be made at all.
    #[error("no HTTP client can be made")]
    Client(#[source] reqwest::Error),
    /// No answer.
    #[error("POST to the webhook at {host} failed")]
    Unreachable {
        /// Its host.
        host: String,
        /// What came back.
        #[source]
        source: reqwest::Error,
    },
    /// Another answer than 2xx.
    #[error("the webhook at {host} answered {status}")]
    Refused {
        /// Its host.
        host: String,
        /// The answer.
        status: StatusCode,
    },
    /// The invocation ends.
    #[error("no time was left for the webhook at {host}")]
    OutOfTime {
        /// Its host.
        host: String,
    },
}

/// Reports ends.
#[derive(Debug, Default)]
pub(crate) struct Webhooks {
    /// Made at the first report: it costs some milliseconds that a cold start should not pay.
    client: OnceLock<Client>,
}

impl Webhooks {
    /// Reports an event, trying again a few times, for at most `limit`.
    pub(crate) async fn report(&self, address: &str, event: &Event, limit: Duration) -> Result<(), WebhookError> {
        let url = checked(address).ok_or(WebhookError::Address)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let late = WebhookError::OutOfTime { host: host.clone() };
        tokio::time::timeout(limit, self.try_all(url, &host, event)).await.unwrap_or(Err(late))
    }

    async fn try_all(&self, url: Url, host: &str, event: &Event) -> Result<(), WebhookError> {
        let mut waits = WAITS_MS.into_iter();
        loop {
            let error = match self.try_once(url.clone(), host, event).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match waits.next() {
                Some(wait) if may_pass(&error) => tokio::time::sleep(Duration::from_millis(wait)).await,
                Some(_) | None => return Err(error),
            }
        }
    }

    async fn try_once(&self, url: Url, host: &str, event: &Event) -> Result<(), WebhookError> {
        let unreachable =
            |source: reqwest::Error| WebhookError::Unreachable { host: host.to_owned(), source: source.without_url() };
        // The media type goes first: `json` sets its own only where none stands.
        let request = self.client()?.post(url).header(CONTENT_TYPE, CLOUD_EVENT).header(USER_AGENT, AGENT).json(event);
        let status = request.send().await.map_err(unreachable)?.status();
        if status.is_success() { Ok(()) } else { Err(WebhookError::Refused { host: host.to_owned(), status }) }
    }

    fn client(&self) -> Result<&Client, WebhookError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::builder()
            .timeout(Duration::from_secs(TRY_SECONDS_MAX))
            // The caller named one place; another one would have to pass the same check.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(WebhookError::Client)?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// The address, if it is one that reports are sent to.
fn checked(address: &str) -> Option<Url> {
    let url = Url::parse(address).ok()?;
    let loopback = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    match url.scheme() {
        "https" => Some(url),
        "http" if loopback => Some(url),
        _ => None,
    }
}

/// Whether another try may be taken.
fn may_pass(error: &WebhookError) -> bool {
    match error {
        WebhookError::Unreachable { .. } => true,
        WebhookError::Refused { status, .. } => {
            status.is_server_error() || matches!(*status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
        }
        WebhookError::Address | WebhookError::Client(_) | WebhookError::OutOfTime { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_go_to_https_and_loopback_alone() {
        for (address, taken) in [
            ("https://hooks.example/longhaul?key=1", true),
            ("http://127.0.0.1:9000/end", true),
            ("http://[::1]/end", true),
            ("http://localhost/end", true),
            ("http://hooks.example/end", false),
            ("http://localhost.example/end", false),
            ("ftp://127.0.0.1/end", false),
            ("file:///etc/passwd", false),
            ("hooks.example", false),
            ("", false),
        ] {
            assert_eq!(checked(address).is_some(), taken, "{address}");
        }
    }
}
