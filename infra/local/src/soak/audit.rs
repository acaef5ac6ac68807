//! What must be true of a job after everything has come to rest, whatever was killed, lost, doubled or late on the way.
//!
//! | Checked | Against |
//! |---|---|
//! | it is there, and it has ended as expected | the table |
//! | positions without a gap, epochs that only grow, nothing behind the end, one outcome a step | its journal |
//! | the job item says what the journal says, and is not due | both |
//! | each effect was asked for, and not once more than claims and failed attempts between allow | the model server |
//!
//! The last one is the contract: a step may be asked for again under its own key, but only by a session that claimed the
//! job after the step before had its outcome, or by another attempt that the journal holds. So with `c` claims in
//! force while a step had no outcome, and `f` failed attempts of it, it was asked for `c + f` times at the most.

use std::collections::BTreeMap;

use longhaul_engine::job::Status;
use longhaul_engine::{Batch, Entry, Job, JobId, JobState, StepKey, StepKind};
use serde::Serialize;

/// How a job is expected to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// With a result, after so many steps with an outcome.
    Completed {
        /// How many.
        steps: u64,
    },
    /// With a failure.
    Failed,
}

impl Expected {
    const fn status(self) -> Status {
        match self {
            Self::Completed { .. } => Status::Completed,
            Self::Failed => Status::Failed,
        }
    }
}

/// The books of one job.
#[derive(Debug, Clone)]
pub struct JobBooks {
    /// The job.
    pub job: JobId,
    /// Its item; none: there is none.
    pub item: Option<Job>,
    /// Its journal.
    pub journal: Vec<Batch>,
    /// How often each of its effects was asked for, by step key.
    pub asked: BTreeMap<String, u64>,
}

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding {
    /// A job that was accepted is not there.
    #[error("{job} was accepted and is not there")]
    Lost {
        /// Which.
        job: JobId,
    },
    /// A job has not ended.
    #[error("{job} has not ended: {status}, journal up to {tail}")]
    Stuck {
        /// Which.
        job: JobId,
        /// Where it stands.
        status: &'static str,
        /// Entries of its journal.
        tail: u64,
    },
    /// A job has ended otherwise than it should.
    #[error("{job} ended {status} and not {expected}: {why}")]
    OtherEnd {
        /// Which.
        job: JobId,
        /// How it ended.
        status: &'static str,
        /// How it should have.
        expected: &'static str,
        /// What its journal says of it.
        why: String,
    },
    /// An effect was asked for more often than the contract allows.
    #[error("{job}: step {step} was asked for {asked} times, {allowed} are allowed")]
    Doubled {
        /// Which job.
        job: JobId,
        /// Which step.
        step: String,
        /// How often it was asked for.
        asked: u64,
        /// How often it may have been.
        allowed: u64,
    },
    /// An effect has an outcome and was never asked for, or was asked for and is in no journal.
    #[error("{job}: step {step}: {what}")]
    Unfounded {
        /// Which job.
        job: JobId,
        /// Which step.
        step: String,
        /// Which of the two.
        what: &'static str,
    },
    /// The journal breaks a rule of its own.
    #[error("{job}: at {at}: {what}")]
    Journal {
        /// Which job.
        job: JobId,
        /// Where.
        at: u64,
        /// Which rule.
        what: String,
    },
    /// The job item and the journal are at odds.
    #[error("{job}: its item {what}")]
    Item {
        /// Which job.
        job: JobId,
        /// In what.
        what: String,
    },
    /// Something that should be empty is not.
    #[error("{what}")]
    Left {
        /// What, and how much.
        what: String,
    },
}

/// What an audit of one job came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audited {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Steps with an outcome.
    pub steps: u64,
    /// Effects that were asked for again, as the contract allows.
    pub asked_again: u64,
    /// Claims after the death of the session before.
    pub takeovers: u64,
}

/// Audits one job.
#[must_use]
pub fn audit(books: &JobBooks, expected: Expected) -> Audited {
    let job = books.job;
    let Some(item) = &books.item else {
        return Audited { findings: vec![Finding::Lost { job }], ..Audited::default() };
    };
    let mut reading = Reading::new(job);
    for batch in &books.journal {
        reading.take_in(batch);
    }
    reading.check_item(item, expected);
    reading.check_effects(&books.asked);
    if let (Expected::Completed { steps }, Some(Status::Completed)) = (expected, reading.end)
        && reading.outcomes.len() as u64 != steps
    {
        let what = format!("holds {} outcomes and not {steps}", reading.outcomes.len());
        reading.findings.push(Finding::Journal { job, at: reading.next.saturating_sub(1), what });
    }
    Audited {
        steps: reading.outcomes.len() as u64,
        takeovers: reading.takeovers,
        asked_again: reading.asked_again,
        findings: reading.findings,
    }
}

/// A step's outcome and where it stands.
struct Outcome {
    at: u64,
    kind: StepKind,
}

/// A journal on its way through the auditor.
struct Reading {
    job: JobId,
    findings: Vec<Finding>,
    next: u64,
    epoch: u64,
    /// The positions of claims.
    claims: Vec<u64>,
    takeovers: u64,
    outcomes: BTreeMap<StepKey, Outcome>,
    /// Attempts that failed and were followed by another, by step.
    failed_attempts: BTreeMap<StepKey, u64>,
    end: Option<Status>,
    why: String,
    asked_again: u64,
}

impl Reading {
    fn new(job: JobId) -> Self {
        Self {
            job,
            findings: Vec::new(),
            next: 1,
            epoch: 0,
            claims: Vec::new(),
            takeovers: 0,
            outcomes: BTreeMap::new(),
            failed_attempts: BTreeMap::new(),
            end: None,
            why: String::new(),
            asked_again: 0,
        }
    }

    fn wrong(&mut self, at: u64, what: impl Into<String>) {
        self.findings.push(Finding::Journal { job: self.job, at, what: what.into() });
    }

    fn take_in(&mut self, batch: &Batch) {
        if batch.at.0 != self.next {
            self.wrong(batch.at.0, format!("position {} was to come", self.next));
        }
        for (at, entry) in (batch.at.0..).zip(&batch.entries) {
            if self.end.is_some() && !matches!(entry, Entry::Replayed { .. }) {
                self.wrong(at, "an entry behind the end");
            }
            self.entry(at, entry);
        }
        self.next = batch.next().0;
    }

    fn entry(&mut self, at: u64, entry: &Entry) {
        match entry {
            Entry::Claimed { epoch, takeover, .. } => {
                if epoch.0 <= self.epoch {
                    self.wrong(at, format!("a claim of epoch {} behind one of {}", epoch.0, self.epoch));
                }
                self.epoch = epoch.0;
                self.claims.push(at);
                self.takeovers += u64::from(*takeover);
            }
            Entry::StepCompleted { id, .. } | Entry::StepFailed { id, .. } => {
                if self.claims.is_empty() {
                    self.wrong(at, "an outcome before any claim");
                }
                if let Some(before) = self.outcomes.insert(id.key.clone(), Outcome { at, kind: id.kind }) {
                    self.wrong(at, format!("a second outcome of step {}, whose first stands at {}", id.key, before.at));
                }
            }
            Entry::AttemptFailed { id, .. } => *self.failed_attempts.entry(id.key.clone()).or_default() += 1,
            Entry::Completed { .. } => self.end = Some(Status::Completed),
            Entry::Cancelled { .. } => self.end = Some(Status::Cancelled),
            Entry::Failed { failure } => {
                self.end = Some(Status::Failed);
                self.why = failure.message.clone();
            }
            Entry::Replayed { .. } => self.end = None,
            // What acts is counted by the model server; waits, signals and what is shown have no outcome to double.
            Entry::StepStarted { .. }
            | Entry::Waiting { .. }
            | Entry::WaitEnded { .. }
            | Entry::Emitted { .. }
            | Entry::Signalled { .. }
            | Entry::CancelRequested { .. }
            | Entry::Forked { .. } => {}
        }
    }

    fn check_item(&mut self, item: &Job, expected: Expected) {
        let job = self.job;
        let status = item.progress.state.status();
        let Some(end) = self.end else {
            let tail = self.next.saturating_sub(1);
            return self.findings.push(Finding::Stuck { job, status: status.as_str(), tail });
        };
        if end != expected.status() {
            let (status, expected) = (end.as_str(), expected.status().as_str());
            self.findings.push(Finding::OtherEnd { job, status, expected, why: self.why.clone() });
        }
        if status != end {
            let what = format!("says {} where the journal says {}", status.as_str(), end.as_str());
            self.findings.push(Finding::Item { job, what });
        }
        if let Some(due) = item.progress.due {
            self.findings.push(Finding::Item { job, what: format!("is due at {} after its end", due.as_millis()) });
        }
        if matches!(item.progress.state, JobState::Processing { .. }) {
            self.findings.push(Finding::Item { job, what: "names a holder after its end".to_owned() });
        }
    }

    fn check_effects(&mut self, asked: &BTreeMap<String, u64>) {
        let job = self.job;
        let mut findings = Vec::new();
        for (key, outcome) in self.outcomes.iter().filter(|(_, outcome)| is_effect(outcome.kind)) {
            let step = key.to_string();
            let Some(&times) = asked.get(key.as_str()) else {
                findings.push(Finding::Unfounded { job, step, what: "has an outcome and was never asked for" });
                continue;
            };
            let allowed = self.allowed(key, outcome.at);
            if times > allowed {
                findings.push(Finding::Doubled { job, step, asked: times, allowed });
            } else {
                self.asked_again += times.saturating_sub(1);
            }
        }
        // What was asked for and has no outcome is what a crash or an end cut off; a job that completed has none.
        for step in asked.keys().filter(|_| self.end == Some(Status::Completed)) {
            if !self.outcomes.keys().any(|key| key.as_str() == step) {
                let what = "was asked for and has no outcome in a completed job";
                findings.push(Finding::Unfounded { job, step: step.clone(), what });
            }
        }
        self.findings.extend(findings);
    }

    /// How often the step at `key`, whose outcome stands at `outcome_at`, may have been asked for: once by each session
    /// whose claim was in force at some time between the outcome of the step before and its own, and once more for each
    /// attempt that the journal says failed.
    fn allowed(&self, key: &StepKey, outcome_at: u64) -> u64 {
        let before = step_before(key, &self.outcomes).unwrap_or(0);
        let between = self.claims.iter().filter(|at| (before..outcome_at).contains(*at)).count() as u64;
        let in_force = u64::from(self.claims.iter().any(|at| *at < before));
        between + in_force + self.failed_attempts.get(key).copied().unwrap_or_default()
    }
}

const fn is_effect(kind: StepKind) -> bool {
    match kind {
        StepKind::Effect | StepKind::EffectOnce => true,
        StepKind::Step | StepKind::Sleep | StepKind::Signal | StepKind::Child | StepKind::Emit => false,
    }
}

/// Where the outcome stands of the nearest step before this one in its scope. A step inside a branch can have begun as
/// early as the branch, so for the first one of a branch nothing is known and the whole journal counts.
fn step_before(key: &StepKey, outcomes: &BTreeMap<StepKey, Outcome>) -> Option<u64> {
    let split = |key: &StepKey| {
        let text = key.as_str();
        let (scope, position) = text.rsplit_once('.').unwrap_or(("", text));
        Some((scope.to_owned(), position.parse::<u64>().ok()?))
    };
    let (scope, position) = split(key)?;
    let earlier = outcomes.iter().filter_map(|(other, outcome)| {
        let (other_scope, other_position) = split(other)?;
        (other_scope == scope && other_position < position).then_some((other_position, outcome.at))
    });
    earlier.max().map(|(_, at)| at)
}

#[cfg(test)]
mod tests;
