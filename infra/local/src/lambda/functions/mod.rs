//! Functions: named command lines that are invoked, each invocation in a child process of its own kind.
//!
//! An invocation takes a warm process if one has room and starts a cold one if not; a process works on one invocation
//! at a time, or on several as on Lambda's Managed Instances, and at most `max_concurrency` of a function run at once. A
//! process that overruns the function's timeout is killed with SIGKILL, one that dies takes its invocations with it, and
//! an idle one is ended after a while. That is what Lambda does with its sandboxes, and the point of doing it with
//! processes is that all of it can be felt.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use super::runtime_api::RuntimeApi;

mod death;
mod environment;
mod invocation;
mod leftovers;
mod output;
mod pool;
mod process;
mod spawner;

pub use death::{DeathCause, DeathNotice, InstanceDeath};
pub use invocation::{InvokeError, Reply};

use death::Deaths;
use leftovers::PidFile;
use output::FunctionLog;
use pool::Pool;
use process::{Ending, Instance};
use spawner::Spawner;

/// One function: what to run and within which bounds.
#[derive(Clone, Debug)]
pub struct FunctionConfig {
    /// The function's name; letters, digits, `-` and `_` as on Lambda.
    pub name: String,
    /// The program to start.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its environment. Of the stack's own environment only a short list is passed on (see [`FunctionsConfig`]).
    pub env: BTreeMap<String, String>,
    /// How long one invocation may take before its process is killed.
    pub timeout: Duration,
    /// The memory size that the process is told, in MB. It is a label here: nothing enforces it.
    pub memory_mb: u32,
    /// How many invocations may run at once (Lambda's reserved concurrency).
    pub max_concurrency: usize,
    /// How many of them one process works on: one on Lambda, several on its Managed Instances. A process learns it from
    /// [`PER_PROCESS_VARIABLE`].
    pub per_process: usize,
    /// How long an invocation over that number waits for its turn before it is throttled. Lambda's own value is zero;
    /// a machine with a few cores does better to queue for a moment than to start a thousand processes.
    pub patience: Duration,
    /// A further variable, another value for each process in turn; none: no such variable. For tests that set processes
    /// at odds with each other.
    pub env_in_turn: Vec<(String, String)>,
}

/// The variable by which a process learns how many invocations it may have at once.
pub const PER_PROCESS_VARIABLE: &str = longhaul_aws::pollers::AT_ONCE_VARIABLE;

/// Where the platform keeps its files, and how its processes are treated.
///
/// Processes get a clean environment, as on Lambda: `PATH`, `HOME`, `TMPDIR`, `LANG`, the proxy and certificate
/// variables, `RUST_LOG` and `RUST_BACKTRACE` of the stack, the variables that Lambda sets, and the function's own.
#[derive(Clone, Debug)]
pub struct FunctionsConfig {
    /// The data folder: logs go to `logs/<function>.log` in it, running process ids to `functions.pids`.
    pub data: PathBuf,
    /// How long an idle process is kept.
    pub idle_after: Duration,
    /// How long a process may take from its start to its first call of the Runtime API. Lambda allows 10 s.
    pub init_timeout: Duration,
    /// The region in resource names.
    pub region: String,
    /// The account in resource names.
    pub account: String,
}

impl FunctionsConfig {
    /// The usual values, with everything kept in `data`.
    #[must_use]
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            idle_after: Duration::from_secs(60),
            init_timeout: Duration::from_secs(10),
            region: "us-east-1".to_owned(),
            account: "000000000000".to_owned(),
        }
    }
}

/// The platform that runs functions. Clones share it; with the last clone and the last [`Function`] it shuts down.
#[derive(Clone, Debug)]
pub struct Functions {
    lifeline: Arc<Lifeline>,
}

/// Shuts the platform down when nobody can use it any more. The tasks that watch processes hold the platform itself,
/// so its own end would come too late.
#[derive(Debug)]
struct Lifeline {
    platform: Arc<Platform>,
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.platform.stop();
    }
}

#[derive(Debug)]
struct Platform {
    config: FunctionsConfig,
    api: RuntimeApi,
    spawner: Spawner,
    pids: PidFile,
    deaths: Deaths,
    functions: Mutex<BTreeMap<String, Arc<State>>>,
    stop: CancellationToken,
}

/// What the platform knows about one function.
#[derive(Debug)]
struct State {
    config: FunctionConfig,
    arn: String,
    pool: Pool,
    log: FunctionLog,
    /// Processes that were started.
    started: AtomicUsize,
}

impl State {
    /// The variable that the next process gets beside those that all get.
    fn env_in_turn(&self) -> Option<&(String, String)> {
        let turn = self.started.fetch_add(1, Ordering::Relaxed);
        let in_turn = &self.config.env_in_turn;
        in_turn.get(turn.checked_rem(in_turn.len())?)
    }
}

/// A handle to invoke one function.
#[derive(Clone, Debug)]
pub struct Function {
    lifeline: Arc<Lifeline>,
    state: Arc<State>,
}

/// A living process of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceInfo {
    /// Its process id.
    pub pid: u32,
    /// Its function.
    pub function: String,
    /// The invocations that it is working on.
    pub request_ids: Vec<String>,
    /// When it was started.
    pub started: SystemTime,
}

/// Why the platform or a function could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A file, folder, port or thread could not be had.
    #[error("could not {what}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The name has a character that Lambda does not allow.
    #[error("function name {0:?} is not made of letters, digits, '-' and '_' (1 to 64 of them)")]
    Name(String),
    /// The name is taken.
    #[error("function {0:?} exists already")]
    Exists(String),
}

impl SetupError {
    fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

impl Functions {
    /// Starts the platform: ends the processes that an earlier, killed stack left in the same data folder, and opens
    /// the Runtime API. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the data folder cannot be written, or no port or thread is to be had.
    pub async fn start(config: FunctionsConfig) -> Result<Self, SetupError> {
        tokio::fs::create_dir_all(config.data.join("logs")).await.map_err(SetupError::io("create the log folder"))?;
        let pids = PidFile::open(config.data.join("functions.pids"))
            .await
            .map_err(SetupError::io("end the function processes of an earlier run"))?;
        let api = RuntimeApi::start().await.map_err(SetupError::io("open the Runtime API"))?;
        let spawner = Spawner::start().map_err(SetupError::io("start the thread that starts processes"))?;
        let platform = Arc::new(Platform {
            config,
            api,
            spawner,
            pids,
            deaths: Deaths::default(),
            functions: Mutex::default(),
            stop: CancellationToken::new(),
        });
        tokio::spawn(pool::end_idle(Arc::downgrade(&platform)));
        Ok(Self { lifeline: Arc::new(Lifeline { platform }) })
    }

    /// Adds a function. No process is started before the first invocation.
    ///
    /// # Errors
    /// When the name is taken or not allowed, or the log file cannot be opened.
    pub async fn add(&self, config: FunctionConfig) -> Result<Function, SetupError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !(1..=64).contains(&config.name.len()) || !config.name.chars().all(allowed) {
            return Err(SetupError::Name(config.name));
        }
        let logs = self.lifeline.platform.config.data.join("logs");
        let log =
            FunctionLog::open(&logs, &config.name).await.map_err(SetupError::io("open the function's log file"))?;
        let FunctionsConfig { region, account, .. } = &self.lifeline.platform.config;
        let state = Arc::new(State {
            arn: format!("arn:aws:lambda:{region}:{account}:function:{}", config.name),
            pool: Pool::new(config.max_concurrency, config.per_process),
            log,
            started: AtomicUsize::new(0),
            config,
        });
        match self.lifeline.platform.functions().entry(state.config.name.clone()) {
            std::collections::btree_map::Entry::Occupied(taken) => Err(SetupError::Exists(taken.key().clone())),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(Arc::clone(&state));
                Ok(Function { lifeline: Arc::clone(&self.lifeline), state })
            }
        }
    }

    /// The function of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Function> {
        let state = self.lifeline.platform.functions().get(name).cloned()?;
        Some(Function { lifeline: Arc::clone(&self.lifeline), state })
    }

    /// All living processes, by function and age.
    #[must_use]
    pub fn instances(&self) -> Vec<InstanceInfo> {
        self.lifeline
            .platform
            .states()
            .iter()
            .flat_map(|state| state.pool.instances())
            .map(|instance| instance.info())
            .collect()
    }

    /// Follows the deaths of processes from now on.
    ///
    /// The invocation that a process died in ends with its error only after every follower has dropped its
    /// [`DeathNotice`] (at most two seconds later): so a follower can, say, mark a worker session dead before the
    /// messages of that worker come back.
    #[must_use]
    pub fn watch_deaths(&self) -> tokio::sync::mpsc::UnboundedReceiver<DeathNotice> {
        self.lifeline.platform.deaths.subscribe()
    }

    /// Ends all processes with SIGKILL and waits until they are gone. Invocations under way end with
    /// [`InvokeError::Stopped`], later ones too.
    pub async fn shutdown(&self) {
        for instance in self.lifeline.platform.stop() {
            instance.gone().await;
        }
    }
}

impl Platform {
    fn functions(&self) -> MutexGuard<'_, BTreeMap<String, Arc<State>>> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses new work and has all processes killed; tells which are about to end.
    fn stop(&self) -> Vec<Arc<Instance>> {
        self.stop.cancel();
        let living: Vec<_> = self.states().iter().flat_map(|state| state.pool.instances()).collect();
        for instance in &living {
            instance.end(Ending::Shutdown);
        }
        living
    }

    fn states(&self) -> Vec<Arc<State>> {
        self.functions().values().cloned().collect()
    }
}

impl Function {
    /// The function's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.config.name
    }

    /// The function's resource name.
    #[must_use]
    pub fn arn(&self) -> &str {
        &self.state.arn
    }

    /// The region that the function believes to run in.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.lifeline.platform.config.region
    }

    /// The account that the function believes to run in.
    #[must_use]
    pub fn account(&self) -> &str {
        &self.lifeline.platform.config.account
    }

    /// How many invocations of it may run at once.
    #[must_use]
    pub fn max_concurrency(&self) -> usize {
        self.state.config.max_concurrency
    }
}
