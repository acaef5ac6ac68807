//! A [`Store`](longhaul::store::Store) in memory, under virtual time, that misbehaves on purpose.
//!
//! Everything that can go wrong between a worker and its store goes wrong here by a seed: messages are lost, doubled,
//! delayed and overtaken; a write takes effect while its caller hears of an error, or lands late, or is made twice; a
//! worker dies between any two calls. Under tokio's paused time a job of days runs in milliseconds, and the same seed
//! gives the same run. It holds no rule of the protocol: those are the engine's, and what a store promises is checked on
//! it by the same suite as on DynamoDB.

mod crash;
mod faults;
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
    /// Rung when a message is sent.
    sent: Notify,
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
        Self { shared: Arc::new(Shared { world: Mutex::new(World::new(seed, faults)), sent: Notify::new() }) }
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

    /// A way into the world for one worker: it can crash alone.
    #[must_use]
    pub fn handle(&self) -> SimStore {
        SimStore::new(Arc::clone(&self.shared))
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
