//! One invocation: find or start a process, hand over the event, wait for answer, death or timeout.

use std::io;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;
use uuid::Uuid;

use super::pool::Place;
use super::process::{Death, Ending, Instance};
use super::{DeathCause, Function, Platform, State};
use crate::lambda::runtime_api::{Answer, FunctionFault, PAYLOAD_MAX_BYTES, Readiness, Streamed, Work};

/// How often an event that no process had fetched is given to a next one. Each time means that a process died between
/// two invocations; more than a few of them in a row mean that something kills them all.
const HANDOVERS_MAX: usize = 3;

/// Why an invocation has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum InvokeError {
    /// As many invocations of the function as are allowed are running.
    #[error("Rate Exceeded.")]
    Throttled,
    /// The function did not answer in time; its process was killed.
    #[error("Task timed out after {:.2} seconds", .after.as_secs_f64())]
    TimedOut {
        /// The function's timeout.
        after: Duration,
    },
    /// The function's process ended before it answered.
    #[error("Runtime exited with error: {status}")]
    Exited {
        /// How it ended.
        status: ExitStatus,
    },
    /// The function answered with an error of its own.
    #[error("{error_type}: {message}")]
    Function {
        /// The class of the error, as the function names it.
        error_type: String,
        /// The error in words.
        message: String,
    },
    /// The event is over the limit of [`PAYLOAD_MAX_BYTES`].
    #[error("the event has {bytes} bytes, and at most {PAYLOAD_MAX_BYTES} are allowed")]
    PayloadTooLarge {
        /// The size of the event.
        bytes: usize,
    },
    /// The function's program could not be started.
    #[error("the function's program could not be started")]
    Start {
        /// The cause.
        #[source]
        source: Arc<io::Error>,
    },
    /// The stack is going down.
    #[error("the stack is shutting down")]
    Stopped,
}

impl InvokeError {
    /// The class of the error in Lambda's words.
    #[must_use]
    pub fn error_type(&self) -> &str {
        match self {
            Self::Throttled => "TooManyRequestsException",
            Self::TimedOut { .. } => "Sandbox.Timedout",
            Self::Exited { .. } => "Runtime.ExitError",
            Self::Function { error_type, .. } => error_type,
            Self::PayloadTooLarge { .. } => "RequestTooLargeException",
            Self::Start { .. } => "Runtime.InvalidEntrypoint",
            Self::Stopped => "ServiceException",
        }
    }

    /// Whether the process that worked on the invocation is dead, so that nothing of it is still going on.
    #[must_use]
    pub fn process_died(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::Exited { .. } => true,
            Self::Throttled
            | Self::Function { .. }
            | Self::PayloadTooLarge { .. }
            | Self::Start { .. }
            | Self::Stopped => false,
        }
    }
}

impl From<FunctionFault> for InvokeError {
    fn from(FunctionFault { error_type, message }: FunctionFault) -> Self {
        Self::Function { error_type, message }
    }
}

impl Function {
    /// Invokes the function and waits for its answer (Lambda's `RequestResponse`).
    ///
    /// `trace` is the X-Ray header that the function is to see; without one a fresh, unsampled one is made up. The
    /// invocation goes on to its end when the returned future is dropped, as it does on Lambda.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub async fn invoke(&self, payload: impl Into<Bytes>, trace: Option<String>) -> Result<Bytes, InvokeError> {
        self.invoke_beside(payload.into(), trace, false).await
    }

    /// The same in a process that works on nothing else meanwhile, if one is to be had: for an event that a process has
    /// died over, lest it take others with it.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub async fn invoke_alone(&self, payload: impl Into<Bytes>, trace: Option<String>) -> Result<Bytes, InvokeError> {
        self.invoke_beside(payload.into(), trace, true).await
    }

    async fn invoke_beside(&self, payload: Bytes, trace: Option<String>, alone: bool) -> Result<Bytes, InvokeError> {
        if payload.len() > PAYLOAD_MAX_BYTES {
            return Err(InvokeError::PayloadTooLarge { bytes: payload.len() });
        }
        let invocation = Invocation { alone, ..self.invocation(payload, trace, None) };
        // A task of its own makes the invocation independent of whoever waits for it.
        tokio::spawn(invocation.run()).await.unwrap_or(Err(InvokeError::Stopped))
    }

    /// Invokes the function and gives its answer as soon as it begins (Lambda's `InvokeWithResponseStream`).
    ///
    /// # Errors
    /// See [`InvokeError`]; of what goes wrong later, the answer's pieces end.
    pub async fn invoke_streaming(
        &self,
        payload: impl Into<Bytes>,
        trace: Option<String>,
    ) -> Result<Reply, InvokeError> {
        let (stream_to, stream) = oneshot::channel();
        let invocation = self.invocation(payload.into(), trace, Some(stream_to));
        let run = tokio::spawn(invocation.run());
        tokio::select! {
            biased;
            Ok(chunks) = stream => Ok(Reply::Pieces(chunks)),
            result = run => result.unwrap_or(Err(InvokeError::Stopped)).map(Reply::Whole),
        }
    }

    fn invocation(&self, payload: Bytes, trace: Option<String>, stream_to: Option<StreamTo>) -> Invocation {
        Invocation {
            platform: Arc::clone(&self.lifeline.platform),
            state: Arc::clone(&self.state),
            request_id: Uuid::new_v4().to_string(),
            payload,
            trace: trace.unwrap_or_else(fresh_trace),
            alone: false,
            stream_to: Mutex::new(stream_to),
        }
    }
}

/// The answer of a function that may write it piece by piece.
#[derive(Debug)]
pub enum Reply {
    /// It came in one piece.
    Whole(Bytes),
    /// It is being written.
    Pieces(mpsc::Receiver<Bytes>),
}

/// Where the pieces of an answer go.
type StreamTo = oneshot::Sender<mpsc::Receiver<Bytes>>;

#[derive(Debug)]
struct Invocation {
    platform: Arc<Platform>,
    state: Arc<State>,
    request_id: String,
    payload: Bytes,
    trace: String,
    /// Whether it shares its process with no other.
    alone: bool,
    /// Who wants the answer piece by piece, if anybody does.
    stream_to: Mutex<Option<StreamTo>>,
}

/// What came of one try to hand the event to a process.
enum Try {
    Ended(Result<Bytes, InvokeError>),
    /// The process died without having fetched the event.
    Unfetched(InvokeError),
}

impl Invocation {
    async fn run(self) -> Result<Bytes, InvokeError> {
        let stop = self.platform.stop.clone();
        let turn = tokio::select! {
            turn = self.state.pool.turn(self.state.config.patience) => turn,
            () = stop.cancelled() => return Err(InvokeError::Stopped),
        };
        let _turn = turn.ok_or(InvokeError::Throttled)?;
        let mut last = InvokeError::Stopped;
        for _ in 0..HANDOVERS_MAX {
            if stop.is_cancelled() {
                return Err(InvokeError::Stopped);
            }
            let place = tokio::select! {
                place = self.state.pool.place(self.alone) => place,
                () = stop.cancelled() => return Err(InvokeError::Stopped),
            };
            let instance = match place {
                Place::Warm(instance) => instance,
                Place::Start => {
                    let started = self.start_cold().await;
                    self.state.pool.started(started.as_ref().ok(), self.alone);
                    started?
                }
                Place::Wait => continue,
            };
            match self.hand_to(&instance).await {
                Try::Ended(result) => return result,
                Try::Unfetched(error) => last = error,
            }
        }
        Err(last)
    }

    /// Starts a process and waits until it asks for work.
    async fn start_cold(&self) -> Result<Arc<Instance>, InvokeError> {
        let started = Instant::now();
        let instance = Instance::start(&self.platform, &self.state)
            .await
            .map_err(|source| InvokeError::Start { source: Arc::new(source) })?;
        let mut readiness = instance.slot().readiness();
        let settled = readiness.wait_for(|now| !matches!(now, Readiness::Starting));
        let limit = self.platform.config.init_timeout;
        let fault = tokio::select! {
            biased;
            ready = settled => match ready.map(|now| now.clone()) {
                Ok(Readiness::Ready) => {
                    tracing::debug!(function = self.state.config.name, pid = instance.pid(),
                        took = ?started.elapsed(), "cold start");
                    return Ok(instance);
                }
                Ok(Readiness::Failed(fault)) => InvokeError::from(fault),
                Ok(Readiness::Starting) | Err(_) => InvokeError::Stopped,
            },
            death = instance.gone() => return Err(self.death_as_error(&death)),
            () = tokio::time::sleep(limit) => InvokeError::TimedOut { after: limit },
        };
        instance.end(Ending::InitFailed);
        instance.gone().await;
        Err(fault)
    }

    async fn hand_to(&self, instance: &Arc<Instance>) -> Try {
        let timeout = self.state.config.timeout;
        let (answer, mut answered) = oneshot::channel();
        let work = Work {
            request_id: self.request_id.clone(),
            deadline_ms: epoch_ms(SystemTime::now() + timeout),
            arn: self.state.arn.clone(),
            trace: self.trace.clone(),
            payload: self.payload.clone(),
            answer,
        };
        let started = Instant::now();
        let deadline = tokio::time::sleep(timeout);
        tokio::pin!(deadline);
        if !instance.slot().offer(work) {
            let death = instance.gone().await;
            return Try::Unfetched(self.death_as_error(&death));
        }
        self.state.log.line(format!("START RequestId: {} Version: $LATEST", self.request_id)).await;
        let outcome = tokio::select! {
            biased;
            Ok(answer) = &mut answered => match answer {
                Answer::Done(payload) => {
                    self.state.pool.give_back(instance);
                    Try::Ended(Ok(payload))
                }
                Answer::Failed(fault) => {
                    self.state.pool.give_back(instance);
                    Try::Ended(Err(fault.into()))
                }
                Answer::Streamed(streamed) => self.see_through(instance, streamed, deadline.as_mut()).await,
            },
            death = instance.gone() => match death.unfetched.contains(&self.request_id) {
                true => Try::Unfetched(self.death_as_error(&death)),
                false => Try::Ended(Err(self.death_as_error(&death))),
            },
            () = &mut deadline => {
                instance.end(Ending::TimedOut);
                let death = instance.gone().await;
                Try::Ended(Err(self.death_as_error(&death)))
            }
        };
        self.report(started.elapsed(), &outcome).await;
        outcome
    }

    /// Hands over the pieces of an answer, and waits until the process has written it: it works on nothing else so long.
    async fn see_through(&self, instance: &Arc<Instance>, streamed: Streamed, deadline: Pin<&mut Sleep>) -> Try {
        let Streamed { chunks, done } = streamed;
        let stream_to = self.stream_to.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(stream_to) = stream_to {
            // Who has gone meanwhile drops the pieces, and the process is told by that.
            let _gone = stream_to.send(chunks);
        }
        tokio::select! {
            biased;
            Ok(()) = done => {
                self.state.pool.give_back(instance);
                Try::Ended(Ok(Bytes::new()))
            }
            death = instance.gone() => Try::Ended(Err(self.death_as_error(&death))),
            () = deadline => {
                instance.end(Ending::TimedOut);
                let death = instance.gone().await;
                Try::Ended(Err(self.death_as_error(&death)))
            }
        }
    }

    fn death_as_error(&self, death: &Death) -> InvokeError {
        match death.cause {
            DeathCause::Exited(status) => InvokeError::Exited { status },
            DeathCause::TimedOut => InvokeError::TimedOut { after: self.state.config.timeout },
            DeathCause::InitFailed => InvokeError::TimedOut { after: self.platform.config.init_timeout },
            // An idle process is out of the pool before it is killed; should it be met all the same, its death
            // leaves the event unfetched and another process takes it.
            DeathCause::Idle | DeathCause::Shutdown => InvokeError::Stopped,
        }
    }

    /// Writes the lines that Lambda writes at the end of an invocation.
    async fn report(&self, took: Duration, outcome: &Try) {
        let id = &self.request_id;
        let log = &self.state.log;
        if let Try::Ended(Err(error)) | Try::Unfetched(error) = outcome {
            tracing::warn!(function = self.state.config.name, request_id = id, %error, "an invocation failed");
            log.line(format!("RequestId: {id} Error: {error}")).await;
        }
        log.line(format!("END RequestId: {id}")).await;
        let ms = took.as_secs_f64() * 1000.0;
        log.line(format!(
            "REPORT RequestId: {id} Duration: {ms:.2} ms Billed Duration: {:.0} ms Memory Size: {} MB",
            ms.ceil(),
            self.state.config.memory_mb
        ))
        .await;
    }
}

fn epoch_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A trace header for an invocation that nobody traces.
fn fresh_trace() -> String {
    let seconds = epoch_ms(SystemTime::now()) / 1000;
    let (root, parent) = (Uuid::new_v4().simple().to_string(), Uuid::new_v4().simple().to_string());
    let root = root.get(..24).unwrap_or_default();
    let parent = parent.get(..16).unwrap_or_default();
    format!("Root=1-{seconds:08x}-{root};Parent={parent};Sampled=0")
}
