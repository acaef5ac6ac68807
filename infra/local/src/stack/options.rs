//! How a stack is set up.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::ModelChoice;
use crate::rehearsal::Rehearsal;
use crate::stores::faults::FaultPlan;

/// Batches that one worker process drives at once. Jobs wait for models most of their time and cost a process next to
/// nothing then; what bounds them is its memory, some 50 KB for each job.
const WORKER_PER_PROCESS: usize = 128;
/// Batches that all of them drive at once: what AWS allows a queue's event source.
const WORKER_CONCURRENCY_MAX: usize = 1_000;

/// How a stack is set up.
#[derive(Debug, Clone)]
pub struct StackOptions {
    /// The data folder.
    pub data: PathBuf,
    /// The program whose `function NAME` command runs a function: this one.
    pub program: PathBuf,
    /// The port of the API on 127.0.0.1; 0: any.
    pub api_port: u16,
    /// The port of the WebSocket API on 127.0.0.1; 0: any.
    pub websocket_port: u16,
    /// How long one invocation of the worker may take.
    pub worker_timeout: Duration,
    /// Processes of the worker at most. Each drives many jobs at once, unless the stack is to behave as AWS does.
    pub workers: usize,
    /// Whether to behave as AWS does where the stack could do better: nobody sees a worker die, its messages stay
    /// invisible, the sweeper comes once a minute.
    pub lifelike: bool,
    /// Whether each commit of the stores reaches the disk before it is answered, as [`crate::stores::StoresConfig::durable`].
    pub durable: bool,
    /// The model that answers; none: the stand-in.
    pub model: Option<ModelChoice>,
    /// How the stand-in behaves.
    pub rehearsal: Rehearsal,
    /// Further variables for the functions.
    pub env: BTreeMap<String, String>,
    /// What goes wrong in the stores. None: nothing.
    pub faults: Option<FaultPlan>,
    /// By how many seconds the clocks of worker processes are wrong, in turn; for tests.
    pub worker_clock_offsets_seconds: Vec<i64>,
}

impl StackOptions {
    /// The usual setup on a data folder.
    #[must_use]
    pub fn new(data: PathBuf, program: PathBuf) -> Self {
        Self {
            data,
            program,
            api_port: 0,
            websocket_port: 0,
            worker_timeout: Duration::from_secs(900),
            workers: 4,
            lifelike: false,
            durable: false,
            model: None,
            rehearsal: Rehearsal::default(),
            env: BTreeMap::new(),
            faults: None,
            worker_clock_offsets_seconds: Vec::new(),
        }
    }

    /// Batches that are worked on at once, in all worker processes and in one of them.
    pub(super) const fn worker_batches(&self) -> (usize, usize) {
        // Lambda gives a process one invocation at a time; and clocks at odds need processes that all have work.
        if self.lifelike || !self.worker_clock_offsets_seconds.is_empty() {
            return (self.workers, 1);
        }
        let at_once = self.workers.saturating_mul(WORKER_PER_PROCESS);
        (if at_once < WORKER_CONCURRENCY_MAX { at_once } else { WORKER_CONCURRENCY_MAX }, WORKER_PER_PROCESS)
    }
}
