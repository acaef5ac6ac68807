//! One sweep over all shards of the due index.

use longhaul_aws::telemetry::chain;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use longhaul::Clock;
use longhaul::engine::sweep::{Sweep, decide};
use longhaul::engine::{JobState, Timestamp, limits};
use longhaul::store::{Continuation, JobRef, Store, StoreError};
use serde::Serialize;

/// Jobs of one shard that are looked at together: enough to hide the store's latency, too few to be throttled. A shard
/// of 1,000 takes a second or two so.
const JOBS_AT_ONCE: usize = 16;
/// Time before the deadline at which a sweep begins nothing more: what it has begun is a read, a write and a send.
const SWEEP_RESERVE_MS: u64 = 3 * limits::DEADLINE_RESERVE_MS;

/// No shard of the index could be read.
#[derive(Debug, thiserror::Error)]
#[error("no shard of the due index could be read")]
pub struct SweepError {
    /// What the last one said.
    #[source]
    source: StoreError,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Swept {
    /// Jobs that were looked at.
    pub looked: u64,
    /// Jobs that were sent a continuation.
    pub sent: u64,
    /// Jobs and shards that could not be looked after; the next sweep meets them again.
    pub failed: u64,
    /// Whether time ran out before the end.
    pub cut_short: bool,
}

impl Swept {
    const fn plus(self, other: Self) -> Self {
        Self {
            looked: self.looked.saturating_add(other.looked),
            sent: self.sent.saturating_add(other.sent),
            failed: self.failed.saturating_add(other.failed),
            cut_short: self.cut_short || other.cut_short,
        }
    }
}

/// What became of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// It was sent a continuation.
    Sent,
    /// It needs nothing, or somebody else has been here.
    Left,
}

/// The sweeper: what it keeps from one invocation to the next.
#[derive(Debug)]
pub struct Sweeper<S> {
    store: S,
}

impl<S: Store> Sweeper<S> {
    /// A sweeper of the jobs of `store`.
    pub const fn new(store: S) -> Self {
        Self { store }
    }

    /// Sweeps once, in an invocation that must have answered by `deadline_ms` (milliseconds since the Unix epoch).
    ///
    /// # Errors
    /// [`SweepError`] when nothing could be looked at.
    pub async fn handle(&self, deadline_ms: u64) -> Result<Swept, SweepError> {
        let clock = Clock::of_machine();
        let reserve = Duration::from_millis(SWEEP_RESERVE_MS);
        // A Lambda deadline is a fact of the context; a sweep that is killed has done no harm, but counts as an error.
        let time_left = clock.now().until(Timestamp::from_millis(deadline_ms)).saturating_sub(reserve);
        let stop_at = clock.now().plus(time_left);
        let shards: Vec<_> = stream::iter(0..limits::DUE_SHARDS)
            .map(|shard| self.sweep_shard(shard, &clock, stop_at))
            .buffer_unordered(usize::from(limits::DUE_SHARDS))
            .collect()
            .await;
        let mut swept = Swept::default();
        let mut unread = Vec::new();
        for shard in shards {
            match shard {
                Ok(shard) => swept = swept.plus(shard),
                Err(error) => unread.push(error),
            }
        }
        let failed = u64::try_from(unread.len()).unwrap_or(u64::MAX);
        swept.failed = swept.failed.saturating_add(failed);
        match unread.pop() {
            Some(source) if failed == u64::from(limits::DUE_SHARDS) => return Err(SweepError { source }),
            Some(_) | None => {}
        }
        tracing::info!(
            looked = swept.looked,
            sent = swept.sent,
            failed = swept.failed,
            cut_short = swept.cut_short,
            "swept"
        );
        Ok(swept)
    }

    /// Calls up jobs that nobody has claimed though a sweep had called them up, without waiting for their due times, which have
    /// grown apart since: for a start behind which there are workers again. Returns how many.
    ///
    /// # Errors
    /// Store errors; what was called up by then is.
    pub async fn call_up_unclaimed(&self) -> Result<u64, StoreError> {
        let now = Clock::of_machine().now();
        let horizon = now.plus(Duration::from_millis(limits::SWEEP_DISTANCE_MAX_MS));
        let soon = now.plus(Duration::from_millis(limits::SWEEP_DISTANCE_FIRST_MS));
        let mut sent = 0_u64;
        for shard in 0..limits::DUE_SHARDS {
            for reference in self.store.due(shard, horizon, limits::SWEEP_JOBS_MAX).await? {
                let found = self.store.job(&reference).await?;
                let unclaimed = found.filter(|job| job.progress.state == JobState::Pending && job.sweeps > 0);
                let Some(job) = unclaimed else { continue };
                let Some(seen_due) = job.progress.due else { continue };
                if self.store.move_due(&reference, seen_due, soon).await? {
                    self.store.send(&Continuation::of(&job.order), Duration::ZERO).await?;
                    sent = sent.saturating_add(1);
                }
            }
        }
        Ok(sent)
    }

    async fn sweep_shard(&self, shard: u8, clock: &Clock, stop_at: Timestamp) -> Result<Swept, StoreError> {
        let jobs = match self.store.due(shard, clock.now(), limits::SWEEP_JOBS_MAX).await {
            Ok(jobs) => jobs,
            Err(error) => {
                tracing::error!(shard, error = %chain(&error), "a shard of the due index was not read");
                return Err(error);
            }
        };
        let looks =
            stream::iter(&jobs).map(|job| self.look_in_time(job, clock, stop_at)).buffer_unordered(JOBS_AT_ONCE);
        Ok(looks.fold(Swept::default(), async |sum, looked| sum.plus(looked)).await)
    }

    async fn look_in_time(&self, job: &JobRef, clock: &Clock, stop_at: Timestamp) -> Swept {
        if clock.now() >= stop_at {
            return Swept { cut_short: true, ..Swept::default() };
        }
        let looked = Swept { looked: 1, ..Swept::default() };
        match self.look_after(job, clock.now()).await {
            Ok(Looked::Sent) => Swept { sent: 1, ..looked },
            Ok(Looked::Left) => looked,
            Err(error) => {
                tracing::error!(
                    tenant = %job.tenant, job = %job.job, error = %chain(&error),
                    "a due job was not looked after; the next sweep tries again"
                );
                Swept { failed: 1, ..looked }
            }
        }
    }

    async fn look_after(&self, reference: &JobRef, now: Timestamp) -> Result<Looked, StoreError> {
        // The index may lag; the item decides.
        let Some(job) = self.store.job(reference).await? else { return Ok(Looked::Left) };
        match decide(&job, now) {
            Sweep::Leave => Ok(Looked::Left),
            Sweep::Send { seen_due, due } => {
                // The due time goes first: should the message be lost after it, the job is found again at the new one.
                // The other way round, a sweeper that dies between the two would send at every sweep.
                if !self.store.move_due(reference, seen_due, due).await? {
                    return Ok(Looked::Left);
                }
                self.store.send(&Continuation::of(&job.order), Duration::ZERO).await?;
                Ok(Looked::Sent)
            }
        }
    }
}
