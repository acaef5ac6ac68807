//! What must hold when nothing happens by itself any more: left alone, without a fault, every job comes to its end, and if
//! no fault happened at all it needs nobody's look for that.

use super::Broken;
use super::calls::{System, waits_for_somebody};
use super::state::{Asked, Caller, JOBS, Mode, State, narrow};

/// Looks of the sweeper at all jobs after which one that has not ended never will.
const LOOKS_MAX: usize = 8;
/// Calls after which a session that is alone goes in circles.
const CALLS_MAX: usize = 200;

impl System {
    /// Whether nothing happens by itself any more.
    pub(super) fn is_quiet(s: &State) -> bool {
        s.sessions.iter().all(Option::is_none)
            && s.jobs.iter().all(|job| job.messages == 0)
            && s.callers.iter().all(|caller| matches!(caller, Caller::Idle | Caller::Over))
            && s.replay != Asked::Written
            && s.cancel != Asked::Written
    }

    /// Whether a job rests for somebody outside, or behind one that does.
    fn rests(&self, s: &State) -> bool {
        let front = s.line.iter().find(|spot| !s.job(spot.0).is_over(**spot)).map(|spot| spot.0);
        front.is_some_and(|front| {
            waits_for_somebody(self.orders[usize::from(front)].does)
                && matches!(s.job(front).mode, Mode::Waiting(seen) if usize::from(seen) == s.job(front).log.len())
                && !self.is_interrupted(s, front)
        })
    }

    /// Whether a job stands behind it that was submitted to interrupt it.
    fn is_interrupted(&self, s: &State, front: u8) -> bool {
        let behind = s.line.iter().map(|spot| spot.0).filter(|job| *job != front);
        behind.into_iter().any(|job| {
            self.orders[usize::from(job)].on_busy == longhaul_engine::thread::OnBusy::Interrupt
                && s.job(job).replays() == 0
        })
    }

    fn open(s: &State) -> Vec<u8> {
        (0..narrow(JOBS)).filter(|job| !matches!(s.job(*job).mode, Mode::Absent | Mode::Ended)).collect()
    }

    /// What a quiet state breaks.
    pub(super) fn judge(&self, s: &State) -> Option<Broken> {
        if s.left == self.bounds && !Self::open(s).is_empty() && !self.rests(s) {
            return Some(Broken::NotPrompt);
        }
        let mut s = s.clone();
        for _ in 0..LOOKS_MAX {
            for job in 0..narrow(JOBS) {
                // A replay whose api died before it opened the item is finished by its repetition.
                if s.job(job).mode == Mode::Ended && !s.job(job).ended() {
                    self.open_again(&mut s, job);
                }
            }
            let open = Self::open(&s);
            if open.is_empty() {
                let left = s.line.iter().any(|spot| !s.job(spot.0).is_over(*spot));
                return left.then_some(Broken::PlaceLeft);
            }
            if self.rests(&s) {
                return None;
            }
            for job in open {
                s.send(job);
                self.drive_alone(&mut s)?;
                if s.broken.is_some() {
                    return s.broken;
                }
            }
        }
        Some(Broken::Stuck)
    }

    /// Works on all messages, one after the other. None never comes: a session that goes in circles is stuck.
    fn drive_alone(&self, s: &mut State) -> Option<()> {
        for _ in 0..CALLS_MAX {
            if s.sessions[0].is_some() {
                self.step(s, 0)?;
                continue;
            }
            let Some(job) = (0..narrow(JOBS)).find(|job| s.job(*job).messages > 0) else { return Some(()) };
            self.takes(s, job)?;
        }
        s.breaks(Broken::Stuck);
        Some(())
    }
}
