//! The fold of a journal: what its entries say together.
//!
//! The journal is the truth about a job. This is the only place where entries are read for their meaning; the worker,
//! the api and the simulator all look at a job through it.

mod records;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::budget::{HeldBack, STEPS_OF_A_LOOK};
use crate::entry::{Batch, Edit, Entry, StepId, StepKind, WaitEnd, WaitFor};
use crate::failure::ErrorClass;
use crate::ids::{JobId, Nonce, Seq, SignalKey, SignalName, StepKey};
use crate::job::{Order, Status, Totals};
use crate::limits;

pub use records::{CancelRecord, ClaimRecord, Ending, FoldError, KeyKind, SignalRecord, StepRecord, StepState};

/// A journal, read up to some position.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal {
    next: Seq,
    ended: Option<(Seq, Ending)>,
    last_claim: Option<ClaimRecord>,
    progress_since_claim: bool,
    crashes_in_row: u32,
    /// Of these, the deaths that were not shared with many.
    own_crashes_in_row: u32,
    steps: BTreeMap<StepKey, StepRecord>,
    signals: Vec<SignalRecord>,
    keys: BTreeSet<(KeyKind, SignalKey)>,
    cancel: Option<CancelRecord>,
    edit: Edit,
    /// Replays that changed what the job asks its models.
    asks_anew: u32,
    totals: Totals,
    /// What each child has used as far as it is in the totals, by the signal of its end.
    counted: BTreeMap<SignalName, Totals>,
    replays: u32,
    /// The last replay that stood behind an end.
    opened_again: Option<Seq>,
    forked: Option<Seq>,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            next: Seq::FIRST,
            ended: None,
            last_claim: None,
            progress_since_claim: false,
            crashes_in_row: 0,
            own_crashes_in_row: 0,
            steps: BTreeMap::new(),
            signals: Vec::new(),
            keys: BTreeSet::new(),
            cancel: None,
            edit: Edit::default(),
            asks_anew: 0,
            totals: Totals::default(),
            counted: BTreeMap::new(),
            replays: 0,
            opened_again: None,
            forked: None,
        }
    }
}

impl Journal {
    /// Reads whole journal batches in order.
    ///
    /// # Errors
    /// See [`FoldError`].
    pub fn read(batches: impl IntoIterator<Item = Batch>) -> Result<Self, FoldError> {
        let mut journal = Self::default();
        for batch in batches {
            journal.take_in(batch)?;
        }
        Ok(journal)
    }

    /// Reads one batch more; it must stand at [`Journal::next`].
    ///
    /// # Errors
    /// See [`FoldError`]; the journal may hold a part of the batch then and is of no more use.
    pub fn take_in(&mut self, batch: Batch) -> Result<(), FoldError> {
        if batch.v > limits::PROTOCOL_VERSION {
            return Err(FoldError::Newer { at: batch.at, found: batch.v, known: limits::PROTOCOL_VERSION });
        }
        if batch.at != self.next {
            return Err(FoldError::Gap { expected: self.next, found: batch.at });
        }
        if batch.next().0 > limits::JOURNAL_ENTRIES_MAX {
            return Err(FoldError::TooLong { max: limits::JOURNAL_ENTRIES_MAX });
        }
        let next = batch.next();
        let mut at = batch.at;
        for entry in batch.entries {
            self.take_in_entry(at, batch.nonce, entry)?;
            at = at.plus(1);
        }
        self.next = next;
        Ok(())
    }

    fn take_in_entry(&mut self, at: Seq, nonce: Nonce, entry: Entry) -> Result<(), FoldError> {
        if self.ended.is_some() && !matches!(entry, Entry::Replayed { .. }) {
            return Err(FoldError::AfterEnd { at });
        }
        match entry {
            Entry::Claimed { epoch, session: _, takeover, beside } => {
                self.claimed(takeover, ClaimRecord { epoch, nonce, seq: at, beside });
            }
            Entry::StepStarted { id } => self.record(at, id, StepState::Started)?,
            Entry::StepCompleted { id, attempt: _, started_at: _, output, usage, look } => {
                self.totals.usage = self.totals.usage.plus(usage);
                self.record(at, id, StepState::Completed { output })?;
                if look {
                    self.totals.steps = self.totals.steps.saturating_sub(STEPS_OF_A_LOOK);
                }
            }
            Entry::AttemptFailed { id, attempt, started_at: _, failure: _, retry_at, usage } => {
                self.totals.usage = self.totals.usage.plus(usage);
                self.record(at, id, StepState::Retrying { attempt, retry_at })?;
            }
            Entry::StepFailed { id, attempt: _, started_at: _, failure, usage } => {
                self.totals.usage = self.totals.usage.plus(usage);
                self.record(at, id, StepState::Failed { failure })?;
            }
            Entry::Waiting { id, on, until } => self.record(at, id, StepState::Waiting { on, until })?,
            Entry::WaitEnded { id, end } => {
                if let WaitEnd::Signal { signal_seq } = end {
                    for signal in self.signals.iter_mut().filter(|signal| signal.seq == signal_seq) {
                        signal.taken = true;
                        if id.kind == StepKind::Child {
                            // A child says all that it has used so far, and after a replay it says it again.
                            let used = used_by_child(signal);
                            let counted = self.counted.entry(signal.name.clone()).or_default();
                            self.totals = self.totals.plus(used.since(*counted));
                            *counted = used;
                        }
                    }
                }
                self.record(at, id, StepState::WaitEnded { end })?;
            }
            Entry::Emitted { id, data: _ } => self.record(at, id, StepState::Emitted)?,
            Entry::Signalled { signal, key, payload, by } => {
                self.keys.insert((KeyKind::Signal, key));
                self.signals.push(SignalRecord { seq: at, name: signal, payload, by, taken: false });
            }
            Entry::CancelRequested { key, by, reason } => {
                self.keys.insert((KeyKind::Cancel, key));
                self.cancel.get_or_insert(CancelRecord { seq: at, by, reason });
            }
            Entry::Completed { output } => self.ended = Some((at, Ending::Completed { output })),
            Entry::Failed { failure } => self.ended = Some((at, Ending::Failed { failure })),
            Entry::Cancelled { by, reason } => self.ended = Some((at, Ending::Cancelled { by, reason })),
            Entry::Replayed { key, by: _, from, edit } => self.replayed(at, key, from, edit),
            Entry::Forked { .. } => self.forked = Some(at),
        }
        Ok(())
    }

    /// Protocol rule 10: crashes in a row are takeovers that each follow the claim of the epoch before, with neither
    /// outcome nor wait between them. Whether a death was shared is what the claim says whose session died.
    fn claimed(&mut self, takeover: bool, claim: ClaimRecord) {
        let dead = self.last_claim.filter(|last| last.epoch.next() == claim.epoch);
        let own = u32::from(dead.is_none_or(|dead| dead.beside == 0));
        let follows = dead.is_some() && !self.progress_since_claim;
        (self.crashes_in_row, self.own_crashes_in_row) = match (takeover, follows) {
            (true, true) => (self.crashes_in_row.saturating_add(1), self.own_crashes_in_row.saturating_add(own)),
            (true, false) => (1, own),
            (false, _) => (0, 0),
        };
        self.last_claim = Some(claim);
        self.progress_since_claim = false;
    }

    fn record(&mut self, at: Seq, id: StepId, state: StepState) -> Result<(), FoldError> {
        if let Some(known) = self.steps.get(&id.key)
            && known.state.is_outcome()
        {
            return Err(FoldError::SecondOutcome { step: id.key, at });
        }
        if state.is_outcome() {
            self.totals.steps = self.totals.steps.saturating_add(1);
        }
        // Only the start of an at-most-once step is no progress: a step that kills its worker would write it each time.
        self.progress_since_claim |= !matches!(state, StepState::Started);
        self.steps.insert(id.key.clone(), StepRecord { id, state, seq: at });
        Ok(())
    }

    fn replayed(&mut self, at: Seq, key: SignalKey, from: Option<Seq>, edit: Edit) {
        self.keys.insert((KeyKind::Replay, key));
        if self.ended.take().is_some() {
            self.opened_again = Some(at);
        }
        self.cancel = None;
        (self.crashes_in_row, self.own_crashes_in_row) = (0, 0);
        self.replays = self.replays.saturating_add(1);
        self.forget(from);
        if edit.asks_anew() {
            self.asks_anew = self.asks_anew.saturating_add(1);
        }
        if edit.input.is_some() {
            self.edit.input = edit.input;
        }
        if edit.budget.is_some() {
            self.edit.budget = edit.budget;
        }
        if edit.model.is_some() {
            self.edit.model = edit.model;
        }
        if edit.instructions.is_some() {
            self.edit.instructions = edit.instructions;
        }
    }

    /// Forgets what a replay without a position does: failures, so that the job goes on from its last good step.
    pub(crate) fn forget_failures(&mut self) {
        self.forget(None);
    }

    fn forget(&mut self, from: Option<Seq>) {
        let signals = &mut self.signals;
        self.steps.retain(|_, record| {
            let kept = from.is_none_or(|from| record.seq < from);
            match &record.state {
                // Nobody knows whether it took effect: only who names a position from before it has it done again.
                StepState::Failed { failure }
                    if record.id.kind == StepKind::EffectOnce && failure.class == ErrorClass::Interrupted =>
                {
                    kept
                }
                StepState::Failed { .. } | StepState::Retrying { .. } => false,
                StepState::WaitEnded { end: WaitEnd::Signal { signal_seq } } if record.id.kind == StepKind::Child => {
                    // A failure is forgotten: the child says its new end when it is replayed itself. A result is kept
                    // for the wait to come, since the child will not say it again.
                    let end = signals.iter_mut().find(|signal| signal.seq == *signal_seq);
                    let completed = child_completed(end.as_deref());
                    if let Some(end) = end {
                        end.taken = kept || !completed;
                    }
                    kept && completed
                }
                StepState::Started
                | StepState::Waiting { .. }
                | StepState::Completed { .. }
                | StepState::WaitEnded { .. }
                | StepState::Emitted => kept,
            }
        });
    }

    /// The next free position.
    #[must_use]
    pub const fn next(&self) -> Seq {
        self.next
    }

    /// How the job ended, if it has.
    #[must_use]
    pub const fn ending(&self) -> Option<&Ending> {
        match &self.ended {
            Some((_, ending)) => Some(ending),
            None => None,
        }
    }

    /// The last claim.
    #[must_use]
    pub const fn last_claim(&self) -> Option<ClaimRecord> {
        self.last_claim
    }

    /// Crashes in a row, the last claim's own takeover included.
    #[must_use]
    pub const fn crashes_in_row(&self) -> u32 {
        self.crashes_in_row
    }

    /// Of these, those that the job did not share with many others.
    #[must_use]
    pub const fn own_crashes_in_row(&self) -> u32 {
        self.own_crashes_in_row
    }

    /// What is written about a step.
    #[must_use]
    pub fn step(&self, key: &StepKey) -> Option<&StepRecord> {
        self.steps.get(key)
    }

    /// All steps with a record, by key.
    pub fn steps(&self) -> impl Iterator<Item = &StepRecord> {
        self.steps.values()
    }

    /// The first signal of this name that no wait has taken.
    #[must_use]
    pub fn untaken_signal(&self, name: &SignalName) -> Option<&SignalRecord> {
        self.signals.iter().find(|signal| !signal.taken && signal.name == *name)
    }

    /// Signals that no wait has taken, in order.
    pub fn untaken_signals(&self) -> impl Iterator<Item = &SignalRecord> {
        self.signals.iter().filter(|signal| !signal.taken)
    }

    /// Whether all that a fork keeps of another job stands in it.
    #[must_use]
    pub const fn forked(&self) -> bool {
        self.forked.is_some()
    }

    /// The position behind which stands what a fork has done itself; none where nothing was kept of another job.
    #[must_use]
    pub const fn kept_until(&self) -> Option<Seq> {
        self.forked
    }

    /// The signal at a position.
    #[must_use]
    pub fn signal_at(&self, seq: Seq) -> Option<&SignalRecord> {
        self.signals.iter().find(|signal| signal.seq == seq)
    }

    /// Whether a request of this kind with this key has been taken in.
    #[must_use]
    pub fn has_key(&self, kind: KeyKind, key: &SignalKey) -> bool {
        self.keys.contains(&(kind, key.clone()))
    }

    /// Whether the agent may write on: the end of the journal is kept for the job's own end.
    #[must_use]
    pub const fn has_room_for_steps(&self) -> bool {
        self.next.0 + limits::JOURNAL_ENTRIES_RESERVED <= limits::JOURNAL_ENTRIES_MAX
    }

    /// Whether requests from outside may still be taken in.
    #[must_use]
    pub const fn has_room_for_requests(&self) -> bool {
        self.next.0 + limits::JOURNAL_ENTRIES_WORKER_RESERVED <= limits::JOURNAL_ENTRIES_MAX
    }

    /// The request to end the job, if one stands open.
    #[must_use]
    pub const fn cancel(&self) -> Option<&CancelRecord> {
        self.cancel.as_ref()
    }

    /// What the job has used.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// How many replays have changed what the job asks its models.
    #[must_use]
    pub const fn asks_anew(&self) -> u32 {
        self.asks_anew
    }

    /// How often it was opened again.
    #[must_use]
    pub const fn replays(&self) -> u32 {
        self.replays
    }

    /// Where it was opened again the last time, behind an end.
    #[must_use]
    pub const fn opened_again(&self) -> Option<Seq> {
        self.opened_again
    }

    /// Children that steps wait for.
    pub fn open_children(&self) -> impl Iterator<Item = JobId> {
        self.steps.values().filter_map(|record| match record.state {
            StepState::Waiting { on: WaitFor::Child { child, budget: _ }, .. } => Some(child),
            StepState::Waiting { on: WaitFor::Time | WaitFor::Signal { .. }, .. }
            | StepState::Started
            | StepState::Retrying { .. }
            | StepState::Completed { .. }
            | StepState::Failed { .. }
            | StepState::WaitEnded { .. }
            | StepState::Emitted => None,
        })
    }

    /// What is held back for the children that steps wait for.
    #[must_use]
    pub fn held_for_children(&self) -> HeldBack {
        self.steps.values().fold(HeldBack::default(), |held, record| match &record.state {
            StepState::Waiting { on: WaitFor::Child { child: _, budget }, .. } => held.plus(budget.as_held()),
            StepState::Waiting { on: WaitFor::Time | WaitFor::Signal { .. }, .. }
            | StepState::Started
            | StepState::Retrying { .. }
            | StepState::Completed { .. }
            | StepState::Failed { .. }
            | StepState::WaitEnded { .. }
            | StepState::Emitted => held,
        })
    }

    /// The order with the edits of replays applied.
    #[must_use]
    pub fn edited(&self, order: &Order) -> Order {
        let mut order = order.clone();
        if let Some(input) = &self.edit.input {
            order.input = input.clone();
        }
        if let Some(budget) = self.edit.budget {
            order.budget = budget;
        }
        if let Some(model) = &self.edit.model {
            order.overrides.model = Some(model.clone());
        }
        if let Some(instructions) = &self.edit.instructions {
            order.overrides.instructions = Some(instructions.clone());
        }
        order
    }
}

/// What a child has used, as its parent was told. A child of an older program did not say.
fn used_by_child(end: &SignalRecord) -> Totals {
    end.payload.get("totals").and_then(|totals| Totals::deserialize(totals).ok()).unwrap_or_default()
}

/// Whether a child's end, as its parent was told, is a result.
fn child_completed(end: Option<&SignalRecord>) -> bool {
    end.is_some_and(|end| end.payload.get("status").and_then(Value::as_str) == Some(Status::Completed.as_str()))
}
