//! Threads: submissions to one thread and the turns that their jobs take, over `longhaul_engine::thread`.
//!
//! A system of its own beside the one of a single job: what a claim, an append and an end are worth is checked there, so
//! that here a claim is one conditional write and a job does one thing. What is gone through is the order of calls of
//! `longhaul::thread`, `drive::turn` and `outside`, with a crash between any two.

mod calls;
pub mod instances;
mod quiet;
mod session;
mod state;

pub use calls::{Action, System};
pub use state::{Bounds, Does, State};

use longhaul_engine::thread::{self, Front, Joining, Line, LineWrite, OnBusy, Place, Turn};
use longhaul_engine::{JobId, Nonce, Timestamp};

/// A promise about threads that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Broken {
    /// Two jobs of the thread have their turn at one time.
    TwoAtOnce,
    /// A job has its turn before one that was submitted before it.
    OutOfOrder,
    /// A submission that would not wait was taken in behind a job whose turn is not over.
    RejectWaits,
    /// A journal that cannot be read.
    Unreadable,
    /// Left to itself, a job does not come to its end.
    Stuck,
    /// A place that is not over stands in the line of jobs that have all ended.
    PlaceLeft,
    /// Without any fault, a job whose turn it is lies still.
    NotPrompt,
}

impl Broken {
    /// The promise in words.
    #[must_use]
    pub const fn promise(self) -> &'static str {
        match self {
            Self::TwoAtOnce => "of a thread, one job has its turn at a time",
            Self::OutOfOrder => "jobs of a thread have their turns in the order of their submissions",
            Self::RejectWaits => "a submission that would not wait does not",
            Self::Unreadable => "the journal can be read",
            Self::Stuck => "left to itself every job of a thread ends",
            Self::PlaceLeft => "no place is left behind that is not over",
            Self::NotPrompt => "without faults no job of a thread waits for the sweeper",
        }
    }
}

/// One thing weaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the table in instances.rs says of each what is weaker")]
pub enum Mutant {
    AnyPlaceHasItsTurn,
    FrontTakenForOver,
    LineWrittenBlind,
    NextNotCalled,
    PlacesWithoutReplays,
    ReplayAsksNoTurn,
    InterruptedBySubmission,
    RejectLooksAtNothing,
}

/// The engine's decisions, or those with one deviation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rules {
    pub(crate) mutant: Option<Mutant>,
}

/// A mark that is compared by nobody: whether a line is as it was read is a bit with whoever read it.
const MARK: Nonce = Nonce::from_uuid(uuid::Uuid::from_u128(1));
const NOW: Timestamp = Timestamp::from_millis(1);

impl Rules {
    pub(crate) fn has(self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// The place that a job takes which was opened again so often.
    pub(crate) fn place(self, job: u8, replays: u8) -> state::Spot {
        (job, if self.has(Mutant::PlacesWithoutReplays) { 0 } else { replays })
    }

    /// [`thread::turn`].
    pub(crate) fn turn(self, line: &[state::Spot], spot: state::Spot, front: Front) -> Turn {
        let line = lined(line);
        if self.has(Mutant::AnyPlaceHasItsTurn) && line.places.contains(&placed(spot)) {
            return Turn::Now;
        }
        match thread::turn(&line, placed(spot), front, MARK, NOW) {
            Turn::LookAt(_) if self.has(Mutant::FrontTakenForOver) => {
                thread::turn(&line, placed(spot), Front::Over, MARK, NOW)
            }
            turn => turn,
        }
    }

    /// [`thread::join`].
    pub(crate) fn join(self, line: &[state::Spot], job: u8, on_busy: OnBusy, busy: Option<u8>) -> Joining {
        let busy = busy.filter(|_| !self.has(Mutant::RejectLooksAtNothing)).map(job_id);
        thread::join(&lined(line), job_id(job), on_busy, busy, MARK, NOW)
    }

    /// [`thread::leave`].
    pub(crate) fn leave(self, line: &[state::Spot], spot: state::Spot) -> Option<LineWrite> {
        thread::leave(&lined(line), placed(spot), MARK, NOW)
    }
}

fn lined(line: &[state::Spot]) -> Line {
    Line { places: line.iter().copied().map(placed).collect(), mark: Some(MARK) }
}

pub(crate) fn placed((job, replays): state::Spot) -> Place {
    Place { job: job_id(job), replays: u32::from(replays) }
}

/// The places of a write, in few bytes.
pub(crate) fn spots(write: &LineWrite) -> Vec<state::Spot> {
    write.places.iter().map(spot).collect()
}

pub(crate) fn spot(place: &Place) -> state::Spot {
    let number = (0..u8::MAX).find(|job| job_id(*job) == place.job).unwrap_or(u8::MAX);
    (number, u8::try_from(place.replays).unwrap_or(u8::MAX))
}

fn job_id(job: u8) -> JobId {
    JobId::from_uuid(uuid::Uuid::from_u128(u128::from(job)))
}
