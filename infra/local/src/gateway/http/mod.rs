//! The HTTP API gateway: every request becomes an invocation of one function (`$default` route, payload format 2.0).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::net::TcpListener;
use tower_http::cors::{AllowHeaders, Any, CorsLayer};

use super::Server;
use crate::lambda::functions::{Function, InvokeError};

mod answer;
mod event;
mod stream;

use event::Arrival;

/// Largest request body, in bytes; the limit of HTTP APIs (10 MB).
pub const BODY_MAX_BYTES: usize = 10 * 1024 * 1024;

/// How long the function may take to answer; the limit of HTTP APIs. The function itself may run on.
pub const INTEGRATION_TIMEOUT: Duration = Duration::from_secs(30);

/// The header by which a request can be found in the logs.
const REQUEST_ID: HeaderName = HeaderName::from_static("apigw-requestid");

/// What an HTTP gateway serves.
#[derive(Debug)]
pub struct HttpGatewayConfig {
    /// Where it listens: see [`listen`](super::listen).
    pub listener: TcpListener,
    /// The function that answers.
    pub function: Function,
    /// The function that answers requests for a stream of events, piece by piece. HTTP APIs hand over whole answers only;
    /// on AWS it has an address of its own.
    pub streams: Option<Function>,
    /// Routes of the caller's own, looked at before the function is. They answer without it.
    pub routes: Router,
    /// Whether pages of any origin may call. Off unless asked for, as on a new API.
    pub permissive_cors: bool,
    /// How long the function may take; [`INTEGRATION_TIMEOUT`] on AWS.
    pub integration_timeout: Duration,
}

impl HttpGatewayConfig {
    /// A gateway in front of this function with everything as on AWS.
    #[must_use]
    pub fn new(listener: TcpListener, function: Function) -> Self {
        Self {
            listener,
            function,
            streams: None,
            routes: Router::new(),
            permissive_cors: false,
            integration_timeout: INTEGRATION_TIMEOUT,
        }
    }
}

/// A running HTTP gateway. It ends when it is dropped.
#[derive(Debug)]
pub struct HttpGateway {
    server: Server,
}

#[derive(Debug)]
struct Integration {
    function: Function,
    streams: Option<Function>,
    timeout: Duration,
    api_id: String,
}

impl HttpGateway {
    /// Starts serving.
    ///
    /// # Errors
    /// When the listener has no address.
    pub fn start(config: HttpGatewayConfig) -> std::io::Result<Self> {
        let HttpGatewayConfig { listener, function, streams, routes, permissive_cors, integration_timeout } = config;
        let integration =
            Integration { function, streams, timeout: integration_timeout, api_id: "longhaul".to_owned() };
        let gateway = Router::new().fallback(handle).with_state(Arc::new(integration));
        let mut router = routes.merge(gateway);
        if permissive_cors {
            // A star for the request headers would leave out `Authorization`; so what is asked for is allowed.
            let cors = CorsLayer::new()
                .allow_origin(Any)
                .allow_methods(Any)
                .allow_headers(AllowHeaders::mirror_request())
                .expose_headers(Any);
            router = router.layer(cors);
        }
        Ok(Self { server: Server::start("the HTTP gateway", listener, router)? })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// The URL of the API, without a slash at its end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }
}

/// Why a request has no answer of the function.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the request names no host")]
    Host,
    #[error("the request names no path")]
    Path,
    #[error("the request body is over {BODY_MAX_BYTES} bytes")]
    TooLarge,
    #[error("the request body broke off")]
    BrokenOff,
    #[error("the function did not answer within the integration timeout")]
    TimedOut,
    #[error("the invocation failed")]
    Invocation(#[source] InvokeError),
    #[error("the function's answer has no head")]
    NoHead,
    #[error("the function's answer is no answer to an HTTP request")]
    Malformed(#[source] answer::Malformed),
}

async fn handle(
    State(integration): State<Arc<Integration>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let request_id = super::gateway_id();
    let mut response = integration.answer(&request_id, peer, request).await.unwrap_or_else(|refusal| {
        tracing::debug!(request_id, error = &refusal as &dyn std::error::Error, "a request was refused");
        refusal.into_response()
    });
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

impl Integration {
    async fn answer(&self, request_id: &str, peer: SocketAddr, request: Request) -> Result<Response, Refusal> {
        let (parts, body) = request.into_parts();
        let host = super::header_text(&parts.headers, &header::HOST).ok_or(Refusal::Host)?;
        // Functions build addresses from the host and must not be given one that no address can have.
        url::Url::parse(&format!("http://{host}/")).map_err(|_| Refusal::Host)?;
        // `OPTIONS *` and `CONNECT host:port` have none.
        if !parts.uri.path().starts_with('/') {
            return Err(Refusal::Path);
        }
        let body = read(body).await?;
        let arrival = Arrival { request_id, peer, host: &host, at: SystemTime::now(), api_id: &self.api_id };
        let event = event::build(&arrival, self.function.account(), &parts, &body);
        let trace = event.trace().map(str::to_owned);
        if let Some(function) = self.streams.as_ref().filter(|_| stream::asked(&parts)) {
            return stream::answer(function, event.into_json().into(), trace, self.timeout).await;
        }
        let invocation = self.function.invoke(event.into_json(), trace);
        let answer = tokio::time::timeout(self.timeout, invocation)
            .await
            .map_err(|_| Refusal::TimedOut)?
            .map_err(Refusal::Invocation)?;
        answer::read_to(&parts.method, &answer).map_err(Refusal::Malformed)
    }
}

async fn read(body: Body) -> Result<Bytes, Refusal> {
    match Limited::new(body, BODY_MAX_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::TooLarge),
        Err(_) => Err(Refusal::BrokenOff),
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, message) = match self {
            Self::Host | Self::Path | Self::BrokenOff => (StatusCode::BAD_REQUEST, "Bad Request"),
            Self::TooLarge | Self::Invocation(InvokeError::PayloadTooLarge { .. }) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large")
            }
            // HTTP APIs say 503 here; it is REST APIs that say 504.
            Self::TimedOut | Self::Invocation(InvokeError::Stopped) => {
                (StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable")
            }
            Self::Invocation(InvokeError::Throttled) => (StatusCode::TOO_MANY_REQUESTS, "Too Many Requests"),
            Self::Invocation(
                InvokeError::TimedOut { .. }
                | InvokeError::Exited { .. }
                | InvokeError::Function { .. }
                | InvokeError::Start { .. },
            )
            | Self::NoHead
            | Self::Malformed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
        };
        (status, axum::Json(serde_json::json!({ "message": message }))).into_response()
    }
}
