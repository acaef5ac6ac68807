//! The two conditional writes of a session, an append and a write of the item, and what may become of them.

use longhaul_engine::Epoch;
use longhaul_engine::append::{OnConflict, Stop};
use longhaul_engine::job::JobWrite;

use crate::items::{MINE, STANDS};
use crate::ledger::Mark;
use crate::model::{Fate, System};
use crate::rules::Mutant;
use crate::state::{Item, Late, Local, Mode, Pc, State, Writer};

/// What became of a write of the item.
pub(crate) enum Wrote {
    Yes,
    Refused,
    Unanswered,
    /// It landed, and is about to be repeated.
    Again,
    Same,
}

/// What became of an append.
pub(crate) enum Appended {
    Stands,
    Reconsider,
    Stop(Stop),
    Unanswered,
    Again,
    Same,
}

impl System {
    /// One append at the tail as this session knows it.
    pub(crate) fn append(&self, s: &mut State, l: &mut Local, mark: Mark, fate: Fate) -> Appended {
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
    pub(crate) fn met(&self, s: &State, l: &mut Local, own: bool) -> Appended {
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
    pub(crate) fn write(&self, s: &mut State, slot: usize, l: &mut Local, write: &JobWrite, fate: Fate) -> Wrote {
        if l.landed {
            l.landed = false;
            let known = !self.rules.has(Mutant::EchoUnknown);
            return if l.cur && known { Wrote::Yes } else { Wrote::Refused };
        }
        let is_wait = matches!(l.pc, Pc::Wait { .. });
        let mut write = self.rules.item_write(write.clone(), is_wait);
        let holder = l.epoch > 0;
        if self.rules.has(Mutant::ReleaseUnconditional) && holder {
            write.last_write = STANDS;
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
}
