//! One function process from its start to its death.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{DeathCause, InstanceDeath, InstanceInfo, Platform, State};
use crate::lambda::runtime_api::{Closed, Slot};

/// How long the last output of a dead process is waited for. A child of its own may hold the pipe open for ever.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);

/// Numbers processes in the order of their start; unlike a process id, a number never comes again.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// Why a process is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its invocation overran the timeout.
    TimedOut,
    /// It did not come up.
    InitFailed,
    /// Nobody needs it.
    Idle,
    /// The stack goes down.
    Shutdown,
}

/// How a process went, seen from its invocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Death {
    pub(super) cause: DeathCause,
    /// The invocations that the process had not fetched. They can be given to another.
    pub(super) unfetched: Arc<[String]>,
}

#[derive(Debug)]
pub(super) struct Instance {
    number: u64,
    pid: u32,
    function: String,
    started: SystemTime,
    slot: Arc<Slot>,
    ending: watch::Sender<Option<Ending>>,
    death: watch::Receiver<Option<Death>>,
}

impl Instance {
    /// Starts a process of the function and watches it from then on.
    pub(super) async fn start(platform: &Arc<Platform>, state: &Arc<State>) -> io::Result<Arc<Self>> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = &state.config.name;
        let path = number.to_string();
        let (slot, api) = platform.api.open(name, &path, state.config.per_process);
        let mut command = super::environment::command(&state.config, &platform.config, &api, &path);
        if let Some((variable, value)) = state.env_in_turn() {
            command.env(variable, value);
        }
        let spawned = platform.spawner.spawn(command).await.and_then(|child| {
            let pid = child.id().ok_or_else(|| io::Error::other("the process ended at once"))?;
            Ok((child, pid))
        });
        let (child, pid) = spawned.inspect_err(|_| platform.api.remove(name, &path))?;
        let (died, death) = watch::channel(None);
        let instance = Arc::new(Self {
            number,
            pid,
            function: name.clone(),
            started: SystemTime::now(),
            slot,
            ending: watch::Sender::new(None),
            death,
        });
        state.pool.add(&instance);
        platform.pids.add(pid).await;
        tracing::debug!(function = name, pid, "started a function process");
        let keeper =
            Keeper { platform: Arc::clone(platform), state: Arc::clone(state), instance: Arc::clone(&instance), died };
        tokio::spawn(keeper.keep(child));
        if platform.stop.is_cancelled() {
            // The stack began to go down while this process came up, and has not seen it.
            instance.end(Ending::Shutdown);
        }
        Ok(instance)
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn slot(&self) -> &Slot {
        &self.slot
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the system has stopped it, as a debugger or a person does. Where the system does not say it: no.
    pub(super) fn stands_still(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['T', 't']))
    }

    pub(super) fn info(&self) -> InstanceInfo {
        InstanceInfo {
            pid: self.pid,
            function: self.function.clone(),
            request_ids: self.slot.request_ids(),
            started: self.started,
        }
    }

    /// Has the process killed. The first reason given is the one that counts.
    pub(super) fn end(&self, ending: Ending) {
        self.ending.send_if_modified(|before| {
            let first = before.is_none();
            if first {
                *before = Some(ending);
            }
            first
        });
    }

    /// Waits until the process is gone and everyone concerned has been told.
    pub(super) async fn gone(&self) -> Death {
        let mut death = self.death.clone();
        match death.wait_for(Option::is_some).await.map(|death| death.clone()) {
            Ok(Some(death)) => death,
            // The keeper is gone without a word only when the whole runtime is going down.
            Ok(None) | Err(_) => Death { cause: DeathCause::Shutdown, unfetched: Arc::default() },
        }
    }
}

/// The task that owns a process.
#[derive(Debug)]
struct Keeper {
    platform: Arc<Platform>,
    state: Arc<State>,
    instance: Arc<Instance>,
    died: watch::Sender<Option<Death>>,
}

impl Keeper {
    async fn keep(self, mut child: Child) {
        let mut output = self.forward_output(&mut child);
        let mut ending = self.instance.ending.subscribe();
        let asked_to_end = async {
            match ending.wait_for(Option::is_some).await.map(|ending| *ending) {
                Ok(Some(ending)) => ending,
                Ok(None) | Err(_) => Ending::Shutdown,
            }
        };
        let cause = tokio::select! {
            status = child.wait() => status.map(DeathCause::Exited),
            ending = asked_to_end => {
                self.kill_group();
                child.kill().await.map(|()| ending.into())
            }
        };
        let cause = cause.unwrap_or_else(|error| {
            tracing::error!(pid = self.instance.pid, %error, "a function process could not be waited for");
            DeathCause::Shutdown
        });
        if matches!(cause, DeathCause::Exited(_)) {
            // The sandbox ends with its first process, and so does whatever that one had started.
            self.kill_group();
        }
        if tokio::time::timeout(OUTPUT_GRACE, output.join_all_quietly()).await.is_err() {
            output.abort_all();
        }
        self.tell(cause).await;
    }

    fn forward_output(&self, child: &mut Child) -> Output {
        let mut tasks = JoinSet::new();
        let (name, pid) = (&self.instance.function, self.instance.pid);
        if let Some(stdout) = child.stdout.take() {
            tasks.spawn(self.state.log.clone().forward(name.clone(), pid, stdout));
        }
        if let Some(stderr) = child.stderr.take() {
            tasks.spawn(self.state.log.clone().forward(name.clone(), pid, stderr));
        }
        Output(tasks)
    }

    fn kill_group(&self) {
        if let Some(group) = i32::try_from(self.instance.pid).ok().and_then(Pid::from_raw) {
            // An error means that nothing of the group is left.
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }

    /// Clears up and tells: first the books, then the followers, and the invocation last.
    async fn tell(self, cause: DeathCause) {
        let Self { platform, state, instance, died } = self;
        let Closed { unfetched, running } = instance.slot.close();
        state.pool.remove(&instance);
        platform.api.remove(&instance.function, &instance.number.to_string());
        platform.pids.remove(instance.pid).await;
        let request_ids = running.iter().chain(&unfetched).cloned().collect();
        let death = InstanceDeath { function: instance.function.clone(), pid: instance.pid, request_ids, cause };
        tracing::debug!(function = death.function, pid = death.pid, cause = ?death.cause, "a function process ended");
        platform.deaths.announce(&death).await;
        died.send_replace(Some(Death { cause, unfetched: unfetched.into() }));
    }
}

#[derive(Debug)]
struct Output(JoinSet<()>);

impl Output {
    async fn join_all_quietly(&mut self) {
        while self.0.join_next().await.is_some() {}
    }

    fn abort_all(&mut self) {
        self.0.abort_all();
    }
}

impl From<Ending> for DeathCause {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::TimedOut => Self::TimedOut,
            Ending::InitFailed => Self::InitFailed,
            Ending::Idle => Self::Idle,
            Ending::Shutdown => Self::Shutdown,
        }
    }
}
