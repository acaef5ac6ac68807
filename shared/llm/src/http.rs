//! What all providers share of HTTP: one client per process, keys that cannot be printed, bounded bodies.

use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use futures::StreamExt;
use reqwest::{Client, Response, Url};

use crate::error::{Cut, ModelError, ModelErrorKind};

/// A server that does not even accept a connection within this time will not answer a model call either.
const CONNECT_TIMEOUT_SECONDS: u64 = 10;

/// Largest answer accepted, in bytes. Far above any model's output limit; it keeps a broken server from filling a
/// function's memory.
pub(crate) const RESPONSE_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Largest error body read, in bytes: its message is cut to a fraction of this anyway.
pub(crate) const ERROR_BODY_MAX_BYTES: usize = 64 * 1024;

/// Shorter keys are placeholders of local servers (`none`, `ollama`); taking such words out of messages would only
/// garble them.
const REDACT_MIN_CHARS: usize = 8;

/// An API key. It shows itself to nothing but the request.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// `text` without the key: servers like to quote a key that they reject.
    pub(crate) fn redact(&self, text: &str) -> String {
        if self.0.chars().count() < REDACT_MIN_CHARS {
            return text.to_owned();
        }
        text.replace(&self.0, "[key]")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret([key])")
    }
}

/// The process's client for `url`. Building one costs about 10 ms, so it happens at the first call, and all calls share
/// its connections.
///
/// Servers on this machine are reached without the proxy of the environment, which could not find them.
pub(crate) fn client_for(url: &Url) -> Result<&'static Client, ModelError> {
    static REMOTE: OnceLock<Client> = OnceLock::new();
    static LOCAL: OnceLock<Client> = OnceLock::new();
    let local = is_loopback(url);
    let slot = if local { &LOCAL } else { &REMOTE };
    if let Some(client) = slot.get() {
        return Ok(client);
    }
    // A redirect would carry prompts to another address than the configured one, so none is followed.
    let mut builder = Client::builder()
        .connect_timeout(Duration::from_secs(CONNECT_TIMEOUT_SECONDS))
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
    if local {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|source| {
        ModelError::new(ModelErrorKind::Transient, "the HTTP client cannot be built").with_source(source)
    })?;
    Ok(slot.get_or_init(|| client))
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        None => false,
        Some("localhost") => true,
        Some(host) => host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
    }
}

/// The class of a failure below HTTP. The address is left out of it: it may hold a key.
pub(crate) fn transport_error(error: reqwest::Error) -> ModelError {
    let error = error.without_url();
    let (kind, message) = if error.is_timeout() {
        (ModelErrorKind::Timeout, "the server did not answer in time")
    } else if error.is_connect() {
        (ModelErrorKind::Transient, "no connection to the model server")
    } else if error.is_body() || error.is_decode() {
        let cut = Cut::Connection;
        (ModelErrorKind::Truncated { cut }, "the connection broke in mid-answer")
    } else if error.is_builder() {
        (ModelErrorKind::Invalid, "the request cannot be sent")
    } else {
        (ModelErrorKind::Transient, "the request to the model server failed")
    };
    ModelError::new(kind, message).with_source(error)
}

/// The body as text, up to `bytes_max`; what follows is left unread. Stray bytes become U+FFFD.
pub(crate) async fn read_error_body(response: Response) -> String {
    let mut body = Vec::new();
    let mut stream = response.bytes_stream();
    // A body that breaks off still holds the best message there is, so a failure to read it is not reported over it.
    while let Some(Ok(chunk)) = stream.next().await {
        let room = ERROR_BODY_MAX_BYTES.saturating_sub(body.len());
        body.extend(chunk.iter().take(room));
        if chunk.len() >= room {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}
