//! A fork: a new job that begins with the outcomes of another one up to a position, and goes its own way from there.
//!
//! What is kept is written into the fork's own journal by its first worker, as ordinary entries, and sealed by
//! [`Entry::Forked`]; before that the agent's code does not run. Entries before a position never change, so a worker that
//! begins again after a crash finds the same, and writes what is still missing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::entry::{Batch, Entry, StepId, StepKind, WaitEnd};
use crate::ids::{JobId, Seq, SignalKey, SignalName};
use crate::job::Usage;
use crate::journal::{FoldError, Journal, KeyKind, SignalRecord, StepState};
use crate::limits;
use crate::time::Timestamp;

/// Where a fork begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// The job that it was made of; the tenant is the same.
    pub job: JobId,
    /// The first position of that job's journal of which nothing is kept.
    pub at: Seq,
    /// Whether failed outcomes before it are left out too, so that the fork goes on from the last good step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_failures: bool,
}

/// One thing that a fork keeps; its entries go into the journal together.
#[derive(Debug, Clone, PartialEq)]
pub enum Kept {
    /// An entry of a step, without what it used: the fork has not paid for it.
    Step(Entry),
    /// A wait, with the signal that ended it.
    Waited {
        /// The step that waited.
        id: StepId,
        /// The signal.
        signal: Signal,
    },
    /// A signal for a wait to come.
    Early(Signal),
}

/// A signal that a fork takes over.
#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    name: SignalName,
    key: SignalKey,
    payload: Value,
    by: String,
}

impl Signal {
    fn of(record: &SignalRecord) -> Self {
        let mut payload = record.payload.clone();
        if record.name.reserved().is_some()
            && let Some(fields) = payload.as_object_mut()
        {
            // What the child has used was paid for by the job that it was a child of.
            fields.remove("totals");
        }
        let key = SignalKey::of_kept_signal(record.seq);
        Self { name: record.name.clone(), key, payload, by: record.by.clone() }
    }

    fn entry(&self) -> Entry {
        let Self { name, key, payload, by } = self.clone();
        Entry::Signalled { signal: name, key, payload, by }
    }
}

/// What a fork keeps of the journal that these batches are, in the order of their positions.
///
/// # Errors
/// [`FoldError`] when they are no journal.
pub fn kept(batches: &[Batch], fork: &Fork) -> Result<Vec<Kept>, FoldError> {
    let mut journal = Journal::default();
    for batch in batches.iter().take_while(|batch| batch.at < fork.at) {
        journal.take_in(before(batch, fork.at))?;
    }
    if fork.without_failures {
        journal.forget_failures();
    }
    let mut found: Vec<(Seq, Kept)> = Vec::new();
    for record in journal.steps() {
        let id = record.id.clone();
        let kept = match &record.state {
            StepState::Completed { .. } | StepState::Failed { .. } | StepState::Started | StepState::Emitted => {
                entry_at(batches, record.seq).map(|entry| Kept::Step(unpaid(entry)))
            }
            StepState::WaitEnded { end: WaitEnd::Time } => {
                Some(Kept::Step(Entry::WaitEnded { id, end: WaitEnd::Time }))
            }
            StepState::WaitEnded { end: WaitEnd::Signal { signal_seq } } => {
                journal.signal_at(*signal_seq).map(|signal| Kept::Waited { id, signal: Signal::of(signal) })
            }
            // It is tried, or waited for, anew.
            StepState::Retrying { .. } | StepState::Waiting { .. } => None,
        };
        found.extend(kept.map(|kept| (record.seq, kept)));
    }
    for signal in journal.untaken_signals() {
        // A child's end: the fork has children of its own.
        if signal.name.reserved().is_none() {
            found.push((signal.seq, Kept::Early(Signal::of(signal))));
        }
    }
    found.sort_by_key(|(seq, _)| *seq);
    Ok(found.into_iter().map(|(_, kept)| kept).collect())
}

/// The entries of a batch that stand before a position.
fn before(batch: &Batch, at: Seq) -> Batch {
    let count = usize::try_from(at.0.saturating_sub(batch.at.0)).unwrap_or(usize::MAX);
    Batch { entries: batch.entries.iter().take(count).cloned().collect(), ..batch.clone() }
}

fn entry_at(batches: &[Batch], seq: Seq) -> Option<Entry> {
    let batch = batches.iter().rev().find(|batch| batch.at <= seq)?;
    batch.entries.get(usize::try_from(seq.0.saturating_sub(batch.at.0)).ok()?).cloned()
}

/// The entry without what it used.
fn unpaid(entry: Entry) -> Entry {
    let none = Usage::default();
    match entry {
        Entry::StepCompleted { id, attempt, started_at, output, usage: _, look } => {
            Entry::StepCompleted { id, attempt, started_at, output, usage: none, look }
        }
        Entry::StepFailed { id, attempt, started_at, failure, usage: _ } => {
            Entry::StepFailed { id, attempt, started_at, failure, usage: none }
        }
        uses_nothing @ (Entry::StepStarted { .. }
        | Entry::Waiting { .. }
        | Entry::WaitEnded { .. }
        | Entry::Emitted { .. }
        | Entry::Claimed { .. }
        | Entry::Signalled { .. }
        | Entry::CancelRequested { .. }
        | Entry::Completed { .. }
        | Entry::Failed { .. }
        | Entry::Cancelled { .. }
        | Entry::Replayed { .. }
        | Entry::Forked { .. }) => uses_nothing,
        // Nothing is kept of an attempt that was not the last.
        attempt @ Entry::AttemptFailed { .. } => attempt,
    }
}

/// What a fork's worker writes next into its `journal`; none when it has been sealed. Always the same for the same
/// journal, whoever began.
#[must_use]
pub fn next_entries(kept: &[Kept], fork: &Fork, journal: &Journal) -> Option<Vec<Entry>> {
    if journal.forked() {
        return None;
    }
    let mut entries = Vec::new();
    for kept in kept.iter().filter(|kept| !stands(kept, journal)) {
        if entries.len().saturating_add(2) > limits::BATCH_ENTRIES_MAX {
            return Some(entries);
        }
        match kept {
            Kept::Step(entry) => entries.push(entry.clone()),
            Kept::Early(signal) => entries.push(signal.entry()),
            Kept::Waited { id, signal } => {
                let signal_seq = journal.next().plus(u64::try_from(entries.len()).unwrap_or(u64::MAX));
                entries.push(signal.entry());
                entries.push(Entry::WaitEnded { id: id.clone(), end: WaitEnd::Signal { signal_seq } });
            }
        }
    }
    if entries.len() < limits::BATCH_ENTRIES_MAX {
        let count = u64::try_from(kept.len()).unwrap_or(u64::MAX);
        entries.push(Entry::Forked { job: fork.job, at: fork.at, kept: count });
    }
    Some(entries)
}

/// The same with the time at which they are written as that of their beginning: to the fork they take no time. When they
/// began in the other job, and how long they took there, stands in its journal.
#[must_use]
pub fn begun_at(mut entries: Vec<Entry>, now: Timestamp) -> Vec<Entry> {
    for entry in &mut entries {
        if let Entry::StepCompleted { started_at, .. } | Entry::StepFailed { started_at, .. } = entry {
            *started_at = now;
        }
    }
    entries
}

fn stands(kept: &Kept, journal: &Journal) -> bool {
    match kept {
        Kept::Step(entry) => entry.step().is_some_and(|id| journal.step(&id.key).is_some()),
        Kept::Waited { id, signal: _ } => journal.step(&id.key).is_some(),
        Kept::Early(signal) => journal.has_key(KeyKind::Signal, &signal.key),
    }
}

/// Effects of a journal that a fork which keeps this will do again.
#[must_use]
pub fn repeats(batches: &[Batch], kept: &[Kept]) -> Vec<StepId> {
    let mut found: Vec<StepId> = Vec::new();
    for entry in batches.iter().flat_map(|batch| &batch.entries) {
        let Some(id) = entry.step() else { continue };
        match id.kind {
            StepKind::Effect | StepKind::EffectOnce => {}
            StepKind::Step | StepKind::Sleep | StepKind::Signal | StepKind::Child | StepKind::Emit => continue,
        }
        let is_kept = kept.iter().any(|kept| match kept {
            Kept::Step(entry) => entry.step().is_some_and(|kept| kept.key == id.key),
            Kept::Waited { .. } | Kept::Early(_) => false,
        });
        if !is_kept && !found.iter().any(|known| known.key == id.key) {
            found.push(id.clone());
        }
    }
    found
}
