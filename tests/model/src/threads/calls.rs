//! What may happen in a thread, and what it leads to.

use std::fmt;

use longhaul_engine::thread::{Joining, OnBusy};
use stateright::{Model, Property};

use super::state::{Asked, Bounds, Caller, Does, End, JOBS, Job, Mark, Mode, Order, PERSON, SESSIONS, State, narrow};
use super::{Broken, Mutant, Rules, spots};

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The api makes the next call of a submission.
    Submit(u8),
    /// The api process of a submission dies.
    SubmitDies(u8),
    /// A worker receives a continuation and reads the job item.
    Receive(u8),
    /// A session makes its next call.
    Step(usize),
    /// A session's process dies.
    Dies(usize),
    /// A session counts as dead, and goes on.
    Pause(usize),
    /// A continuation is lost.
    Lose(u8),
    /// A continuation is delivered twice.
    Double(u8),
    /// A person's replay makes its next call.
    Replay,
    /// A person's cancel makes its next call.
    Cancel,
}

/// A thread to check.
pub struct System {
    /// The submissions to it.
    pub orders: &'static [Order],
    /// The job that a person opens again when it has failed or was cancelled.
    pub replayed: Option<u8>,
    /// The job that a person cancels.
    pub cancelled: Option<u8>,
    /// Faults that may happen.
    pub bounds: Bounds,
    /// Worker invocations at one time.
    pub sessions: usize,
    pub(super) rules: Rules,
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").field("orders", &self.orders).field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl System {
    fn numbers(&self) -> std::ops::Range<u8> {
        0..narrow(self.orders.len().min(JOBS))
    }

    fn submit(&self, s: &mut State, job: u8) {
        let order = self.orders[usize::from(job)];
        let caller = match s.callers[usize::from(job)].clone() {
            Caller::Idle | Caller::Joining { cur: false, .. } => {
                Caller::Joining { line: s.line.clone(), cur: true, busy: None }
            }
            Caller::Joining { line, cur, busy: None } if order.on_busy == OnBusy::Reject => {
                let open = |spot: &&(u8, u8)| !matches!(s.job(spot.0).mode, Mode::Absent | Mode::Ended);
                let first = line.iter().find(open).map(|spot| spot.0);
                Caller::Joining { line, cur, busy: Some(first) }
            }
            Caller::Joining { line, cur: true, busy } => {
                match self.rules.join(&line, job, order.on_busy, busy.flatten()) {
                    Joining::Join(write) => {
                        let waits = line.iter().any(|spot| !s.job(spot.0).is_over(*spot));
                        if waits && order.on_busy == OnBusy::Reject {
                            s.breaks(Broken::RejectWaits);
                        }
                        s.put_line(spots(&write));
                        s.put(job, Mode::Pending, None);
                        s.joined.push(job);
                        Caller::Sending
                    }
                    Joining::Busy { .. } | Joining::Full => Caller::Over,
                }
            }
            Caller::Sending => {
                if self.rules.has(Mutant::InterruptedBySubmission) && order.on_busy == OnBusy::Interrupt {
                    let ahead: Vec<u8> = s.line.iter().map(|spot| spot.0).take_while(|other| *other != job).collect();
                    for other in ahead {
                        if self.take_in_cancel(s, other, job) {
                            s.wake(other);
                            s.send(other);
                        }
                    }
                }
                s.send(job);
                Caller::Over
            }
            Caller::Over => Caller::Over,
        };
        s.callers[usize::from(job)] = caller;
    }

    fn replay(&self, s: &mut State) -> Option<()> {
        let job = self.replayed?;
        match s.replay {
            Asked::Not => {
                let replayable = matches!(s.job(job).log.last(), Some(Mark::Ended(End::Failed | End::Cancelled)));
                if !replayable {
                    return None;
                }
                let seen = narrow(s.job(job).log.len());
                s.append(job, seen, Mark::Replayed);
                s.replay = Asked::Written;
            }
            Asked::Written => {
                self.open_again(s, job);
                s.replay = Asked::Over;
            }
            Asked::Over => return None,
        }
        Some(())
    }

    /// The wakes, the item, the continuation of a replay.
    pub(super) fn open_again(&self, s: &mut State, job: u8) {
        s.wake(job);
        if s.job(job).mode == Mode::Ended {
            s.put(job, Mode::Pending, None);
        }
        s.send(job);
    }

    fn cancel(&self, s: &mut State) -> Option<()> {
        let job = self.cancelled?;
        match s.cancel {
            Asked::Not => {
                if !self.take_in_cancel(s, job, PERSON) {
                    return None;
                }
                s.cancel = Asked::Written;
            }
            Asked::Written => {
                s.wake(job);
                s.send(job);
                s.cancel = Asked::Over;
            }
            Asked::Over => return None,
        }
        Some(())
    }

    /// A session makes its next call.
    pub(super) fn step(&self, s: &mut State, slot: usize) -> Option<()> {
        let session = s.sessions[slot].clone()?;
        let next = self.call(s, slot, session);
        // What others did to what it knows happened before this call, and what this call did to itself is in `next`.
        s.sessions[slot] = next;
        Some(())
    }

    /// A worker receives a continuation.
    pub(super) fn takes(&self, s: &mut State, job: u8) -> Option<()> {
        let slot = s.sessions.iter().take(self.sessions).position(Option::is_none)?;
        s.job_mut(job).messages -= 1;
        s.sessions[slot] = self.receive(s, job);
        Some(())
    }

    fn dies(s: &mut State, slot: usize) -> Option<()> {
        let session = s.sessions[slot].take()?;
        let job = session.job;
        if s.job(job).mode == Mode::Held(narrow(slot)) {
            // Nobody wrote it: whoever has read it still finds it as it was.
            s.job_mut(job).mode = Mode::Orphaned;
        }
        s.send(job);
        s.left.crash -= 1;
        Some(())
    }

    fn pause(s: &mut State, slot: usize) -> Option<()> {
        let session = s.sessions[slot].as_mut()?;
        session.paused = true;
        let job = session.job;
        s.job_mut(job).mode = Mode::Orphaned;
        s.send(job);
        s.left.pause -= 1;
        Some(())
    }

    fn happens(&self, s: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Submit(job) => self.submit(s, job),
            Action::SubmitDies(job) => {
                s.callers[usize::from(job)] = Caller::Over;
                s.left.crash -= 1;
            }
            Action::Receive(job) => self.takes(s, job)?,
            Action::Step(slot) => self.step(s, slot)?,
            Action::Dies(slot) => Self::dies(s, slot)?,
            Action::Pause(slot) => Self::pause(s, slot)?,
            Action::Lose(job) => {
                s.job_mut(job).messages -= 1;
                s.left.loss -= 1;
            }
            Action::Double(job) => {
                s.send(job);
                s.left.double -= 1;
            }
            Action::Replay => self.replay(s)?,
            Action::Cancel => self.cancel(s)?,
        }
        Some(())
    }
}

impl Model for System {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            jobs: [(); JOBS].map(|()| Job::default()),
            line: Vec::new(),
            sessions: [(); SESSIONS].map(|()| None),
            callers: [(); JOBS].map(|()| Caller::default()),
            replay: Asked::Not,
            cancel: Asked::Not,
            joined: Vec::new(),
            left: self.bounds,
            broken: None,
        }]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        if s.broken.is_some() {
            return;
        }
        for job in self.numbers() {
            let caller = &s.callers[usize::from(job)];
            if *caller != Caller::Over {
                actions.push(Action::Submit(job));
                if s.left.crash > 0 && *caller == Caller::Sending {
                    actions.push(Action::SubmitDies(job));
                }
            }
            if s.job(job).messages > 0 {
                actions.push(Action::Receive(job));
                if s.left.loss > 0 {
                    actions.push(Action::Lose(job));
                }
                if s.left.double > 0 {
                    actions.push(Action::Double(job));
                }
            }
        }
        for (slot, session) in s.sessions.iter().enumerate() {
            let Some(session) = session else { continue };
            actions.push(Action::Step(slot));
            if s.left.crash > 0 {
                actions.push(Action::Dies(slot));
            }
            let held = s.job(session.job).mode == Mode::Held(narrow(slot));
            if s.left.pause > 0 && held && !session.paused {
                actions.push(Action::Pause(slot));
            }
        }
        actions.push(Action::Replay);
        actions.push(Action::Cancel);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut s = before.clone();
        self.happens(&mut s, action)?;
        if s.broken.is_none() && Self::is_quiet(&s) {
            s.broken = self.judge(&s);
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("no promise is broken", |_, s: &State| s.broken.is_none())]
    }
}

/// What a submission that waits for nobody says of its job.
pub(super) const fn waits_for_somebody(does: Does) -> bool {
    matches!(does, Does::Waits)
}
