//! A slot: the place of one function process at the Runtime API, and what it is doing right now.

use std::collections::{BTreeMap, VecDeque};
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
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The invocations that were meant for the process and that it had not fetched.
    pub(crate) unfetched: Vec<String>,
    /// The invocations in whose middle the process was.
    pub(crate) running: Vec<String>,
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
    /// The process has asked for work.
    Up(Up),
    /// The process has ended or is to end.
    Closed,
}

/// The work of a process that is up.
#[derive(Debug, Default)]
struct Up {
    /// What lies ready for it.
    offered: VecDeque<Work>,
    /// What it has fetched, by request id.
    running: BTreeMap<String, Running>,
}

/// What a process owes for an invocation.
#[derive(Debug)]
enum Running {
    /// The answer, by its deadline.
    Answer { answer: oneshot::Sender<Answer>, deadline_ms: u64 },
    /// The rest of the answer that it is writing.
    Rest(oneshot::Sender<()>),
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Slot {
    /// How many invocations the process works on at once.
    room: usize,
    stage: Mutex<Stage>,
    offered: Notify,
    readiness: watch::Sender<Readiness>,
}

impl Slot {
    pub(super) fn new(room: usize) -> Self {
        Self {
            room: room.max(1),
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

    /// The invocations that the process holds or is about to fetch.
    pub(crate) fn request_ids(&self) -> Vec<String> {
        match &*self.stage() {
            Stage::Starting | Stage::Closed => Vec::new(),
            Stage::Up(up) => {
                let offered = up.offered.iter().map(|work| &work.request_id);
                up.running.keys().chain(offered).cloned().collect()
            }
        }
    }

    /// Hands work to a process that has room for it; false (and the work dropped) when it has none, or is not up.
    pub(crate) fn offer(&self, work: Work) -> bool {
        match &mut *self.stage() {
            Stage::Up(up) if up.offered.len() + up.running.len() < self.room => {
                up.offered.push_back(work);
                self.offered.notify_one();
                true
            }
            Stage::Starting | Stage::Up(_) | Stage::Closed => false,
        }
    }

    /// Closes the slot and tells what it was doing. Answer channels of unanswered invocations are dropped.
    pub(crate) fn close(&self) -> Closed {
        let before = std::mem::replace(&mut *self.stage(), Stage::Closed);
        self.offered.notify_waiters();
        self.offered.notify_one();
        match before {
            Stage::Starting | Stage::Closed => Closed::default(),
            Stage::Up(Up { offered, running }) => Closed {
                unfetched: offered.into_iter().map(|work| work.request_id).collect(),
                running: running.into_keys().collect(),
            },
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
        if matches!(*stage, Stage::Starting) {
            *stage = Stage::Up(Up::default());
            self.readiness.send_replace(Readiness::Ready);
        }
        let up = match &mut *stage {
            Stage::Up(up) => up,
            Stage::Starting | Stage::Closed => return Err(Refusal::Gone),
        };
        // A process that asks for more than it may have is out of order; it keeps what it has.
        if up.running.len() >= self.room {
            return Err(Refusal::WrongState);
        }
        let Some(work) = up.offered.pop_front() else { return Ok(None) };
        let Work { request_id, deadline_ms, arn, trace, payload, answer } = work;
        up.running.insert(request_id.clone(), Running::Answer { answer, deadline_ms });
        if !up.offered.is_empty() {
            // Two offers may have left one notice.
            self.offered.notify_one();
        }
        Ok(Some(Fetched { request_id, deadline_ms, arn, trace, payload }))
    }

    /// Does something with an invocation that is running.
    fn with_running<T>(&self, id: &str, take: impl FnOnce(&mut Up, Running) -> Option<T>) -> Result<T, Refusal> {
        match &mut *self.stage() {
            Stage::Closed => Err(Refusal::Gone),
            Stage::Starting => Err(Refusal::UnknownRequest),
            Stage::Up(up) => {
                let running = up.running.remove(id).ok_or(Refusal::UnknownRequest)?;
                take(up, running).ok_or(Refusal::UnknownRequest)
            }
        }
    }

    /// Takes the answer of a running invocation.
    pub(super) fn answer(&self, id: &str, value: Answer) -> Result<(), Refusal> {
        self.with_running(id, |up, running| match running {
            Running::Answer { answer, .. } => {
                // Nobody waits any more when the invocation has run into its timeout this very moment.
                let _late = answer.send(value);
                Some(())
            }
            rest @ Running::Rest(_) => {
                up.running.insert(id.to_owned(), rest);
                None
            }
        })
    }

    /// Takes the beginning of an answer that is written piece by piece, and tells the invocation's deadline.
    pub(super) fn begin_stream(&self, id: &str, chunks: mpsc::Receiver<Bytes>) -> Result<u64, Refusal> {
        self.with_running(id, |up, running| match running {
            Running::Answer { answer, deadline_ms } => {
                let (done, is_done) = oneshot::channel();
                up.running.insert(id.to_owned(), Running::Rest(done));
                // As with an answer in one piece: it may be too late for it.
                let _late = answer.send(Answer::Streamed(Streamed { chunks, done: is_done }));
                Some(deadline_ms)
            }
            rest @ Running::Rest(_) => {
                up.running.insert(id.to_owned(), rest);
                None
            }
        })
    }

    /// The answer that is written piece by piece has ended.
    pub(super) fn end_stream(&self, id: &str) -> Result<(), Refusal> {
        self.with_running(id, |up, running| match running {
            Running::Rest(done) => {
                let _nobody_waits = done.send(());
                Some(())
            }
            answer @ Running::Answer { .. } => {
                up.running.insert(id.to_owned(), answer);
                None
            }
        })
    }

    /// Takes the report of a process that could not start.
    pub(super) fn init_failed(&self, fault: FunctionFault) -> Result<(), Refusal> {
        match &*self.stage() {
            Stage::Starting => {
                self.readiness.send_replace(Readiness::Failed(fault));
                Ok(())
            }
            Stage::Up(_) => Err(Refusal::WrongState),
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
