//! A store that has a fault with one job: each write of one kind goes wrong.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul::engine::ids::SessionId;
use longhaul::engine::job::JobWrite;
use longhaul::engine::thread::{Line, LineWrite};
use longhaul::engine::{Batch, Failure, Job, JobId, Seq, Timestamp};
use longhaul::store::{
    Append, Continuation, InLine, JobRef, LineWritten, Store, StoreError, Submit, ThreadRef, Woken, Write,
};
use longhaul_aws::AwsStore;

/// What goes wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Appends to its journal fail.
    Fails,
    /// Appends to its journal panic.
    Panics,
    /// Appends to its journal never come back.
    Hangs,
    /// Writes of its item go through and are answered with a failure, before the session's first watchdog is on its way.
    Unanswered,
}

fn failed(action: &'static str) -> StoreError {
    StoreError::Unavailable { action, source: "a test's fault".into() }
}

/// The store.
pub(crate) struct Faulty {
    store: AwsStore,
    job: JobRef,
    fault: Fault,
    sent: AtomicBool,
}

impl Faulty {
    pub(crate) fn new(store: AwsStore, job: JobRef, fault: Fault) -> Self {
        Self { store, job, fault, sent: AtomicBool::new(false) }
    }
}

impl Store for Faulty {
    async fn append(&self, job: &JobRef, batch: &Batch) -> Result<Append, StoreError> {
        if *job != self.job {
            return self.store.append(job, batch).await;
        }
        match self.fault {
            Fault::Fails => Err(failed("appending")),
            Fault::Panics => panic!("a test's fault"),
            Fault::Hangs => std::future::pending().await,
            Fault::Unanswered => self.store.append(job, batch).await,
        }
    }

    async fn submit(&self, job: &Job) -> Result<Submit, StoreError> {
        self.store.submit(job).await
    }

    async fn submit_in_line(&self, job: &Job, thread: &ThreadRef, write: &LineWrite) -> Result<InLine, StoreError> {
        self.store.submit_in_line(job, thread, write).await
    }

    async fn line(&self, thread: &ThreadRef) -> Result<Line, StoreError> {
        self.store.line(thread).await
    }

    async fn write_line(&self, thread: &ThreadRef, write: &LineWrite) -> Result<LineWritten, StoreError> {
        self.store.write_line(thread, write).await
    }

    async fn job(&self, job: &JobRef) -> Result<Option<Job>, StoreError> {
        self.store.job(job).await
    }

    async fn journal(&self, job: JobId, from: Seq) -> Result<Vec<Batch>, StoreError> {
        self.store.journal(job, from).await
    }

    async fn batch_at(&self, job: JobId, at: Seq) -> Result<Option<Batch>, StoreError> {
        self.store.batch_at(job, at).await
    }

    async fn write_job(&self, job: &JobRef, write: &JobWrite) -> Result<Write, StoreError> {
        let written = self.store.write_job(job, write).await?;
        match self.fault {
            Fault::Unanswered if *job == self.job => Err(failed("writing a job's state")),
            Fault::Unanswered | Fault::Fails | Fault::Panics | Fault::Hangs => Ok(written),
        }
    }

    async fn wake(&self, job: &JobRef, now: Timestamp) -> Result<Woken, StoreError> {
        self.store.wake(job, now).await
    }

    async fn due(&self, shard: u8, until: Timestamp, jobs_max: usize) -> Result<Vec<JobRef>, StoreError> {
        self.store.due(shard, until, jobs_max).await
    }

    async fn move_due(&self, job: &JobRef, seen_due: Timestamp, due: Timestamp) -> Result<bool, StoreError> {
        self.store.move_due(job, seen_due, due).await
    }

    async fn beat(&self, session: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        self.store.beat(session, now).await
    }

    async fn last_beat(&self, session: &SessionId) -> Result<Option<Timestamp>, StoreError> {
        self.store.last_beat(session).await
    }

    async fn end_session(&self, session: &SessionId) -> Result<(), StoreError> {
        self.store.end_session(session).await
    }

    async fn send(&self, continuation: &Continuation, delay: Duration) -> Result<(), StoreError> {
        if matches!(self.fault, Fault::Unanswered) && !self.sent.swap(true, Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.store.send(continuation, delay).await
    }

    async fn dead_letter(&self, job: &Job, failure: &Failure) -> Result<(), StoreError> {
        self.store.dead_letter(job, failure).await
    }
}
