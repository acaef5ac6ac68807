//! Who may drive a job: the decision before a claim, and every write of the job item by the session that holds it.

use std::time::Duration;

use crate::ids::{Epoch, Nonce, Seq, SessionId};
use crate::job::{Job, JobState, JobWrite, Lease, Mismatch, Origin, Progress, Totals};
use crate::journal::{Ending, Journal};
use crate::limits;
use crate::time::Timestamp;
use crate::wait;

/// What is known of the session that a lease names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// Not looked at yet.
    Unknown,
    /// Its heartbeat is recent.
    Alive,
    /// It has been silent too long, or its item is gone.
    Dead,
}

/// Whether the journal holds something that a waiting job has not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Not looked at yet.
    Unknown,
    /// Nothing.
    Nothing,
    /// Something.
    Something,
}

/// Whether a session is alive that last refreshed its item at `beat_at` (none: it has no item).
#[must_use]
pub fn holder(beat_at: Option<Timestamp>, now: Timestamp) -> Holder {
    match beat_at {
        Some(at) if now.since(at) < Duration::from_millis(limits::SESSION_SILENCE_MAX_MS) => Holder::Alive,
        Some(_) | None => Holder::Dead,
    }
}

/// Who would drive a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Driver {
    /// A worker that was called by a message.
    #[default]
    Worker,
    /// A person, step by step.
    Person,
}

/// Whether somebody may drive a job at all. One that came as a file is for people to look at: what it did elsewhere must
/// not be done again because a message went astray.
#[must_use]
pub const fn may_drive(origin: &Origin, driver: Driver) -> bool {
    match (origin, driver) {
        (Origin::Submitted | Origin::Forked(_), Driver::Worker) | (Origin::Imported(_), Driver::Person) => true,
        (Origin::Imported(_), Driver::Worker) | (Origin::Submitted | Origin::Forked(_), Driver::Person) => false,
    }
}

/// Why a continuation needs no claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoClaim {
    /// The job has ended and its aftermath is done.
    Ended,
    /// A live session drives it.
    Held,
    /// It waits, and there is nothing new.
    NothingNew,
}

/// What to do with a continuation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimDecision {
    /// Acknowledge it.
    Acknowledge(NoClaim),
    /// Look up this session, then decide again.
    LookUp(SessionId),
    /// Look for a journal entry from this position on, then decide again.
    Peek(Seq),
    /// Make this write; when it goes through, the job is mine.
    Claim(Box<Claim>),
}

/// A claim to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The write that makes it.
    pub write: JobWrite,
    /// Its epoch.
    pub epoch: Epoch,
    /// Whether the session before died holding the job.
    pub takeover: bool,
    /// Whether so many claims came since the holder's last write that those which died before they could append
    /// anything must be counted, see [`died_unread`].
    pub suspicious: bool,
}

/// Decides about a continuation for `job` (protocol rule 4) that reached `session`, which is not driving the job: it
/// keeps a table of those that it is. `nonce` marks the claim's write.
#[must_use]
pub fn decide(
    job: &Job,
    session: &SessionId,
    holder: Holder,
    news: News,
    nonce: Nonce,
    now: Timestamp,
) -> ClaimDecision {
    let due_passed = job.progress.due.is_some_and(|due| due <= now);
    match &job.progress.state {
        JobState::Completed | JobState::Failed | JobState::Cancelled => ClaimDecision::Acknowledge(NoClaim::Ended),
        JobState::Pending => ClaimDecision::Claim(claim(job, session, nonce, false, now)),
        // Stored, but its answer was lost and the claimer gave up: nobody drives the job.
        JobState::Processing { lease } if lease.session == *session => {
            ClaimDecision::Claim(claim(job, session, nonce, true, now))
        }
        JobState::Processing { lease } => match holder {
            Holder::Unknown if !due_passed => ClaimDecision::LookUp(lease.session.clone()),
            Holder::Alive if !due_passed => ClaimDecision::Acknowledge(NoClaim::Held),
            Holder::Unknown | Holder::Alive | Holder::Dead => {
                ClaimDecision::Claim(claim(job, session, nonce, true, now))
            }
        },
        JobState::Waiting { until, seen } => match (until, news) {
            (Some(until), _) if *until <= now => ClaimDecision::Claim(claim(job, session, nonce, false, now)),
            (_, News::Unknown) => ClaimDecision::Peek(*seen),
            (_, News::Something) => ClaimDecision::Claim(claim(job, session, nonce, false, now)),
            (_, News::Nothing) => ClaimDecision::Acknowledge(NoClaim::NothingNew),
        },
        // The code may have been mended since; finding out executes nothing.
        JobState::Blocked { .. } => ClaimDecision::Claim(claim(job, session, nonce, false, now)),
    }
}

fn claim(job: &Job, session: &SessionId, nonce: Nonce, takeover: bool, now: Timestamp) -> Box<Claim> {
    let epoch = job.progress.epoch.next();
    let attempts = job.progress.attempts.saturating_add(1);
    let progress = Progress {
        state: JobState::Processing { lease: Lease { session: session.clone(), nonce } },
        epoch,
        attempts,
        due: Some(now.plus(Duration::from_millis(limits::LEASE_DUE_MS))),
        tail: job.progress.tail,
        totals: job.progress.totals,
        updated_at: now,
    };
    Box::new(Claim {
        write: JobWrite { nonce, last_write: job.last_write, wakes: None, progress },
        epoch,
        takeover,
        suspicious: attempts > limits::CLAIM_ATTEMPTS_MAX,
    })
}

/// What a claim says of the `others` that its process has in hand: how many, where they are many. A process that dies takes
/// all of them along, so that its death says little about any one of them ([`crate::append::next_move`]).
#[must_use]
pub const fn beside(others: u32) -> u32 {
    if others > limits::NEIGHBOURS_FEW_MAX { others } else { 0 }
}

/// Whether a job has to end without its journal being read: of the claims since the last write of the job item
/// (`attempts`), too many left no `claimed` entry (`claims_written`). Those that did are counted in the journal.
#[must_use]
pub const fn died_unread(attempts: u32, claims_written: u32) -> bool {
    attempts.saturating_sub(claims_written) > limits::CLAIM_ATTEMPTS_MAX
}

/// A job as its holder knows it: what the next write of the job item must find there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The mark of the holder's last write.
    pub last_write: Nonce,
    /// The wakes as seen at the claim, or at the last look.
    pub wakes: u64,
    /// The claim's epoch.
    pub epoch: Epoch,
    /// The holder's lease.
    pub lease: Lease,
}

impl Held {
    /// What a job is to its claimer once the claim's write has gone through and `wakes` stands in it.
    #[must_use]
    pub fn after_claim(claim: &Claim, session: &SessionId, wakes: u64) -> Self {
        Self {
            last_write: claim.write.nonce,
            wakes,
            epoch: claim.epoch,
            lease: Lease { session: session.clone(), nonce: claim.write.nonce },
        }
    }

    /// Takes over the mark that a refused write found in `found`, if this claim's lease still stands there: an earlier
    /// write of this holder went through although no answer said so. False: the job is not this holder's any more.
    ///
    /// It is the lease's mark that is compared, which is the claim's own: never worker and epoch.
    #[must_use]
    pub fn catch_up(&mut self, found: &Job) -> bool {
        match &found.progress.state {
            JobState::Processing { lease } if *lease == self.lease => {
                self.last_write = found.last_write;
                true
            }
            JobState::Processing { .. }
            | JobState::Pending
            | JobState::Waiting { .. }
            | JobState::Blocked { .. }
            | JobState::Completed
            | JobState::Failed
            | JobState::Cancelled => false,
        }
    }

    fn write(&self, nonce: Nonce, wakes: Option<u64>, state: JobState, due: Option<Timestamp>, at: &At) -> JobWrite {
        JobWrite {
            nonce,
            last_write: self.last_write,
            wakes,
            progress: Progress {
                state,
                epoch: self.epoch,
                // Whatever the holder writes shows that it lives and could read the journal.
                attempts: 0,
                due,
                tail: at.tail,
                totals: at.totals,
                updated_at: at.now,
            },
        }
    }

    /// Renews the due time of a job that is driven for long.
    #[must_use]
    pub fn renew(&self, nonce: Nonce, at: &At) -> JobWrite {
        let due = at.now.plus(Duration::from_millis(limits::LEASE_DUE_MS));
        self.write(nonce, None, JobState::Processing { lease: self.lease.clone() }, Some(due), at)
    }

    /// Gives the job back so that another invocation goes on at once.
    #[must_use]
    pub fn release(&self, nonce: Nonce, at: &At) -> JobWrite {
        let due = at.now.plus(Duration::from_millis(limits::CONTINUATION_DUE_MS));
        self.write(nonce, None, JobState::Pending, Some(due), at)
    }

    /// Gives the job back because it is another job's turn in its thread. Whoever hands the turn on calls it up.
    #[must_use]
    pub fn stand_in_line(&self, nonce: Nonce, at: &At) -> JobWrite {
        let due = at.now.plus(Duration::from_millis(limits::TURN_LOOK_INTERVAL_MS));
        self.write(nonce, None, JobState::Pending, Some(due), at)
    }

    /// Gives the job back to wait; refused when a signal has come since the last look (protocol rule 7).
    #[must_use]
    pub fn wait(&self, nonce: Nonce, until: Option<Timestamp>, at: &At) -> JobWrite {
        let due = wait::come_back(at.now, until).due;
        self.write(nonce, Some(self.wakes), JobState::Waiting { until, seen: at.tail }, Some(due), at)
    }

    /// Gives the job back because its journal does not match the code.
    #[must_use]
    pub fn block(&self, nonce: Nonce, mismatch: Mismatch, at: &At) -> JobWrite {
        let due = at.now.plus(Duration::from_millis(limits::BLOCKED_LOOK_INTERVAL_MS));
        self.write(nonce, None, JobState::Blocked { mismatch }, Some(due), at)
    }

    /// Brings the job item in line with the terminal entry; refused when a signal or a replay has come since the last
    /// look, since a replay opens the job again.
    #[must_use]
    pub fn finish(&self, nonce: Nonce, ending: &Ending, at: &At) -> JobWrite {
        let state = match ending {
            Ending::Completed { .. } => JobState::Completed,
            Ending::Failed { .. } => JobState::Failed,
            Ending::Cancelled { .. } => JobState::Cancelled,
        };
        self.write(nonce, Some(self.wakes), state, None, at)
    }
}

/// What the journal says at the moment of a write.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// The next free position.
    pub tail: Seq,
    /// What the job has used.
    pub totals: Totals,
    /// The time.
    pub now: Timestamp,
}

impl At {
    /// Taken from a journal.
    #[must_use]
    pub const fn of(journal: &Journal, now: Timestamp) -> Self {
        Self { tail: journal.next(), totals: *journal.totals(), now }
    }
}
