//! The WebSocket API gateway: connections of clients on one side, invocations of one function on the other, and the
//! management API by which functions post to connections.
//!
//! A connection exists from the moment the function has answered `$connect` with success until its end; before and
//! after, a post to it is answered with 410. `$disconnect` is sent once and best effort, as on AWS: a killed stack
//! sends none.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::upgrade::OnUpgrade;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::handshake::server::create_response;

use super::Server;
use crate::lambda::functions::{Function, InvokeError};
use crate::stores::usage::Usage;

mod connection;
mod event;
mod management;
mod session;

use connection::Connection;
use event::{Client, Moment};

/// Largest frame that a client may send, in bytes; more closes the connection with 1009 (API Gateway's limit, 32 KB).
pub const FRAME_MAX_BYTES: usize = 32 * 1024;

/// Largest message in either direction, in bytes (API Gateway's limit, 128 KB).
pub const MESSAGE_MAX_BYTES: usize = 128 * 1024;

/// How long a connection may be silent (API Gateway's limit).
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How long a connection may live (API Gateway's limit).
pub const CONNECTION_MAX_AGE: Duration = Duration::from_secs(2 * 60 * 60);

/// How long the function may take to answer one event (API Gateway's limit).
const INTEGRATION_TIMEOUT: Duration = Duration::from_secs(29);

/// Messages that wait for a slow client; API Gateway does not say how many it keeps. Beyond them, posts get 429.
const BUFFERED_MESSAGES: usize = 64;

/// What a WebSocket gateway serves.
#[derive(Debug)]
pub struct WebSocketGatewayConfig {
    /// Where it listens: see [`listen`](super::listen).
    pub listener: TcpListener,
    /// The stage: the first segment of every path.
    pub stage: String,
    /// The function that gets `$connect`, the messages and `$disconnect`.
    pub function: Function,
    /// The route keys that `action` in a message's JSON body may select; all else goes to `$default`.
    pub routes: BTreeSet<String>,
    /// How long a connection may be silent; [`IDLE_TIMEOUT`] on AWS.
    pub idle_timeout: Duration,
    /// How long a connection may live; [`CONNECTION_MAX_AGE`] on AWS.
    pub max_age: Duration,
    /// Where it is noted who posts to connections.
    pub usage: Usage,
}

impl WebSocketGatewayConfig {
    /// A gateway in front of this function with the limits of AWS and no routes but `$default`.
    #[must_use]
    pub fn new(listener: TcpListener, stage: impl Into<String>, function: Function) -> Self {
        Self {
            listener,
            stage: stage.into(),
            function,
            routes: BTreeSet::new(),
            idle_timeout: IDLE_TIMEOUT,
            max_age: CONNECTION_MAX_AGE,
            usage: Usage::default(),
        }
    }
}

/// A running WebSocket gateway. It ends when it is dropped, and all its connections with it.
#[derive(Debug)]
pub struct WebSocketGateway {
    server: Server,
    shared: Arc<Shared>,
}

/// What the parts of the gateway share.
#[derive(Debug)]
struct Shared {
    stage: String,
    function: Function,
    routes: BTreeSet<String>,
    idle_timeout: Duration,
    max_age: Duration,
    usage: Usage,
    connections: Mutex<HashMap<String, Arc<Connection>>>,
}

impl WebSocketGateway {
    /// Starts serving.
    ///
    /// # Errors
    /// When the listener has no address.
    pub fn start(config: WebSocketGatewayConfig) -> std::io::Result<Self> {
        let WebSocketGatewayConfig { listener, stage, function, routes, idle_timeout, max_age, usage } = config;
        let connections = Mutex::default();
        let shared = Arc::new(Shared { stage, function, routes, idle_timeout, max_age, usage, connections });
        let router = Router::new()
            .route("/{stage}", get(connect))
            .route("/{stage}/", get(connect))
            .route("/{stage}/@connections/{id}", management::routes())
            .fallback(async || forbidden())
            .with_state(Arc::clone(&shared));
        Ok(Self { server: Server::start("the WebSocket gateway", listener, router)?, shared })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Where clients connect to: `ws://host:port/stage`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("ws://{}/{}", self.server.address, self.shared.stage)
    }

    /// The endpoint of the management API, as `LONGHAUL_PUSH_ENDPOINT` names it: `http://host:port/stage`.
    #[must_use]
    pub fn management_url(&self) -> String {
        format!("http://{}/{}", self.server.address, self.shared.stage)
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.lock().len()
    }
}

impl Drop for WebSocketGateway {
    fn drop(&mut self) {
        for connection in self.shared.lock().values() {
            connection.close(connection::Closing::GoingAway);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Option<Arc<Connection>> {
        self.lock().get(id).cloned()
    }

    /// Invokes the function with an event, within the time that the gateway allows.
    async fn invoke(&self, event: String) -> Result<event::Answer, Unanswered> {
        let answer = tokio::time::timeout(INTEGRATION_TIMEOUT, self.function.invoke(event, None))
            .await
            .map_err(|_| Unanswered::TimedOut)?
            .map_err(Unanswered::Invocation)?;
        Ok(event::Answer::read(&answer))
    }
}

/// Why an event has no answer of the function.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error("the function did not answer within the integration timeout")]
    TimedOut,
    #[error("the invocation failed")]
    Invocation(#[source] InvokeError),
}

impl Unanswered {
    /// What a refused client gets for it.
    fn status(&self) -> StatusCode {
        match self {
            Self::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            Self::Invocation(InvokeError::Throttled) => StatusCode::TOO_MANY_REQUESTS,
            Self::Invocation(InvokeError::Stopped) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Invocation(
                InvokeError::TimedOut { .. }
                | InvokeError::Exited { .. }
                | InvokeError::Function { .. }
                | InvokeError::PayloadTooLarge { .. }
                | InvokeError::Start { .. },
            ) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

fn forbidden() -> Response {
    (StatusCode::FORBIDDEN, axum::Json(serde_json::json!({ "message": "Forbidden" }))).into_response()
}

/// `GET /{stage}`: asks the function whether the client may come in, and only then shakes hands.
async fn connect(
    State(shared): State<Arc<Shared>>,
    Path(stage): Path<String>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    if stage != shared.stage {
        return forbidden();
    }
    let (mut parts, _body) = request.into_parts();
    let Some(upgrade) = parts.extensions.remove::<OnUpgrade>() else {
        return StatusCode::UPGRADE_REQUIRED.into_response();
    };
    let mut handshake = axum::http::Request::new(());
    handshake.method_mut().clone_from(&parts.method);
    handshake.headers_mut().clone_from(&parts.headers);
    let mut response = match create_response(&handshake) {
        Ok(response) => response.map(|()| axum::body::Body::empty()),
        Err(error) => {
            tracing::debug!(%error, "a request to the WebSocket gateway is no WebSocket handshake");
            return StatusCode::BAD_REQUEST.into_response();
        }
    };
    let client = Client::new(&shared.stage, shared.function.account(), peer, &parts.headers);
    let event = event::connect(&client, &Moment::now(), &parts);
    match shared.invoke(event).await {
        Ok(answer) if answer.status().is_success() => {
            if let Some(protocol) = answer.subprotocol() {
                response.headers_mut().insert("sec-websocket-protocol", protocol);
            }
        }
        Ok(answer) => return answer.status().into_response(),
        Err(unanswered) => {
            tracing::debug!(error = &unanswered as &dyn std::error::Error, "a connection was refused");
            return unanswered.status().into_response();
        }
    }
    tokio::spawn(session::run(shared, client, upgrade));
    response
}
