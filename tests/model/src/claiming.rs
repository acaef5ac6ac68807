//! From the message to the claim's entry, as `longhaul::drive::claiming` goes.

use longhaul_engine::append::{AfterRead, Stop};
use longhaul_engine::claim::{Claim, ClaimDecision, Holder, News};
use longhaul_engine::job::JobWrite;
use longhaul_engine::walk::{AfterWalk, Walk};
use longhaul_engine::{Epoch, limits};

use crate::broken::Broken;
use crate::items::{MINE, asked, at_tail, held, session};
use crate::ledger::{End, Mark, Why};
use crate::model::{Fate, System};
use crate::outside::{position, time};
use crate::rules::Mutant;
use crate::state::{Item, Local, Mode, Pc, Phase, State};
use crate::worker::After;
use crate::writing::{Appended, Wrote};

impl System {
    /// From the message to the claim.
    pub(crate) fn claiming(&self, s: &mut State, slot: usize, l: &mut Local, fate: Fate) -> After {
        match (l.pc, fate) {
            (Pc::Claim, _) => return self.claim(s, slot, l, fate),
            (_, Fate::Fine) => {}
            (_, Fate::Fail) => return After::FailedFree,
            (_, Fate::Repeat | Fate::FailAfter | Fate::Late) => return After::Same,
        }
        look(s, l);
        self.next_claiming(s, slot, l)
    }

    /// Whether a worker that had a message for the job would claim it: what the watchdog of the session in `slot` asks.
    pub(crate) fn is_wanted(&self, s: &State, slot: usize, job: u8) -> bool {
        let mut l = Local::begin(job);
        loop {
            look(s, &mut l);
            if matches!(self.next_claiming(s, slot, &mut l), After::Handled) {
                return false;
            }
            if l.pc == Pc::Claim {
                return true;
            }
        }
    }

    pub(crate) fn decided(&self, s: &State, slot: usize, l: &Local) -> ClaimDecision {
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

    pub(crate) fn next_claiming(&self, s: &State, slot: usize, l: &mut Local) -> After {
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

    pub(crate) fn claim(&self, s: &mut State, slot: usize, l: &mut Local, fate: Fate) -> After {
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
            Wrote::Unanswered => After::FailedUnsure,
            Wrote::Again => After::On,
            Wrote::Same => After::Same,
        }
    }

    pub(crate) fn is_mine(&self, s: &State, l: &mut Local, claim: &Claim) -> After {
        l.epoch = u8::try_from(claim.epoch.0).unwrap_or(u8::MAX);
        l.takeover = claim.takeover;
        l.wakes = true;
        let at = l.copy.tail;
        l.pc = if claim.suspicious { Pc::Walk { at } } else { Pc::ReadJournal };
        // Of the item as read, only this is needed any more.
        l.copy = Item { tail: at, attempts: l.copy.attempts, ..Item::default() };
        (l.dead, l.news) = (None, None);
        let _unchanged = s;
        After::On
    }

    /// From the claim to its entry.
    pub(crate) fn claimed(&self, s: &mut State, l: &mut Local, fate: Fate) -> After {
        if l.pc == Pc::ReadJournal {
            match fate {
                Fate::Fine => {}
                Fate::Fail => return After::Failed,
                Fate::Repeat | Fate::FailAfter | Fate::Late => return After::Same,
            }
            l.seen = if self.rules.has(Mutant::JournalReadInPart) { 0 } else { s.job(l.job).log.len() };
            return self.look_before_claim(s, l, false);
        }
        let mark = Mark::Claimed { epoch: l.epoch, takeover: l.takeover, shared: self.shared };
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

    pub(crate) fn look_before_claim(&self, s: &mut State, l: &mut Local, again: bool) -> After {
        let fold = s.job(l.job).log.prefix(l.seen).fold();
        match self.rules.after_read(fold, Epoch(u64::from(l.epoch)), position(l.copy.tail), again) {
            AfterRead::Stop(_) => {
                let same = fold.last_claim().is_some_and(|claim| claim.epoch.0 == u64::from(l.epoch));
                if self.rules.has(Mutant::WorkerAndEpochCompared) && same {
                    return self.go_on(s, l);
                }
                return After::Handled;
            }
            AfterRead::Repair(ending) => return self.settle(s, l, End::of(&ending)),
            AfterRead::Release => {
                l.pc = Pc::Release;
                return After::On;
            }
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

    /// A job whose journal kills its workers: ends without being read.
    pub(crate) fn unread(&self, s: &mut State, slot: usize, l: &mut Local, fate: Fate) -> After {
        match (l.pc, fate) {
            (Pc::Walk { at }, Fate::Fine) => self.walk(s, l, at),
            (Pc::GiveUp { at }, _) => self.give_up(s, l, at, fate),
            (Pc::FinishUnread { tail }, _) => self.finish_unread(s, slot, l, tail, fate),
            (Pc::FinishUnreadLook { tail }, Fate::Fine) => {
                l.seen = tail;
                // Only a replay stands behind an end.
                let replayed = s.job(l.job).log.behind(tail).is_some();
                l.pc = if replayed { Pc::Release } else { Pc::FinishUnread { tail } };
                After::On
            }
            (_, Fate::Fail) => After::Failed,
            (_, _) => After::Same,
        }
    }

    fn walk(&self, s: &State, l: &mut Local, at: u8) -> After {
        let log = s.job(l.job).log;
        if log.behind(at).is_some() {
            l.pc = Pc::Walk { at: at + 1 };
            return After::On;
        }
        let mut walk = Walk::from(position(l.copy.tail));
        for seen in l.copy.tail..at {
            log.batch(seen, MINE, false, self.ledger.script(l.job)).into_iter().for_each(|batch| walk.pass(batch));
        }
        let attempts = u32::from(l.copy.attempts) + 1;
        match self.rules.after_walk(walk, Epoch(u64::from(l.epoch)), attempts) {
            AfterWalk::Read => l.pc = Pc::ReadJournal,
            AfterWalk::Stop(_) => return After::Handled,
            AfterWalk::Settle(_) => l.pc = Pc::FinishUnread { tail: at },
            AfterWalk::Release => (l.seen, l.pc) = (at, Pc::Release),
            AfterWalk::GiveUp { .. } => l.pc = Pc::GiveUp { at },
        }
        After::On
    }

    fn give_up(&self, s: &mut State, l: &mut Local, at: u8, fate: Fate) -> After {
        let marks = s.job(l.job).log.marks();
        l.seen = at;
        match self.append(s, l, Mark::Ended(End::Failed(Why::Unread)), fate) {
            Appended::Stands => {
                l.pc = Pc::FinishUnread { tail: at + 1 };
                // Claims that left no entry, this one's included.
                let claims = marks.iter().filter(|mark| matches!(mark, Mark::Claimed { .. })).count();
                if u32::from(l.epoch) <= limits::CLAIM_ATTEMPTS_MAX + u32::try_from(claims).unwrap_or(0) {
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

    fn finish_unread(&self, s: &mut State, slot: usize, l: &mut Local, tail: u8, fate: Fate) -> After {
        let end = s.job(l.job).log.marks().iter().take(usize::from(tail)).rev().find_map(|mark| match *mark {
            Mark::Ended(end) => Some(end),
            _ => None,
        });
        let Some(end) = end else { return After::Same };
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
}

/// Looks up what the decision asked for, without a fault.
fn look(s: &State, l: &mut Local) {
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
}
