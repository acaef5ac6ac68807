//! Erasures of tenants' data, driven on a piece with each sweep.
//!
//! `engine::erasure` says in which order what goes. Here every piece can be done again: a sweep that dies in its middle
//! is followed by one that finds what is left. A job is noted before its item is removed, and its item goes before the
//! rest of it: from then on whoever comes with a message or a request finds no such job, and who had read it before is
//! outlived by the rest between the two looks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use longhaul::Clock;
use longhaul::engine::erasure::{Erased, Jobs, Stage};
use longhaul::engine::{Erasure, JobId, SignalKey, TenantId};
use longhaul::outside::{self, OutsideError};
use longhaul::store::{JobRef, StoreError};
use longhaul_aws::AwsStore;
use longhaul_aws::dynamo::{Standing, StoredErasure};
use longhaul_aws::push::Push;
use longhaul_aws::telemetry::chain;
use serde::Serialize;

/// Jobs that are looked at between two writes of the erasure: what may be missing in its record when a sweep dies.
const PAGE_JOBS: usize = 100;
/// Jobs that are looked at together.
const JOBS_AT_ONCE: usize = 8;
/// The share of a sweep's time that goes to jobs; the rest is for dead letters.
const JOBS_SHARE: f64 = 0.66;
/// Connections that are closed together, and how long closing one may take.
const CLOSED_AT_ONCE: usize = 16;
const CLOSING: Duration = Duration::from_secs(2);
/// Erasures that are driven together.
const ERASURES_AT_ONCE: usize = 4;

/// What one sweep did for erasures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Erasings {
    /// Erasures that were due.
    pub due: u64,
    /// Of these, those that are done now.
    pub done: u64,
    /// Of these, those that met an error; the next sweep goes on with them.
    pub failed: u64,
}

/// Drives erasures until a time.
#[derive(Debug)]
pub struct Eraser<'a> {
    store: &'a AwsStore,
    clock: Clock,
    /// Nothing of jobs is begun after it, so that time is left for the letters: those of a small tenant do not wait until
    /// a large one's jobs are gone.
    jobs_until: Instant,
    until: Instant,
}

/// What became of one job.
enum Looked {
    Gone,
    Removed(Erased),
    Open,
}

impl<'a> Eraser<'a> {
    /// An eraser that begins nothing more after `time`.
    #[must_use]
    pub fn new(store: &'a AwsStore, time: Duration) -> Self {
        let now = Instant::now();
        let after = |time| now.checked_add(time).unwrap_or(now);
        Self { store, clock: Clock::of_machine(), jobs_until: after(time.mul_f64(JOBS_SHARE)), until: after(time) }
    }

    /// Drives all erasures that are due. What fails is left to the next sweep.
    pub async fn sweep(&self) -> Erasings {
        match self.store.due_erasures(self.clock.now()).await {
            Ok(tenants) => self.sweep_of(&tenants).await,
            Err(error) => {
                tracing::error!(error = %chain(&error), "erasures were not looked for");
                Erasings { failed: 1, ..Erasings::default() }
            }
        }
    }

    /// Drives the erasures of these tenants on as far as they go in the time.
    pub async fn sweep_of(&self, tenants: &[TenantId]) -> Erasings {
        let driven = stream::iter(tenants).map(async |tenant| (tenant, self.go_on(tenant).await));
        let driven: Vec<_> = driven.buffer_unordered(ERASURES_AT_ONCE).collect().await;
        let mut sum = Erasings { due: u64::try_from(tenants.len()).unwrap_or(u64::MAX), ..Erasings::default() };
        let mut at_letters = Vec::new();
        for (tenant, erasing) in driven {
            match erasing {
                Ok(Some(erasing)) => at_letters.push(erasing),
                Ok(None) => {}
                Err(error) => sum.failed = sum.failed.saturating_add(failed(tenant, &error)),
            }
        }
        // The queue is gone through once for all of them.
        let whose: BTreeSet<TenantId> = at_letters.iter().map(|erasing| erasing.tenant().clone()).collect();
        if whose.is_empty() {
            return sum;
        }
        let letters = match self.store.remove_dead_letters(&whose, self.until).await {
            Ok(letters) => letters,
            Err(error) => {
                let failures = whose.iter().map(|tenant| failed(tenant, &error)).sum::<u64>();
                return Erasings { failed: sum.failed.saturating_add(failures), ..sum };
            }
        };
        for erasing in at_letters {
            let tenant = erasing.tenant().clone();
            match erasing.after_letters(&letters.0, letters.1).await {
                Ok(stage) => sum.done = sum.done.saturating_add(u64::from(matches!(stage, Stage::Done { .. }))),
                Err(error) => sum.failed = sum.failed.saturating_add(failed(&tenant, &error)),
            }
        }
        sum
    }

    /// Drives a tenant's erasure on; it is given back when nothing is left to be removed but its dead letters.
    async fn go_on(&self, tenant: &TenantId) -> Result<Option<Erasing<'_>>, StoreError> {
        let Some(StoredErasure { erasure, seen }) = self.store.erasure_under_way(tenant).await? else {
            return Ok(None);
        };
        let mut erasing = Erasing { of: self, stored: StoredErasure { erasure: erasure.at(self.clock.now()), seen } };
        let next = loop {
            match erasing.piece().await? {
                Next::Piece => {}
                next @ (Next::Letters | Next::Sweep) => break next,
            }
        };
        let erasure = &erasing.stored.erasure;
        tracing::info!(
            tenant = %tenant, erasure = %erasure.id, stage = ?erasure.stage, open = erasure.open,
            jobs = erasure.erased.jobs, items = erasure.erased.items, "an erasure was driven on"
        );
        Ok(matches!(next, Next::Letters).then_some(erasing))
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.jobs_until
    }
}

/// Says that an erasure met an error, and counts it.
fn failed(tenant: &TenantId, error: &StoreError) -> u64 {
    tracing::error!(%tenant, error = %chain(error), "an erasure met an error; the next sweep goes on with it");
    1
}

/// What comes behind a piece of an erasure.
enum Next {
    /// Another piece.
    Piece,
    /// The dead letters.
    Letters,
    /// The next sweep: it waits for jobs, or for its rest, or for time.
    Sweep,
}

/// One erasure in hand.
struct Erasing<'a> {
    of: &'a Eraser<'a>,
    stored: StoredErasure,
}

impl Erasing<'_> {
    /// Does the next piece; what comes behind it.
    async fn piece(&mut self) -> Result<Next, StoreError> {
        if self.of.is_over() {
            return Ok(Next::Sweep);
        }
        match self.stored.erasure.stage {
            Stage::Jobs => self.look_at_jobs().await,
            Stage::Rest => self.clear().await,
            Stage::Again => match self.look_at_jobs().await? {
                // Without a job left, the stage stays what it is.
                Next::Piece if self.stored.erasure.stage == Stage::Again => match self.look_again().await? {
                    Next::Piece => self.clear().await,
                    other => Ok(other),
                },
                other => Ok(other),
            },
            Stage::Waiting { .. } | Stage::Done { .. } => Ok(Next::Sweep),
        }
    }

    /// Ends and removes the tenant's jobs, once through.
    async fn look_at_jobs(&mut self) -> Result<Next, StoreError> {
        let (mut start, mut open, mut removed) = (None, 0_u64, 0_u64);
        loop {
            if self.of.is_over() {
                return Ok(Next::Sweep);
            }
            let (jobs, next) = self.of.store.tenant_jobs(self.tenant(), start, PAGE_JOBS).await?;
            let page = self.page(&jobs).await?;
            open = open.saturating_add(page.open);
            removed = removed.saturating_add(page.erased.jobs);
            if page.erased != Erased::default() {
                let erased = self.stored.erasure.erased.plus(page.erased);
                if !self.write(Erasure { erased, open, ..self.stored.erasure.clone() }).await? {
                    return Ok(Next::Sweep);
                }
            }
            start = next;
            if start.is_none() {
                break;
            }
        }
        let found = match (open, removed) {
            (0, 0) => Jobs::None,
            (0, _) => Jobs::Removed,
            (open, _) => Jobs::Open(open),
        };
        let (after, goes_on) = self.stored.erasure.clone().after_jobs(found);
        Ok(if self.write(after).await? && goes_on { Next::Piece } else { Next::Sweep })
    }

    async fn page(&self, jobs: &[JobId]) -> Result<Page, StoreError> {
        let looks = stream::iter(jobs).map(async |job| (*job, self.standing(*job).await)).buffered(JOBS_AT_ONCE);
        let standings: Vec<_> = looks.collect().await;
        let mut page = Page::default();
        let mut ended = Vec::new();
        for (job, standing) in standings {
            match standing? {
                Standing::Gone => {}
                Standing::Ended { seen } => ended.push((job, seen)),
                Standing::Open { .. } => page.open = page.open.saturating_add(1),
            }
        }
        // Before anything of them goes: with their items they vanish from the index.
        let noted: Vec<JobId> = ended.iter().map(|(job, _)| *job).collect();
        self.of.store.note_erased(self.tenant(), &noted).await?;
        let removals = stream::iter(ended).map(async |(job, seen)| {
            if !self.of.store.remove_job(&self.job(job), seen).await? {
                // Somebody has opened it again.
                return Ok::<_, StoreError>(Looked::Open);
            }
            // None when somebody has submitted the same again, under the same key, in this very moment.
            Ok(self.of.store.forget_counted(job).await?.map_or(Looked::Gone, Looked::Removed))
        });
        let removals: Vec<_> = removals.buffer_unordered(JOBS_AT_ONCE).collect().await;
        for removal in removals {
            match removal? {
                Looked::Gone => {}
                Looked::Open => page.open = page.open.saturating_add(1),
                // The job's item is one more than what was left behind it.
                Looked::Removed(erased) => {
                    page.erased = page.erased.plus(erased).plus(Erased { jobs: 1, items: 1, ..Erased::default() });
                }
            }
        }
        Ok(page)
    }

    /// Where a job stands, once it was asked to end.
    async fn standing(&self, job: JobId) -> Result<Standing, StoreError> {
        let reference = self.job(job);
        let standing = self.of.store.standing(&reference).await?;
        let Standing::Open { seen } = standing else { return Ok(standing) };
        let erasure = &self.stored.erasure;
        let key = SignalKey::of_erasure(erasure.id);
        let reason = Some("the tenant's data is erased".to_owned());
        let now = self.of.clock.now();
        match outside::cancel(self.of.store, &reference, key, erasure.requested_by.clone(), reason, now).await {
            Ok(_) | Err(OutsideError::Ended) => Ok(standing),
            Err(OutsideError::NoJob) => Ok(Standing::Gone),
            // What cannot be read is driven by nobody and never ends.
            Err(error @ (OutsideError::Store(StoreError::Corrupt { .. }) | OutsideError::Journal(_)))
                if !newer(&error) =>
            {
                tracing::warn!(job = %job, error = %chain(&error), "a job that cannot be read is removed as it is");
                Ok(Standing::Ended { seen })
            }
            Err(error) => {
                tracing::warn!(job = %job, error = %chain(&error), "a job was not asked to end; the next sweep asks again");
                Ok(standing)
            }
        }
    }

    /// Removes what late writers have left of jobs that were removed before the rest.
    async fn look_again(&mut self) -> Result<Next, StoreError> {
        loop {
            if self.of.is_over() {
                return Ok(Next::Sweep);
            }
            let jobs = self.of.store.noted_erased(self.tenant(), PAGE_JOBS).await?;
            if jobs.is_empty() {
                return Ok(Next::Piece);
            }
            let removals = stream::iter(&jobs).map(|job| self.of.store.forget_counted(*job)).buffered(JOBS_AT_ONCE);
            let removals: Vec<_> = removals.collect().await;
            let mut erased = self.stored.erasure.erased;
            for removal in removals {
                erased = erased.plus(removal?.unwrap_or_default());
            }
            self.of.store.drop_noted(self.tenant(), &jobs).await?;
            if !self.write(Erasure { erased, ..self.stored.erasure.clone() }).await? {
                return Ok(Next::Sweep);
            }
        }
    }

    /// Removes what belongs to no job, but for the dead letters.
    async fn clear(&mut self) -> Result<Next, StoreError> {
        self.close_connections().await?;
        let cleared = self.of.store.clear_tenant(self.tenant()).await?;
        let erased = self.stored.erasure.erased.plus(cleared);
        let written = self.write(Erasure { erased, ..self.stored.erasure.clone() }).await?;
        Ok(if written { Next::Letters } else { Next::Sweep })
    }

    /// Ends the tenant's open connections. One that could not be closed holds up no erasure: without its items it is told
    /// nothing more, and it ends with its token.
    async fn close_connections(&self) -> Result<(), StoreError> {
        let store = self.of.store;
        let Ok(endpoint) = store.config().push_endpoint() else { return Ok(()) };
        let connections = store.tenant_connections(self.tenant()).await?;
        if connections.is_empty() {
            return Ok(());
        }
        let push = Push::new(store.clients(), endpoint);
        let closing = stream::iter(&connections).for_each_concurrent(CLOSED_AT_ONCE, async |connection| {
            match tokio::time::timeout(CLOSING, push.close(connection)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(connection, error = %chain(&error), "a connection was not closed"),
                Err(_) => tracing::warn!(connection, "a connection was not closed in time"),
            }
        });
        // However many there are, they do not take a sweep's time from the removal.
        let until = self.of.jobs_until.into();
        if tokio::time::timeout_at(until, closing).await.is_err() {
            tracing::warn!(tenant = %self.tenant(), "not all connections were closed in time");
        }
        Ok(())
    }

    /// Goes on behind the dead letters, of which so many were removed, and perhaps all; how far it is.
    async fn after_letters(mut self, removed: &BTreeMap<TenantId, u64>, whole: bool) -> Result<Stage, StoreError> {
        let letters = removed.get(self.tenant()).copied().unwrap_or_default();
        let erased = self.stored.erasure.erased.plus(Erased { letters, ..Erased::default() });
        let mut erasure = Erasure { erased, ..self.stored.erasure.clone() };
        if whole {
            erasure = erasure.after_rest(self.of.clock.now(), self.of.store.config().erasure_rest);
        }
        match erasure.stage {
            Stage::Done { .. } => self.of.store.end_erasure(&erasure).await?,
            Stage::Jobs | Stage::Rest | Stage::Waiting { .. } | Stage::Again => {
                self.write(erasure.clone()).await?;
            }
        }
        Ok(erasure.stage)
    }

    /// Writes the erasure. False: somebody else drives it on.
    async fn write(&mut self, erasure: Erasure) -> Result<bool, StoreError> {
        if erasure == self.stored.erasure {
            return Ok(true);
        }
        let Some(seen) = self.of.store.write_erasure(&erasure, self.stored.seen).await? else { return Ok(false) };
        self.stored = StoredErasure { erasure, seen };
        Ok(true)
    }

    const fn tenant(&self) -> &TenantId {
        &self.stored.erasure.tenant
    }

    fn job(&self, job: JobId) -> JobRef {
        JobRef { tenant: self.tenant().clone(), job }
    }
}

/// What a page of jobs came to.
#[derive(Debug, Default)]
struct Page {
    open: u64,
    erased: Erased,
}

/// Whether a job cannot be read because a newer program wrote it, which will end it.
fn newer(error: &OutsideError) -> bool {
    matches!(error, OutsideError::Journal(longhaul::engine::journal::FoldError::Newer { .. }))
}
