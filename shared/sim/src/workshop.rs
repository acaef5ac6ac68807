//! Workers and a sweeper under virtual time: the real drive loop over the simulated store.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::{Crash, Death, Message, Moment, Sim, SimStore, Snapshot};
use longhaul::drive::{Handled, Invocation};
use longhaul::engine::ids::JobId;
use longhaul::engine::job::Order;
use longhaul::engine::sweep::{Sweep, decide};
use longhaul::engine::{Job, Journal, Timestamp, limits};
use longhaul::store::{About, Continuation, JobRef, Store};
use longhaul::{Clock, Registry, outside};
use serde_json::Value;
use tokio::task::LocalSet;

/// When every simulated world begins.
pub const DAWN: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// How a clock is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skew {
    /// It is early by so much.
    Behind(Duration),
    /// It is late by so much, or right.
    Ahead(Duration),
}

impl Skew {
    fn of(self, clock: Clock) -> Clock {
        let now = clock.now();
        Clock::set_to(match self {
            Self::Ahead(by) => now.plus(by),
            Self::Behind(by) => {
                let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
                Timestamp::from_millis(now.as_millis().saturating_sub(by))
            }
        })
    }
}

/// A world with workers in it.
pub struct Workshop {
    /// The world.
    pub sim: Sim,
    /// Its time.
    pub clock: Clock,
    registry: Rc<RefCell<Registry>>,
    /// How long an invocation lasts at most.
    pub invocation: Duration,
    /// The plan for the worker that takes message number n (from 0), where it has one.
    pub crashes: Rc<dyn Fn(u64) -> Option<Crash>>,
    /// At which of its calls the worker that takes message number n (from 0) stops, and for how long.
    pub freezes: Rc<dyn Fn(u64) -> Option<(u64, Duration)>>,
    /// By how much the clock of worker number n (from 0) is wrong.
    pub skews: Rc<dyn Fn(u64) -> Skew>,
    sessions: Rc<Cell<u64>>,
}

impl Workshop {
    /// A workshop that can run these agents.
    #[must_use]
    pub fn new(sim: Sim, registry: Registry) -> Self {
        Self {
            sim,
            clock: Clock::set_to(DAWN),
            registry: Rc::new(RefCell::new(registry)),
            invocation: Duration::from_secs(900),
            crashes: Rc::new(|_| None),
            freezes: Rc::new(|_| None),
            skews: Rc::new(|_| Skew::Ahead(Duration::ZERO)),
            sessions: Rc::default(),
        }
    }

    /// An order for an agent, the same each time.
    ///
    /// # Panics
    /// When the name is none.
    #[must_use]
    pub fn order(&self, agent: &str, input: Value) -> Order {
        #[allow(clippy::unwrap_used, reason = "names in tests are literals")]
        let (tenant, name) = ("acme".parse().unwrap(), agent.parse().unwrap());
        Order {
            id: JobId::of_key(&tenant, agent),
            tenant,
            agent: longhaul::engine::AgentRef { name, version: 1 },
            input,
            budget: longhaul::engine::budget::Budget::default(),
            webhook: None,
            webhook_events: Vec::new(),
            labels: std::collections::BTreeMap::new(),
            parent: None,
            origin: Default::default(),
            thread: None,
            overrides: Default::default(),
            priority: Default::default(),
            traceparent: None,
            submitted_at: self.clock.now(),
            submitted_by: "ada".to_owned(),
        }
    }

    /// Submits an order from outside.
    ///
    /// # Panics
    /// When the store fails for good.
    pub async fn submit(&self, order: Order) -> JobRef {
        let job = JobRef { tenant: order.tenant.clone(), job: order.id };
        while outside::submit(&self.sim.handle(), order.clone()).await.is_err() {}
        job
    }

    /// Gives the workers other agents, from the next invocation on.
    pub fn deploy(&self, registry: Registry) {
        self.registry.replace(registry);
    }

    /// Runs workers and a sweeper, and `outside` beside them, until `outside` has ended.
    pub async fn run<T>(&self, workers: usize, outside: impl Future<Output = T>) -> T {
        let local = LocalSet::new();
        for number in (0_u64..).take(workers) {
            let bench = Bench {
                sim: self.sim.clone(),
                clock: (self.skews)(number).of(self.clock),
                registry: Rc::clone(&self.registry),
                invocation: self.invocation,
                crashes: Rc::clone(&self.crashes),
                freezes: Rc::clone(&self.freezes),
                sessions: Rc::clone(&self.sessions),
            };
            local.spawn_local(bench.work());
        }
        local.spawn_local(sweeper(self.sim.handle(), self.clock));
        local.run_until(outside).await
    }

    /// Waits until a job has come to a state that `enough` accepts, at most a virtual week.
    ///
    /// # Panics
    /// When it does not come to that.
    pub async fn until(&self, job: &JobRef, enough: impl Fn(&Job) -> bool) -> Job {
        let waiting = async {
            loop {
                let changed = self.sim.changed();
                if let Some(found) = self.sim.job(job.job).filter(|found| enough(found)) {
                    return found;
                }
                changed.await;
            }
        };
        if let Ok(found) = tokio::time::timeout(Duration::from_secs(7 * 24 * 3_600), waiting).await {
            return found;
        }
        let stuck = self.story(job);
        #[allow(clippy::panic, reason = "a test that waits in vain has failed")]
        {
            panic!("the job has not come to it in a week; its story:\n{stuck}");
        }
    }

    /// Waits until a job has ended.
    pub async fn ended(&self, job: &JobRef) -> Job {
        self.until(job, |found| found.progress.state.is_terminal()).await
    }

    /// A job's journal as text, one line an entry: what a test compares and a person reads.
    #[must_use]
    pub fn story(&self, job: &JobRef) -> String {
        let snapshot = self.sim.snapshot();
        story(&snapshot, job.job)
    }

    /// A job's journal.
    ///
    /// # Panics
    /// When it cannot be read: the protocol was broken.
    #[must_use]
    pub fn journal(&self, job: &JobRef) -> Journal {
        let batches = self.sim.snapshot().journals.remove(&job.job).unwrap_or_default();
        #[allow(clippy::expect_used, reason = "a journal that cannot be read is a failed test")]
        Journal::read(batches).expect("a journal that the protocol wrote")
    }
}

/// A job's journal as text.
#[must_use]
pub fn story(snapshot: &Snapshot, job: JobId) -> String {
    let mut lines = Vec::new();
    for batch in snapshot.journals.get(&job).into_iter().flatten() {
        for entry in &batch.entries {
            let mut value = serde_json::to_value(entry).unwrap_or_default();
            if let Some(fields) = value.as_object_mut() {
                // Times and sessions differ between runs without meaning anything.
                for noise in ["started_at", "session", "retry_at", "until", "key"] {
                    fields.remove(noise);
                }
            }
            lines.push(value.to_string());
        }
    }
    lines.join("\n")
}

/// One worker's place, clock and plans.
struct Bench {
    sim: Sim,
    clock: Clock,
    registry: Rc<RefCell<Registry>>,
    invocation: Duration,
    crashes: Rc<dyn Fn(u64) -> Option<Crash>>,
    freezes: Rc<dyn Fn(u64) -> Option<(u64, Duration)>>,
    sessions: Rc<Cell<u64>>,
}

impl Bench {
    async fn work(self) {
        loop {
            let message = self.sim.next_message().await;
            let number = self.sessions.get();
            self.sessions.set(number + 1);
            let store = self.sim.worker();
            if let Some(crash) = (self.crashes)(number) {
                store.crash_at(crash);
            }
            if let Some((call, pause)) = (self.freezes)(number) {
                store.freeze_at(call, pause);
            }
            let registry = self.registry.borrow().clone();
            let handled = invocation(&store, &registry, self.clock, self.invocation, number, &message);
            tokio::select! {
                biased;
                () = store.crashed() => {}
                handled = store.unless_frozen(handled) => {
                    if handled {
                        message.acknowledge();
                    } else {
                        message.give_back();
                        // As a queue's poller backs off from a function that fails.
                        self.clock.sleep(Duration::from_secs(1)).await;
                    }
                }
            }
        }
    }
}

/// One invocation; whether its message is done with.
async fn invocation(
    store: &SimStore,
    registry: &Registry,
    clock: Clock,
    length: Duration,
    number: u64,
    message: &Message,
) -> bool {
    let Ok(session) = format!("session-{number}").parse() else { return false };
    let deadline = clock.now().plus(length);
    let invocation = Invocation::begin(store, registry, session, clock, deadline);
    if invocation.announce().await.is_err() {
        return false;
    }
    let jobs = match &message.continuation.about {
        About::Job(job) => vec![job.clone()],
        About::Watchdog { .. } => vec![],
    };
    let handled = tokio::select! {
        biased;
        handled = invocation.handle(&message.continuation) => handled,
        never = invocation.keep_alive(jobs) => never,
    };
    invocation.end().await;
    matches!(handled, Ok(Handled::Acknowledge))
}

async fn sweeper(store: SimStore, clock: Clock) {
    loop {
        clock.sleep(Duration::from_secs(60)).await;
        for shard in 0..limits::DUE_SHARDS {
            for job in store.due(shard, clock.now(), limits::SWEEP_JOBS_MAX).await.unwrap_or_default() {
                let Ok(Some(found)) = store.job(&job).await else { continue };
                if let Sweep::Send { seen_due, due } = decide(&found, clock.now())
                    && matches!(store.move_due(&job, seen_due, due).await, Ok(true))
                {
                    // A send that fails is made good by the next sweep at the moved due time.
                    let _sent = store.send(&Continuation::job(job), Duration::ZERO).await;
                }
            }
        }
    }
}

/// Kills a worker for good at one of its calls.
#[must_use]
pub const fn killed(call: u64, moment: Moment) -> Crash {
    Crash { call, moment, death: Death::Hang }
}
