//! What the agents of the model do: a few durable operations in a row.
//!
//! Mirrors what `longhaul`'s contexts make of a journal (`step.rs`, `signal.rs`, `child.rs`): from the record of each
//! operation to the next thing that is asked of the drive loop.

use longhaul_engine::entry::{StepKind, WaitEnd};
use longhaul_engine::ids::SignalName;
use longhaul_engine::journal::StepState;
use longhaul_engine::{Journal, StepKey, Timestamp};
use serde_json::Value;

use crate::ledger::{End, Mark, Why, job_id};

/// One durable operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// A step or an effect.
    Step {
        /// So many of its attempts may fail in a way that passes.
        flaky: u8,
        /// It may fail for good.
        fatal: bool,
        /// It is declared at-most-once.
        once: bool,
    },
    /// A wait for the signal "approval".
    Wait {
        /// Whether it gives up after some time.
        timeout: bool,
    },
    /// A timer.
    Sleep,
    /// A child job, awaited.
    Child,
}

/// A step that never fails.
pub const STEP: Op = Op::Step { flaky: 0, fatal: false, once: false };
/// A step that may fail for good.
pub const FATAL: Op = Op::Step { flaky: 0, fatal: true, once: false };
/// A step whose first attempt may fail.
pub const FLAKY: Op = Op::Step { flaky: 1, fatal: false, once: false };
/// An at-most-once effect.
pub const ONCE: Op = Op::Step { flaky: 0, fatal: false, once: true };

/// What an agent does, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Script(pub &'static [Op]);

/// What the agent asks for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// To run an attempt.
    Run {
        /// Of this operation.
        op: u8,
        /// Counted from 1.
        attempt: u8,
    },
    /// To append an entry.
    Append(Mark),
    /// To submit its child.
    Submit,
    /// To rest.
    Rest {
        /// Until when at the latest.
        until: Option<Timestamp>,
    },
    /// To end.
    End(End),
}

impl Script {
    /// An operation by its position.
    #[must_use]
    pub fn op(self, op: u8) -> Option<Op> {
        self.0.get(usize::from(op)).copied()
    }

    /// The author's name for it.
    #[must_use]
    pub fn name(self, op: u8) -> &'static str {
        match self.op(op) {
            Some(Op::Wait { .. }) => "approval",
            Some(Op::Step { .. } | Op::Sleep | Op::Child) | None => "work",
        }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(self, op: u8) -> StepKind {
        match self.op(op) {
            Some(Op::Wait { .. }) => StepKind::Signal,
            Some(Op::Sleep) => StepKind::Sleep,
            Some(Op::Child) => StepKind::Child,
            Some(Op::Step { once: true, .. }) => StepKind::EffectOnce,
            Some(Op::Step { once: false, .. }) | None => StepKind::Effect,
        }
    }

    /// The signal that ends a wait.
    #[must_use]
    pub fn signal(self, op: u8) -> Option<SignalName> {
        match self.op(op)? {
            Op::Wait { .. } => "approval".parse().ok(),
            Op::Child => Some(SignalName::of_child_end(job_id(1))),
            Op::Step { .. } | Op::Sleep => None,
        }
    }

    /// The signal of the child's end, in a script that has a child.
    #[must_use]
    pub fn child_signal(self) -> Option<SignalName> {
        (0..3).find(|op| self.op(*op) == Some(Op::Child)).and_then(|op| self.signal(op))
    }

    /// The entry that ends the wait by a signal that stands in the journal.
    fn taken(self, journal: &Journal, op: u8) -> Option<Mark> {
        let found = journal.untaken_signal(&self.signal(op)?)?;
        let seq = u8::try_from(found.seq.0).ok()?;
        Some(Mark::WaitEnded { op, by: Some(seq) })
    }

    /// What an agent asks for that is run over this journal, and at which operation.
    #[must_use]
    pub fn want(self, journal: &Journal, submitted: bool, tick: u8, now: Timestamp) -> (Option<u8>, Want) {
        for op in 0..u8::try_from(self.0.len()).unwrap_or(u8::MAX) {
            let Some(kind) = self.op(op) else { break };
            let record = journal.step(&StepKey::at("", u64::from(op))).map(|record| &record.state);
            let want = match kind {
                Op::Step { once, .. } => step(op, once, record, now),
                Op::Wait { .. } | Op::Sleep | Op::Child => self.wait(op, kind, journal, record, submitted, tick, now),
            };
            if let Some(want) = want {
                return (Some(op), want);
            }
        }
        (None, Want::End(End::Completed))
    }

    #[allow(clippy::too_many_arguments, reason = "a wait's place, its record and the time")]
    fn wait(
        self,
        op: u8,
        kind: Op,
        journal: &Journal,
        record: Option<&StepState>,
        submitted: bool,
        tick: u8,
        now: Timestamp,
    ) -> Option<Want> {
        match record {
            None => Some(Want::Append(self.taken(journal, op).unwrap_or(Mark::Waiting { op, tick }))),
            Some(StepState::Waiting { .. }) if kind == Op::Child && !submitted => Some(Want::Submit),
            Some(StepState::Waiting { until, .. }) => {
                let by_time = until.is_some_and(|until| until <= now).then_some(Mark::WaitEnded { op, by: None });
                Some(match self.taken(journal, op).or(by_time) {
                    Some(mark) => Want::Append(mark),
                    None => Want::Rest { until: *until },
                })
            }
            Some(StepState::WaitEnded { end: WaitEnd::Signal { signal_seq } }) if kind == Op::Child => {
                let end = journal.signal_at(*signal_seq)?;
                let completed = end.payload.get("status").and_then(Value::as_str) == Some("COMPLETED");
                (!completed).then_some(Want::End(End::Failed(Why::Agent)))
            }
            Some(_) => None,
        }
    }

    /// Whether the journal holds a record of an operation behind the one that an agent would ask for now.
    #[must_use]
    pub fn is_passed(self, journal: &Journal, asked: Option<u8>) -> bool {
        let first = asked.map_or(0, |op| op.saturating_add(1));
        (first..u8::try_from(self.0.len()).unwrap_or(u8::MAX))
            .any(|op| journal.step(&StepKey::at("", u64::from(op))).is_some())
    }
}

fn step(op: u8, once: bool, record: Option<&StepState>, now: Timestamp) -> Option<Want> {
    match record {
        None => Some(if once { Want::Append(Mark::Started { op }) } else { Want::Run { op, attempt: 1 } }),
        Some(StepState::Started) => Some(Want::Append(Mark::StepFailed { op, attempt: 1, interrupted: true })),
        Some(StepState::Retrying { attempt, retry_at }) => Some(if now < *retry_at {
            Want::Rest { until: Some(*retry_at) }
        } else {
            Want::Run { op, attempt: u8::try_from(attempt + 1).unwrap_or(u8::MAX) }
        }),
        Some(StepState::Failed { .. }) => Some(Want::End(End::Failed(Why::Agent))),
        Some(_) => None,
    }
}
