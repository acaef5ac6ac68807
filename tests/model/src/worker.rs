//! A worker session, call by call as `longhaul::drive` makes them. Between two calls it decides by the engine.

use longhaul_engine::append::{AfterLook, Rejoin};

use crate::broken::Broken;
use crate::ledger::{End, Mark, PARENT_REPLAYED};
use crate::model::{Fate, System};
use crate::outside::stands;
use crate::rules::Mutant;
use crate::state::{Ask, Due, Item, Local, Mode, Outside, Pc, Phase, State};

/// What a session does after a call.
pub(crate) enum After {
    /// It goes on.
    On,
    /// It has handled its message in order.
    Handled,
    /// Its handling failed while it held the job.
    Failed,
    /// Its handling failed before it held anything, or after it gave the job back: the session ends in order.
    FailedFree,
    /// Its handling failed at a write that may have gone through, so that it may hold the job: the session falls silent.
    FailedUnsure,
    /// This fate makes no difference here.
    Same,
}

impl System {
    /// Makes the next call of a session. None: this fate makes no difference here.
    pub(crate) fn step(&self, before: &State, slot: usize, fate: Fate) -> Option<State> {
        let mut s = before.clone();
        let mut local = *before.local(slot)?;
        let after = if local.outside.is_some() {
            self.relative(&mut s, slot, &mut local, fate)
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
                self.handled(&mut s, slot);
            }
            After::FailedUnsure => {
                s.send(local.job);
                if self.rules.has(Mutant::UnsureEndsInOrder) {
                    self.handled(&mut s, slot);
                } else {
                    s.slots[slot].phase = Phase::Failed;
                }
            }
            After::Same => return None,
        }
        Some(s)
    }

    pub(crate) fn handled(&self, s: &mut State, slot: usize) {
        s.slots[slot].phase = Phase::Ended;
        s.slots[slot].watchdog = None;
        let holds = |mode: Mode| mode == Mode::Processing(u8::try_from(slot).unwrap_or(u8::MAX));
        if s.jobs.iter().any(|job| holds(job.item.mode)) {
            s.breaks(Some(Broken::HeldByEnded));
        }
    }

    pub(crate) fn call(&self, s: &mut State, slot: usize, l: &mut Local, fate: Fate) -> After {
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
            | Pc::Rejoin
            | Pc::WaitLook => match fate {
                Fate::Fine => self.plain_call(s, l),
                Fate::Fail if l.pc == Pc::SendChild => self.fine(s, l),
                Fate::Fail => After::Failed,
                Fate::Repeat | Fate::FailAfter | Fate::Late => After::Same,
            },
        }
    }

    /// The child is there. A parent that was replayed looks how it stands.
    pub(crate) fn fine(&self, s: &mut State, l: &mut Local) -> After {
        l.submitted = true;
        if s.job(l.job).log.prefix(l.seen).fold().replays() > 0 && !self.rules.has(Mutant::ChildNotRejoined) {
            l.pc = Pc::Rejoin;
            return After::On;
        }
        self.go_on(s, l)
    }

    /// `Invocation::rejoin`: how a child stands that a replayed job waits for again.
    pub(crate) fn rejoin(&self, s: &mut State, l: &mut Local) -> After {
        // Read again, behind the look at the child: what the child has told by now stands in it.
        let log = s.job(l.job).log;
        let parent = if self.rules.has(Mutant::RejoinedByOldJournal) { log.prefix(l.seen).fold() } else { log.fold() };
        let told = self.ledger.script(0).child_signal().is_some_and(|name| parent.untaken_signal(&name).is_some());
        let child = s.job(1);
        let fold = child.log.fold();
        let settled = matches!(child.item.mode, Mode::Ended(_));
        if told {
            return self.go_on(s, l);
        }
        let end = fold.ending().map(End::of);
        let replays = u8::try_from(fold.replays()).unwrap_or(u8::MAX);
        let heard = stands(parent, Ask::Entry(Mark::ChildEnded { replays, end: End::Completed }));
        let ask = match (self.rules.rejoin(fold.ending(), heard, settled), end) {
            (Rejoin::Wait, _) | (Rejoin::Tell, None) => return self.go_on(s, l),
            (Rejoin::Tell, Some(end)) => (0, Ask::Entry(Mark::ChildEnded { replays, end })),
            (Rejoin::Replay, _) => {
                let key = PARENT_REPLAYED + u8::try_from(parent.replays()).unwrap_or_default();
                (1, Ask::Replay(Mark::Replayed { key, from: None, edited: false }))
            }
        };
        l.outside = Some(Outside::begin(ask.0, ask.1));
        After::On
    }

    /// Calls that are no conditional writes.
    pub(crate) fn plain_call(&self, s: &mut State, l: &mut Local) -> After {
        match l.pc {
            Pc::FinishLook(end) => {
                l.seen = s.job(l.job).log.len();
                let fold = s.job(l.job).log.fold();
                if fold.last_claim().is_some_and(|claim| claim.epoch.0 > u64::from(l.epoch)) {
                    return After::Handled;
                }
                match self.rules.after_look(fold, &end.ending()) {
                    AfterLook::Release => l.pc = Pc::Release,
                    AfterLook::GoOn => l.pc = Pc::Finish(end),
                    AfterLook::Settle(other) => return self.settle(s, l, End::of(&other)),
                }
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
                        child.item = Item { mode: Mode::Pending, due: Due::Later, ..Item::default() };
                    }
                    Mode::Pending => {}
                    Mode::Processing(_) | Mode::Waiting { .. } | Mode::Ended(_) => return self.fine(s, l),
                }
                After::On
            }
            Pc::Rejoin => self.rejoin(s, l),
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
}
