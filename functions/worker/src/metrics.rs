//! What the worker has done, counted where it is written down, and told to CloudWatch after each invocation.
//!
//! [`Metered`] stands between the drive loop and the store: whatever became part of a journal is counted once, by tenant.
//! One line a tenant goes out; the tenant is a field of it and no dimension, so that CloudWatch adds the tenants up and
//! Contributor Insights tells them apart. An invocation that is killed takes its numbers with it; the journal has them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use longhaul::engine::ids::{SessionId, TenantId};
use longhaul::engine::job::{JobWrite, Usage};
use longhaul::engine::thread::{self, LineWrite};
use longhaul::engine::{Batch, Entry, Failure, Job, JobId, JobState, Seq, Timestamp};
use longhaul::store::{
    Append, Continuation, InLine, JobRef, LineWritten, Store, StoreError, Submit, ThreadRef, Woken, Write,
};
use longhaul_aws::metrics;
use metrique::unit::Count;
use metrique::unit_of_work::metrics;
use metrique::{CloseValue as _, RootEntry};

/// What was done for one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Done {
    jobs_completed: u64,
    jobs_failed: u64,
    jobs_cancelled: u64,
    jobs_blocked: u64,
    steps_completed: u64,
    attempts_failed: u64,
    tokens: u64,
    money_micros: u64,
}

impl Done {
    fn count(&mut self, entry: &Entry) {
        match entry {
            Entry::StepCompleted { usage, .. } => {
                add(&mut self.steps_completed, 1);
                self.pay(usage);
            }
            Entry::AttemptFailed { usage, .. } | Entry::StepFailed { usage, .. } => {
                add(&mut self.attempts_failed, 1);
                self.pay(usage);
            }
            Entry::Completed { .. } => add(&mut self.jobs_completed, 1),
            Entry::Failed { .. } => add(&mut self.jobs_failed, 1),
            Entry::Cancelled { .. } => add(&mut self.jobs_cancelled, 1),
            Entry::Claimed { .. }
            | Entry::StepStarted { .. }
            | Entry::Waiting { .. }
            | Entry::WaitEnded { .. }
            | Entry::Emitted { .. }
            | Entry::Signalled { .. }
            | Entry::CancelRequested { .. }
            | Entry::Replayed { .. }
            | Entry::Forked { .. } => {}
        }
    }

    fn pay(&mut self, usage: &Usage) {
        add(&mut self.tokens, usage.tokens());
        add(&mut self.money_micros, usage.money_micros);
    }
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// What was done since the last look, by tenant. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter(Arc<Mutex<BTreeMap<TenantId, Done>>>);

impl Meter {
    fn with(&self, tenant: &TenantId, count: impl FnOnce(&mut Done)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(tenant) {
            Some(done) => count(done),
            None => {
                let mut done = Done::default();
                count(&mut done);
                // A claim or a heartbeat alone is no news.
                if done != Done::default() {
                    all.insert(tenant.clone(), done);
                }
            }
        }
    }

    /// Prints what was done, and begins anew.
    pub(crate) fn print(&self) {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for (tenant, done) in all {
            metrics::print(&RootEntry::new(
                Line::new(&tenant, done, SystemTime::now(), metrics::function_name()).close(),
            ));
        }
    }
}

/// The line of one tenant.
#[metrics(emf::dimension_sets = [["function"]])]
struct Line {
    #[metrics(timestamp)]
    at: SystemTime,
    function: String,
    tenant: String,
    #[metrics(name = "JobsCompleted", unit = Count)]
    jobs_completed: u64,
    #[metrics(name = "JobsFailed", unit = Count)]
    jobs_failed: u64,
    #[metrics(name = "JobsCancelled", unit = Count)]
    jobs_cancelled: u64,
    #[metrics(name = "JobsBlocked", unit = Count)]
    jobs_blocked: u64,
    #[metrics(name = "StepsCompleted", unit = Count)]
    steps_completed: u64,
    #[metrics(name = "AttemptsFailed", unit = Count)]
    attempts_failed: u64,
    #[metrics(name = "Tokens", unit = Count)]
    tokens: u64,
    #[metrics(name = "MoneyMicros", unit = Count)]
    money_micros: u64,
}

impl Line {
    fn new(tenant: &TenantId, done: Done, at: SystemTime, function: String) -> Self {
        let Done {
            jobs_completed,
            jobs_failed,
            jobs_cancelled,
            jobs_blocked,
            steps_completed,
            attempts_failed,
            tokens,
            money_micros,
        } = done;
        Self {
            at,
            function,
            tenant: tenant.as_str().to_owned(),
            jobs_completed,
            jobs_failed,
            jobs_cancelled,
            jobs_blocked,
            steps_completed,
            attempts_failed,
            tokens,
            money_micros,
        }
    }
}

/// A store whose writes are counted.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    store: S,
    meter: Meter,
}

impl<S> Metered<S> {
    pub(crate) const fn new(store: S, meter: Meter) -> Self {
        Self { store, meter }
    }
}

impl<S: Store> Store for Metered<S> {
    async fn append(&self, job: &JobRef, batch: &Batch) -> Result<Append, StoreError> {
        let append = self.store.append(job, batch).await?;
        match append {
            Append::Written => {
                self.meter.with(&job.tenant, |done| batch.entries.iter().for_each(|entry| done.count(entry)));
            }
            Append::Conflict(_) => {}
        }
        Ok(append)
    }

    async fn write_job(&self, job: &JobRef, write: &JobWrite) -> Result<Write, StoreError> {
        let written = self.store.write_job(job, write).await?;
        if let (Write::Written { .. }, JobState::Blocked { .. }) = (&written, &write.progress.state) {
            self.meter.with(&job.tenant, |done| add(&mut done.jobs_blocked, 1));
        }
        Ok(written)
    }

    async fn submit(&self, job: &Job) -> Result<Submit, StoreError> {
        self.store.submit(job).await
    }

    async fn submit_in_line(&self, job: &Job, thread: &ThreadRef, write: &LineWrite) -> Result<InLine, StoreError> {
        self.store.submit_in_line(job, thread, write).await
    }

    async fn line(&self, thread: &ThreadRef) -> Result<thread::Line, StoreError> {
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
        self.store.send(continuation, delay).await
    }

    async fn dead_letter(&self, job: &Job, failure: &Failure) -> Result<(), StoreError> {
        self.store.dead_letter(job, failure).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use super::*;

    fn entry(json: &str) -> Entry {
        serde_json::from_str(json).unwrap()
    }

    /// Entries as they stand in the golden files of `shared/aws`.
    fn golden(name: &str) -> Vec<Entry> {
        let path = format!("{}/../../shared/aws/tests/golden/batch-{name}.json", env!("CARGO_MANIFEST_DIR"));
        let item: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let text = item.pointer("/entries/S").unwrap().as_str().unwrap().to_owned();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn entries_are_counted_for_what_they_are() {
        // The golden batch, and what it counts as.
        let cases: [(&str, Done); 7] = [
            ("completed", Done { jobs_completed: 1, ..Done::default() }),
            ("failed", Done { jobs_failed: 1, ..Done::default() }),
            ("cancelled", Done { jobs_cancelled: 1, ..Done::default() }),
            ("claimed", Done::default()),
            ("step-started", Done::default()),
            ("waiting", Done::default()),
            ("signalled", Done::default()),
        ];
        for (name, wanted) in cases {
            let mut done = Done::default();
            golden(name).iter().for_each(|entry| done.count(entry));
            assert_eq!(done, wanted, "{name}");
        }
    }

    #[test]
    fn what_failed_attempts_cost_is_counted_as_well() {
        let mut done = Done::default();
        for name in ["step-completed", "attempt-failed", "step-failed"] {
            let entries = golden(name);
            let spent: Vec<Usage> = entries
                .iter()
                .filter_map(|entry| match entry {
                    Entry::StepCompleted { usage, .. }
                    | Entry::AttemptFailed { usage, .. }
                    | Entry::StepFailed { usage, .. } => Some(*usage),
                    _ => None,
                })
                .collect();
            assert_eq!(spent.len(), 1, "{name}");
            let before = done;
            entries.iter().for_each(|entry| done.count(entry));
            let usage = spent.first().unwrap();
            assert_eq!(done.tokens - before.tokens, usage.input_tokens + usage.output_tokens, "{name}");
            assert_eq!(done.money_micros - before.money_micros, usage.money_micros, "{name}");
        }
        assert_eq!((done.steps_completed, done.attempts_failed), (1, 2));
    }

    #[test]
    fn a_tenant_that_nothing_was_done_for_has_no_line() {
        let meter = Meter::default();
        let tenant: TenantId = "acme".parse().unwrap();
        meter.with(&tenant, |_| {});
        assert!(meter.0.lock().unwrap().is_empty());
        meter.with(&tenant, |done| done.count(&entry(r#"{"type": "completed", "output": null}"#)));
        meter.with(&tenant, |_| {});
        assert_eq!(meter.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn the_line_is_what_cloudwatch_reads() {
        let done = Done {
            jobs_completed: 1,
            jobs_failed: 2,
            jobs_cancelled: 3,
            jobs_blocked: 4,
            steps_completed: 5,
            attempts_failed: 6,
            tokens: 7,
            money_micros: 8,
        };
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_764_440_000_000);
        let line = Line::new(&"acme".parse().unwrap(), done, at, "longhaul-WorkerFunction".to_owned());
        let line = metrics::line(&RootEntry::new(line.close())).unwrap();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1, "one line, with its end");
        insta::assert_json_snapshot!(serde_json::from_slice::<serde_json::Value>(&line).unwrap());
    }
}
