//! The storage edge: everything that the protocol asks of a store and a queue.
//!
//! Two implementations exist, DynamoDB with SQS (crate `longhaul-aws`) and memory under virtual time (crate
//! `longhaul-sim`); one conformance suite holds both to what is written here.

use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use longhaul_engine::ids::SessionId;
use longhaul_engine::job::{JobWrite, Order, Priority};
use longhaul_engine::thread::{Line, LineWrite};
use longhaul_engine::{Batch, Failure, Job, JobId, Seq, TenantId, ThreadId, Timestamp, limits};
use serde::{Deserialize, Serialize};

/// A store call that did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The service gave no usable answer. Whether a write took effect is not known.
    #[error("{action} failed")]
    Unavailable {
        /// What was attempted.
        action: &'static str,
        /// What came back.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// What is stored was written by a newer version of the protocol: leave it alone.
    #[error("{what} was written by protocol version {found}; this program knows up to {known}", known = limits::PROTOCOL_VERSION)]
    Newer {
        /// What was read.
        what: String,
        /// Its version.
        found: u32,
    },
    /// What is stored cannot be read.
    #[error("{what} cannot be read: {detail}")]
    Corrupt {
        /// What was read.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The item to change is not there.
    #[error("job {job} does not exist")]
    Missing {
        /// The job.
        job: JobId,
    },
}

/// A job named with its owner: the only way in which a job is looked up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobRef {
    /// The owner.
    pub tenant: TenantId,
    /// The job.
    pub job: JobId,
}

/// A thread named with its owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadRef {
    /// The owner.
    pub tenant: TenantId,
    /// The thread.
    pub thread: ThreadId,
}

/// A queue message: "look after this". It carries no state and may be lost, doubled or late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    /// Version of the protocol that wrote it.
    pub v: u32,
    /// What to look after.
    #[serde(flatten)]
    pub about: About,
    /// Whether somebody waits for it, by which it has its place in the queue. Only for speed: who does not know it says
    /// nothing.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
}

/// What a continuation is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum About {
    /// Go on with this job.
    Job(JobRef),
    /// If this session has died, go on with the jobs that it drove.
    Watchdog {
        /// The session that sent it.
        session: SessionId,
        /// The jobs that it drove then.
        jobs: Vec<JobRef>,
    },
}

impl Continuation {
    /// "Go on with the job of this order."
    #[must_use]
    pub fn of(order: &Order) -> Self {
        let job = JobRef { tenant: order.tenant.clone(), job: order.id };
        Self { priority: order.priority, ..Self::job(job) }
    }

    /// "Go on with this job", of which no more is known.
    #[must_use]
    pub const fn job(job: JobRef) -> Self {
        Self { v: limits::PROTOCOL_VERSION_PLAIN, about: About::Job(job), priority: Priority::Normal }
    }

    /// The watchdog message of a session.
    #[must_use]
    pub const fn watchdog(session: SessionId, jobs: Vec<JobRef>) -> Self {
        Self { v: limits::PROTOCOL_VERSION_PLAIN, about: About::Watchdog { session, jobs }, priority: Priority::Normal }
    }
}

/// What became of a submission.
#[derive(Debug, Clone, PartialEq)]
pub enum Submit {
    /// The job is stored.
    Created,
    /// A job of this id is there already; this is it. Also when this very call's earlier try had stored it: then its
    /// `last_write` is the submission's own mark.
    Exists(Box<Job>),
}

/// What became of an append.
#[derive(Debug, Clone, PartialEq)]
pub enum Append {
    /// It stands in the journal.
    Written,
    /// Something stands at its position. It may be the batch itself, written by a repeated call.
    Conflict(Box<Batch>),
}

/// What became of a conditional write of the job item.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// It went through, now or by an earlier try of the same call; these wakes stand in the item.
    Written {
        /// The item's wakes.
        wakes: u64,
    },
    /// The item is not as it was read; this is how it is.
    Refused(Box<Job>),
}

/// How a job stands whose wakes were counted up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Its item is open: somebody drives the job, or will by its due time at the latest.
    Open,
    /// Its item has ended, and nobody comes.
    Ended,
}

/// What became of a submission with a place in a line.
#[derive(Debug, Clone, PartialEq)]
pub enum InLine {
    /// As for any submission. The place is taken if the job was created, and not by this call if it exists.
    Submit(Submit),
    /// The line is not as it was read; this is how it is. Nothing is stored.
    Refused(Line),
}

/// What became of a conditional write of a line.
#[derive(Debug, Clone, PartialEq)]
pub enum LineWritten {
    /// It went through, now or by an earlier try of the same call.
    Written,
    /// The line is not as it was read; this is how it is.
    Refused(Line),
}

/// Jobs, journals, sessions, lines and the queue.
///
/// Reads are consistent with writes that were acknowledged before them, but for [`Store::due`]. A conditional write
/// that fails on its own echo (the stored mark is its own) reports success.
pub trait Store: Send + Sync {
    /// Stores a new job unless one of its id exists (one write).
    fn submit(&self, job: &Job) -> impl Future<Output = Result<Submit, StoreError>> + Send;

    /// Stores a new job and its place in a line, both or neither (one transaction).
    fn submit_in_line(
        &self,
        job: &Job,
        thread: &ThreadRef,
        write: &LineWrite,
    ) -> impl Future<Output = Result<InLine, StoreError>> + Send;

    /// Reads a thread's line (one cheap read).
    fn line(&self, thread: &ThreadRef) -> impl Future<Output = Result<Line, StoreError>> + Send;

    /// Writes a thread's line if its mark is as expected (one conditional write).
    fn write_line(
        &self,
        thread: &ThreadRef,
        write: &LineWrite,
    ) -> impl Future<Output = Result<LineWritten, StoreError>> + Send;

    /// Reads a job item; none when there is no such job or it is another tenant's.
    fn job(&self, job: &JobRef) -> impl Future<Output = Result<Option<Job>, StoreError>> + Send;

    /// Reads the journal from the batch that holds position `from` on, cut at the first gap, in order, all of it.
    fn journal(&self, job: JobId, from: Seq) -> impl Future<Output = Result<Vec<Batch>, StoreError>> + Send;

    /// Reads the batch that begins at `at`, if one does (one cheap read).
    fn batch_at(&self, job: JobId, at: Seq) -> impl Future<Output = Result<Option<Batch>, StoreError>> + Send;

    /// Writes a batch where none stands (one conditional write, and no other call but for very large batches).
    fn append(&self, job: &JobRef, batch: &Batch) -> impl Future<Output = Result<Append, StoreError>> + Send;

    /// Writes the changing part of the job item if its marks are as expected (one conditional write). Resets `sweeps`
    /// when the new state is a claim.
    fn write_job(&self, job: &JobRef, write: &JobWrite) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Counts a signal: `wakes + 1`, always; a WAITING job becomes PENDING and due at `now` in the same write or a
    /// following one. The item must exist. How it stands with the signal counted is said by the same write.
    fn wake(&self, job: &JobRef, now: Timestamp) -> impl Future<Output = Result<Woken, StoreError>> + Send;

    /// Jobs of a shard of the due index whose due time is not after `until`, earliest first. May lag behind writes.
    fn due(
        &self,
        shard: u8,
        until: Timestamp,
        jobs_max: usize,
    ) -> impl Future<Output = Result<Vec<JobRef>, StoreError>> + Send;

    /// Moves a due time and counts a sweep, if the due time is still the one seen. False: it was not. True as well when
    /// the new due time stands there already: it is this call's own echo, or a sweeper that came to the same.
    fn move_due(
        &self,
        job: &JobRef,
        seen_due: Timestamp,
        due: Timestamp,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Refreshes a session's item.
    fn beat(&self, session: &SessionId, now: Timestamp) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// When a session's item was last refreshed; none when it has none.
    fn last_beat(&self, session: &SessionId) -> impl Future<Output = Result<Option<Timestamp>, StoreError>> + Send;

    /// Removes a session's item: it has ended and holds nothing.
    fn end_session(&self, session: &SessionId) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Sends a continuation that becomes visible after `delay` (at most
    /// [`limits::MESSAGE_DELAY_MAX_SECONDS`]).
    fn send(&self, continuation: &Continuation, delay: Duration)
    -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Puts a failed job on the dead-letter queue.
    fn dead_letter(&self, job: &Job, failure: &Failure) -> impl Future<Output = Result<(), StoreError>> + Send;
}
