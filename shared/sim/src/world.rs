//! What is stored, and what each call does to it: every method is one atomic operation of the real store.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use longhaul::store::{Append, Continuation, InLine, JobRef, LineWritten, StoreError, Submit, ThreadRef, Woken, Write};
use longhaul_engine::ids::SessionId;
use longhaul_engine::job::{JobWrite, Progress};
use longhaul_engine::thread::{Line, LineWrite};
use longhaul_engine::{Batch, Failure, Job, JobId, JobState, Seq, Timestamp, limits};
use tokio::time::Instant;

use crate::faults::{Dice, Faults};
use crate::plan::Planned;
use crate::queue::{Queued, told};

/// A job among the dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Which.
    pub job: JobRef,
    /// Why it failed.
    pub failure: Failure,
}

/// Everything that is stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// All jobs.
    pub jobs: BTreeMap<JobId, Job>,
    /// All journals, whole, also behind a gap if the protocol ever left one.
    pub journals: BTreeMap<JobId, Vec<Batch>>,
    /// Which handle wrote the batch at a position. A worker has one for each invocation, so that an auditor can tell under
    /// which claim an entry was written.
    pub authors: BTreeMap<(JobId, Seq), u64>,
    /// Batches of all journals in the order in which they came.
    pub appended: Vec<(JobId, Seq)>,
    /// Sessions and their last heartbeats.
    pub sessions: BTreeMap<SessionId, Timestamp>,
    /// Messages in the queue, received ones that are not acknowledged included.
    pub messages: usize,
    /// What was put among the dead letters, in order.
    pub dead_letters: Vec<DeadLetter>,
    /// The lines of all threads.
    pub lines: BTreeMap<ThreadRef, Line>,
}

/// A write on its way.
pub(crate) type LateWrite = Box<dyn FnOnce(&mut World) + Send>;

pub(crate) struct World {
    pub(crate) faults: Faults,
    pub(crate) dice: Dice,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) messages: Vec<Queued>,
    pub(crate) messages_sent: u64,
    /// Sends, those included whose message was lost.
    pub(crate) sends: u64,
    pub(crate) worker_calls: Vec<&'static str>,
    pub(crate) handles: u64,
    pub(crate) plan: Option<Planned>,
    pub(crate) trace: Option<Vec<String>>,
    began: Instant,
    authors: BTreeMap<(JobId, Seq), u64>,
    appended: Vec<(JobId, Seq)>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    journals: BTreeMap<JobId, BTreeMap<Seq, Batch>>,
    sessions: BTreeMap<SessionId, Timestamp>,
    dead_letters: Vec<DeadLetter>,
    late: Vec<(Instant, LateWrite)>,
    lines: BTreeMap<ThreadRef, Line>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("jobs", &self.jobs.len()).field("messages", &self.messages.len()).finish()
    }
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        Self {
            faults,
            dice: Dice::new(seed),
            counts: BTreeMap::new(),
            messages: Vec::new(),
            messages_sent: 0,
            sends: 0,
            worker_calls: Vec::new(),
            handles: 0,
            plan: None,
            trace: None,
            began: Instant::now(),
            authors: BTreeMap::new(),
            appended: Vec::new(),
            jobs: BTreeMap::new(),
            journals: BTreeMap::new(),
            sessions: BTreeMap::new(),
            dead_letters: Vec::new(),
            late: Vec::new(),
            lines: BTreeMap::new(),
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            jobs: self.jobs.clone(),
            journals: self.journals.iter().map(|(id, batches)| (*id, batches.values().cloned().collect())).collect(),
            authors: self.authors.clone(),
            appended: self.appended.clone(),
            sessions: self.sessions.clone(),
            messages: self.messages.len(),
            dead_letters: self.dead_letters.clone(),
            lines: self.lines.clone(),
        }
    }

    /// The number of the worker's call that was counted last.
    pub(crate) fn number_of_call(&self) -> u64 {
        u64::try_from(self.worker_calls.len()).unwrap_or(u64::MAX)
    }

    /// Writes a line into the trace, if there is one.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9} {}", self.began.elapsed().as_millis(), line()));
        }
    }

    /// Lets a write land after `delay`.
    pub(crate) fn land_later(&mut self, delay: Duration, write: LateWrite) {
        self.late.push((Instant::now() + delay, write));
    }

    /// Lets the late writes land whose time has come, in order.
    pub(crate) fn land_late_writes(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let now = Instant::now();
        let (mut landing, flying): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= now);
        self.late = flying;
        landing.sort_by_key(|(at, _)| *at);
        for (_, write) in landing {
            self.note(|| "a late write lands".to_owned());
            write(self);
        }
    }

    pub(crate) fn submit(&mut self, job: &Job) -> Submit {
        match self.jobs.get(&job.order.id) {
            Some(stored) => Submit::Exists(Box::new(stored.clone())),
            None => {
                self.jobs.insert(job.order.id, job.clone());
                Submit::Created
            }
        }
    }

    pub(crate) fn submit_in_line(&mut self, job: &Job, thread: &ThreadRef, write: &LineWrite) -> InLine {
        if self.jobs.contains_key(&job.order.id) {
            return InLine::Submit(self.submit(job));
        }
        match self.write_line(thread, write) {
            LineWritten::Written => InLine::Submit(self.submit(job)),
            LineWritten::Refused(found) => InLine::Refused(found),
        }
    }

    pub(crate) fn line(&self, thread: &ThreadRef) -> Line {
        self.lines.get(thread).cloned().unwrap_or_default()
    }

    pub(crate) fn write_line(&mut self, thread: &ThreadRef, write: &LineWrite) -> LineWritten {
        let found = self.line(thread);
        if found.mark == write.mark {
            let places = write.places.iter().map(|place| format!("{}/{}", place.job, place.replays));
            let places = places.collect::<Vec<_>>().join(", ");
            self.note(|| format!("  thread {}: {places}", thread.thread));
            self.lines.insert(thread.clone(), Line { places: write.places.clone(), mark: Some(write.nonce) });
            return LineWritten::Written;
        }
        if found.mark == Some(write.nonce) { LineWritten::Written } else { LineWritten::Refused(found) }
    }

    pub(crate) fn job(&self, job: &JobRef) -> Option<&Job> {
        self.jobs.get(&job.job).filter(|stored| stored.order.tenant == job.tenant)
    }

    fn job_mut(&mut self, job: &JobRef) -> Result<&mut Job, StoreError> {
        self.jobs
            .get_mut(&job.job)
            .filter(|stored| stored.order.tenant == job.tenant)
            .ok_or(StoreError::Missing { job: job.job })
    }

    pub(crate) fn journal(&self, job: JobId, from: Seq) -> Result<Vec<Batch>, StoreError> {
        let mut next = None;
        let mut batches = Vec::new();
        for batch in self.journals.get(&job).into_iter().flat_map(BTreeMap::values) {
            if batch.next() <= from {
                continue;
            }
            if !next.map_or(batch.at <= from, |next| batch.at == next) {
                break;
            }
            next = Some(batch.next());
            batches.push(readable(batch)?);
        }
        Ok(batches)
    }

    pub(crate) fn batch_at(&self, job: JobId, at: Seq) -> Result<Option<Batch>, StoreError> {
        self.journals.get(&job).and_then(|journal| journal.get(&at)).map(readable).transpose()
    }

    pub(crate) fn append(&mut self, author: u64, job: &JobRef, batch: &Batch) -> Result<Append, StoreError> {
        let journal = self.journals.entry(job.job).or_default();
        match journal.get(&batch.at) {
            Some(found) if found.nonce == batch.nonce => Ok(Append::Written),
            Some(found) => {
                let found = readable(found)?;
                self.note(|| format!("  {} has something at {} already", job.job, batch.at));
                Ok(Append::Conflict(Box::new(found)))
            }
            None => {
                journal.insert(batch.at, batch.clone());
                self.authors.insert((job.job, batch.at), author);
                self.appended.push((job.job, batch.at));
                self.note(|| {
                    let entries = serde_json::to_string(&batch.entries).unwrap_or_default();
                    format!("  {} at {}: {entries}", job.job, batch.at)
                });
                Ok(Append::Written)
            }
        }
    }

    pub(crate) fn write_job(&mut self, job: &JobRef, write: &JobWrite) -> Result<Write, StoreError> {
        let stored = self.job_mut(job)?;
        if stored.last_write == write.last_write && write.wakes.is_none_or(|wakes| wakes == stored.wakes) {
            stored.last_write = write.nonce;
            stored.progress = write.progress.clone();
            // Claims alone write attempts: somebody looks after the job again.
            if write.progress.attempts > 0 && matches!(write.progress.state, JobState::Processing { .. }) {
                stored.sweeps = 0;
            }
        }
        let stored = stored.clone();
        if stored.last_write == write.nonce {
            let Progress { state, epoch, attempts, due, .. } = stored.progress;
            self.note(|| {
                let (state, due) = (state.status(), due.map(Timestamp::as_millis));
                format!("  {} is {state:?}, epoch {}, attempts {attempts}, due {due:?}", job.job, epoch.0)
            });
            Ok(Write::Written { wakes: stored.wakes })
        } else {
            self.note(|| format!("  {} was written by somebody else", job.job));
            Ok(Write::Refused(Box::new(stored)))
        }
    }

    pub(crate) fn wake(&mut self, job: &JobRef, now: Timestamp) -> Result<Woken, StoreError> {
        let stored = self.job_mut(job)?;
        stored.wakes = stored.wakes.saturating_add(1);
        if matches!(stored.progress.state, JobState::Waiting { .. }) {
            let progress = stored.progress.clone();
            stored.progress = Progress { state: JobState::Pending, due: Some(now), updated_at: now, ..progress };
        }
        Ok(if stored.progress.state.is_terminal() { Woken::Ended } else { Woken::Open })
    }

    pub(crate) fn due(&self, shard: u8, until: Timestamp, jobs_max: usize) -> Vec<JobRef> {
        let mut due: Vec<(Timestamp, JobRef)> = self
            .jobs
            .values()
            .filter(|job| Job::due_shard(job.order.id) == shard)
            .filter_map(|job| {
                let due = job.progress.due.filter(|due| *due <= until)?;
                Some((due, JobRef { tenant: job.order.tenant.clone(), job: job.order.id }))
            })
            .collect();
        due.sort();
        due.into_iter().take(jobs_max).map(|(_, job)| job).collect()
    }

    pub(crate) fn move_due(&mut self, job: &JobRef, seen_due: Timestamp, due: Timestamp) -> bool {
        let Ok(stored) = self.job_mut(job) else { return false };
        if stored.progress.due == Some(seen_due) {
            stored.progress.due = Some(due);
            stored.sweeps = stored.sweeps.saturating_add(1);
        }
        stored.progress.due == Some(due)
    }

    pub(crate) fn beat(&mut self, session: &SessionId, now: Timestamp) {
        self.sessions.insert(session.clone(), now);
    }

    pub(crate) fn last_beat(&self, session: &SessionId) -> Option<Timestamp> {
        self.sessions.get(session).copied()
    }

    pub(crate) fn end_session(&mut self, session: &SessionId) {
        self.sessions.remove(session);
    }

    pub(crate) fn send(&mut self, continuation: &Continuation, delay: Duration) {
        self.note(|| format!("  {} in {} ms", told(continuation), delay.as_millis()));
        self.enqueue(continuation, delay.min(Duration::from_secs(limits::MESSAGE_DELAY_MAX_SECONDS)));
    }

    pub(crate) fn dead_letter(&mut self, job: &Job, failure: &Failure) {
        let job = JobRef { tenant: job.order.tenant.clone(), job: job.order.id };
        self.dead_letters.push(DeadLetter { job, failure: failure.clone() });
    }
}

/// A batch that this program may read.
fn readable(batch: &Batch) -> Result<Batch, StoreError> {
    if batch.v > limits::PROTOCOL_VERSION {
        return Err(StoreError::Newer { what: format!("the batch at {}", batch.at), found: batch.v });
    }
    Ok(batch.clone())
}
