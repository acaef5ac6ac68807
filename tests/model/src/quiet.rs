//! What must hold when nothing happens by itself any more: the job has ended, or waits for somebody, or time alone brings
//! it on.
//!
//! A state machine that may rest at any state cannot promise that something happens. So liveness is checked where it can
//! be: from every quiet state the system is left to itself, without a fault, and must come to an end or to a wait for a
//! person. As every run without faults comes to a quiet state, that covers every reachable state.

use longhaul_engine::sweep::{Sweep, decide};

use crate::broken::Broken;
use crate::items::asked;
use crate::ledger::{End, Mark, at};
use crate::model::{Fate, System};
use crate::outside::Came;
use crate::script::Op;
use crate::state::{ASKS, Ask, Due, Item, Local, Mode, Outside, Pc, Phase, Slot, State, Status, Writer, long};
use crate::steps::Ran;

/// Looks of the sweeper after which a job that has come to nothing never will. It takes one for each step of a script, and
/// a few for waits.
const LOOKS_MAX: usize = 24;

/// What a job at rest needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Nothing: it has ended or was never submitted.
    Nothing,
    /// Somebody outside.
    Somebody,
    /// A time that is still to come.
    Time,
    /// A look: it could go on.
    Look,
}

impl System {
    /// What the sweeper makes of a due job; none when it leaves it alone.
    pub(crate) fn swept(&self, s: &State, job: u8) -> Option<Due> {
        let item: Item = s.job(job).item;
        match asked(&item, s.tick, |job| decide(job, at(s.tick))) {
            Sweep::Send { due, .. } if due <= at(s.tick) => Some(Due::Now),
            Sweep::Send { .. } => Some(Due::Later),
            Sweep::Leave => None,
        }
    }

    fn rest(&self, s: &State, job: u8) -> Rest {
        let it = s.job(job);
        match it.item.mode {
            Mode::Absent if job == 1 => Rest::Nothing,
            Mode::Ended(_) => Rest::Nothing,
            Mode::Absent | Mode::Pending | Mode::Processing(_) => Rest::Look,
            Mode::Waiting { until: Some(until), .. } if long(until) > at(s.tick) => Rest::Time,
            Mode::Waiting { until: Some(_), .. } => Rest::Look,
            Mode::Waiting { until: None, .. } => {
                if self.has_what_it_waits_for(s, job) {
                    Rest::Look
                } else {
                    Rest::Somebody
                }
            }
        }
    }

    fn has_what_it_waits_for(&self, s: &State, job: u8) -> bool {
        let script = self.ledger.script(job);
        let fold = s.job(job).log.fold();
        fold.cancel().is_some()
            || (0..3).any(|op| match script.op(op) {
                Some(Op::Wait { .. } | Op::Child) => {
                    script.signal(op).is_some_and(|name| fold.untaken_signal(&name).is_some())
                }
                Some(Op::Step { .. } | Op::Sleep) | None => false,
            })
    }

    /// What a quiet state breaks.
    pub(crate) fn judge(&self, s: &State) -> Option<Broken> {
        let mut rests = [self.rest(s, 0), self.rest(s, 1)];
        let faultless = self.bounds.crash == s.left.crash
            && self.bounds.fail == s.left.fail
            && self.bounds.late == s.left.late
            && self.bounds.pause == s.left.pause
            && self.bounds.loss == s.left.loss
            && self.bounds.early == s.left.early;
        // A wait whose time has come is brought on by its message or, where that came too early, by its due time.
        for (job, rest) in (0..).zip(&mut rests) {
            if matches!(s.job(job).item.mode, Mode::Waiting { until: Some(_), .. }) {
                *rest = Rest::Time;
            }
        }
        if faultless && rests.contains(&Rest::Look) && s.tick == 0 {
            return Some(Broken::NotPrompt);
        }
        self.left_alone(s)
    }

    /// Leaves a quiet state to itself.
    fn left_alone(&self, quiet: &State) -> Option<Broken> {
        let mut s = quiet.clone();
        for _ in 0..LOOKS_MAX {
            if let Some(broken) = s.broken {
                return Some(broken);
            }
            for slot in &mut s.slots {
                slot.silent |= matches!(slot.phase, Phase::Failed | Phase::Crashed);
            }
            let mut looked = false;
            for job in 0..2 {
                match self.rest(&s, job) {
                    Rest::Nothing => {}
                    Rest::Somebody | Rest::Time | Rest::Look if s.job(job).item.due == Due::Never => {
                        return Some(Broken::NobodyComes);
                    }
                    Rest::Somebody => {}
                    Rest::Time => {
                        s.tick += 1;
                        looked = true;
                        self.look(&mut s, job);
                    }
                    Rest::Look => {
                        looked = true;
                        self.look(&mut s, job);
                    }
                }
            }
            if !looked && !self.finishes_replay(&mut s) {
                return self.at_rest(&s);
            }
        }
        Some(Broken::Stuck)
    }

    /// A replay whose api died between its entry and the job item was not acknowledged, and is finished by the caller's
    /// repetition (see `docs/model-check.md`). False: there is none, or somebody was told since that his own request stands
    /// in the journal that it opened: he waits for no repetition.
    fn finishes_replay(&self, s: &mut State) -> bool {
        let open = (0..ASKS).find_map(|index| match self.asks[index] {
            Some((job, ask @ Ask::Replay(_))) => {
                let it = s.job(job);
                let differs = matches!(it.item.mode, Mode::Ended(_)) && it.log.fold().ending().is_none();
                let request = s.requests[index];
                let finishes = request.tries > 0 && !request.acknowledged && !self.relied_on(s, job);
                (differs && finishes).then_some((index, job, ask))
            }
            Some((_, Ask::Entry(_))) | None => None,
        });
        let Some((index, job, ask)) = open else { return false };
        let mut going = Outside::begin(job, ask);
        while let Some(Came::On) = self.outside(s, &mut going, Writer::Nobody, Fate::Fine) {
            // The writer's own mark is told apart by nothing else here.
            going.cur = true;
        }
        s.requests[index].acknowledged = true;
        self.run_out(s);
        true
    }

    /// Whether a signal or cancel was acknowledged that stands behind the last replay.
    fn relied_on(&self, s: &State, job: u8) -> bool {
        let behind = s.job(job).log.marks().iter().rev().take_while(|mark| !matches!(mark, Mark::Replayed { .. }));
        let acknowledged = |mark: &Mark| {
            (0..ASKS).any(|index| self.asks[index] == Some((job, Ask::Entry(*mark))) && s.requests[index].acknowledged)
        };
        behind.into_iter().any(acknowledged)
    }

    fn look(&self, s: &mut State, job: u8) {
        s.job_mut(job).item.due = Due::Now;
        if let Some(due) = self.swept(s, job) {
            s.job_mut(job).item.due = due;
            s.send(job);
        }
        self.run_out(s);
    }

    /// Lets workers handle all messages, one after the other and without a fault.
    fn run_out(&self, s: &mut State) {
        for _ in 0..400 {
            s.tidy();
            if s.broken.is_some() {
                return;
            }
            let active = (0..s.slots.len()).find(|slot| s.local(*slot).is_some());
            if let Some(slot) = active {
                let next = match s.local(slot).map(|local| local.pc) {
                    Some(Pc::Run { .. }) => self.effect(s, slot, Ran::Well),
                    _ => self.step(s, slot, Fate::Fine),
                };
                match next {
                    Some(next) => *s = next,
                    None => return,
                }
                continue;
            }
            let Some(job) = (0..2).find(|job| s.job(*job).messages > 0) else { return };
            s.job_mut(job).messages -= 1;
            // A place for it: sessions that died long ago are named by leases, but no process runs there.
            let unleased = |slot: &Slot| !matches!(slot.phase, Phase::Active(_)) && !is_named(s, slot);
            let Some(slot) = s.free_slot().or_else(|| s.slots.iter().position(unleased)) else { return };
            s.slots[slot] = Slot { phase: Phase::Active(Local::begin(job)), silent: false, watchdog: None };
        }
    }

    /// What must hold once everything rests for good.
    fn at_rest(&self, s: &State) -> Option<Broken> {
        for job in &s.jobs {
            let ended = job.log.fold().ending().map(End::of);
            let agree = match (job.item.mode, ended) {
                (Mode::Ended(Status::Completed), Some(End::Completed))
                | (Mode::Ended(Status::Failed), Some(End::Failed(_)))
                | (Mode::Ended(Status::Cancelled), Some(End::Cancelled)) => true,
                (Mode::Ended(_), _) | (_, Some(_)) => false,
                (Mode::Absent | Mode::Pending | Mode::Processing(_) | Mode::Waiting { .. }, None) => true,
            };
            if !agree {
                return Some(Broken::ItemDiffers);
            }
        }
        // A parent at rest waits for a child that is not at its end, and a child whose parent has ended was told so.
        let waits = s.jobs[0].log.fold().open_children().next().is_some();
        let child_rests = matches!(s.jobs[1].item.mode, Mode::Waiting { .. });
        let parent_ended = s.jobs[0].log.fold().ending().is_some();
        match (waits && !parent_ended, child_rests) {
            (true, false) => Some(Broken::WakeUpLost),
            (false, true) if parent_ended => Some(Broken::WakeUpLost),
            (true, true) | (false, _) => None,
        }
    }
}

/// Whether a lease names the session in this place.
fn is_named(s: &State, slot: &Slot) -> bool {
    let place = s.slots.iter().position(|other| std::ptr::eq(other, slot));
    place.is_some_and(|place| {
        let place = u8::try_from(place).unwrap_or(u8::MAX);
        s.jobs.iter().any(|job| job.item.mode == Mode::Processing(place))
    })
}
