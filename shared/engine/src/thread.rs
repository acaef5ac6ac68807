//! Threads: jobs that run one after another, in the order of their submission.
//!
//! A thread has a [`Line`]: places in the order in which jobs have their turn, the first of them being the one that has
//! it now. A place is a job and how often it was opened again, so that "its turn is over" is a fact that never turns
//! untrue: whoever removes a place needs no lock and may be late. A job that was opened again takes a new place, at the
//! end.

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, Nonce, ThreadId};
use crate::limits;
use crate::time::Timestamp;

/// What a submission asks for where other jobs of its thread have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBusy {
    /// It waits for its turn.
    #[default]
    Enqueue,
    /// It is refused.
    Reject,
    /// The jobs in front of it are cancelled, the one that has its turn and those that wait; then it is its turn.
    Interrupt,
}

impl OnBusy {
    fn is_enqueue(&self) -> bool {
        *self == Self::Enqueue
    }
}

/// The thread of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Which; the tenant is the job's.
    pub id: ThreadId,
    /// What the submission asked for.
    #[serde(default, skip_serializing_if = "OnBusy::is_enqueue")]
    pub on_busy: OnBusy,
}

/// A place in a thread's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The job.
    pub job: JobId,
    /// How often it had been opened again when it took the place.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replays: u32,
}

/// Serde hands over a reference.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Place {
    /// The place that a new job takes.
    #[must_use]
    pub const fn of_new(job: JobId) -> Self {
        Self { job, replays: 0 }
    }

    /// Whether its turn is over, for ever: by how often its job was opened again since, and whether it has ended.
    #[must_use]
    pub const fn is_over(&self, replays: u32, ended: bool) -> bool {
        replays > self.replays || (replays == self.replays && ended)
    }
}

/// The jobs of a thread that have not had their turn, the one that has it first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// The places, in order.
    pub places: Vec<Place>,
    /// The mark of the write that made it so; none where no line is stored, which is an empty one.
    pub mark: Option<Nonce>,
}

/// One conditional write of a line: goes through only if the line is as it was read. An empty line is as good as
/// none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineWrite {
    /// The mark of this write.
    pub nonce: Nonce,
    /// When it is made.
    pub at: Timestamp,
    /// The mark that must stand there; none: no line must be stored.
    pub mark: Option<Nonce>,
    /// What to put there.
    pub places: Vec<Place>,
}

impl Line {
    /// The place of the job whose turn it is.
    #[must_use]
    pub fn front(&self) -> Option<Place> {
        self.places.first().copied()
    }

    /// The jobs in front of this one, in order; none when it has no place.
    #[must_use]
    pub fn ahead_of(&self, job: JobId) -> Vec<JobId> {
        let at = self.places.iter().position(|place| place.job == job).unwrap_or(0);
        self.places.iter().take(at).map(|place| place.job).collect()
    }

    fn write(&self, nonce: Nonce, at: Timestamp, places: Vec<Place>) -> LineWrite {
        LineWrite { nonce, at, mark: self.mark, places }
    }

    fn without(&self, over: impl Fn(&Place) -> bool) -> Vec<Place> {
        self.places.iter().filter(|place| !over(place)).copied().collect()
    }
}

/// What is done about a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Joining {
    /// Store the job and make this write, both or neither.
    Join(LineWrite),
    /// Refuse it: another job has its turn, and the submission would not wait.
    Busy {
        /// The job in the way.
        by: JobId,
    },
    /// Refuse it: too many wait.
    Full,
}

/// Decides about the submission of `job`. `busy` is the first job of the line that has not ended, as far as it was looked
/// for: a submission that would wait anyway needs no look.
#[must_use]
pub fn join(line: &Line, job: JobId, on_busy: OnBusy, busy: Option<JobId>, nonce: Nonce, now: Timestamp) -> Joining {
    match (on_busy, busy) {
        (OnBusy::Reject, Some(by)) => return Joining::Busy { by },
        (OnBusy::Reject, None) | (OnBusy::Enqueue | OnBusy::Interrupt, _) => {}
    }
    let places_max = match on_busy {
        OnBusy::Enqueue | OnBusy::Reject => limits::THREAD_PLACES_MAX,
        OnBusy::Interrupt => limits::THREAD_PLACES_MAX + limits::THREAD_PLACES_INTERRUPT,
    };
    if line.places.len() >= places_max {
        return Joining::Full;
    }
    let mut places = line.places.clone();
    places.push(Place::of_new(job));
    Joining::Join(line.write(nonce, now, places))
}

/// What is known of the job in front, or of the one that asks where its place is not in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// Not looked at yet.
    Unknown,
    /// Its turn is not over.
    Going,
    /// It is ([`Place::is_over`]).
    Over,
}

/// What a job does that wants its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// It is its turn, until it has ended; or its turn is over already.
    Now,
    /// Look at this place, then decide again: by the journal alone where it is that of the job which asks.
    LookAt(Place),
    /// Make this write, then decide again.
    Write(LineWrite),
    /// Wait: somebody calls it up.
    Wait,
}

/// Decides for a job that has not ended and has this `place` by its journal.
///
/// A place that is in front stays there until its turn is over, so that [`Turn::Now`] does not age: it holds until the
/// job's own journal shows an end.
#[must_use]
pub fn turn(line: &Line, place: Place, front: Front, nonce: Nonce, now: Timestamp) -> Turn {
    let of_job = |other: &Place| other.job == place.job;
    if line.places.iter().any(|other| of_job(other) && other.replays > place.replays) {
        // Whoever asks knows an old journal.
        return Turn::Wait;
    }
    let has_old = line.places.iter().any(|other| of_job(other) && other.replays < place.replays);
    let has_own = line.places.contains(&place);
    if !has_own {
        // Either it was never there, or it was taken out because its turn is over, which its journal says by then.
        match front {
            Front::Unknown => return Turn::LookAt(place),
            Front::Going => {}
            // Whoever asks knows an old journal, and finds out when it reads it under its claim. Taking the place anew
            // would have others wait behind it for somebody who has called up the next already.
            Front::Over => return Turn::Now,
        }
    }
    if has_old || !has_own {
        let mut places = line.without(|other| of_job(other) && other.replays < place.replays);
        if !has_own {
            places.push(place);
        }
        return Turn::Write(line.write(nonce, now, places));
    }
    match line.front() {
        Some(first) if first == place => Turn::Now,
        Some(first) => match front {
            Front::Unknown => Turn::LookAt(first),
            Front::Going => Turn::Wait,
            Front::Over => Turn::Write(line.write(nonce, now, line.without(|other| *other == first))),
        },
        // A line with a place in it has one in front.
        None => Turn::Wait,
    }
}

/// The write that takes a job's places out of its line once its turn at `place` is over; none when there is nothing to
/// take out. A place that the job took when it was opened again stays.
#[must_use]
pub fn leave(line: &Line, place: Place, nonce: Nonce, now: Timestamp) -> Option<LineWrite> {
    let over = |other: &Place| other.job == place.job && other.replays <= place.replays;
    line.places.iter().any(over).then(|| line.write(nonce, now, line.without(over)))
}
