//! Follows a job over the WebSocket: every event once and in order, over lost connections too. Where none is named, or none
//! gets through, its events are asked for; what running steps say is not heard then.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use longhaul_engine::JobId;
use longhaul_wire::Event;
use longhaul_wire::socket::{ClientMessage, DeltaBody, ServerMessage};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::CliError;
use super::asking::Asking;
use super::client::Client;

/// First and longest wait before connecting again.
const RECONNECT_FIRST: Duration = Duration::from_millis(200);
const RECONNECT_LONGEST: Duration = Duration::from_secs(5);
/// How long one attempt may take: what lets nothing through often says nothing either.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Attempts in a row after which the stack is taken for gone.
const RECONNECTS_MAX: u32 = 20;
/// Attempts after which a WebSocket that was never there is taken for one that does not get through.
const FIRST_CONNECTS_MAX: u32 = 3;
/// Silence after which the subscription is made again: a missing event would come by that, and an idle connection is
/// kept open by it.
const SILENCE: Duration = Duration::from_secs(15);
/// How long an event may be missing before it is asked for.
const GAP: Duration = Duration::from_secs(2);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// What a follower is told.
pub(super) enum News {
    /// The next event.
    Event(Box<Event>),
    /// A piece of what a running step says.
    Delta(Box<DeltaBody>),
}

/// A job's events, from a position on.
pub(super) struct Follow {
    /// The WebSocket; none where the deployment names none.
    url: Option<String>,
    client: Client,
    job: JobId,
    last: u64,
    early: BTreeMap<u64, Event>,
    socket: Option<Socket>,
    was_connected: bool,
    asking: Option<Asking>,
}

impl Follow {
    pub(super) fn new(url: Option<String>, client: Client, job: JobId, after: u64) -> Self {
        let (early, socket, was_connected, asking) = (BTreeMap::new(), None, false, None);
        Self { url, client, job, last: after, early, socket, was_connected, asking }
    }

    /// The next event, or what a step says meanwhile.
    pub(super) async fn next(&mut self) -> Result<News, CliError> {
        loop {
            if let Some(asking) = &mut self.asking {
                return asking.next().await.map(|event| News::Event(Box::new(event)));
            }
            if let Some(event) = self.early.remove(&(self.last.saturating_add(1))) {
                self.last = event.sequence.0;
                return Ok(News::Event(Box::new(event)));
            }
            let wait = if self.early.is_empty() { SILENCE } else { GAP };
            if self.socket.is_none() && !self.connect().await? {
                self.asking = Some(Asking::new(self.client.clone(), self.job, self.last));
                continue;
            }
            let Some(socket) = &mut self.socket else { continue };
            let received = match timeout_at(Instant::now() + wait, socket.next()).await {
                Ok(Some(Ok(message))) => message,
                // Lost: the next turn connects again and asks for what is missing.
                Ok(Some(Err(_)) | None) => {
                    self.socket = None;
                    continue;
                }
                Err(_) => {
                    self.subscribe().await;
                    continue;
                }
            };
            if let Some(delta) = self.take(&received) {
                return Ok(News::Delta(delta));
            }
        }
    }

    /// Takes a message in; a delta is handed on, since it belongs to the moment.
    fn take(&mut self, received: &Message) -> Option<Box<DeltaBody>> {
        let Message::Text(text) = received else { return None };
        match serde_json::from_str(text.as_str()) {
            Ok(ServerMessage::Event { event }) if event.sequence.0 > self.last => {
                self.early.insert(event.sequence.0, *event);
            }
            Ok(ServerMessage::Events { events }) => {
                let news = events.into_iter().filter(|event| event.sequence.0 > self.last);
                self.early.extend(news.map(|event| (event.sequence.0, event)));
            }
            Ok(ServerMessage::Delta { delta }) if delta.job == self.job => return Some(delta),
            Ok(ServerMessage::Problem { problem, .. }) => {
                tracing::debug!(problem = problem.title, "the live connection reports a problem");
            }
            Ok(
                ServerMessage::Event { .. }
                | ServerMessage::Delta { .. }
                | ServerMessage::Subscribed { .. }
                | ServerMessage::Unsubscribed { .. }
                | ServerMessage::Pong,
            ) => {}
            // A newer server may say what this program does not know.
            Err(error) => tracing::debug!(%error, "a message was not understood"),
        }
        None
    }

    /// Connects and subscribes. False: there is no WebSocket, or none that gets through.
    async fn connect(&mut self) -> Result<bool, CliError> {
        let Some(url) = self.url.clone() else { return Ok(false) };
        let tokens = self.client.tokens();
        let mut wait = RECONNECT_FIRST;
        let mut tries = 0_u32;
        let socket = loop {
            // Anew at each try: what was refused may have expired.
            let token = tokens.get().await?;
            let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("token", &token).finish();
            let connecting = timeout(CONNECT_MAX, connect_async(format!("{url}?{query}"))).await;
            match connecting.unwrap_or_else(|_| Err(SocketError::Io(std::io::ErrorKind::TimedOut.into()))) {
                Ok((socket, _)) => break socket,
                Err(source) => {
                    tries = tries.saturating_add(1);
                    let refused = matches!(&source, SocketError::Http(answer) if answer.status().is_client_error())
                        && tokens.other_than(&token).await?.is_none();
                    // By the deployment or by something in between: what is asked for is refused as well, or is not.
                    if !self.was_connected && (refused || tries >= FIRST_CONNECTS_MAX) {
                        tracing::debug!(%source, "no WebSocket gets through; events are asked for");
                        return Ok(false);
                    }
                    if refused || tries >= RECONNECTS_MAX {
                        return Err(CliError::Live { url, source: Box::new(source) });
                    }
                    sleep(wait).await;
                    wait = wait.saturating_mul(2).min(RECONNECT_LONGEST);
                }
            }
        };
        self.was_connected = true;
        self.socket = Some(socket);
        // It lets a connection go that does not take the message; the next turn connects again.
        self.subscribe().await;
        Ok(true)
    }

    async fn subscribe(&mut self) {
        let message = ClientMessage::Subscribe { job: self.job, after: self.last, together: false };
        let (Ok(text), Some(socket)) = (serde_json::to_string(&message), &mut self.socket) else { return };
        if socket.send(Message::text(text)).await.is_err() {
            self.socket = None;
        }
    }
}
