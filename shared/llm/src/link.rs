//! A model server's address, with what goes along with every request to it: key, headers, marks of the call.
//!
//! Everything that could not stand in a header is found when the link is made, not in the middle of a job.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::stream::{self, StreamExt};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Url};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::body::limited;
use crate::carrier::{Carrier, CarrierError};
use crate::error::{ModelError, ModelErrorKind};
use crate::error_class::ErrorReport;
use crate::http::{Secret, client_for, read_error_body, transport_error};
use crate::model::ModelRequest;
use crate::retry_after::retry_after;
use crate::sse::Chunks;

/// Headers that belong to the connection or to the call itself; setting them by configuration would break both.
const RESERVED: [&str; 6] = ["host", "content-length", "content-type", "transfer-encoding", "connection", "accept"];

/// An endpoint of a model server.
#[derive(Clone)]
pub(crate) struct Link {
    url: Url,
    /// The address without credentials and query: shown to people, and the origin of vendor fields.
    origin: String,
    key: Secret,
    headers: HeaderMap,
    silence_limit: Option<Duration>,
    /// None: HTTP.
    carrier: Option<Arc<dyn Carrier>>,
}

impl Link {
    /// The endpoint at `path` under a base address (whose query, such as Azure's `api-version`, stays).
    pub(crate) fn new(base_url: &str, path: &str, key: Secret) -> Result<Self, ModelError> {
        // The address stays out of the message: it may hold credentials.
        let invalid = || ModelError::new(ModelErrorKind::Invalid, "the model server's address is no http(s) address");
        let mut url = Url::parse(base_url).map_err(|error| invalid().with_source(error))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid());
        }
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}{path}"));
        let origin = origin_of(&url, url.path());
        Ok(Self { url, origin, key, headers: HeaderMap::new(), silence_limit: None, carrier: None })
    }

    /// Sends the key as a bearer token. An empty key sends nothing, which is what servers on one's own machine expect.
    pub(crate) fn with_bearer(self) -> Result<Self, ModelError> {
        let bearer = format!("Bearer {}", self.key.reveal());
        self.with_key_in(AUTHORIZATION, &bearer)
    }

    /// Sends the key by itself under a header of another name.
    pub(crate) fn with_key_header(self, name: &str) -> Result<Self, ModelError> {
        let name = header_name(name)?;
        let key = self.key.reveal().to_owned();
        self.with_key_in(name, &key)
    }

    fn with_key_in(mut self, name: HeaderName, text: &str) -> Result<Self, ModelError> {
        if !self.key.reveal().is_empty() {
            // By itself: behind `Bearer`, a blank at its beginning would not be noticed.
            header_value("the API key", self.key.reveal())?;
            let mut value = header_value("the API key", text)?;
            value.set_sensitive(true);
            self.headers.insert(name, value);
        }
        Ok(self)
    }

    /// Further headers of every request. They win over those made here.
    pub(crate) fn with_headers(mut self, headers: &BTreeMap<String, String>) -> Result<Self, ModelError> {
        for (name, text) in headers {
            let parsed = header_name(name)?;
            if RESERVED.contains(&parsed.as_str()) {
                let message = format!("the header {name:?} belongs to the connection and cannot be configured");
                return Err(ModelError::new(ModelErrorKind::Invalid, message));
            }
            let mut value = header_value(&format!("the configured value of the header {name:?}"), text)?;
            // Whatever is configured may be a key of a gateway.
            value.set_sensitive(true);
            self.headers.insert(parsed, value);
        }
        Ok(self)
    }

    /// Ends calls in which the server falls silent for so long.
    pub(crate) fn with_silence_limit(mut self, limit_ms: Option<u64>) -> Self {
        self.silence_limit = limit_ms.map(Duration::from_millis);
        self
    }

    /// Has requests carried by somebody else than HTTP.
    pub(crate) fn carry_by(&mut self, carrier: Arc<dyn Carrier>) {
        self.carrier = Some(carrier);
    }

    /// Sends a request, and waits for the head of the answer.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, ModelError> {
        let send = async {
            match &self.carrier {
                None => request.send().await.map_err(transport_error),
                Some(carrier) => {
                    let (client, request) = request.build_split();
                    carrier.carry(&client, request.map_err(transport_error)?).await.map_err(not_carried)
                }
            }
        };
        match self.silence_limit {
            Some(limit) => timeout(limit, send).await.unwrap_or_else(|elapsed| Err(silence(limit, elapsed))),
            None => send.await,
        }
    }

    /// The body of an answer, in chunks.
    pub(crate) fn chunks(&self, response: Response) -> Chunks {
        let chunks = limited(response);
        match self.silence_limit {
            None => chunks,
            Some(limit) => stream::unfold(Some(chunks), move |chunks| async move {
                let mut chunks = chunks?;
                match timeout(limit, chunks.next()).await {
                    Ok(chunk) => Some((chunk?, Some(chunks))),
                    // Nothing is read behind the error, so that the connection closes with it.
                    Err(elapsed) => Some((Err(silence(limit, elapsed)), None)),
                }
            })
            .boxed(),
        }
    }

    /// A header that the wire format itself asks for.
    pub(crate) fn with_fixed(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self
    }

    /// Vendor fields come from here and go back only here. Chat's origin has been its base address from the start, and
    /// journals hold it.
    pub(crate) fn with_base_origin(mut self, path: &str) -> Self {
        self.origin = origin_of(&self.url, self.url.path().trim_end_matches(path));
        self
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    pub(crate) fn key(&self) -> &Secret {
        &self.key
    }

    /// The same server at a further path below this endpoint's.
    pub(crate) fn below(&self, segments: &[&str]) -> Result<Self, ModelError> {
        let mut link = self.clone();
        link.url
            .path_segments_mut()
            .map_err(|()| ModelError::new(ModelErrorKind::Invalid, "the model server's address has no path"))?
            .extend(segments);
        Ok(link)
    }

    /// The same server at `path`, whose percent signs stay as they are; vendor fields come from `origin_path` of it.
    pub(crate) fn at_path(&self, path: &str, origin_path: &str) -> Self {
        let mut link = self.clone();
        let base = self.url.path().trim_end_matches('/').to_owned();
        link.url.set_path(&format!("{base}{path}"));
        link.origin = format!("{}{origin_path}", self.origin);
        link
    }

    /// A request with a JSON body, or none.
    pub(crate) fn request(&self, method: Method, body: Option<Vec<u8>>) -> Result<RequestBuilder, ModelError> {
        let mut builder = client_for(&self.url)?
            .request(method, self.url.clone())
            .header(ACCEPT, "text/event-stream, application/json")
            .headers(self.headers.clone());
        if let Some(body) = body {
            builder = builder.header(CONTENT_TYPE, "application/json").body(body);
        }
        Ok(builder)
    }

    /// The call of a model, with the marks that the request carries.
    pub(crate) fn post(&self, request: &ModelRequest, body: Vec<u8>) -> Result<RequestBuilder, ModelError> {
        let mut post = self.request(Method::POST, Some(body))?;
        for (name, text) in [("idempotency-key", &request.idempotency_key), ("traceparent", &request.traceparent)] {
            if let Some(text) = text {
                post = post.header(name, header_value(name, text)?);
            }
        }
        Ok(post)
    }

    /// An answer with an error status, as an error.
    pub(crate) async fn http_error(&self, response: Response) -> ModelError {
        let status = response.status().as_u16();
        let wait = retry_after(response.headers(), SystemTime::now());
        let kind = response.headers().get("x-amzn-errortype").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = read_error_body(response).await;
        let mut report = ErrorReport::from_body(status, &body);
        report.retry_after = wait;
        if let Some(kind) = kind {
            report.add_code(&kind);
        }
        report.into_error(&self.key)
    }
}

fn not_carried(error: CarrierError) -> ModelError {
    match error {
        CarrierError::Http(error) => transport_error(error),
        CarrierError::Refused(why) => ModelError::new(ModelErrorKind::Invalid, why),
    }
}

fn silence(limit: Duration, elapsed: Elapsed) -> ModelError {
    let message = format!("the server was silent for {} ms", limit.as_millis());
    ModelError::new(ModelErrorKind::Timeout, message).with_source(elapsed)
}

fn origin_of(url: &Url, path: &str) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{host}{port}{path}", url.scheme())
}

fn header_name(name: &str) -> Result<HeaderName, ModelError> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|error| {
        ModelError::new(ModelErrorKind::Invalid, format!("{name:?} is no header name")).with_source(error)
    })
}

/// A header's value; the text itself stays out of the error.
///
/// Line ends and NUL would start a header of someone else's. What is not ASCII, or begins or ends with a blank, would
/// arrive as something else than was configured.
pub(crate) fn header_value(what: &str, text: &str) -> Result<HeaderValue, ModelError> {
    let invalid = || {
        let message = format!("{what} cannot stand in a header: visible ASCII and inner blanks only, no line ends");
        ModelError::new(ModelErrorKind::Invalid, message)
    };
    if text.trim() != text || text.contains('\t') || !text.is_ascii() {
        return Err(invalid());
    }
    HeaderValue::from_str(text).map_err(|error| invalid().with_source(error))
}
