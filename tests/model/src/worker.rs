//! A worker session, call by call as `longhaul::drive` makes them. Between two calls it decides by the engine.

use longhaul_engine::append::{AfterRead, NextMove, OnConflict, Stop};
use longhaul_engine::claim::{Claim, ClaimDecision, Holder, News};
use longhaul_engine::job::JobWrite;
use longhaul_engine::wait::{Place, come_back, place};
use longhaul_engine::{Epoch, limits};
use std::time::Duration;

use crate::broken::Broken;
use crate::items::{MINE, asked, at_tail, held, session};
use crate::ledger::{End, Mark, Why, at};
use crate::model::{Fate, System};
use crate::outside::{CHILD_CANCEL, Came, position, time};
use crate::rules::Mutant;
use crate::script::{Op, Want};
use crate::state::{Ask, Item, Late, Local, Mode, Outside, Pc, Phase, State, Writer, short};

/// What a session does after a call.
pub(crate) enum After {
    /// It goes on.
    On,
    /// It has handled its message in order.
    Handled,
    /// Its handling failed while it held the job.
    Failed,
    /// Its handling failed before it held anything, or after it gave the job back.
    FailedFree,
    /// This fate makes no difference here.
    Same,
}

/// What became of a write of the item.
enum Wrote {
    Yes,
    Refused,
    Unanswered,
    /// It landed, and is about to be repeated.
    Again,
    Same,
}

/// What became of an append.
enum Appended {
    Stands,
    Reconsider,
    Stop(Stop),
    Unanswered,
    Again,
    Same,
}

impl System {
    /// Makes the next call of a session. None: this fate makes no difference here.
    pub(crate) fn step(&self, before: &State, slot: usize, fate: Fate) -> Option<State> {
        let mut s = before.clone();
        let mut local = *before.local(slot)?;
        let after = if local.outside.is_some() {
            self.relative(&mut s, &mut local, fate)
        } else {
            self.call(&mut s, slot, &mut local, fate)
        };
        // A write changes the bits of all sessions with this job, this one's as well: `call` has taken them over.
        s.slots[slot].phase = Phase::Active(local);
        match after {
            After::On => {}
            After::Handled => self.handled(&mut s, slot),
            After::Failed => {
                local.pc = Pc::GiveBack;
                local.landed = false;
                local.outside = None;
                s.slots[slot].phase = Phase::Active(local);
            }
            After::FailedFree => {
                s.send(local.job);
                s.slots[slot].phase = Phase::Failed;
            }
            After::Same => return None,
        }
        Some(s)
    }

    fn handled(&self, s: &mut State, slot: usize) {
        s.slots[slot].phase = Phase::Ended;
        s.slots[slot].watchdog = None;
        let holds = |mode: Mode| mode == Mode::Processing(u8::try_from(slot).unwrap_or(u8::MAX));
        if s.jobs.iter().any(|job| holds(job.item.mode)) {
            s.breaks(Some(Broken::HeldByEnded));
        }
    }

    fn call(&self, s: &mut State, slot: usize, l: &mut Local, fate: Fate) -> After {
        match l.pc {
            Pc::ReadItem | Pc::LookUp(_) | Pc::Peek(_) | Pc::Claim => self.claiming(s, slot, l, fate),
            Pc::Walk { .. } | Pc::GiveUp { .. } | Pc::FinishUnread { .. } | Pc::FinishUnreadLook { .. } => {
                self.unread(s, slot, l, fate)
            }
            Pc::ReadJournal | Pc::AppendClaim => self.claimed(s, l, fate),
            Pc::Append(mark) => self.append_outcome(s, l, mark, fate),
            Pc::End(wanted) => self.append_end(s, l, wanted, fate),
            Pc::Finish(end) => self.finish(s, slot, l, end, fate),
            Pc::Release | Pc::Wait { .. } | Pc::GiveBack => self.give_back(s, slot, l, fate),
            // The effect is an action of its own.
            Pc::Run { .. } => After::Same,
            Pc::FinishLook(_)
            | Pc::TellParent(_)
            | Pc::TellChild(_)
            | Pc::Send
            | Pc::SendDelayed
            | Pc::SubmitChild
            | Pc::SendChild
            | Pc::WaitLook => match fate {
                Fate::Fine => self.plain_call(s, l),
                Fate::Fail if l.pc == Pc::SendChild => self.fine(s, l),
                Fate::Fail => After::Failed,
                Fate::Repeat | Fate::FailAfter | Fate::Late => After::Same,
            },
        }
    }

    fn fine(&self, s: &mut State, l: &mut Local) -> After {
        l.submitted = true;
        self.go_on(s, l)
    }

    /// Calls that are no conditional writes.
    fn plain_call(&self, s: &mut State, l: &mut Local) -> After {
        match l.pc {
            Pc::FinishLook(end) => {
                l.seen = s.job(l.job).log.len();
                let fold = s.job(l.job).log.fold();
                if fold.last_claim().is_some_and(|claim| claim.epoch.0 > u64::from(l.epoch)) {
                    return After::Handled;
                }
                // A person has replayed it meanwhile.
                l.pc = if fold.ending().is_none() { Pc::Release } else { Pc::Finish(end) };
                After::On
            }
            Pc::WaitLook => {
                l.seen = s.job(l.job).log.len();
                let fold = s.job(l.job).log.fold();
                if fold.last_claim().is_some_and(|claim| claim.epoch.0 > u64::from(l.epoch)) {
                    return After::Handled;
                }
                self.go_on(s, l)
            }
            Pc::SubmitChild => {
                let child = s.job_mut(1);
                l.pc = Pc::SendChild;
                match child.item.mode {
                    Mode::Absent => {
                        child.item = Item { mode: Mode::Pending, due: crate::state::Due::Later, ..Item::default() };
                    }
                    Mode::Pending => {}
                    Mode::Processing(_) | Mode::Waiting { .. } | Mode::Ended(_) => return self.fine(s, l),
                }
                After::On
            }
            Pc::SendChild => {
                s.send(1);
                self.fine(s, l)
            }
            _ => {
                s.send(l.job);
                After::Handled
            }
        }
    }

    fn decided(&self, s: &State, slot: usize, l: &Local) -> ClaimDecision {
        let holder = match l.dead {
            None => Holder::Unknown,
            Some(true) => Holder::Dead,
            Some(false) => Holder::Alive,
        };
        let news = match l.news {
            None => News::Unknown,
            Some(true) => News::Something,
            Some(false) => News::Nothing,
        };
        let me = session(slot);
        asked(&l.copy, s.tick, |job| self.rules.decide(job, &me, holder, news, MINE, time(s)))
    }

    /// From the message to the claim.
    fn claiming(&self, s: &mut State, slot: usize, l: &mut Local, fate: Fate) -> After {
        match (l.pc, fate) {
            (Pc::Claim, _) => return self.claim(s, slot, l, fate),
            (_, Fate::Fine) => {}
            (_, Fate::Fail) => return After::FailedFree,
            (_, Fate::Repeat | Fate::FailAfter | Fate::Late) => return After::Same,
        }
        match l.pc {
            Pc::LookUp(other) => {
                let slot = &s.slots[usize::from(other)];
                let gone = matches!(slot.phase, Phase::Ended | Phase::Free);
                l.dead = Some(gone || slot.silent);
            }
            Pc::Peek(from) => l.news = Some(s.job(l.job).log.behind(from).is_some()),
            _ => {
                l.copy = s.job(l.job).item;
                l.cur = true;
            }
        }
        self.next_claiming(s, slot, l)
    }

    fn next_claiming(&self, s: &State, slot: usize, l: &mut Local) -> After {
        l.pc = match self.decided(s, slot, l) {
            ClaimDecision::Acknowledge(_) => return After::Handled,
            ClaimDecision::LookUp(other) => {
                Pc::LookUp(other.as_str().trim_start_matches('s').parse().expect("the id of a slot"))
            }
            ClaimDecision::Peek(from) => Pc::Peek(u8::try_from(from.0.saturating_sub(1)).unwrap_or(u8::MAX)),
            ClaimDecision::Claim(_) => Pc::Claim,
        };
        After::On
    }

    fn claim(&self, s: &mut State, slot: usize, l: &mut Local, fate: Fate) -> After {
        let ClaimDecision::Claim(claim) = self.decided(s, slot, l) else { return After::Same };
        let write = JobWrite { last_write: held(l, slot).last_write, ..claim.write.clone() };
        match self.write(s, slot, l, &write, fate) {
            Wrote::Yes => self.is_mine(s, l, &claim),
            Wrote::Refused => {
                let found = s.job(l.job).item;
                let same = matches!(found.mode, Mode::Processing(_)) && u64::from(found.epoch) == claim.epoch.0;
                if self.rules.has(Mutant::WorkerAndEpochCompared) && same {
                    return self.is_mine(s, l, &claim);
                }
                let mine = found.mode == Mode::Processing(u8::try_from(slot).unwrap_or(u8::MAX));
                if self.rules.has(Mutant::EchoUnknown) && mine {
                    // Held by a live session: this one.
                    return After::Handled;
                }
                (l.copy, l.cur, l.dead, l.news) = (found, true, None, None);
                self.next_claiming(s, slot, l)
            }
            Wrote::Unanswered => After::FailedFree,
            Wrote::Again => After::On,
            Wrote::Same => After::Same,
        }
    }

    fn is_mine(&self, s: &State, l: &mut Local, claim: &Claim) -> After {
        l.epoch = u8::try_from(claim.epoch.0).unwrap_or(u8::MAX);
        l.takeover = claim.takeover;
        l.wakes = true;
        let at = l.copy.tail;
        l.pc = if claim.suspicious { Pc::Walk { at, claims: 0 } } else { Pc::ReadJournal };
        // Of the item as read, only this is needed any more.
        l.copy = Item { tail: at, attempts: l.copy.attempts, ..Item::default() };
        (l.dead, l.news) = (None, None);
        let _unchanged = s;
        After::On
    }

    /// From the claim to its entry.
    fn claimed(&self, s: &mut State, l: &mut Local, fate: Fate) -> After {
        if l.pc == Pc::ReadJournal {
            match fate {
                Fate::Fine => {}
                Fate::Fail => return After::Failed,
                Fate::Repeat | Fate::FailAfter | Fate::Late => return After::Same,
            }
            l.seen = s.job(l.job).log.len();
            return self.look_before_claim(s, l, false);
        }
        let mark = Mark::Claimed { epoch: l.epoch, takeover: l.takeover };
        match self.append(s, l, mark, fate) {
            Appended::Stands => {
                let fold = s.job(l.job).log.prefix(l.seen).fold();
                if self.rules.has(Mutant::CancelPoint) && fold.cancel().is_some() {
                    // The agent looks whether a cancel is there now, before its first step.
                    if self.ledger.script(l.job).is_passed(fold, None) {
                        s.breaks(Some(Broken::ReplayDiffers));
                    }
                    l.pc = Pc::End(End::Cancelled);
                    return After::On;
                }
                if self.rules.has(Mutant::ChildNotSubmittedAgain) && fold.open_children().next().is_some() {
                    l.submitted = true;
                }
                self.go_on(s, l)
            }
            // Whatever it was: look again. A higher claim stops there.
            Appended::Reconsider | Appended::Stop(_) => self.look_before_claim(s, l, true),
            Appended::Unanswered => After::Failed,
            Appended::Again => After::On,
            Appended::Same => After::Same,
        }
    }

    fn look_before_claim(&self, s: &mut State, l: &mut Local, again: bool) -> After {
        let fold = s.job(l.job).log.prefix(l.seen).fold();
        match self.rules.after_read(fold, Epoch(u64::from(l.epoch)), again) {
            AfterRead::Stop(_) => {
                let same = fold.last_claim().is_some_and(|claim| claim.epoch.0 == u64::from(l.epoch));
                if self.rules.has(Mutant::WorkerAndEpochCompared) && same {
                    return self.go_on(s, l);
                }
                return After::Handled;
            }
            AfterRead::Repair(ending) => return self.settle(s, l, End::of(&ending)),
            AfterRead::Claim => {}
        }
        let crashes = fold.crashes_in_row() + u32::from(l.takeover);
        if self.rules.has(Mutant::LostBlind) && crashes >= limits::CRASHES_MAX {
            l.pc = Pc::End(End::Failed(Why::Lost));
        } else if self.rules.has(Mutant::NoClaimedEntry) {
            return self.go_on(s, l);
        } else {
            l.pc = Pc::AppendClaim;
        }
        After::On
    }

    /// What the drive loop does next, looking at the journal.
    fn go_on(&self, s: &mut State, l: &mut Local) -> After {
        let log = s.job(l.job).log;
        let fold = log.prefix(l.seen).fold();
        if let NextMove::End(ending) = self.rules.next_move(fold) {
            l.pc = Pc::End(End::of(&ending));
            return After::On;
        }
        let script = self.ledger.script(l.job);
        let (op, want) = script.want(fold, l.submitted, s.tick, time(s));
        if op.is_some() && script.is_passed(fold, op) {
            s.breaks(Some(Broken::ReplayDiffers));
        }
        self.wanted(s, l, want)
    }

    fn wanted(&self, s: &State, l: &mut Local, want: Want) -> After {
        match want {
            Want::Run { op, attempt } => l.pc = Pc::Run { op, attempt },
            Want::Append(Mark::Started { op }) if self.rules.has(Mutant::OnceWithoutStarted) => {
                l.pc = Pc::Run { op, attempt: 1 };
            }
            Want::Append(mark) => l.pc = Pc::Append(mark),
            Want::Submit => l.pc = Pc::SubmitChild,
            Want::Rest { until } => {
                let deadline = time(s).plus(Duration::from_secs(900));
                let inside = until.is_some_and(|until| place(time(s), until, deadline) == Place::Inside);
                debug_assert!(!inside, "waits here are longer than an invocation stays for");
                l.pc = Pc::Wait { until: until.map(short) };
            }
            Want::End(end) if self.rules.has(Mutant::ItemFirst) => l.pc = Pc::Finish(end),
            Want::End(end) => l.pc = Pc::End(end),
        }
        After::On
    }

    /// An append of a step's or a wait's entry.
    fn append_outcome(&self, s: &mut State, l: &mut Local, mark: Mark, fate: Fate) -> After {
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

    fn append_end(&self, s: &mut State, l: &mut Local, wanted: End, fate: Fate) -> After {
        let fold = s.job(l.job).log.prefix(l.seen).fold();
        let end = End::of(&self.rules.ending(fold, &wanted.ending()));
        if end == End::Failed(Why::Lost) {
            let counted = fold.crashes_in_row() + u32::from(self.rules.has(Mutant::LostBlind));
            if counted < limits::CRASHES_MAX {
                s.breaks(Some(Broken::CrashMiscounted));
            }
            if self.deaths(s) < limits::CRASHES_MAX {
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
    fn settle(&self, s: &State, l: &mut Local, end: End) -> After {
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
            l.outside = Some(Outside::begin(1, CHILD_CANCEL));
            l.pc = Pc::TellChild(end);
        } else {
            l.pc = Pc::Finish(end);
        }
        After::On
    }

    /// A request to a relative, before the item is written.
    fn relative(&self, s: &mut State, l: &mut Local, fate: Fate) -> After {
        let (Some(mut out), Pc::TellParent(end) | Pc::TellChild(end)) = (l.outside, l.pc) else { return After::Same };
        let came = self.outside(s, &mut out, Writer::Nobody, fate);
        l.outside = Some(out);
        match came {
            None => After::Same,
            Some(Came::On) => After::On,
            Some(Came::Done | Came::Refused) => {
                l.outside = None;
                if self.rules.has(Mutant::TellAfterItem) {
                    return After::Handled;
                }
                l.pc = Pc::Finish(end);
                After::On
            }
            Some(Came::Unanswered) => After::Failed,
        }
    }

    fn finish(&self, s: &mut State, slot: usize, l: &mut Local, end: End, fate: Fate) -> After {
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
    fn deaths(&self, s: &State) -> u32 {
        let (all, left) = (self.bounds, s.left);
        let pairs = [(all.crash, left.crash), (all.fail, left.fail), (all.late, left.late), (all.pause, left.pause)];
        pairs.into_iter().map(|(all, left)| u32::from(all - left)).sum()
    }

    /// Whether a refused holder learns by what it found that it holds the job no more.
    fn is_lost(&self, l: &mut Local) -> bool {
        !l.cur
    }

    /// The release, the wait, and the return after a failure.
    fn give_back(&self, s: &mut State, slot: usize, l: &mut Local, fate: Fate) -> After {
        let held = held(l, slot);
        let write = match l.pc {
            Pc::Wait { until } => held.wait(MINE, until.map(crate::state::long), &at_tail(l.seen, s.tick)),
            Pc::GiveBack => held.release(MINE, &at_tail(l.copy.tail, s.tick)),
            _ => held.release(MINE, &at_tail(l.seen, s.tick)),
        };
        let wrote = self.write(s, slot, l, &write, fate);
        match (wrote, l.pc) {
            (Wrote::Again, _) => After::On,
            (Wrote::Same, _) => After::Same,
            (_, Pc::GiveBack) => After::FailedFree,
            (Wrote::Unanswered, _) => After::Failed,
            (Wrote::Yes, Pc::Wait { until }) => {
                let until = until.map(crate::state::long);
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

    /// A job whose journal kills its workers: ends without being read.
    fn unread(&self, s: &mut State, slot: usize, l: &mut Local, fate: Fate) -> After {
        let log = s.job(l.job).log;
        match (l.pc, fate) {
            (Pc::Walk { at, claims }, Fate::Fine) => {
                l.pc = match log.behind(at) {
                    Some(mark) => {
                        Pc::Walk { at: at + 1, claims: claims + u8::from(matches!(mark, Mark::Claimed { .. })) }
                    }
                    None if self.rules.died_unread(u32::from(l.copy.attempts) + 1, u32::from(claims)) => {
                        Pc::GiveUp { at }
                    }
                    None => Pc::ReadJournal,
                };
                After::On
            }
            (Pc::GiveUp { at }, _) => {
                l.seen = at;
                match self.append(s, l, Mark::Ended(End::Failed(Why::Unread)), fate) {
                    Appended::Stands => {
                        l.pc = Pc::FinishUnread { tail: at + 1 };
                        if self.deaths(s) < limits::CLAIM_ATTEMPTS_MAX {
                            s.breaks(Some(Broken::HarmlessCounted));
                        }
                        After::On
                    }
                    Appended::Reconsider => {
                        l.pc = Pc::GiveUp { at: l.seen };
                        After::On
                    }
                    Appended::Stop(Stop::Ended) => {
                        l.pc = Pc::FinishUnread { tail: at + 1 };
                        After::On
                    }
                    Appended::Stop(Stop::Fenced { .. }) => After::Handled,
                    Appended::Unanswered => After::Failed,
                    Appended::Again => After::On,
                    Appended::Same => After::Same,
                }
            }
            (Pc::FinishUnread { tail }, _) => {
                let Some(Mark::Ended(end)) = log.behind(tail.saturating_sub(1)) else { return After::Same };
                let write = held(l, slot).finish(MINE, &end.ending(), &at_tail(tail, s.tick));
                match self.write(s, slot, l, &write, fate) {
                    Wrote::Yes => After::Handled,
                    Wrote::Refused if self.is_lost(l) => After::Handled,
                    Wrote::Refused => {
                        l.wakes = true;
                        l.pc = Pc::FinishUnreadLook { tail };
                        After::On
                    }
                    Wrote::Unanswered => After::Failed,
                    Wrote::Again => After::On,
                    Wrote::Same => After::Same,
                }
            }
            (Pc::FinishUnreadLook { tail }, Fate::Fine) => {
                l.seen = tail;
                // Only a replay stands behind an end.
                l.pc = if log.behind(tail).is_some() { Pc::Release } else { Pc::FinishUnread { tail } };
                After::On
            }
            (_, Fate::Fail) => After::Failed,
            (_, _) => After::Same,
        }
    }

    /// One append at the tail as this session knows it.
    fn append(&self, s: &mut State, l: &mut Local, mark: Mark, fate: Fate) -> Appended {
        let log = s.job(l.job).log;
        if l.landed {
            l.landed = false;
            return self.met(s, l, true);
        }
        match fate {
            Fate::Fine => {
                if s.append(&self.ledger, l.job, l.seen, mark, Some(l.epoch)) {
                    l.seen += 1;
                    return Appended::Stands;
                }
                self.met(s, l, false)
            }
            Fate::Repeat if s.append(&self.ledger, l.job, l.seen, mark, Some(l.epoch)) => {
                l.landed = true;
                Appended::Again
            }
            Fate::FailAfter if s.append(&self.ledger, l.job, l.seen, mark, Some(l.epoch)) => Appended::Unanswered,
            Fate::Late if s.late.is_none() && log.len() == l.seen => {
                s.late = Some(Late::Append { job: l.job, seen: l.seen, mark, epoch: Some(l.epoch) });
                Appended::Unanswered
            }
            Fate::Fail => Appended::Unanswered,
            Fate::Repeat | Fate::FailAfter | Fate::Late => Appended::Same,
        }
    }

    /// What stands where this session's append was to go.
    fn met(&self, s: &State, l: &mut Local, own: bool) -> Appended {
        let log = s.job(l.job).log;
        let Some(found) = log.batch(l.seen, MINE, own, self.ledger.script(l.job)) else { return Appended::Same };
        if self.rules.has(Mutant::JumpToTail) && !own {
            l.seen = log.len();
            return Appended::Reconsider;
        }
        match self.rules.on_conflict(Epoch(u64::from(l.epoch)), MINE, &found) {
            OnConflict::Own => {
                l.seen += 1;
                Appended::Stands
            }
            OnConflict::Reconsider => {
                l.seen += 1;
                Appended::Reconsider
            }
            OnConflict::Stop(stop) => {
                // The look before a claim takes in whatever it met.
                if l.pc == Pc::AppendClaim {
                    l.seen += 1;
                }
                Appended::Stop(stop)
            }
        }
    }

    /// One conditional write of the item.
    fn write(&self, s: &mut State, slot: usize, l: &mut Local, write: &JobWrite, fate: Fate) -> Wrote {
        if l.landed {
            l.landed = false;
            let known = !self.rules.has(Mutant::EchoUnknown);
            return if l.cur && known { Wrote::Yes } else { Wrote::Refused };
        }
        let is_wait = matches!(l.pc, Pc::Wait { .. });
        let mut write = self.rules.item_write(write.clone(), is_wait);
        let holder = l.epoch > 0;
        if self.rules.has(Mutant::ReleaseUnconditional) && holder {
            write.last_write = crate::items::STANDS;
        }
        let accepted = self.accepted(s, &write);
        let put = |s: &mut State, l: &mut Local, item: Item| {
            s.put(l.job, item, Writer::Slot(slot));
            l.cur = true;
            l.lease = matches!(item.mode, Mode::Processing(_));
        };
        match (fate, accepted) {
            (Fate::Fine, Some(item)) => {
                put(s, l, item);
                Wrote::Yes
            }
            (Fate::Fine, None) => Wrote::Refused,
            (Fate::Repeat, Some(item)) => {
                put(s, l, item);
                l.landed = true;
                Wrote::Again
            }
            (Fate::FailAfter, Some(item)) => {
                put(s, l, item);
                // The holder does not know that this mark stands there now.
                l.cur = false;
                Wrote::Unanswered
            }
            (Fate::Late, Some(item)) if s.late.is_none() => {
                s.late = Some(Late::Item { job: l.job, item, wakes: write.wakes.is_some() });
                Wrote::Unanswered
            }
            (Fate::Fail, _) => Wrote::Unanswered,
            (Fate::Repeat | Fate::FailAfter | Fate::Late, _) => Wrote::Same,
        }
    }

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

    fn failed(&self, job: u8, op: u8, attempt: u8, tick: u8) -> Mark {
        match crate::ledger::retry_at(job, op, attempt, tick) {
            Some(_) => Mark::AttemptFailed { op, attempt, tick },
            None => Mark::StepFailed { op, attempt, interrupted: false },
        }
    }

    /// Whether an effect ran too often: more than once and once for each claim since the outcome of the step before,
    /// each recorded attempt and each replay.
    fn over_run(&self, marks: &[Mark], op: u8, once: bool, runs: u8) -> Option<Broken> {
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
        let end = marks.iter().rposition(outcome_of(op)).unwrap_or(marks.len()).max(start);
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
        s.slots[slot].phase = Phase::Active(l);
        match wrote {
            Wrote::Refused if self.is_lost(&mut l) => self.handled(&mut s, slot),
            Wrote::Yes | Wrote::Refused | Wrote::Unanswered => {}
            Wrote::Again | Wrote::Same => return None,
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

/// Where the first entry of a journal stands: the engine counts from 1.
const _: () = assert!(position(0).0 == 1);
const _: () = assert!(at(0).as_millis() > 0);
