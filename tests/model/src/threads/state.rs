//! A state of a thread and its jobs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use longhaul_engine::entry::{Batch, Edit};
use longhaul_engine::journal::{Ending, FoldError};
use longhaul_engine::thread::OnBusy;
use longhaul_engine::{Entry, Epoch, ErrorClass, Failure, Journal, Nonce, Seq, StepKey, StepKind, Timestamp};
use serde_json::Value;

use super::Broken;

/// Jobs of the thread at most.
pub(super) const JOBS: usize = 3;
/// Worker invocations at one time at most.
pub(super) const SESSIONS: usize = 2;

/// A place in the line: the job, and how often it had been opened again.
pub(super) type Spot = (u8, u8);

/// What a job does when it has its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Does {
    /// One step, then it completes.
    Works,
    /// One step, then it fails; opened again, it completes.
    Fails,
    /// One step, then it waits for somebody who does not come: only a cancel ends it.
    Waits,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "as in Ending")]
pub enum End {
    Completed,
    Failed,
    Cancelled,
}

impl End {
    pub(super) fn of(ending: &Ending) -> Self {
        match ending {
            Ending::Completed { .. } => Self::Completed,
            Ending::Failed { .. } => Self::Failed,
            Ending::Cancelled { .. } => Self::Cancelled,
        }
    }

    pub(super) fn ending(self) -> Ending {
        match self {
            Self::Completed => Ending::Completed { output: Value::Null },
            Self::Failed => Ending::Failed { failure: Failure::new(ErrorClass::Terminal, "it failed") },
            Self::Cancelled => Ending::Cancelled { by: "ada".to_owned(), reason: None },
        }
    }
}

/// A journal entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the entry of its name")]
pub enum Mark {
    Claimed(u8),
    /// The outcome of its step, which it has another of each time that it is opened again.
    Outcome(u8),
    /// By whom: a job of the thread, or a person.
    Cancel(u8),
    Ended(End),
    Replayed,
}

/// A person's cancel, beside those of jobs.
pub(super) const PERSON: u8 = 9;

/// A job item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Not submitted.
    #[default]
    Absent,
    /// Called up, or standing in line.
    Pending,
    /// Driven by this session.
    Held(u8),
    /// Driven by a session that died, or counts as dead.
    Orphaned,
    /// Waits for somebody, having seen so many entries.
    Waiting(u8),
    /// Ended.
    Ended,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Job {
    /// Its item.
    pub mode: Mode,
    /// Claims so far.
    pub epoch: u8,
    /// Its journal.
    pub log: Vec<Mark>,
    /// Continuations in the queue.
    pub messages: u8,
}

impl Job {
    /// How often it was opened again.
    pub(super) fn replays(&self) -> u8 {
        narrow(self.log.iter().filter(|mark| **mark == Mark::Replayed).count())
    }

    /// Whether its journal says that it has ended.
    pub(super) fn ended(&self) -> bool {
        matches!(self.log.last(), Some(Mark::Ended(_)))
    }

    /// Whether its turn at this place is over.
    pub(super) fn is_over(&self, spot: Spot) -> bool {
        super::placed(spot).is_over(u32::from(self.replays()), self.ended())
    }

    /// Whether it has begun its turn and not ended it.
    pub(super) fn works(&self) -> bool {
        let now = Mark::Outcome(self.replays());
        !self.ended() && self.log.contains(&now)
    }
}

/// A submission on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Caller {
    /// Not sent.
    #[default]
    Idle,
    /// It has read the line.
    Joining {
        /// As it was.
        line: Vec<Spot>,
        /// Whether it is still so.
        cur: bool,
        /// The first job that had not ended, once that was looked for.
        busy: Option<Option<u8>>,
    },
    /// It stands, and its continuation is to be sent.
    Sending,
    /// It is answered, refused, or its api died.
    Over,
}

/// A person's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Asked {
    /// Not made.
    #[default]
    Not,
    /// Its entry stands.
    Written,
    /// It is answered, or its api died.
    Over,
}

/// For what a session asks whether it is its job's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum For {
    /// Before its first claim.
    Claim,
    /// Having read under its claim that the job was opened again.
    Go,
    /// Having let go of it.
    Standing,
}

/// What a session is about to call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named after the calls of drive, turn and thread, in their order")]
pub enum Pc {
    ReadJournalFirst,
    Line,
    Look(Spot),
    WriteLine(Vec<Spot>),
    Call { places: Vec<Spot>, handing_on: bool },
    Interrupt(u8),
    WakeInterrupted(u8),
    Claim,
    ReadJournal,
    AppendClaim,
    StandInLine,
    SendItself,
    Run,
    Wait,
    AppendEnd(End),
    HandLine,
    HandWrite(Vec<Spot>),
    Finish,
    FinishLook,
    Release,
    ReleaseSend,
}

/// What a session knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Session {
    /// Its job.
    pub job: u8,
    /// The next call.
    pub pc: Pc,
    /// For what the turn is asked.
    pub asks: For,
    /// Whether the item is as it was read or written last.
    pub cur: bool,
    /// Whether the wakes are as they were seen.
    pub wakes: bool,
    /// The claim's epoch.
    pub epoch: u8,
    /// Replays in the journal when it was read.
    pub looked_at: u8,
    /// Entries read.
    pub seen: u8,
    /// The line as read.
    pub line: Vec<Spot>,
    /// Whether it is still so.
    pub line_cur: bool,
    /// The end that is being settled.
    pub end: Option<End>,
    /// Whether it counts as dead.
    pub paused: bool,
}

/// How many of each fault may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bounds {
    /// Processes that die, of workers and of the api.
    pub crash: u8,
    /// Live sessions that count as dead.
    pub pause: u8,
    /// Messages lost.
    pub loss: u8,
    /// Messages doubled.
    pub double: u8,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The jobs.
    pub jobs: [Job; JOBS],
    /// The thread's line.
    pub line: Vec<Spot>,
    /// Worker invocations.
    pub sessions: [Option<Session>; SESSIONS],
    /// Submissions, one a job.
    pub callers: [Caller; JOBS],
    /// The replay, and the cancel.
    pub replay: Asked,
    /// A person's cancel.
    pub cancel: Asked,
    /// Jobs in the order in which their places were taken.
    pub joined: Vec<u8>,
    /// Faults that may still happen.
    pub left: Bounds,
    /// What was broken first.
    pub broken: Option<Broken>,
}

impl State {
    pub(super) fn job(&self, job: u8) -> &Job {
        &self.jobs[usize::from(job)]
    }

    pub(super) fn job_mut(&mut self, job: u8) -> &mut Job {
        &mut self.jobs[usize::from(job)]
    }

    pub(super) fn breaks(&mut self, broken: Broken) {
        self.broken = self.broken.or(Some(broken));
    }

    /// Writes a line: what others have read of it is old from then on.
    pub(super) fn put_line(&mut self, line: Vec<Spot>) {
        self.line = line;
        for session in self.sessions.iter_mut().flatten() {
            session.line_cur = false;
        }
        for caller in &mut self.callers {
            if let Caller::Joining { cur, .. } = caller {
                *cur = false;
            }
        }
    }

    /// Writes an item; `by` is the session that did.
    pub(super) fn put(&mut self, job: u8, mode: Mode, by: Option<usize>) {
        self.job_mut(job).mode = mode;
        for (slot, session) in self.sessions.iter_mut().enumerate() {
            if let Some(session) = session.as_mut().filter(|session| session.job == job) {
                session.cur = by == Some(slot);
            }
        }
    }

    /// Counts a job's wakes up.
    pub(super) fn wake(&mut self, job: u8) {
        for session in self.sessions.iter_mut().flatten().filter(|session| session.job == job) {
            session.wakes = false;
        }
        let mode = &mut self.job_mut(job).mode;
        if matches!(mode, Mode::Waiting(_)) {
            *mode = Mode::Pending;
        }
    }

    pub(super) fn send(&mut self, job: u8) {
        let job = self.job_mut(job);
        job.messages = job.messages.saturating_add(1);
    }

    /// Appends where nothing stands. What an outcome says about the thread is judged here.
    pub(super) fn append(&mut self, job: u8, seen: u8, mark: Mark) -> bool {
        if narrow(self.job(job).log.len()) != seen {
            return false;
        }
        if mark == Mark::Outcome(0) {
            let before = self.joined.iter().take_while(|other| **other != job);
            let early = before.filter(|other| !self.job(**other).is_over((**other, 0))).count() > 0;
            if early {
                self.breaks(Broken::OutOfOrder);
            }
        }
        if matches!(mark, Mark::Outcome(_)) && (0..narrow(JOBS)).any(|other| other != job && self.job(other).works()) {
            self.breaks(Broken::TwoAtOnce);
        }
        self.job_mut(job).log.push(mark);
        if read(&self.job(job).log).is_err() {
            self.breaks(Broken::Unreadable);
        }
        true
    }
}

pub(super) fn narrow(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

thread_local! {
    /// Journals read so far: they are few, and states are many.
    static READ: RefCell<HashMap<Vec<Mark>, Rc<Journal>>> = RefCell::default();
}

/// The journal, as the engine reads it.
pub(super) fn read(log: &[Mark]) -> Result<Rc<Journal>, FoldError> {
    READ.with_borrow_mut(|known| {
        if let Some(journal) = known.get(log) {
            return Ok(Rc::clone(journal));
        }
        let batches = (1..).zip(log).map(|(at, mark)| {
            Batch::new(
                Seq(at),
                Nonce::from_uuid(uuid::Uuid::from_u128(u128::from(at))),
                Timestamp::from_millis(1),
                vec![entry(*mark)],
            )
        });
        let journal = Rc::new(Journal::read(batches)?);
        known.insert(log.to_vec(), Rc::clone(&journal));
        Ok(journal)
    })
}

/// The same of a journal that was judged when it was written.
pub(super) fn journal(log: &[Mark]) -> Rc<Journal> {
    read(log).expect("it was read when it was written")
}

pub(super) fn entry(mark: Mark) -> Entry {
    match mark {
        Mark::Claimed(epoch) => Entry::Claimed {
            epoch: Epoch(u64::from(epoch)),
            session: "s".parse().expect("a session's name"),
            takeover: false,
            beside: 0,
        },
        Mark::Outcome(number) => Entry::StepCompleted {
            id: longhaul_engine::entry::StepId {
                key: StepKey::at("", u64::from(number)),
                name: "step".to_owned(),
                kind: StepKind::Step,
                branch: None,
            },
            attempt: 1,
            started_at: Timestamp::from_millis(1),
            output: Value::Null,
            usage: longhaul_engine::job::Usage::default(),
            look: false,
        },
        Mark::Cancel(by) => Entry::CancelRequested {
            key: format!("by-{by}").parse().expect("a key"),
            by: "ada".to_owned(),
            reason: None,
        },
        Mark::Ended(end) => end.ending().into_entry(),
        Mark::Replayed => Entry::Replayed {
            key: "again".parse().expect("a key"),
            by: "ada".to_owned(),
            from: None,
            edit: Edit::default(),
        },
    }
}

/// What a job of the thread is, as its submission says.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    /// What it does at its turn.
    pub does: Does,
    /// What it asks for where others have not ended.
    pub on_busy: OnBusy,
}
