//! A model server that answers every question with a fixed amount of text after a fixed time, and remembers when it was
//! asked what. Its log is the clock of the measurements: a step begins when it asks.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use longhaul_engine::JobId;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::BenchError;

/// What one job asked: the step's key, and when.
type Asked = Vec<(String, Instant)>;

/// A running model server.
pub(super) struct ModelServer {
    pub(super) url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    delay_ms: AtomicU64,
    words: AtomicU64,
    asked: Mutex<HashMap<JobId, Asked>>,
    asks: watch::Sender<u64>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl ModelServer {
    pub(super) async fn start() -> Result<Self, BenchError> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await
            .map_err(BenchError::io("the model server cannot listen on 127.0.0.1"))?;
        let address = listener.local_addr().map_err(BenchError::io("the model server has no address"))?;
        let shared = Arc::new(Shared {
            delay_ms: AtomicU64::new(0),
            words: AtomicU64::new(100),
            asked: Mutex::default(),
            asks: watch::Sender::new(0),
        });
        let router = Router::new().route("/v1/chat/completions", post(answer)).with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move {
            use axum::serve::ListenerExt as _;
            let listener = listener.tap_io(|stream| {
                // An answer of two packets would wait for an acknowledgement otherwise.
                let _ = stream.set_nodelay(true);
            });
            let _ended = axum::serve(listener, router).await;
        });
        Ok(Self { url: format!("http://{address}/v1"), shared, serving })
    }

    /// Answers come after this time from now on.
    pub(super) fn answer_after(&self, delay: Duration) {
        self.shared.delay_ms.store(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Answers have about so many bytes from now on.
    pub(super) fn answer_with(&self, bytes: u64) {
        self.shared.words.store(bytes.div_ceil(WORD_BYTES), Ordering::Relaxed);
    }

    /// What this job has asked so far.
    pub(super) fn asked(&self, job: JobId) -> Asked {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).get(&job).cloned().unwrap_or_default()
    }

    /// Waits until this job has asked so many times.
    pub(super) async fn asked_times(&self, job: JobId, times: usize, patience: Duration) -> Result<Asked, BenchError> {
        let mut asks = self.shared.asks.subscribe();
        let enough = async {
            loop {
                asks.borrow_and_update();
                let asked = self.asked(job);
                if asked.len() >= times || asks.changed().await.is_err() {
                    return asked;
                }
            }
        };
        timeout(patience, enough).await.map_err(BenchError::late("a job's next question to the model"))
    }
}

/// Bytes of one word with its space.
const WORD_BYTES: u64 = 7;

/// Words that do not repeat, so that no answer and no history compresses to nothing.
fn text(seed: u64, words: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::new();
    for _ in 0..words {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("{:06x} ", state & 0xff_ffff));
    }
    text
}

async fn answer(State(shared): State<Arc<Shared>>, headers: HeaderMap, _body: Json<Value>) -> Json<Value> {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    if let Some((job, step)) = key.and_then(|key| key.split_once('/'))
        && let Ok(job) = job.parse::<JobId>()
    {
        let mut asked = shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.entry(job).or_default().push((step.to_owned(), Instant::now()));
    }
    shared.asks.send_modify(|asks| *asks = asks.wrapping_add(1));
    let seed = *shared.asks.borrow();
    let delay = shared.delay_ms.load(Ordering::Relaxed);
    if delay > 0 {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    let words = shared.words.load(Ordering::Relaxed);
    let message = json!({"role": "assistant", "content": text(seed, words)});
    Json(json!({
        "id": "bench", "object": "chat.completion", "created": 1_700_000_000, "model": "bench",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 200, "total_tokens": 320},
    }))
}
