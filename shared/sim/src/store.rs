//! One worker's way into the world.

use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use longhaul::store::{
    Append, Continuation, InLine, JobRef, LineWritten, Store, StoreError, Submit, ThreadRef, Woken, Write,
};
use longhaul_engine::ids::SessionId;
use longhaul_engine::job::JobWrite;
use longhaul_engine::thread::{Line, LineWrite};
use longhaul_engine::{Batch, Failure, Job, JobId, Seq, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Shared;
use crate::crash::{Crash, Death, Moment};
use crate::faults::{Fate, failure};
use crate::plan::{CallMishap, Planned};
use crate::world::World;

/// A worker's handle. Its clones are the same worker and die with it; [`Sim::handle`](crate::Sim::handle) makes others.
#[derive(Debug, Clone)]
pub struct SimStore {
    shared: Arc<Shared>,
    worker: Arc<Worker>,
}

#[derive(Debug)]
struct Worker {
    /// The handle's number in its world.
    number: u64,
    /// Whether it is a worker's, whose calls are counted with those of all workers.
    counted: bool,
    life: Mutex<Life>,
    dead: watch::Sender<Option<Death>>,
}

#[derive(Debug, Default)]
struct Life {
    calls: u64,
    counts: BTreeMap<&'static str, u64>,
    crash: Option<Crash>,
    freeze: Option<(u64, Duration)>,
    frozen_until: Option<Instant>,
}

impl Worker {
    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn die(&self, death: Death) {
        let _was = self.dead.send_replace(Some(death));
    }
}

/// Whether a call may be repeated by the simulation, and land late.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

impl SimStore {
    pub(crate) fn new(shared: Arc<Shared>, counted: bool) -> Self {
        let number = {
            let mut world = shared.world();
            world.handles = world.handles.saturating_add(1);
            world.handles
        };
        let worker = Worker { number, counted, life: Mutex::new(Life::default()), dead: watch::Sender::new(None) };
        Self { shared, worker: Arc::new(worker) }
    }

    /// Lets this worker die at one of its calls.
    pub fn crash_at(&self, crash: Crash) {
        self.worker.life().crash = Some(crash);
    }

    /// Lets this worker stop before one of its calls, for so long.
    pub fn freeze_at(&self, call: u64, pause: Duration) {
        self.worker.life().freeze = Some((call, pause));
    }

    /// Does `work` but for the times at which this worker is frozen: then nothing of it goes on, as in a process that was
    /// stopped and is continued.
    pub async fn unless_frozen<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut thaw = None;
        poll_fn(|cx| {
            let frozen_until = self.worker.life().frozen_until;
            if let Some(until) = frozen_until.filter(|until| *until > Instant::now()) {
                let thaw = thaw.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
                if thaw.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
            thaw = None;
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Lets this worker die now.
    pub fn crash_now(&self, death: Death) {
        self.worker.die(death);
    }

    /// Waits until this worker is dead; a driver that races it against this drops what the dead one was doing.
    pub async fn crashed(&self) {
        let mut dead = self.worker.dead.subscribe();
        // The sender lives in this handle, so the wait only ends with the death.
        let _death = dead.wait_for(Option::is_some).await.is_ok();
    }

    /// This worker's calls so far, by the name of the [`Store`] method.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.worker.life().counts.clone()
    }

    /// All of this worker's calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.worker.life().calls
    }

    async fn unless_dead(&self, action: &'static str) -> Result<(), StoreError> {
        let death = *self.worker.dead.borrow();
        match death {
            Some(Death::Hang) => pending().await,
            Some(Death::Fail) => Err(failure(action)),
            None => Ok(()),
        }
    }

    /// Makes one call: `act` is its effect, atomic in the world.
    async fn call<T, A>(&self, action: &'static str, kind: Kind, mut act: A) -> Result<T, StoreError>
    where
        T: Send,
        A: FnMut(&mut World) -> Result<T, StoreError> + Send + 'static,
    {
        self.unless_dead(action).await?;
        let mishap = self.begin(action);
        if let Some(CallMishap::Freezes(pause)) = mishap {
            self.shared.world().note(|| format!("w{} is frozen for {} ms", self.worker.number, pause.as_millis()));
            self.worker.life().frozen_until = Some(Instant::now() + pause);
            tokio::task::yield_now().await;
        }
        if let Some(CallMishap::Dies(Moment::Before, death)) = mishap {
            self.die(action, death);
            self.unless_dead(action).await?;
        }
        let latency = {
            let mut world = self.shared.world();
            let range = world.faults.calls.latency.clone();
            world.dice.between(&range)
        };
        // Half on the way there and half on the way back; at least the other tasks get their turn.
        pause(latency / 2).await;
        self.unless_dead(action).await?;
        let answer = {
            let mut world = self.shared.world();
            let faults = world.faults.calls.clone();
            let fate = match (mishap, kind) {
                // A planned death after an effect needs that effect.
                (Some(CallMishap::Dies(..)), _) => Fate::Fine,
                (Some(CallMishap::FailsBefore), _) => Fate::FailBefore,
                (Some(CallMishap::FailsAfter), _) => Fate::FailAfter,
                (Some(CallMishap::Repeats), Kind::Write) => Fate::Repeat,
                (Some(CallMishap::Late(delay)), Kind::Write) => Fate::Late(delay),
                (Some(CallMishap::Repeats | CallMishap::Late(_) | CallMishap::Freezes(_)) | None, Kind::Read) => {
                    world.dice.fate_of_read(&faults)
                }
                (Some(CallMishap::Freezes(_)) | None, Kind::Write) => world.dice.fate_of_write(&faults),
            };
            world.note(|| format!("w{} {action}: {fate:?}", self.worker.number));
            match fate {
                Fate::Fine => act(&mut world),
                Fate::FailBefore => Err(failure(action)),
                Fate::FailAfter => act(&mut world).and(Err(failure(action))),
                Fate::Repeat => act(&mut world).and_then(|_| act(&mut world)),
                Fate::Late(delay) => {
                    world.land_later(delay, Box::new(move |world| drop(act(world))));
                    Err(failure(action))
                }
            }
        };
        self.shared.changed.notify_waiters();
        if let Some(CallMishap::Dies(_, death)) = mishap {
            self.die(action, death);
            self.unless_dead(action).await?;
        }
        pause(latency / 2).await;
        self.unless_dead(action).await?;
        answer
    }

    fn die(&self, action: &'static str, death: Death) {
        self.shared.world().note(|| format!("w{} dies at {action}: {death:?}", self.worker.number));
        self.worker.die(death);
    }

    /// Counts a call, and says what is planned for it.
    fn begin(&self, action: &'static str) -> Option<CallMishap> {
        let count = |counts: &mut BTreeMap<&'static str, u64>| {
            let count = counts.entry(action).or_default();
            *count = count.saturating_add(1);
        };
        let planned = {
            let mut world = self.shared.world();
            count(&mut world.counts);
            if self.worker.counted {
                world.worker_calls.push(action);
            }
            match world.plan {
                Some(Planned::Call(number, mishap)) if self.worker.counted && number == world.number_of_call() => {
                    Some(mishap)
                }
                Some(Planned::Call(..) | Planned::Message(..)) | None => None,
            }
        };
        let mut life = self.worker.life();
        count(&mut life.counts);
        life.calls = life.calls.saturating_add(1);
        let calls = life.calls;
        let crash = life.crash.filter(|crash| crash.call == calls);
        let freeze = life.freeze.filter(|(call, _)| *call == calls);
        planned
            .or(crash.map(|crash| CallMishap::Dies(crash.moment, crash.death)))
            .or(freeze.map(|(_, pause)| CallMishap::Freezes(pause)))
    }
}

async fn pause(duration: Duration) {
    if duration.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(duration).await;
    }
}

impl Store for SimStore {
    async fn submit(&self, job: &Job) -> Result<Submit, StoreError> {
        let job = job.clone();
        self.call("submit", Kind::Write, move |world| Ok(world.submit(&job))).await
    }

    async fn submit_in_line(&self, job: &Job, thread: &ThreadRef, write: &LineWrite) -> Result<InLine, StoreError> {
        let (job, thread, write) = (job.clone(), thread.clone(), write.clone());
        self.call("submit_in_line", Kind::Write, move |world| Ok(world.submit_in_line(&job, &thread, &write))).await
    }

    async fn line(&self, thread: &ThreadRef) -> Result<Line, StoreError> {
        let thread = thread.clone();
        self.call("line", Kind::Read, move |world| Ok(world.line(&thread))).await
    }

    async fn write_line(&self, thread: &ThreadRef, write: &LineWrite) -> Result<LineWritten, StoreError> {
        let (thread, write) = (thread.clone(), write.clone());
        self.call("write_line", Kind::Write, move |world| Ok(world.write_line(&thread, &write))).await
    }

    async fn job(&self, job: &JobRef) -> Result<Option<Job>, StoreError> {
        let job = job.clone();
        self.call("job", Kind::Read, move |world| Ok(world.job(&job).cloned())).await
    }

    async fn journal(&self, job: JobId, from: Seq) -> Result<Vec<Batch>, StoreError> {
        self.call("journal", Kind::Read, move |world| world.journal(job, from)).await
    }

    async fn batch_at(&self, job: JobId, at: Seq) -> Result<Option<Batch>, StoreError> {
        self.call("batch_at", Kind::Read, move |world| world.batch_at(job, at)).await
    }

    async fn append(&self, job: &JobRef, batch: &Batch) -> Result<Append, StoreError> {
        let (author, job, batch) = (self.worker.number, job.clone(), batch.clone());
        self.call("append", Kind::Write, move |world| world.append(author, &job, &batch)).await
    }

    async fn write_job(&self, job: &JobRef, write: &JobWrite) -> Result<Write, StoreError> {
        let (job, write) = (job.clone(), write.clone());
        self.call("write_job", Kind::Write, move |world| world.write_job(&job, &write)).await
    }

    async fn wake(&self, job: &JobRef, now: Timestamp) -> Result<Woken, StoreError> {
        let job = job.clone();
        self.call("wake", Kind::Write, move |world| world.wake(&job, now)).await
    }

    async fn due(&self, shard: u8, until: Timestamp, jobs_max: usize) -> Result<Vec<JobRef>, StoreError> {
        self.call("due", Kind::Read, move |world| Ok(world.due(shard, until, jobs_max))).await
    }

    async fn move_due(&self, job: &JobRef, seen_due: Timestamp, due: Timestamp) -> Result<bool, StoreError> {
        let job = job.clone();
        self.call("move_due", Kind::Write, move |world| Ok(world.move_due(&job, seen_due, due))).await
    }

    async fn beat(&self, session: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        let session = session.clone();
        self.call("beat", Kind::Write, move |world| {
            world.beat(&session, now);
            Ok(())
        })
        .await
    }

    async fn last_beat(&self, session: &SessionId) -> Result<Option<Timestamp>, StoreError> {
        let session = session.clone();
        self.call("last_beat", Kind::Read, move |world| Ok(world.last_beat(&session))).await
    }

    async fn end_session(&self, session: &SessionId) -> Result<(), StoreError> {
        let session = session.clone();
        self.call("end_session", Kind::Write, move |world| {
            world.end_session(&session);
            Ok(())
        })
        .await
    }

    async fn send(&self, continuation: &Continuation, delay: Duration) -> Result<(), StoreError> {
        let continuation = continuation.clone();
        self.call("send", Kind::Write, move |world| {
            world.send(&continuation, delay);
            Ok(())
        })
        .await
    }

    async fn dead_letter(&self, job: &Job, failure: &Failure) -> Result<(), StoreError> {
        let (job, failure) = (job.clone(), failure.clone());
        self.call("dead_letter", Kind::Write, move |world| {
            world.dead_letter(&job, &failure);
            Ok(())
        })
        .await
    }
}
