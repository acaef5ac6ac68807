//! The whole system as a state machine: what may happen in a state, and what it leads to.

use std::fmt;

use stateright::{Model, Property};

use crate::broken::Broken;
use crate::ledger::{Ledger, at};
use crate::outside::{Came, changes_the_same, stands};
use crate::rules::{Mutant, Rules};
use crate::script::Script;
use crate::state::{
    ASKS, Ask, Budget, Due, Item, JobState, Local, Mode, Outside, Pc, Phase, Request, SLOTS, Slot, State, Writer, long,
};
use crate::steps::Ran;

/// What becomes of a store call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It takes effect and is answered.
    Fine,
    /// It takes effect, its answer is lost, and the SDK makes it again later.
    Repeat,
    /// It does not take effect, and no answer comes.
    Fail,
    /// It takes effect, and no answer comes.
    FailAfter,
    /// No answer comes, and it takes effect later.
    Late,
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A session makes its next call.
    Step(usize, Fate),
    /// A session's step takes effect in the world.
    Effect(usize, Ran),
    /// A session looks at the tail in mid-step.
    Peek(usize),
    /// A session moves its job's due time on.
    Renew(usize, Fate),
    /// A session comes to its deadline.
    Deadline(usize),
    /// A session's process dies.
    Crash(usize),
    /// A session has been silent for so long that it counts as dead.
    Silent(usize),
    /// A session that counted as dead refreshes its item.
    Beat(usize),
    /// A session's watchdog message arrives.
    Watchdog(usize),
    /// A session's watchdog message is lost.
    LoseWatchdog(usize),
    /// A worker receives a continuation.
    Receive(u8),
    /// A continuation is lost.
    Lose(u8),
    /// A continuation is delivered twice.
    Double(u8),
    /// The job's due time comes.
    DueComes(u8),
    /// The sweeper moves the due time and sends a continuation.
    Sweep(u8),
    /// The sweeper moves the due time and dies.
    SweepDies(u8),
    /// What waits for a time has waited long enough.
    Tick,
    /// A caller sends a request, or makes its next call.
    Ask(usize, Fate),
    /// A caller's api process dies.
    AskDies(usize),
    /// The submission is repeated.
    SubmitAgain,
    /// A late write lands.
    Land,
}

/// A system to check.
pub struct System {
    /// Journals met so far.
    pub ledger: Ledger,
    /// The rules that it plays by.
    pub rules: Rules,
    /// What callers may ask, and of which job.
    pub asks: [Option<(u8, Ask)>; ASKS],
    /// Faults that may happen.
    pub bounds: Budget,
    /// Worker invocations at one time.
    pub slots: usize,
    /// Whether each session's process has many other jobs in hand, so that its death is shared.
    pub shared: bool,
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").field("rules", &self.rules).field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl System {
    /// A system of a job (and its child, if the script has one).
    #[must_use]
    pub fn new(scripts: [Script; 2], asks: &[(u8, Ask)], bounds: Budget, slots: usize, mutant: Option<Mutant>) -> Self {
        let mut wanted = [None; ASKS];
        for (place, ask) in wanted.iter_mut().zip(asks) {
            *place = Some(*ask);
        }
        Self {
            ledger: Ledger::new(scripts),
            rules: Rules { mutant },
            asks: wanted,
            bounds,
            slots: slots.min(SLOTS),
            shared: false,
        }
    }

    /// The first state: the job is submitted and its continuation on its way.
    #[must_use]
    pub fn start(&self) -> State {
        let job =
            |number: u8| JobState { log: self.ledger.empty(number), item: Item::default(), messages: 0, runs: [0; 3] };
        let mut start = State {
            jobs: [job(0), job(1)],
            slots: [Slot::default(); SLOTS],
            requests: [Request::default(); ASKS],
            late: None,
            tick: 0,
            left: self.bounds,
            broken: None,
        };
        start.job_mut(0).item = Item { mode: Mode::Pending, due: Due::Later, ..Item::default() };
        start.send(0);
        start
    }

    /// Whether nothing happens by itself any more but that time passes.
    #[must_use]
    pub fn is_quiet(s: &State) -> bool {
        s.late.is_none()
            && s.jobs.iter().all(|job| job.messages == 0)
            && s.requests.iter().all(|request| request.going.is_none())
            && s.slots.iter().all(|slot| match slot.phase {
                Phase::Active(_) => false,
                Phase::Failed | Phase::Crashed => slot.watchdog.is_none(),
                Phase::Free | Phase::Ended => true,
            })
    }

    /// Whether a wait or a retry stands in a journal whose time is still to come.
    #[must_use]
    pub fn is_time_awaited(s: &State) -> bool {
        let now = at(s.tick);
        s.jobs.iter().any(|job| {
            let in_item = matches!(job.item.mode, Mode::Waiting { until: Some(until), .. } if long(until) > now);
            in_item
                || s.slots.iter().any(|slot| match slot.phase {
                    Phase::Active(Local { pc: Pc::Wait { until: Some(until) }, .. }) => long(until) > now,
                    Phase::Active(_) | Phase::Free | Phase::Failed | Phase::Crashed | Phase::Ended => false,
                })
        })
    }

    fn session_actions(&self, s: &State, slot: usize, actions: &mut Vec<Action>) {
        let left = s.left;
        match &s.slots[slot].phase {
            Phase::Active(local) => {
                self.running_actions(s, slot, local, actions);
                if s.slots[slot].silent {
                    actions.push(Action::Beat(slot));
                } else if left.pause > 0 && local.epoch > 0 {
                    actions.push(Action::Silent(slot));
                }
                if left.crash > 0 {
                    actions.push(Action::Crash(slot));
                }
            }
            Phase::Failed | Phase::Crashed if !s.slots[slot].silent => actions.push(Action::Silent(slot)),
            Phase::Failed | Phase::Crashed | Phase::Free | Phase::Ended => {}
        }
        if s.slots[slot].watchdog.is_some() && s.slots[slot].silent {
            actions.push(Action::Watchdog(slot));
            if left.loss > 0 {
                actions.push(Action::LoseWatchdog(slot));
            }
        }
    }

    fn running_actions(&self, s: &State, slot: usize, local: &Local, actions: &mut Vec<Action>) {
        let left = s.left;
        if let Pc::Run { .. } = local.pc {
            actions.extend([Ran::Well, Ran::Badly, Ran::Fatally].map(|ran| Action::Effect(slot, ran)));
            if s.job(local.job).log.len() > local.seen {
                actions.push(Action::Peek(slot));
            }
            // A renewal that is answered changes nothing that others see, unless it finds something else than it knew.
            if !local.cur {
                actions.push(Action::Renew(slot, Fate::Fine));
            }
            actions.extend(faults(left, local.landed).map(|fate| Action::Renew(slot, fate)));
        } else {
            actions.push(Action::Step(slot, Fate::Fine));
            actions.extend(faults(left, local.landed).map(|fate| Action::Step(slot, fate)));
        }
        if left.deadline > 0 {
            actions.push(Action::Deadline(slot));
        }
    }

    fn job_actions(&self, s: &State, job: u8, quiet: bool, actions: &mut Vec<Action>) {
        let (left, it) = (s.left, s.job(job));
        if it.item.mode == Mode::Absent {
            return;
        }
        if it.messages > 0 {
            let active = s.slots.iter().take(self.slots).any(|slot| slot.phase == Phase::Free);
            if active {
                actions.push(Action::Receive(job));
            }
            if left.loss > 0 {
                actions.push(Action::Lose(job));
            }
        }
        if left.double > 0 {
            actions.push(Action::Double(job));
        }
        match it.item.due {
            Due::Later => {
                let held = matches!(it.item.mode, Mode::Processing(slot)
                    if matches!(s.slots[usize::from(slot)].phase, Phase::Active(_)));
                if quiet || (held && left.pause > 0) || (!held && left.early > 0) {
                    actions.push(Action::DueComes(job));
                }
            }
            Due::Now if quiet || left.early > 0 => {
                actions.push(Action::Sweep(job));
                if left.loss > 0 {
                    actions.push(Action::SweepDies(job));
                }
            }
            Due::Now | Due::Never => {}
        }
    }

    fn happens(&self, before: &State, action: Action) -> Option<State> {
        let mut s = before.clone();
        match action {
            Action::Step(slot, fate) => {
                s = self.step(before, slot, fate)?;
                spend(&mut s.left, fate);
            }
            Action::Effect(slot, ran) => s = self.effect(before, slot, ran)?,
            Action::Peek(slot) => s = self.peek(before, slot)?,
            Action::Renew(slot, fate) => {
                s = self.renew(before, slot, fate)?;
                spend(&mut s.left, fate);
            }
            Action::Deadline(slot) => {
                s = self.deadline(before, slot)?;
                s.left.deadline -= 1;
            }
            Action::Crash(slot) => {
                let job = before.local(slot)?.job;
                s.slots[slot].phase = Phase::Crashed;
                // What it had received becomes visible again.
                s.send(job);
                s.left.crash -= 1;
            }
            Action::Silent(slot) => {
                if matches!(s.slots[slot].phase, Phase::Active(_)) {
                    s.left.pause -= 1;
                }
                s.slots[slot].silent = true;
            }
            Action::Beat(slot) => {
                // The watchdog goes before the heartbeat.
                s.slots[slot].watchdog = before.local(slot).map(|local| local.job);
                s.slots[slot].silent = false;
            }
            Action::Watchdog(slot) => {
                let job = s.slots[slot].watchdog.take()?;
                if self.is_wanted(&s, slot, job) {
                    s.send(job);
                }
            }
            Action::LoseWatchdog(slot) => {
                s.slots[slot].watchdog = None;
                s.left.loss -= 1;
            }
            Action::Receive(job) => {
                let slot = s.free_slot()?;
                s.job_mut(job).messages -= 1;
                s.slots[slot] = Slot { phase: Phase::Active(Local::begin(job)), silent: false, watchdog: Some(job) };
                // And reads the job item: before its first call nobody can tell that it has begun.
                s = self.step(&s, slot, Fate::Fine)?;
            }
            Action::Lose(job) => {
                s.job_mut(job).messages -= 1;
                s.left.loss -= 1;
            }
            Action::Double(job) => {
                s.send(job);
                s.left.double -= 1;
            }
            Action::DueComes(_) | Action::Sweep(_) | Action::SweepDies(_) => return self.time_of_job(before, action),
            Action::Tick => s.tick += 1,
            Action::Ask(index, fate) => return self.ask(before, index, fate),
            Action::AskDies(index) => {
                s.requests[index].going = None;
                s.left.crash -= 1;
            }
            Action::SubmitAgain => self.submit_again(&mut s),
            Action::Land => self.land(&mut s),
        }
        Some(s)
    }

    /// `outside::submit` of a job that is there: a continuation, while nobody has claimed it.
    fn submit_again(&self, s: &mut State) {
        s.left.again -= 1;
        let overwrites = self.rules.has(Mutant::SubmitOverwrites);
        if overwrites {
            let fresh = Item { mode: Mode::Pending, due: Due::Later, ..Item::default() };
            s.put(0, fresh, Writer::Nobody);
        }
        if overwrites || s.job(0).item.mode == Mode::Pending {
            s.send(0);
        }
    }

    fn time_of_job(&self, before: &State, action: Action) -> Option<State> {
        let mut s = before.clone();
        let quiet = Self::is_quiet(before);
        match action {
            Action::DueComes(job) => {
                s.job_mut(job).item.due = Due::Now;
                let held = matches!(before.job(job).item.mode, Mode::Processing(slot)
                    if matches!(before.slots[usize::from(slot)].phase, Phase::Active(_)));
                match (quiet, held) {
                    (true, _) => s.slots.iter_mut().for_each(|slot| {
                        slot.silent |= matches!(slot.phase, Phase::Failed | Phase::Crashed);
                    }),
                    (false, true) => s.left.pause -= 1,
                    (false, false) => s.left.early -= 1,
                }
            }
            Action::Sweep(job) | Action::SweepDies(job) => {
                s.job_mut(job).item.due = self.swept(before, job)?;
                if !quiet {
                    s.left.early -= 1;
                }
                if action == Action::Sweep(job) {
                    s.send(job);
                } else {
                    s.left.loss -= 1;
                }
            }
            _ => return None,
        }
        Some(s)
    }

    fn ask(&self, before: &State, index: usize, fate: Fate) -> Option<State> {
        let mut s = before.clone();
        let (job, ask) = self.asks[index]?;
        let Some(mut going) = s.requests[index].going else {
            if s.requests[index].tries > 0 {
                s.left.again -= 1;
            }
            s.requests[index].tries += 1;
            // And makes its first call, for the same reason.
            let mut going = Outside::begin(job, ask);
            let came = self.outside(&mut s, &mut going, Writer::Request(index), Fate::Fine)?;
            s.requests[index].going = (came == Came::On).then_some(going);
            return Some(s);
        };
        let came = self.outside(&mut s, &mut going, Writer::Request(index), fate)?;
        spend(&mut s.left, fate);
        match came {
            Came::On => s.requests[index].going = Some(going),
            Came::Done => {
                s.requests[index].going = None;
                s.requests[index].acknowledged = true;
                let log = s.job(job).log;
                let kept = log.marks().iter().any(|mark| changes_the_same(*mark, ask));
                if !stands(log.fold(), ask) && !kept {
                    s.breaks(Some(Broken::AcknowledgedLost));
                }
            }
            Came::Refused | Came::Unanswered => s.requests[index].going = None,
        }
        Some(s)
    }

    fn ask_actions(&self, s: &State, index: usize, actions: &mut Vec<Action>) {
        if self.asks[index].is_none_or(|(job, _)| s.job(job).item.mode == Mode::Absent) {
            return;
        }
        let request = &s.requests[index];
        match &request.going {
            None if request.tries == 0 || s.left.again > 0 => actions.push(Action::Ask(index, Fate::Fine)),
            None => {}
            Some(going) => {
                actions.push(Action::Ask(index, Fate::Fine));
                actions.extend(faults(s.left, going.landed).map(|fate| Action::Ask(index, fate)));
                if s.left.crash > 0 {
                    actions.push(Action::AskDies(index));
                }
            }
        }
    }
}

/// Fates that may still befall a call.
fn faults(left: Budget, landed: bool) -> impl Iterator<Item = Fate> {
    let fail = left.fail > 0 && !landed;
    let possible = [
        (Fate::Repeat, left.repeat > 0 && !landed),
        (Fate::Fail, fail),
        (Fate::FailAfter, fail),
        (Fate::Late, left.late > 0 && !landed),
    ];
    possible.into_iter().filter(|(_, may)| *may).map(|(fate, _)| fate)
}

fn spend(left: &mut Budget, fate: Fate) {
    match fate {
        Fate::Fine => {}
        Fate::Repeat => left.repeat -= 1,
        Fate::Fail | Fate::FailAfter => left.fail -= 1,
        Fate::Late => left.late -= 1,
    }
}

/// One property for each promise.
fn holds<const N: usize>(_: &System, s: &State) -> bool {
    s.broken != Some(Broken::ALL[N].0)
}

impl Model for System {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        if s.broken.is_some() {
            return;
        }
        let quiet = Self::is_quiet(s);
        (0..SLOTS).for_each(|slot| self.session_actions(s, slot, actions));
        (0..2).for_each(|job| self.job_actions(s, job, quiet, actions));
        (0..ASKS).for_each(|index| self.ask_actions(s, index, actions));
        if Self::is_time_awaited(s) {
            actions.push(Action::Tick);
        }
        if s.late.is_some() {
            actions.push(Action::Land);
        }
        if s.left.again > 0 {
            actions.push(Action::SubmitAgain);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut s = self.happens(before, action)?;
        s.tidy();
        if s.broken.is_none() && Self::is_quiet(&s) {
            s.broken = self.judge(&s);
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! each {
            ($($n:literal)*) => { vec![$(Property::always(Broken::ALL[$n].1, holds::<$n>)),*] };
        }
        each!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21)
    }
}
