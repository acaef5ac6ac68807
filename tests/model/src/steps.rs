//! What happens while a step runs: its effect, a look at the tail, a renewal, the deadline.

use longhaul_engine::Epoch;
use longhaul_engine::append::{NextMove, OnConflict};

use crate::broken::Broken;
use crate::items::{MINE, at_tail, held};
use crate::ledger::{End, Mark, retry_at};
use crate::model::{Fate, System};
use crate::script::Op;
use crate::state::{Pc, Phase, State};
use crate::writing::Wrote;

/// How an attempt comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ran {
    /// With a result.
    Well,
    /// With a failure that may pass.
    Badly,
    /// With a failure for good.
    Fatally,
}

impl System {
    /// A look at the tail in mid-step.
    pub(crate) fn peek(&self, before: &State, slot: usize) -> Option<State> {
        let mut s = before.clone();
        let mut l = *before.local(slot)?;
        if !matches!(l.pc, Pc::Run { .. }) {
            return None;
        }
        let found = s.job(l.job).log.batch(l.seen, MINE, false, self.ledger.script(l.job))?;
        let stop = matches!(self.rules.on_conflict(Epoch(u64::from(l.epoch)), MINE, &found), OnConflict::Stop(_));
        if stop {
            s.slots[slot].phase = Phase::Active(l);
            self.handled(&mut s, slot);
            return Some(s);
        }
        l.seen += 1;
        let fold = s.job(l.job).log.prefix(l.seen).fold();
        if let NextMove::End(ending) = self.rules.next_move(fold) {
            l.pc = Pc::End(End::of(&ending));
        }
        s.slots[slot].phase = Phase::Active(l);
        Some(s)
    }

    /// An attempt's effect takes place in the world.
    pub(crate) fn effect(&self, before: &State, slot: usize, came: Ran) -> Option<State> {
        let mut s = before.clone();
        let mut l = *before.local(slot)?;
        let Pc::Run { op, attempt } = l.pc else { return None };
        let Some(Op::Step { flaky, fatal, once }) = self.ledger.script(l.job).op(op) else { return None };
        l.pc = match came {
            Ran::Well => Pc::Append(Mark::Done { op, attempt }),
            Ran::Badly if attempt <= flaky => Pc::Append(self.failed(l.job, op, attempt, s.tick)),
            Ran::Fatally if fatal => Pc::Append(Mark::StepFailed { op, attempt, interrupted: false }),
            Ran::Badly | Ran::Fatally => return None,
        };
        let runs = &mut s.job_mut(l.job).runs[usize::from(op)];
        *runs = runs.saturating_add(1);
        let runs = *runs;
        let log = s.job(l.job).log;
        let newest = log.fold().last_claim().map_or(0, |claim| claim.epoch.0);
        if u64::from(l.epoch) < newest {
            if l.fenced_run {
                s.breaks(Some(Broken::FencedRanTwice));
            }
            l.fenced_run = true;
        }
        s.breaks(self.over_run(log.marks(), op, once, runs));
        s.slots[slot].phase = Phase::Active(l);
        Some(s)
    }

    pub(crate) fn failed(&self, job: u8, op: u8, attempt: u8, tick: u8) -> Mark {
        match retry_at(job, op, attempt, tick) {
            Some(_) => Mark::AttemptFailed { op, attempt, tick },
            None => Mark::StepFailed { op, attempt, interrupted: false },
        }
    }

    /// Whether an effect ran too often: more than once and once for each claim since the outcome of the step before,
    /// each recorded attempt and each replay.
    pub(crate) fn over_run(&self, marks: &[Mark], op: u8, once: bool, runs: u8) -> Option<Broken> {
        let outcome_of = |wanted: u8| {
            move |mark: &Mark| match *mark {
                Mark::Done { op, .. } | Mark::StepFailed { op, .. } | Mark::WaitEnded { op, .. } => op == wanted,
                _ => false,
            }
        };
        let start = match op.checked_sub(1) {
            Some(before) => marks.iter().position(outcome_of(before)).map_or(0, |at| at + 1),
            None => 0,
        };
        // An outcome that a replay has forgotten ends nothing.
        let replayed = marks.iter().rposition(|mark| matches!(mark, Mark::Replayed { .. })).unwrap_or(0);
        let outcome = marks.iter().rposition(outcome_of(op)).filter(|outcome| *outcome > replayed);
        let end = outcome.unwrap_or(marks.len()).max(start);
        let count = |wanted: fn(&Mark) -> bool, marks: &[Mark]| marks.iter().filter(|mark| wanted(mark)).count();
        let replays = count(|mark| matches!(mark, Mark::Replayed { .. }), marks);
        let failed = marks.iter().filter(|mark| matches!(mark, Mark::AttemptFailed { op: other, .. } if *other == op));
        if once {
            return (usize::from(runs) > 1 + replays).then_some(Broken::OnceTwice);
        }
        let claims = count(|mark| matches!(mark, Mark::Claimed { .. }), &marks[start..end]);
        (usize::from(runs) > 1 + claims + failed.count() + replays).then_some(Broken::TooManyRuns)
    }

    /// The due time of a job that is driven for long is moved on.
    pub(crate) fn renew(&self, before: &State, slot: usize, fate: Fate) -> Option<State> {
        let mut s = before.clone();
        let mut l = *before.local(slot)?;
        if !matches!(l.pc, Pc::Run { .. }) {
            return None;
        }
        let write = held(&l, slot).renew(MINE, &at_tail(l.seen, s.tick));
        let wrote = self.write(&mut s, slot, &mut l, &write, fate);
        let lost = match wrote {
            Wrote::Refused => self.is_lost(&mut l),
            Wrote::Yes | Wrote::Unanswered => false,
            // A renewal that the SDK repeats is one that was answered late.
            Wrote::Again | Wrote::Same => return None,
        };
        s.slots[slot].phase = Phase::Active(l);
        if lost {
            self.handled(&mut s, slot);
        }
        Some(s)
    }

    /// The invocation's deadline comes.
    pub(crate) fn deadline(&self, before: &State, slot: usize) -> Option<State> {
        let mut s = before.clone();
        let mut l = *before.local(slot)?;
        let running = matches!(l.pc, Pc::Run { .. } | Pc::Append(_));
        if !running || l.landed {
            return None;
        }
        l.pc = Pc::Release;
        s.slots[slot].phase = Phase::Active(l);
        Some(s)
    }
}
