//! A slot: the place of one function process at the Runtime API, and what it is doing right now.

use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use tokio::sync::{Notify, mpsc, oneshot, watch};

/// One invocation on its way to a process.
#[derive(Debug)]
pub(crate) struct Work {
    /// The request id of the invocation.
    pub(crate) request_id: String,
    /// When the process is killed, in milliseconds since the epoch.
    pub(crate) deadline_ms: u64,
    /// The function's resource name.
    pub(crate) arn: String,
    /// The X-Ray trace header.
    pub(crate) trace: String,
    /// The event.
    pub(crate) payload: Bytes,
    /// Where the answer goes. Dropped unanswered when the process ends.
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// What a process answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The handler returned this.
    Done(Bytes),
    /// The handler failed.
    Failed(FunctionFault),
    /// The handler returned something that it is still writing.
    Streamed(Streamed),
}

/// An answer that a process is still writing.
#[derive(Debug)]
pub(crate) struct Streamed {
    /// Its pieces. Ends with the answer, or with the process.
    pub(crate) chunks: mpsc::Receiver<Bytes>,
    /// Says that the process is done and waits for work.
    pub(crate) done: oneshot::Receiver<()>,
}

/// An error that a function reported about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionFault {
    /// The class of the error, as the runtime names it.
    pub(crate) error_type: String,
    /// The error in words.
    pub(crate) message: String,
}

/// Whether a process has finished its start.
#[derive(Clone, Debug)]
pub(crate) enum Readiness {
    /// It has not asked for work yet.
    Starting,
    /// It has asked for work.
    Ready,
    /// It reported that it cannot work.
    Failed(FunctionFault),
}

/// What was going on in a slot when it was closed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// No invocation was under way.
    Unoccupied,
    /// An invocation was meant for the process, but the process had not fetched it.
    Unfetched(String),
    /// The process was in the middle of this invocation.
    Running(String),
}

/// Why a call to the Runtime API is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// No process has this path.
    #[error("no function process is known under this path")]
    UnknownInstance,
    /// The process does not hold an invocation of this id.
    #[error("Invalid request ID")]
    UnknownRequest,
    /// The call does not fit what the process is doing.
    #[error("this call is not allowed in the present state")]
    WrongState,
    /// The process is being ended.
    #[error("the function process is being shut down")]
    Gone,
    /// The body is over the limit.
    #[error("Exceeded maximum allowed payload size")]
    TooLarge,
}

/// The life of a slot.
#[derive(Debug)]
enum Stage {
    /// The process was started and has not asked for work.
    Starting,
    /// The process waits for work, or will ask for it in a moment.
    Idle,
    /// Work lies ready for the process.
    Offered(Work),
    /// The process has fetched an invocation and owes the answer.
    Running { request_id: String, answer: oneshot::Sender<Answer> },
    /// The process is writing its answer.
    Streaming { request_id: String, done: oneshot::Sender<()> },
    /// The process has ended or is to end.
    Closed,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Slot {
    stage: Mutex<Stage>,
    offered: Notify,
    readiness: watch::Sender<Readiness>,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            stage: Mutex::new(Stage::Starting),
            offered: Notify::new(),
            readiness: watch::Sender::new(Readiness::Starting),
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the start of the process.
    pub(crate) fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    /// The invocation that the process holds or is about to fetch.
    pub(crate) fn request_id(&self) -> Option<String> {
        match &*self.stage() {
            Stage::Starting | Stage::Idle | Stage::Closed => None,
            Stage::Offered(work) => Some(work.request_id.clone()),
            Stage::Running { request_id, .. } | Stage::Streaming { request_id, .. } => Some(request_id.clone()),
        }
    }

    /// Hands work to an idle process; false (and the work dropped) when the process is not idle.
    pub(crate) fn offer(&self, work: Work) -> bool {
        let mut stage = self.stage();
        match &*stage {
            Stage::Idle => {
                *stage = Stage::Offered(work);
                self.offered.notify_one();
                true
            }
            Stage::Starting | Stage::Offered(_) | Stage::Running { .. } | Stage::Streaming { .. } | Stage::Closed => {
                false
            }
        }
    }

    /// Closes the slot and tells what it was doing. An unanswered invocation's answer channel is dropped.
    pub(crate) fn close(&self) -> Closed {
        let before = std::mem::replace(&mut *self.stage(), Stage::Closed);
        self.offered.notify_one();
        match before {
            Stage::Starting | Stage::Idle | Stage::Closed => Closed::Unoccupied,
            Stage::Offered(work) => Closed::Unfetched(work.request_id),
            Stage::Running { request_id, .. } | Stage::Streaming { request_id, .. } => Closed::Running(request_id),
        }
    }

    /// Waits for work. The first call also says that the process has started.
    pub(super) async fn next(&self) -> Result<Fetched, Refusal> {
        loop {
            if let Some(work) = self.fetch()? {
                return Ok(work);
            }
            self.offered.notified().await;
        }
    }

    fn fetch(&self) -> Result<Option<Fetched>, Refusal> {
        let mut stage = self.stage();
        match std::mem::replace(&mut *stage, Stage::Closed) {
            Stage::Starting => {
                *stage = Stage::Idle;
                self.readiness.send_replace(Readiness::Ready);
                Ok(None)
            }
            Stage::Idle => {
                *stage = Stage::Idle;
                Ok(None)
            }
            Stage::Offered(Work { request_id, deadline_ms, arn, trace, payload, answer }) => {
                *stage = Stage::Running { request_id: request_id.clone(), answer };
                Ok(Some(Fetched { request_id, deadline_ms, arn, trace, payload }))
            }
            // A process that asks for more without having answered is out of order; it keeps what it has.
            running @ (Stage::Running { .. } | Stage::Streaming { .. }) => {
                *stage = running;
                Err(Refusal::WrongState)
            }
            Stage::Closed => Err(Refusal::Gone),
        }
    }

    /// Takes the answer of the running invocation.
    pub(super) fn answer(&self, id: &str, value: Answer) -> Result<(), Refusal> {
        let mut stage = self.stage();
        match std::mem::replace(&mut *stage, Stage::Closed) {
            Stage::Running { request_id, answer } if request_id == id => {
                *stage = Stage::Idle;
                // Nobody waits any more when the invocation has run into its timeout this very moment.
                let _late = answer.send(value);
                Ok(())
            }
            Stage::Closed => Err(Refusal::Gone),
            other @ (Stage::Starting
            | Stage::Idle
            | Stage::Offered(_)
            | Stage::Running { .. }
            | Stage::Streaming { .. }) => {
                *stage = other;
                Err(Refusal::UnknownRequest)
            }
        }
    }

    /// Takes the beginning of an answer that is written piece by piece.
    pub(super) fn begin_stream(&self, id: &str, chunks: mpsc::Receiver<Bytes>) -> Result<(), Refusal> {
        let mut stage = self.stage();
        match std::mem::replace(&mut *stage, Stage::Closed) {
            Stage::Running { request_id, answer } if request_id == id => {
                let (done, is_done) = oneshot::channel();
                *stage = Stage::Streaming { request_id, done };
                // As with an answer in one piece: it may be too late for it.
                let _late = answer.send(Answer::Streamed(Streamed { chunks, done: is_done }));
                Ok(())
            }
            Stage::Closed => Err(Refusal::Gone),
            other @ (Stage::Starting
            | Stage::Idle
            | Stage::Offered(_)
            | Stage::Running { .. }
            | Stage::Streaming { .. }) => {
                *stage = other;
                Err(Refusal::UnknownRequest)
            }
        }
    }

    /// The answer that is written piece by piece has ended.
    pub(super) fn end_stream(&self, id: &str) -> Result<(), Refusal> {
        let mut stage = self.stage();
        match std::mem::replace(&mut *stage, Stage::Closed) {
            Stage::Streaming { request_id, done } if request_id == id => {
                *stage = Stage::Idle;
                let _nobody_waits = done.send(());
                Ok(())
            }
            Stage::Closed => Err(Refusal::Gone),
            other @ (Stage::Starting
            | Stage::Idle
            | Stage::Offered(_)
            | Stage::Running { .. }
            | Stage::Streaming { .. }) => {
                *stage = other;
                Err(Refusal::UnknownRequest)
            }
        }
    }

    /// Takes the report of a process that could not start.
    pub(super) fn init_failed(&self, fault: FunctionFault) -> Result<(), Refusal> {
        match &*self.stage() {
            Stage::Starting => {
                self.readiness.send_replace(Readiness::Failed(fault));
                Ok(())
            }
            Stage::Idle | Stage::Offered(_) | Stage::Running { .. } | Stage::Streaming { .. } => {
                Err(Refusal::WrongState)
            }
            Stage::Closed => Err(Refusal::Gone),
        }
    }
}

/// What the process is told about its invocation.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) request_id: String,
    pub(super) deadline_ms: u64,
    pub(super) arn: String,
    pub(super) trace: String,
    pub(super) payload: Bytes,
}
