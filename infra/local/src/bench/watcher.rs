//! One WebSocket connection that watches every job of a bench, as a page would: it learns which have ended, and how long
//! after its entry was written each event came.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::SplitSink;
use futures::{SinkExt, StreamExt};
use longhaul_engine::JobId;
use longhaul_wire::events::{Event, EventType};
use longhaul_wire::socket::{ClientMessage, ServerMessage};
use tokio::net::TcpStream;
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::BenchError;
use super::subject::Subject;

/// How long a job may take: far longer than any should.
const PATIENCE: Duration = Duration::from_secs(240);

type Sink = SplitSink<WebSocketStream<MaybeTlsStream<TcpStream>>, Message>;

/// The connection.
pub(super) struct Watcher {
    sink: AsyncMutex<Sink>,
    seen: Arc<Mutex<Seen>>,
    reading: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    waiting: HashMap<JobId, oneshot::Sender<EventType>>,
    lags: Vec<Duration>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Watcher {
    pub(super) async fn connect(subject: &Subject) -> Result<Self, BenchError> {
        let url = format!("{}?token={}", subject.addresses.websocket, subject.token);
        let (socket, _) = connect_async(url).await?;
        let (sink, mut stream) = socket.split();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let noting = Arc::clone(&seen);
        let reading = tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                if let Message::Text(text) = message {
                    noting.lock().unwrap_or_else(PoisonError::into_inner).take(text.as_str());
                }
            }
            // Whoever waits learns that nothing will come.
            noting.lock().unwrap_or_else(PoisonError::into_inner).waiting.clear();
        });
        Ok(Self { sink: AsyncMutex::new(sink), seen, reading })
    }

    /// Waits until a job has completed.
    pub(super) async fn completed(&self, job: JobId) -> Result<(), BenchError> {
        let (say, ended) = oneshot::channel();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).waiting.insert(job, say);
        let subscribe =
            serde_json::to_string(&ClientMessage::Subscribe { job, after: 0, together: true }).unwrap_or_default();
        self.sink.lock().await.send(Message::text(subscribe)).await?;
        let ended = timeout(PATIENCE, ended).await.map_err(BenchError::late("a job's end"))?;
        match ended.map_err(|_| BenchError::NotWatched)? {
            EventType::AgentJobCompleted => Ok(()),
            other => Err(BenchError::NotCompleted { job, event: other.as_str() }),
        }
    }

    /// How late events came since the last time that this was asked, by the clock of this machine.
    pub(super) fn lags(&self) -> Vec<Duration> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner).lags)
    }
}

impl Seen {
    fn take(&mut self, text: &str) {
        match serde_json::from_str::<ServerMessage>(text) {
            Ok(ServerMessage::Event { event }) => self.see(&event),
            Ok(ServerMessage::Events { events }) => events.iter().for_each(|event| self.see(event)),
            _ => {}
        }
    }

    fn see(&mut self, event: &Event) {
        if let Ok(written_at) = event.time.parse::<jiff::Timestamp>() {
            let lag = jiff::Timestamp::now().duration_since(written_at);
            self.lags.push(Duration::try_from(lag).unwrap_or_default());
        }
        if !event.is_end() {
            return;
        }
        let job = event.source.rsplit('/').next().and_then(|job| job.parse::<JobId>().ok());
        if let Some(say) = job.and_then(|job| self.waiting.remove(&job)) {
            let _nobody_waits = say.send(event.kind);
        }
    }
}
