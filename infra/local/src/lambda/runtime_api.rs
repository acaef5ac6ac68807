//! The AWS Lambda Runtime API: where function processes fetch their work and leave their answers.
//!
//! One listener serves all processes of all functions; each process has a path of its own
//! (`http://127.0.0.1:port/<function>/<instance>`), given to it as `AWS_LAMBDA_RUNTIME_API`, so that nobody can fetch
//! or answer another's work by mistake. The wire is version 2018-06-01, the one that every Lambda runtime speaks.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use futures::StreamExt as _;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

mod slot;

use slot::Refusal;
pub(crate) use slot::{Answer, Closed, FunctionFault, Readiness, Slot, Streamed, Work};

/// Largest event and largest answer of a synchronous invocation, in bytes; Lambda's own limit (6 MB).
pub const PAYLOAD_MAX_BYTES: usize = 6 * 1024 * 1024;

/// Largest error report that is read from a process, in bytes; enough for any stack trace, too little to fill memory.
const ERROR_REPORT_MAX_BYTES: usize = 256 * 1024;

/// Header by which a runtime names the class of the error that it reports.
const ERROR_TYPE_HEADER: &str = "lambda-runtime-function-error-type";

/// Header by which a runtime says that it writes its answer piece by piece.
const RESPONSE_MODE_HEADER: &str = "lambda-runtime-function-response-mode";

/// Pieces of an answer that wait for whoever reads them: more than a few, and a process would write ahead of a reader
/// that is not there any more.
const CHUNKS_WAITING_MAX: usize = 16;

/// How long a piece may wait for a reader. One that takes longer has stopped reading: its answer ends here, and it resumes
/// the stream when it reads again. Held until the invocation's deadline, the whole process would be killed for it, with
/// the answers that it writes for others.
const READER_PATIENCE: Duration = Duration::from_secs(15);

/// How long before that deadline no reader is waited for any more.
const DEADLINE_RESERVE: Duration = Duration::from_secs(1);

/// The running Runtime API server. It ends when the value is dropped.
#[derive(Debug)]
pub struct RuntimeApi {
    address: SocketAddr,
    slots: Slots,
    stop: CancellationToken,
}

/// All slots by the path of their process.
#[derive(Clone, Debug, Default)]
struct Slots(Arc<Mutex<HashMap<SlotPath, Arc<Slot>>>>);

/// Where a process finds its slot: function name and instance id.
type SlotPath = (String, String);

impl Slots {
    fn lock(&self) -> MutexGuard<'_, HashMap<SlotPath, Arc<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, function: String, instance: String) -> Result<Arc<Slot>, Refusal> {
        self.lock().get(&(function, instance)).cloned().ok_or(Refusal::UnknownInstance)
    }
}

impl RuntimeApi {
    /// Starts the server on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let slots = Slots::default();
        let stop = CancellationToken::new();
        // Without TCP_NODELAY each invocation waits some 40 ms for a delayed acknowledgement.
        let listener = listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "the Runtime API could not switch off Nagle's algorithm");
            }
        });
        let router = router(slots.clone());
        let stopped = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                result = axum::serve(listener, router).into_future() => {
                    if let Err(error) = result {
                        tracing::error!(%error, "the Runtime API server ended");
                    }
                }
                () = stopped.cancelled() => {}
            }
        });
        Ok(Self { address, slots, stop })
    }

    /// The address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens the slot of a new process with room for so many invocations at once, and tells its `AWS_LAMBDA_RUNTIME_API`.
    ///
    /// The `http://` belongs there: without a scheme, runtimes take everything as a host name and drop the path.
    pub(crate) fn open(&self, function: &str, instance: &str, room: usize) -> (Arc<Slot>, String) {
        let slot = Arc::new(Slot::new(room));
        self.slots.lock().insert((function.to_owned(), instance.to_owned()), Arc::clone(&slot));
        (slot, format!("http://{}/{function}/{instance}", self.address))
    }

    /// Forgets the slot of a process that has ended.
    pub(crate) fn remove(&self, function: &str, instance: &str) {
        self.slots.lock().remove(&(function.to_owned(), instance.to_owned()));
    }
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn router(slots: Slots) -> Router {
    const BASE: &str = "/{function}/{instance}/2018-06-01/runtime";
    Router::new()
        .route(&format!("{BASE}/invocation/next"), get(next))
        .route(&format!("{BASE}/invocation/{{request_id}}/response"), post(response))
        .route(&format!("{BASE}/invocation/{{request_id}}/error"), post(error))
        .route(&format!("{BASE}/init/error"), post(init_error))
        .with_state(slots)
}

async fn next(
    State(slots): State<Slots>,
    Path((function, instance)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let slot = slots.find(function, instance)?;
    let work = slot.next().await?;
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in [
        ("lambda-runtime-aws-request-id", work.request_id.as_str()),
        ("lambda-runtime-deadline-ms", work.deadline_ms.to_string().as_str()),
        ("lambda-runtime-invoked-function-arn", work.arn.as_str()),
        ("lambda-runtime-trace-id", work.trace.as_str()),
    ] {
        // A trace id comes from outside; one that is no header value is left out rather than failing the invocation.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    Ok((headers, work.payload).into_response())
}

async fn response(
    State(slots): State<Slots>,
    Path((function, instance, request_id)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let slot = slots.find(function, instance)?;
    if headers.get(RESPONSE_MODE_HEADER).is_some_and(|mode| mode.as_bytes().eq_ignore_ascii_case(b"streaming")) {
        return pass_on(&slot, &request_id, body, READER_PATIENCE).await;
    }
    match to_bytes(body, PAYLOAD_MAX_BYTES).await {
        Ok(payload) => slot.answer(&request_id, Answer::Done(payload)).map(|()| accepted()),
        Err(reason) => {
            let fault = FunctionFault {
                error_type: "Function.ResponseSizeTooLarge".to_owned(),
                message: format!(
                    "Response payload was not accepted ({reason}); at most {PAYLOAD_MAX_BYTES} bytes are allowed."
                ),
            };
            slot.answer(&request_id, Answer::Failed(fault))?;
            Err(Refusal::TooLarge)
        }
    }
}

/// Passes an answer on as it is written. When nobody reads it any more the rest is not waited for: the process sees its
/// connection end, and goes on to its next work. The same when a piece is not taken for as long as `patience`.
async fn pass_on(slot: &Slot, request_id: &str, body: Body, patience: Duration) -> Result<Response, Refusal> {
    let (chunks, taken) = mpsc::channel(CHUNKS_WAITING_MAX);
    let deadline = Duration::from_millis(slot.begin_stream(request_id, taken)?).saturating_sub(DEADLINE_RESERVE);
    let mut pieces = body.into_data_stream();
    loop {
        let piece = tokio::select! {
            piece = pieces.next() => piece,
            () = chunks.closed() => break,
        };
        match piece {
            Some(Ok(piece)) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let left = patience.min(deadline.saturating_sub(now));
                match tokio::time::timeout(left, chunks.send(piece)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_gone)) => break,
                    Err(_elapsed) => {
                        tracing::debug!(request_id, waited = ?left, "an answer was ended, since its reader takes nothing");
                        break;
                    }
                }
            }
            Some(Err(error)) => {
                tracing::debug!(request_id, %error, "an answer broke off while it was written");
                break;
            }
            None => break,
        }
    }
    drop(chunks);
    slot.end_stream(request_id).map(|()| accepted())
}

async fn error(
    State(slots): State<Slots>,
    Path((function, instance, request_id)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let slot = slots.find(function, instance)?;
    let fault = read_fault(&headers, body).await;
    slot.answer(&request_id, Answer::Failed(fault)).map(|()| accepted())
}

async fn init_error(
    State(slots): State<Slots>,
    Path((function, instance)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let slot = slots.find(function, instance)?;
    let fault = read_fault(&headers, body).await;
    slot.init_failed(fault).map(|()| accepted())
}

/// The error report of a runtime, as far as it can be read; an unreadable one is still an error of the function.
async fn read_fault(headers: &HeaderMap, body: Body) -> FunctionFault {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Report {
        error_message: Option<String>,
        error_type: Option<String>,
    }

    let named = headers.get(ERROR_TYPE_HEADER).and_then(|value| value.to_str().ok()).unwrap_or("Unhandled");
    let body = to_bytes(body, ERROR_REPORT_MAX_BYTES).await.unwrap_or_else(|reason| Bytes::from(reason.to_string()));
    match serde_json::from_slice::<Report>(&body) {
        Ok(report) => FunctionFault {
            error_type: report.error_type.unwrap_or_else(|| named.to_owned()),
            message: report.error_message.unwrap_or_default(),
        },
        Err(_) => FunctionFault { error_type: named.to_owned(), message: String::from_utf8_lossy(&body).into_owned() },
    }
}

fn accepted() -> Response {
    (StatusCode::ACCEPTED, [(header::CONTENT_TYPE, "application/json")], r#"{"status":"OK"}"#).into_response()
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, error_type) = match self {
            Self::UnknownInstance => (StatusCode::NOT_FOUND, "UnknownInstance"),
            Self::UnknownRequest => (StatusCode::BAD_REQUEST, "InvalidRequestID"),
            Self::WrongState => (StatusCode::FORBIDDEN, "InvalidStateTransition"),
            Self::Gone => (StatusCode::GONE, "Shutdown"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
        };
        let body = serde_json::json!({ "errorType": error_type, "errorMessage": self.to_string() });
        (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
    use futures::stream;
    use tokio::sync::oneshot;

    use super::*;

    fn work(id: &str, deadline_ms: u64) -> (Work, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let (arn, trace, payload) = (String::new(), String::new(), Bytes::new());
        (Work { request_id: id.to_owned(), deadline_ms, arn, trace, payload, answer }, answered)
    }

    /// What the process goes on writing for a reader that takes nothing is ended, and its other work is not touched:
    /// after a while, or before its deadline if that is nearer.
    #[tokio::test]
    async fn a_reader_that_takes_nothing_ends_its_own_answer_only() {
        for (deadline_ms, patience) in [(u64::MAX, Duration::from_millis(50)), (0, Duration::MAX)] {
            let slot = Slot::new(2);
            let ((stuck, stuck_answered), (other, other_answered)) = (work("stuck", deadline_ms), work("other", 0));
            let (fetched, ()) = tokio::join!(slot.next(), async {
                tokio::task::yield_now().await;
                assert!(slot.offer(stuck) && slot.offer(other));
            });
            assert_eq!(fetched.unwrap().request_id, "stuck");
            slot.next().await.unwrap();
            let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(b"x")));
            let passed = pass_on(&slot, "stuck", Body::from_stream(endless), patience).await;
            assert_eq!(passed.unwrap().status(), StatusCode::ACCEPTED);
            let Answer::Streamed(Streamed { mut chunks, done }) = stuck_answered.await.unwrap() else { panic!() };
            done.await.unwrap();
            let mut waiting = 0;
            while chunks.recv().await.is_some() {
                waiting += 1;
            }
            assert_eq!(waiting, CHUNKS_WAITING_MAX);
            assert_eq!(slot.request_ids(), ["other"]);
            slot.answer("other", Answer::Done(Bytes::new())).unwrap();
            assert!(matches!(other_answered.await, Ok(Answer::Done(_))));
        }
    }
}
