//! The measurements of Longhaul: what a step costs, how long people wait, and what a crash costs, on a stack of its own.
//!
//! A claim about speed is worth the run that it was read from. Each measurement drives the synthetic job `agent-10` (each
//! step asks a model server once and checkpoints what it answered) through the program that people run: `longhaul up` in
//! a process of its own, its functions as that process's children. The model server and the one who submits and watches
//! live in this process, so that they are in nobody's count.
//!
//! | Part | Does |
//! |---|---|
//! | [`measure`] | one measured thing, as a JSON line and as a row |
//! | [`model`] | a model server that answers after a fixed time and remembers when it was asked |
//! | [`subject`] | the stack that is measured: its process tree, its processor time, its memory, its disk |
//! | [`watcher`] | one WebSocket connection that sees every job end, and how late it was told |
//! | [`loads`] | jobs at saturation, one at a time, waiting, and one long one |
//! | [`kills`] | a worker killed in the middle of a step |
//! | [`calls`] | store and queue calls a job, by kind |
//! | [`starts`] | cold start and memory of each function |

pub mod calls;
pub mod kills;
pub mod loads;
pub mod measure;
pub mod model;
pub mod starts;
pub mod subject;
pub mod watcher;

use std::path::PathBuf;

use measure::Measure;
use tokio::time::error::Elapsed;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Part {
    /// Jobs and steps a second, and processor time a step, with many jobs at once and a model that answers at once.
    Saturation,
    /// The time from one step to the next and of a submission, one job at a time.
    Serial,
    /// From the kill of a worker to the job's next step.
    Kill,
    /// Many jobs whose steps wait for a slow model: total time, memory, processes.
    Waiting,
    /// One job of many steps: whether a step's cost grows, and bytes on disk.
    Long,
    /// Store and queue calls a job.
    Calls,
    /// Start and memory of each function.
    Starts,
}

impl Part {
    /// All of them, the quiet ones first.
    pub const ALL: [Self; 7] =
        [Self::Serial, Self::Saturation, Self::Waiting, Self::Long, Self::Kill, Self::Calls, Self::Starts];
}

/// How a bench is run.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// What is measured, in this order.
    pub parts: Vec<Part>,
    /// How often each measurement is repeated; the median counts.
    pub repeat: usize,
    /// This program.
    pub program: PathBuf,
    /// Worker processes.
    pub workers: u16,
    /// Whether every commit of the stores reaches the disk before it is answered.
    pub durable: bool,
}

/// Why a measurement came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file or a process.
    #[error("{what}")]
    Io {
        /// What was attempted.
        what: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The stack did not come up.
    #[error("the stack ended before it was ready, or was not ready in time; its log is {}", .log.display())]
    NotReady {
        /// Where it said why.
        log: PathBuf,
    },
    /// An HTTP call to the stack.
    #[error("the stack does not answer")]
    Http(#[from] reqwest::Error),
    /// A submission was refused.
    #[error("a job was not accepted: {status}, {body}")]
    NotAccepted {
        /// The status.
        status: u16,
        /// What was said.
        body: String,
    },
    /// The WebSocket.
    #[error("the WebSocket ended")]
    Socket(#[source] Box<tokio_tungstenite::tungstenite::Error>),
    /// The watcher is gone.
    #[error("nobody watches any more")]
    NotWatched,
    /// A job failed.
    #[error("job {job} ended as {event}")]
    NotCompleted {
        /// Which.
        job: longhaul_engine::JobId,
        /// How.
        event: &'static str,
    },
    /// Something took too long.
    #[error("{what} did not happen in time")]
    Late {
        /// What.
        what: &'static str,
    },
}

impl BenchError {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    fn late(what: &'static str) -> impl FnOnce(Elapsed) -> Self {
        move |_| Self::Late { what }
    }
}

impl From<tokio_tungstenite::tungstenite::Error> for BenchError {
    fn from(error: tokio_tungstenite::tungstenite::Error) -> Self {
        Self::Socket(Box::new(error))
    }
}

/// Measures, and tells each result when it is there.
///
/// # Errors
/// [`BenchError`]; what was measured before has been told.
pub async fn run(options: &BenchOptions, mut tell: impl FnMut(Measure)) -> Result<(), BenchError> {
    tell(measure::machine(options));
    for part in &options.parts {
        let measured = match part {
            Part::Saturation => loads::saturation(options).await?,
            Part::Serial => loads::serial(options).await?,
            Part::Waiting => loads::waiting(options).await?,
            Part::Long => loads::long(options).await?,
            Part::Kill => kills::kills(options).await?,
            Part::Calls => calls::calls(options).await?,
            Part::Starts => starts::starts(options).await?,
        };
        measured.into_iter().for_each(&mut tell);
    }
    Ok(())
}
