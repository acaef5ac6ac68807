//! Looking at jobs: through their journals, once or until something happens.

use std::time::Duration;

use longhaul::engine::job::Status;
use longhaul::engine::{Batch, Job, JobId, Journal, Seq};
use longhaul::store::{JobRef, Store, ThreadRef};
use longhaul_wire::{JobView, Problem};
use tokio::time::Instant;

use crate::answer::Refused;

/// First pause between two looks at a journal's end: a step of a model takes seconds, one of a test milliseconds.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
/// Longest pause: one cheap read for each, fifty in the longest wait.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A job with its journal.
pub(crate) struct Seen {
    pub(crate) job: Job,
    pub(crate) journal: Journal,
}

impl Seen {
    /// Reads both.
    pub(crate) async fn read(store: &impl Store, job: &JobRef) -> Result<Self, Refused> {
        let item = item(store, job).await?;
        let journal = Journal::read(store.journal(job.job, Seq::FIRST).await?)?;
        Ok(Self { job: item, journal })
    }

    pub(crate) fn view(&self) -> JobView {
        JobView::of_journal(&self.job, &self.journal)
    }

    /// The same, with the job in front of it in its thread where it waits for its turn.
    pub(crate) async fn view_in_line(&self, store: &impl Store) -> Result<JobView, Refused> {
        let mut view = self.view();
        if let (Some(thread), Status::Pending) = (&self.job.order.thread, view.status) {
            let at = ThreadRef { tenant: self.job.order.tenant.clone(), thread: thread.id.clone() };
            view.waits_for = store.line(&at).await?.ahead_of(self.job.order.id).last().copied();
        }
        Ok(view)
    }

    /// Follows the journal until the job has ended; false: it has not by `deadline`.
    pub(crate) async fn until_end(
        &mut self,
        store: &impl Store,
        job: &JobRef,
        deadline: Instant,
    ) -> Result<bool, Refused> {
        let had_ended = self.journal.ending().is_some();
        while self.journal.ending().is_none() {
            match batch_at(store, job.job, self.journal.next(), deadline).await? {
                Some(batch) => self.journal.take_in(batch)?,
                None => return Ok(false),
            }
        }
        if !had_ended {
            self.job = item(store, job).await?;
        }
        Ok(true)
    }
}

/// Reads a job's item.
pub(crate) async fn item(store: &impl Store, job: &JobRef) -> Result<Job, Refused> {
    let found = store.job(job).await?;
    found.ok_or_else(|| Refused(Problem::NoSuchJob { job: job.job.to_string() }))
}

/// The batch that begins at `at`, waited for until `deadline`.
pub(crate) async fn batch_at(
    store: &impl Store,
    job: JobId,
    at: Seq,
    deadline: Instant,
) -> Result<Option<Batch>, Refused> {
    let mut pause = PAUSE_FIRST;
    loop {
        if let Some(batch) = store.batch_at(job, at).await? {
            return Ok(Some(batch));
        }
        let now = Instant::now();
        if now >= deadline {
            return Ok(None);
        }
        tokio::time::sleep_until(deadline.min(now + pause)).await;
        pause = (pause * 3 / 2).min(PAUSE_MAX);
    }
}
