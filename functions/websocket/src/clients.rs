//! Clients that come, ask and go, as the gateway brings them.

use aws_lambda_events::apigw::ApiGatewayWebsocketProxyRequest;
use longhaul::engine::admission::Limit;
use longhaul::engine::{JobId, Seq, Timestamp};
use longhaul_aws::connections::{Connection, Wish};
use longhaul_aws::telemetry::chain;
use longhaul_wire::socket::{ClientMessage, ServerMessage};
use longhaul_wire::token::{TokenError, expires_at};
use longhaul_wire::{Problem, Scope, problem};
use serde::Serialize;

use crate::delivery::Delivered;
use crate::{Time, WebSocket};

/// When to connect again after too many connections: nobody knows when one closes.
const CONNECTIONS_RETRY: std::time::Duration = std::time::Duration::from_secs(30);

/// The answer to the gateway. Only that to `$connect` reaches the client, as the answer to its handshake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GatewayAnswer {
    status_code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Headers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Headers {
    #[serde(rename = "content-type")]
    content_type: &'static str,
    #[serde(rename = "retry-after", skip_serializing_if = "Option::is_none")]
    retry_after: Option<String>,
}

impl GatewayAnswer {
    const OK: Self = Self { status_code: 200, headers: None, body: None };

    fn problem(problem: &Problem, request_id: Option<&str>) -> Self {
        let body = serde_json::to_string(&problem.body(None, request_id)).ok();
        let retry_after = problem.retry_after_seconds().map(|seconds| seconds.to_string());
        let headers = Some(Headers { content_type: problem::CONTENT_TYPE, retry_after });
        Self { status_code: problem.status(), headers, body }
    }
}

/// Why a client's message was not done.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It is told this, about this job.
    Problem(Option<JobId>, Problem),
    /// Its token has expired, or it has been forgotten: it is told so, about this job, and the connection ends.
    Expired(Option<JobId>),
    /// Nobody listens any more.
    Closed,
}

impl Refusal {
    pub(crate) const fn about(job: JobId, problem: Problem) -> Self {
        Self::Problem(Some(job), problem)
    }
}

impl WebSocket {
    /// Handles one event of the gateway. It never fails: a client is told what went wrong.
    pub(crate) async fn client_event(&self, event: ApiGatewayWebsocketProxyRequest, time: Time) -> GatewayAnswer {
        let context = &event.request_context;
        let request_id = context.request_id.as_deref();
        let Some(connection) = context.connection_id.as_deref() else {
            tracing::error!(request_id, "an event of the gateway names no connection");
            return GatewayAnswer::problem(&Problem::Internal, request_id);
        };
        match context.event_type.as_deref() {
            Some("CONNECT") => match self.connect(&event, connection, time.now()).await {
                Ok(()) => GatewayAnswer::OK,
                Err(problem) => GatewayAnswer::problem(&problem, request_id),
            },
            Some("DISCONNECT") => {
                self.gone(connection, context.connected_at).await;
                GatewayAnswer::OK
            }
            Some(_) | None => {
                let text = event.body.as_deref().unwrap_or_default();
                let asked_ms = u64::try_from(context.request_time_epoch).ok().filter(|ms| *ms > 0);
                let asked_ms = asked_ms.unwrap_or_else(|| time.now().as_millis());
                match self.message(connection, text, asked_ms, time).await {
                    Ok(()) | Err(Refusal::Closed) => {}
                    Err(Refusal::Expired(job)) => self.send_away(connection, job, request_id).await,
                    Err(Refusal::Problem(job, problem)) => {
                        self.tell(connection, &ServerMessage::problem(job, &problem, request_id)).await;
                    }
                }
                GatewayAnswer::OK
            }
        }
    }

    /// A client has gone. Word of that may come late, when its id is another's already, who is told from it by when the
    /// gateway has opened each.
    async fn gone(&self, id: &str, opened: i64) {
        match self.store.connection(id).await {
            Ok(Some(Connection { opened: Some(stored), .. })) if u64::try_from(opened).is_ok_and(|it| it != stored) => {
                tracing::info!(connection = id, "a connection that had this id before has gone");
            }
            Ok(_) => self.forget_connection(id).await,
            Err(error) => tracing::warn!(connection = id, error = %chain(&error), "a connection was not forgotten"),
        }
    }

    /// Lets a client in, or not: its token comes with the handshake, as a header or, since browsers can set none, as
    /// the parameter `token`.
    async fn connect(&self, event: &ApiGatewayWebsocketProxyRequest, id: &str, now: Timestamp) -> Result<(), Problem> {
        let header = event.headers.get("authorization").and_then(|value| value.to_str().ok());
        let parameter = event.query_string_parameters.first("token");
        let token = token_of(header, parameter);
        let caller = self.tokens.check(token).await.map_err(|error| {
            match &error {
                TokenError::KeysUnavailable(_) => tracing::error!(error = %chain(&error), "tokens cannot be checked"),
                TokenError::Missing
                | TokenError::Malformed(_)
                | TokenError::Invalid(_)
                | TokenError::UnknownKey
                | TokenError::Claim { .. } => tracing::info!(error = %chain(&error), "a connection was refused"),
            }
            error.problem()
        })?;
        caller.require(Scope::Read)?;
        let connection = Connection {
            id: id.to_owned(),
            tenant: caller.tenant,
            subject: caller.subject,
            token_expires_at: expires_at(token).ok_or(Problem::NotAuthenticated)?,
            connected_at: now,
            opened: u64::try_from(event.request_context.connected_at).ok().filter(|opened| *opened > 0),
        };
        self.check_room(&connection).await?;
        self.store.put_connection(&connection).await.map_err(|error| {
            tracing::error!(tenant = %connection.tenant, error = %chain(&error), "a connection was not stored");
            unavailable()
        })?;
        if let Err(problem) = self.refuse_while_erasing(&connection.tenant).await {
            self.forget_connection(id).await;
            return Err(problem);
        }
        Ok(())
    }

    /// Refuses a connection of a tenant that has as many as it may. Those that come at the same moment may be some too
    /// many; a count that cannot be read keeps nobody out.
    async fn check_room(&self, connection: &Connection) -> Result<(), Problem> {
        let tenant = &connection.tenant;
        let value = self.store.config().tenant_limits.of(tenant).connections;
        match self.store.connections_of(tenant, connection.connected_at).await {
            Ok(count) if count >= value => {
                tracing::info!(%tenant, count, "a connection was refused: the tenant has as many as it may");
                let retry_after = CONNECTIONS_RETRY;
                Err(Problem::LimitReached { limit: Limit::Connections, value, retry_after })
            }
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::warn!(%tenant, error = %chain(&error), "connections were not counted");
                Ok(())
            }
        }
    }

    /// Does what a client asks, in a message that the gateway took at `asked_ms`.
    async fn message(&self, id: &str, text: &str, asked_ms: u64, time: Time) -> Result<(), Refusal> {
        let message = ClientMessage::parse(text).map_err(|problem| Refusal::Problem(None, problem))?;
        let job = match &message {
            ClientMessage::Subscribe { job, after: _, together: _ } | ClientMessage::Unsubscribe { job } => Some(*job),
            ClientMessage::Ping => None,
        };
        let connection = self.connection(id, job, time.now()).await?;
        let answer = match message {
            ClientMessage::Subscribe { job, after, together } => {
                self.subscribe(&connection, job, Wish { after: Seq(after), together }, asked_ms, time).await?
            }
            ClientMessage::Unsubscribe { job } => self.unsubscribe(&connection, job, asked_ms).await?,
            ClientMessage::Ping => ServerMessage::Pong,
        };
        self.tell(id, &answer).await;
        Ok(())
    }

    /// The connection that a message came by, while its token counts.
    async fn connection(&self, id: &str, job: Option<JobId>, now: Timestamp) -> Result<Connection, Refusal> {
        let found = self.store.connection(id).await.map_err(|error| {
            tracing::error!(connection = id, error = %chain(&error), "a connection was not read");
            Refusal::Problem(job, unavailable())
        })?;
        match found {
            Some(connection) if now < connection.token_expires_at => Ok(connection),
            Some(_) | None => Err(Refusal::Expired(job)),
        }
    }

    /// Ends a connection that has no right any more: it is told why, forgotten and closed. What fails here is found out by
    /// its next message, or the gateway's own end of connections.
    pub(crate) async fn send_away(&self, id: &str, job: Option<JobId>, request_id: Option<&str>) {
        let problem = ServerMessage::problem(job, &Problem::NotAuthenticated, request_id);
        if self.tell(id, &problem).await == Delivered::Closed {
            return;
        }
        self.forget_connection(id).await;
        if let Err(error) = self.push.close(id).await {
            tracing::warn!(connection = id, error = %chain(&error), "a connection was not closed");
        }
    }
}

/// The token of a handshake. A header counts for more than a parameter, also where it holds none.
pub(crate) fn token_of<'a>(header: Option<&'a str>, parameter: Option<&'a str>) -> &'a str {
    match (header, parameter) {
        (Some(header), _) => bearer(header).unwrap_or_default(),
        (None, Some(parameter)) => parameter,
        (None, None) => "",
    }
}

/// The token in an `Authorization` header.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start())
}

/// The store did not answer; its own retries are through, so a client may try again soon.
pub(crate) const fn unavailable() -> Problem {
    Problem::Unavailable { retry_after: std::time::Duration::from_secs(1) }
}
