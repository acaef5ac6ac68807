//! The drive loop and the end of a job, as `longhaul::drive` goes: what a session with a claim does between two calls.

use longhaul_engine::append::NextMove;
use longhaul_engine::limits;
use longhaul_engine::wait::{Spent, come_back, spent};
use std::time::Duration;

use crate::broken::Broken;
use crate::items::{MINE, at_tail, held};
use crate::ledger::{End, Mark, PARENT_ENDED, Why};
use crate::model::{Fate, System};
use crate::outside::{Came, time};
use crate::rules::Mutant;
use crate::script::Want;
use crate::state::{Ask, Local, Outside, Pc, State, Writer, long, short};
use crate::worker::After;
use crate::writing::{Appended, Wrote};

impl System {
    /// What the drive loop does next, looking at the journal.
    pub(crate) fn go_on(&self, s: &mut State, l: &mut Local) -> After {
        let log = s.job(l.job).log;
        let fold = log.prefix(l.seen).fold();
        if let NextMove::End(ending) = self.rules.next_move(fold) {
            l.pc = Pc::End(End::of(&ending));
            return After::On;
        }
        let most = if self.shared { limits::CRASHES_SHARED_MAX } else { limits::CRASHES_MAX };
        if fold.crashes_in_row() >= most {
            s.breaks(Some(Broken::DrivenOn));
        }
        let script = self.ledger.script(l.job);
        let (op, want) = script.want(fold, l.submitted, s.tick, time(s));
        if op.is_some() && script.is_passed(fold, op) {
            s.breaks(Some(Broken::ReplayDiffers));
        }
        self.wanted(s, l, want)
    }

    pub(crate) fn wanted(&self, s: &State, l: &mut Local, want: Want) -> After {
        match want {
            Want::Run { op, attempt } => l.pc = Pc::Run { op, attempt },
            Want::Append(Mark::Started { op }) if self.rules.has(Mutant::OnceWithoutStarted) => {
                l.pc = Pc::Run { op, attempt: 1 };
            }
            Want::Append(mark) => l.pc = Pc::Append(mark),
            Want::Submit => l.pc = Pc::SubmitChild,
            Want::Rest { until } => {
                let deadline = time(s).plus(Duration::from_secs(900));
                let inside = until.is_some_and(|until| spent(time(s), until, deadline) == Spent::Inside);
                debug_assert!(!inside, "waits here are longer than an invocation stays for");
                l.pc = Pc::Wait { until: until.map(short) };
            }
            Want::End(end) if self.rules.has(Mutant::ItemFirst) => l.pc = Pc::Finish(end),
            Want::End(end) => l.pc = Pc::End(end),
        }
        After::On
    }

    /// An append of a step's or a wait's entry.
    pub(crate) fn append_outcome(&self, s: &mut State, l: &mut Local, mark: Mark, fate: Fate) -> After {
        match self.append(s, l, mark, fate) {
            Appended::Stands => {
                if let Mark::Started { op } = mark {
                    l.pc = Pc::Run { op, attempt: 1 };
                    return After::On;
                }
                self.go_on(s, l)
            }
            Appended::Reconsider => {
                let fold = s.job(l.job).log.prefix(l.seen).fold();
                let ends = matches!(self.rules.next_move(fold), NextMove::End(_));
                match mark {
                    // The outcome was paid for and is written again, unless the job ends here.
                    Mark::Done { .. } | Mark::AttemptFailed { .. } | Mark::StepFailed { .. } | Mark::Started { .. }
                        if !ends =>
                    {
                        After::On
                    }
                    _ => self.go_on(s, l),
                }
            }
            Appended::Stop(_) => After::Handled,
            Appended::Unanswered => After::Failed,
            Appended::Again => After::On,
            Appended::Same => After::Same,
        }
    }

    pub(crate) fn append_end(&self, s: &mut State, l: &mut Local, wanted: End, fate: Fate) -> After {
        let fold = s.job(l.job).log.prefix(l.seen).fold();
        let end = End::of(&self.rules.ending(fold, &wanted.ending()));
        if end == End::Failed(Why::Lost) {
            let counted = fold.crashes_in_row() + u32::from(self.rules.has(Mutant::LostBlind));
            let most = if self.shared { limits::CRASHES_SHARED_MAX } else { limits::CRASHES_MAX };
            if counted < most {
                s.breaks(Some(Broken::CrashMiscounted));
            }
            if self.deaths(s) < most {
                s.breaks(Some(Broken::HarmlessCounted));
            }
        }
        match self.append(s, l, Mark::Ended(end), fate) {
            Appended::Stands if self.rules.has(Mutant::ItemFirst) => After::Handled,
            Appended::Stands => self.settle(s, l, end),
            Appended::Reconsider => After::On,
            Appended::Stop(_) => After::Handled,
            Appended::Unanswered => After::Failed,
            Appended::Again => After::On,
            Appended::Same => After::Same,
        }
    }

    /// What follows a terminal entry: the relatives, then the item.
    pub(crate) fn settle(&self, s: &State, l: &mut Local, end: End) -> After {
        let fold = s.job(l.job).log.prefix(l.seen).fold();
        if self.rules.has(Mutant::TellAfterItem) && l.pc != Pc::Finish(end) {
            l.pc = Pc::Finish(end);
            return After::On;
        }
        if l.job == 1 {
            let replays = u8::try_from(fold.replays()).unwrap_or(u8::MAX);
            l.outside = Some(Outside::begin(0, Ask::Entry(Mark::ChildEnded { replays, end })));
            l.pc = Pc::TellParent(end);
        } else if fold.open_children().next().is_some() {
            let key = PARENT_ENDED + u8::try_from(fold.replays()).unwrap_or_default();
            l.outside = Some(Outside::begin(1, Ask::Entry(Mark::CancelRequested { key })));
            l.pc = Pc::TellChild(end);
        } else {
            l.pc = Pc::Finish(end);
        }
        After::On
    }

    /// A request to a relative, before the item is written.
    pub(crate) fn relative(&self, s: &mut State, slot: usize, l: &mut Local, fate: Fate) -> After {
        let Some(mut out) = l.outside else { return After::Same };
        let came = self.outside(s, &mut out, Writer::Relative(slot), fate);
        l.outside = Some(out);
        // What a replayed parent tells itself about its child counts its own wakes up.
        if let Some(now) = s.local(slot) {
            l.wakes = now.wakes;
        }
        match came {
            None => After::Same,
            Some(Came::On) => After::On,
            Some(Came::Done | Came::Refused) if l.pc == Pc::Rejoin => {
                l.outside = None;
                self.go_on(s, l)
            }
            Some(Came::Done | Came::Refused) => {
                l.outside = None;
                let (Pc::TellParent(end) | Pc::TellChild(end)) = l.pc else { return After::Same };
                if self.rules.has(Mutant::TellAfterItem) {
                    return After::Handled;
                }
                l.pc = Pc::Finish(end);
                After::On
            }
            Some(Came::Unanswered) => After::Failed,
        }
    }

    pub(crate) fn finish(&self, s: &mut State, slot: usize, l: &mut Local, end: End, fate: Fate) -> After {
        let write = held(l, slot).finish(MINE, &end.ending(), &at_tail(l.seen, s.tick));
        match self.write(s, slot, l, &write, fate) {
            Wrote::Yes if self.rules.has(Mutant::ItemFirst) => {
                l.pc = Pc::End(end);
                After::On
            }
            Wrote::Yes if self.rules.has(Mutant::TellAfterItem) => {
                let after = self.settle(s, l, end);
                if matches!(l.pc, Pc::Finish(_)) { After::Handled } else { after }
            }
            Wrote::Yes => After::Handled,
            Wrote::Refused if self.is_lost(l) => After::Handled,
            Wrote::Refused => {
                l.wakes = true;
                l.pc = Pc::FinishLook(end);
                After::On
            }
            Wrote::Unanswered => After::Failed,
            Wrote::Again => After::On,
            Wrote::Same => After::Same,
        }
    }

    /// Sessions that died, or could not be told from dead ones, so far.
    pub(crate) fn deaths(&self, s: &State) -> u32 {
        let (all, left) = (self.bounds, s.left);
        let pairs = [(all.crash, left.crash), (all.fail, left.fail), (all.late, left.late), (all.pause, left.pause)];
        pairs.into_iter().map(|(all, left)| u32::from(all - left)).sum()
    }

    /// Whether a refused holder learns by what it found that it holds the job no more. If it holds it, it catches up.
    pub(crate) fn is_lost(&self, l: &mut Local) -> bool {
        let mine = if self.rules.has(Mutant::LastWriteCompared) { l.cur } else { l.lease };
        l.cur |= mine;
        !mine
    }

    /// The release, the wait, and the return after a failure.
    pub(crate) fn give_back(&self, s: &mut State, slot: usize, l: &mut Local, fate: Fate) -> After {
        let held = held(l, slot);
        let write = match l.pc {
            Pc::Wait { until } => held.wait(MINE, until.map(long), &at_tail(l.seen, s.tick)),
            Pc::GiveBack => held.release(MINE, &at_tail(l.copy.tail, s.tick)),
            _ => held.release(MINE, &at_tail(l.seen, s.tick)),
        };
        let known = l.cur;
        let wrote = self.write(s, slot, l, &write, fate);
        match (wrote, l.pc) {
            // An earlier write had gone through unanswered: this one goes behind it.
            (Wrote::Refused, Pc::Release | Pc::GiveBack) if !known && !self.is_lost(l) => After::On,
            (Wrote::Again, _) => After::On,
            (Wrote::Same, _) => After::Same,
            (Wrote::Unanswered, Pc::GiveBack) => After::FailedUnsure,
            (_, Pc::GiveBack) => After::FailedFree,
            (Wrote::Unanswered, _) => After::Failed,
            (Wrote::Yes, Pc::Wait { until }) => {
                let until = until.map(long);
                if come_back(time(s), until).message_delay.is_some() {
                    l.pc = Pc::SendDelayed;
                    return After::On;
                }
                After::Handled
            }
            (Wrote::Yes, _) => {
                l.pc = Pc::Send;
                After::On
            }
            (Wrote::Refused, Pc::Wait { .. }) if !self.is_lost(l) => {
                l.wakes = true;
                l.pc = Pc::WaitLook;
                After::On
            }
            (Wrote::Refused, _) => After::Handled,
        }
    }
}
