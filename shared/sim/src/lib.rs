//! A [`Store`](longhaul::store::Store) in memory, under virtual time, that misbehaves on purpose.
//!
//! Everything that can go wrong between a worker and its store goes wrong here by a seed: messages are lost, doubled,
//! delayed and overtaken; a write takes effect while its caller hears of an error, or lands late, or is made twice; a
//! worker dies between any two calls. Under tokio's paused time a job of days runs in milliseconds, and the same seed
//! gives the same run. It holds no rule of the protocol: those are the engine's, and what a store promises is checked on
//! it by the same suite as on DynamoDB.

mod crash;
mod faults;
mod plan;
mod queue;
mod store;
pub mod workshop;
mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_engine::{Job, JobId};
use tokio::sync::Notify;

pub use crash::{Crash, Death, Moment};
pub use faults::{CallFaults, Faults, QueueFaults};
pub use plan::{CallMishap, MessageMishap, Planned};
pub use queue::Message;
pub use store::SimStore;
pub use world::{DeadLetter, Snapshot};

use world::World;

/// A world of jobs, a queue, and the time of the tokio runtime that it was made in.
#[derive(Debug, Clone)]
pub struct Sim {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    /// Rung when something may have changed: a message sent, a call made.
    changed: Notify,
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.land_late_writes();
        world
    }
}

impl Sim {
    /// A world in which only what `faults` says goes wrong, by the chances of `seed`.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self { shared: Arc::new(Shared { world: Mutex::new(World::new(seed, faults)), changed: Notify::new() }) }
    }

    /// A world in which nothing goes wrong.
    #[must_use]
    pub fn faultless() -> Self {
        Self::new(0, Faults::default())
    }

    /// What goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.shared.world().faults = faults;
    }

    /// Lets one thing go wrong at one place.
    pub fn plan(&self, planned: Planned) {
        self.shared.world().plan = Some(planned);
    }

    /// Writes down from now on what happens, for [`Sim::trace`].
    pub fn record_trace(&self) {
        self.shared.world().trace.get_or_insert_default();
    }

    /// What has happened, one line each. Marks of writes, which are random, do not stand in it, so two runs by one seed
    /// give one trace.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.shared.world().trace.clone().unwrap_or_default()
    }

    /// A way into the world for whoever is no worker: it can crash alone.
    #[must_use]
    pub fn handle(&self) -> SimStore {
        SimStore::new(Arc::clone(&self.shared), false)
    }

    /// A way into the world for one invocation of a worker: it can crash alone, and its calls are counted with those of
    /// all workers.
    #[must_use]
    pub fn worker(&self) -> SimStore {
        SimStore::new(Arc::clone(&self.shared), true)
    }

    /// Calls of all workers so far, in order, by the name of the [`Store`](longhaul::store::Store) method.
    #[must_use]
    pub fn worker_calls(&self) -> Vec<&'static str> {
        self.shared.world().worker_calls.clone()
    }

    /// Messages sent so far, lost ones included.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.shared.world().sends
    }

    /// Waits for the next call of anybody from now on.
    pub fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.shared.changed.notified()
    }

    /// Waits for the next visible message and takes it. Unless it is acknowledged it becomes visible again.
    pub async fn next_message(&self) -> Message {
        queue::next(&self.shared).await
    }

    /// Calls of all handles so far, by the name of the [`Store`](longhaul::store::Store) method.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.shared.world().counts.clone()
    }

    /// A job item as it stands.
    #[must_use]
    pub fn job(&self, job: JobId) -> Option<Job> {
        self.shared.world().jobs.get(&job).cloned()
    }

    /// Everything that is stored, for auditors.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.world().snapshot()
    }
}
