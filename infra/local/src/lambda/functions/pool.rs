//! The processes of one function, and who may use which.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Platform;
use super::process::{Ending, Instance};

/// The longest and shortest distance between two looks for idle processes.
const LOOK_MIN: Duration = Duration::from_millis(50);
const LOOK_MAX: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Pool {
    /// One permit for each invocation that may run at once.
    turns: Arc<Semaphore>,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    living: BTreeMap<u64, Arc<Instance>>,
    /// Those of them that wait for work; the one that worked last is taken first, so that the others can go.
    idle: Vec<Idle>,
}

#[derive(Debug)]
struct Idle {
    instance: Arc<Instance>,
    since: Instant,
}

impl Pool {
    pub(super) fn new(max_concurrency: usize) -> Self {
        Self { turns: Arc::new(Semaphore::new(max_concurrency.min(Semaphore::MAX_PERMITS))), members: Mutex::default() }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most `patience` for the right to run one invocation; nothing when there is none to be had.
    pub(super) async fn turn(&self, patience: Duration) -> Option<OwnedSemaphorePermit> {
        if let Ok(turn) = Arc::clone(&self.turns).try_acquire_owned() {
            return Some(turn);
        }
        if patience.is_zero() {
            return None;
        }
        tokio::time::timeout(patience, Arc::clone(&self.turns).acquire_owned()).await.ok()?.ok()
    }

    /// Takes the idle process that worked last.
    pub(super) fn take_idle(&self) -> Option<Arc<Instance>> {
        self.members().idle.pop().map(|idle| idle.instance)
    }

    /// Counts in a process that was just started. It is not idle.
    pub(super) fn add(&self, instance: &Arc<Instance>) {
        self.members().living.insert(instance.number(), Arc::clone(instance));
    }

    /// Gives back a process after its invocation. One that has died meanwhile is not taken back.
    pub(super) fn give_back(&self, instance: &Arc<Instance>) {
        let mut members = self.members();
        if members.living.contains_key(&instance.number()) {
            members.idle.push(Idle { instance: Arc::clone(instance), since: Instant::now() });
        }
    }

    /// Counts out a process that has ended.
    pub(super) fn remove(&self, instance: &Instance) {
        let mut members = self.members();
        members.living.remove(&instance.number());
        members.idle.retain(|idle| idle.instance.number() != instance.number());
    }

    /// All living processes, oldest first.
    pub(super) fn instances(&self) -> Vec<Arc<Instance>> {
        self.members().living.values().cloned().collect()
    }

    fn take_idle_longer_than(&self, age: Duration) -> Vec<Arc<Instance>> {
        let mut members = self.members();
        let (old, young) = std::mem::take(&mut members.idle).into_iter().partition(|idle| idle.since.elapsed() >= age);
        members.idle = young;
        let old: Vec<Idle> = old;
        old.into_iter().map(|idle| idle.instance).collect()
    }
}

/// Ends processes that have been idle for too long, as long as the platform lives.
pub(super) async fn end_idle(platform: Weak<Platform>) {
    loop {
        let pause = {
            let Some(platform) = platform.upgrade() else { return };
            for state in platform.states() {
                for instance in state.pool.take_idle_longer_than(platform.config.idle_after) {
                    instance.end(Ending::Idle);
                }
            }
            (platform.config.idle_after / 4).clamp(LOOK_MIN, LOOK_MAX)
        };
        tokio::time::sleep(pause).await;
    }
}
