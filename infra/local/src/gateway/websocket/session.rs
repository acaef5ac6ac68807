//! The life of one connection: what the client sends goes to the function, what functions post goes to the client.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::connection::{Closing, Connection, NotTaken};
use super::event::{self, Client, Moment};
use super::{FRAME_MAX_BYTES, MESSAGE_MAX_BYTES, Shared, Unanswered};

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Events of one connection that the function may work on at once. A client that sends faster is read more slowly.
const MESSAGES_AT_ONCE: usize = 16;

/// How long a client may take to accept the close frame and to close its side.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// How a connection came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// The client closed it, with the code and reason of its close frame (1005 when it gave none).
    Client { code: u16, reason: String },
    /// It broke.
    Lost,
    /// The gateway closed it.
    Gateway(Closing),
}

impl End {
    fn code_and_reason(&self) -> (u16, &str) {
        match self {
            Self::Client { code: 1005, .. } => (1005, "Client-side close frame status not set"),
            Self::Client { code, reason } => (*code, reason),
            Self::Lost => (1006, "Connection closed abnormally"),
            Self::Gateway(closing) => (closing.code(), closing.reason()),
        }
    }
}

/// Runs a connection that the function has let in, from the handshake to `$disconnect`.
pub(super) async fn run(shared: Arc<Shared>, client: Client, upgrade: OnUpgrade) {
    let (connection, inbox) = Connection::new(client);
    let connection = Arc::new(connection);
    let end = match upgrade.await {
        Ok(upgraded) => {
            let config = WebSocketConfig::default()
                .max_frame_size(Some(FRAME_MAX_BYTES))
                .max_message_size(Some(MESSAGE_MAX_BYTES));
            let socket = Socket::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
            shared.lock().insert(connection.client.id.clone(), Arc::clone(&connection));
            converse(&shared, &connection, socket, inbox).await
        }
        Err(error) => {
            tracing::debug!(%error, "a client went away during the handshake");
            End::Lost
        }
    };
    let (code, reason) = end.code_and_reason();
    let event = event::disconnect(&connection.client, &Moment::now(), code, reason);
    if let Err(unanswered) = shared.invoke(event).await {
        tracing::debug!(error = &unanswered as &dyn std::error::Error, "a $disconnect event was lost");
    }
}

async fn converse(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    socket: Socket,
    inbox: mpsc::Receiver<String>,
) -> End {
    let (sink, mut stream) = socket.split();
    let writer = tokio::spawn(write(Arc::clone(connection), sink, inbox));
    let end = tokio::select! {
        end = read(shared, connection, &mut stream) => end,
        closing = connection.closing() => End::Gateway(closing),
        closing = expiry(connection, shared.idle_timeout, shared.max_age) => End::Gateway(closing),
    };
    // From here on posts are answered with 410, however long the client takes to go.
    shared.lock().remove(&connection.client.id);
    match &end {
        // The answer to the client's close frame is written by reading on until the stream ends.
        End::Client { .. } => within_grace(drain(&mut stream)).await,
        End::Lost => {}
        End::Gateway(closing) => {
            connection.close(*closing);
            within_grace(hang_up(*closing, writer, stream)).await;
            return end;
        }
    }
    writer.abort();
    end
}

async fn within_grace(future: impl Future<Output = ()>) {
    // A client that does not close its side in time is simply dropped.
    let _late = tokio::time::timeout(CLOSE_GRACE, future).await;
}

async fn drain(stream: &mut SplitStream<Socket>) {
    while let Some(Ok(_)) = stream.next().await {}
}

/// Sees to it that the client gets the close frame that the writer sends. A socket that is closed with unread bytes
/// in it resets the connection, and the frame with it; so what the client still sends is read to its end.
async fn hang_up(closing: Closing, writer: JoinHandle<SplitSink<Socket, Message>>, mut stream: SplitStream<Socket>) {
    let Ok(sink) = writer.await else { return };
    match closing {
        // In the middle of a frame that was not read there are no frames to be found any more.
        Closing::TooBig | Closing::Protocol => {}
        Closing::Deleted | Closing::Idle | Closing::Old | Closing::Binary | Closing::GoingAway => {
            drain(&mut stream).await;
        }
    }
    let Ok(socket) = stream.reunite(sink) else { return };
    let mut connection = socket.into_inner();
    if connection.shutdown().await.is_ok() {
        let _rest = tokio::io::copy(&mut connection, &mut tokio::io::sink()).await;
    }
}

/// Waits until the connection is too old or has been silent for too long.
async fn expiry(connection: &Connection, idle_timeout: Duration, max_age: Duration) -> Closing {
    let old = Instant::from_std(connection.last_active()) + max_age;
    loop {
        let idle = Instant::from_std(connection.last_active()) + idle_timeout;
        if Instant::now() >= old {
            return Closing::Old;
        }
        if Instant::now() >= idle {
            return Closing::Idle;
        }
        tokio::time::sleep_until(idle.min(old)).await;
    }
}

/// Sends what is posted, and at the end the close frame. A slow client holds up nobody but this task. Gives back the
/// sending half.
async fn write(
    connection: Arc<Connection>,
    mut sink: SplitSink<Socket, Message>,
    mut inbox: mpsc::Receiver<String>,
) -> SplitSink<Socket, Message> {
    let sending = async {
        while let Some(text) = inbox.recv().await {
            if sink.send(Message::text(text)).await.is_err() {
                return;
            }
            connection.touch();
        }
    };
    let closing = tokio::select! {
        () = sending => return sink,
        closing = connection.closing() => closing,
    };
    let frame = CloseFrame { code: CloseCode::from(closing.code()), reason: Utf8Bytes::from_static(closing.reason()) };
    within_grace(async {
        // The client may be gone by now, and then there is nobody to tell.
        let _gone = sink.send(Message::Close(Some(frame))).await;
    })
    .await;
    sink
}

async fn read(shared: &Arc<Shared>, connection: &Arc<Connection>, stream: &mut SplitStream<Socket>) -> End {
    let at_once = Arc::new(Semaphore::new(MESSAGES_AT_ONCE));
    let mut last = None;
    while let Some(message) = stream.next().await {
        connection.touch();
        match message {
            Ok(Message::Text(text)) => {
                let turn = Arc::clone(&at_once).acquire_owned().await;
                let (shared, connection) = (Arc::clone(shared), Arc::clone(connection));
                let moment = Moment::behind(last);
                last = Some(moment.at);
                tokio::spawn(async move {
                    deliver(&shared, &connection, &moment, &text).await;
                    drop(turn);
                });
            }
            Ok(Message::Binary(_)) => return End::Gateway(Closing::Binary),
            // Pings are answered by the protocol library.
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            Ok(Message::Close(frame)) => {
                let (code, reason) = frame
                    .map_or((1005, String::new()), |frame| (u16::from(frame.code), frame.reason.as_str().to_owned()));
                return End::Client { code, reason };
            }
            Err(Error::Capacity(_)) => return End::Gateway(Closing::TooBig),
            Err(Error::Protocol(
                tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
            )) => return End::Lost,
            Err(Error::Protocol(_) | Error::Utf8(_)) => return End::Gateway(Closing::Protocol),
            Err(_) => return End::Lost,
        }
    }
    End::Lost
}

/// Gives one message to the function and its answer, if it has a body, back to the client.
async fn deliver(shared: &Shared, connection: &Connection, moment: &Moment, text: &str) {
    let route_key = route_key(shared, text);
    let event = event::message(&connection.client, moment, &route_key, text);
    let reply = match shared.invoke(event).await {
        Ok(answer) => answer.into_body(),
        Err(unanswered) => {
            tracing::debug!(error = &unanswered as &dyn std::error::Error, "a message failed");
            Some(failure(connection, moment, &unanswered))
        }
    };
    let Some(reply) = reply else { return };
    match connection.post(reply) {
        Ok(()) | Err(NotTaken::Gone) => {}
        Err(NotTaken::Full) => tracing::debug!("an answer was dropped, since its client is too slow"),
    }
}

/// What a client is told when the function failed.
fn failure(connection: &Connection, moment: &Moment, unanswered: &Unanswered) -> String {
    use crate::lambda::functions::InvokeError;
    let message = match unanswered {
        Unanswered::Invocation(InvokeError::Throttled) => "Too Many Requests",
        Unanswered::TimedOut => "Endpoint request timed out",
        Unanswered::Invocation(_) => "Internal server error",
    };
    json!({ "message": message, "connectionId": connection.client.id, "requestId": moment.request_id }).to_string()
}

fn route_key(shared: &Shared, text: &str) -> String {
    let action = serde_json::from_str::<Value>(text).ok();
    let action = action.as_ref().and_then(|body| body.get("action")?.as_str());
    action.filter(|action| shared.routes.contains(*action)).unwrap_or("$default").to_owned()
}
