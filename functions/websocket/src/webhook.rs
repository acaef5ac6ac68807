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
#[derive(Debug)]
pub(crate) struct Webhooks {
    /// Whether reports may go to this very machine.
    loopback_allowed: bool,
    /// Made at the first report: it costs some milliseconds that a cold start should not pay.
    client: OnceLock<Client>,
}

impl Webhooks {
    pub(crate) const fn new(loopback_allowed: bool) -> Self {
        Self { loopback_allowed, client: OnceLock::new() }
    }

    /// Reports an event, trying again a few times, for at most `limit`.
    pub(crate) async fn report(&self, address: &str, event: &Event, limit: Duration) -> Result<(), WebhookError> {
        let url = checked(address, self.loopback_allowed).ok_or(WebhookError::Address)?;
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

/// The address, if it is one that reports are sent to: https to the outside, and this very machine only where that was
/// allowed, since the Lambda runtime itself listens there. A name that leads inside is not seen through here.
fn checked(address: &str, loopback_allowed: bool) -> Option<Url> {
    let url = Url::parse(address).ok()?;
    let (loopback, inside) = match url.host()? {
        Host::Domain(name) => (name == "localhost" || name.ends_with(".localhost"), false),
        Host::Ipv4(address) => (
            address.is_loopback(),
            address.is_private() || address.is_link_local() || address.is_unspecified() || address.is_broadcast(),
        ),
        Host::Ipv6(address) => (
            address.is_loopback() || address.to_ipv4_mapped().is_some(),
            address.is_unique_local() || address.is_unicast_link_local() || address.is_unspecified(),
        ),
    };
    match url.scheme() {
        "https" if !inside && (!loopback || loopback_allowed) => Some(url),
        "http" if loopback && loopback_allowed => Some(url),
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
    fn reports_go_outside_by_https_and_to_this_machine_where_allowed() {
        // The address, and whether it is taken on AWS and in development.
        for (address, on_aws, in_development) in [
            ("https://hooks.example/longhaul?key=1", true, true),
            ("https://8.8.8.8/end", true, true),
            ("http://127.0.0.1:9000/end", false, true),
            ("https://127.0.0.1:9000/end", false, true),
            ("http://127.0.0.1:9001/2018-06-01/runtime/init/error", false, true),
            ("http://[::1]/end", false, true),
            ("http://localhost/end", false, true),
            ("https://10.0.0.1/end", false, false),
            ("https://169.254.169.254/latest/meta-data", false, false),
            ("https://[::ffff:10.0.0.1]/end", false, true),
            ("https://[fd00::1]/end", false, false),
            ("http://hooks.example/end", false, false),
            ("http://localhost.example/end", false, false),
            ("ftp://127.0.0.1/end", false, false),
            ("file:///etc/passwd", false, false),
            ("hooks.example", false, false),
            ("", false, false),
        ] {
            assert_eq!(checked(address, false).is_some(), on_aws, "{address} on AWS");
            assert_eq!(checked(address, true).is_some(), in_development, "{address} in development");
        }
    }
}
