//! A state of the whole system, in some hundred bytes.
//!
//! Marks (nonces) and the wakes count are not stored: what a compare will find is, as a bit with whoever will compare.
//! The bit is cleared when somebody else writes, and a write that cleared it can never be undone, so the bits say all
//! that numbers would, and states that differ only in numbers are one.

use longhaul_engine::Timestamp;

use crate::broken::Broken;
use crate::ledger::{End, Ledger, Log, Mark};

/// Worker invocations at one time.
pub const SLOTS: usize = 3;
/// Requests from outside.
pub const ASKS: usize = 3;

/// Where a job item stands. Mirrors `JobState` in few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Not submitted.
    #[default]
    Absent,
    /// Called up.
    Pending,
    /// Driven by this session.
    Processing(u8),
    /// Waits.
    Waiting {
        /// Milliseconds of a timestamp.
        until: Option<u32>,
        /// Entries that the waiting worker had seen.
        seen: u8,
    },
    /// Ended.
    Ended(Status),
}

/// How the item says that a job has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "as in JobState")]
pub enum Status {
    Completed,
    Failed,
    Cancelled,
}

/// When a job item is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Due {
    /// It stands in no index.
    #[default]
    Never,
    /// Later.
    Later,
    /// By now.
    Now,
}

/// The job item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Item {
    /// Where it stands.
    pub mode: Mode,
    /// Claims so far.
    pub epoch: u8,
    /// Claims since the holder's last write.
    pub attempts: u8,
    /// When somebody looks.
    pub due: Due,
    /// Entries as last known.
    pub tail: u8,
}

/// A job with its continuations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobState {
    /// Its journal.
    pub log: Log,
    /// Its item.
    pub item: Item,
    /// Continuations in the queue.
    pub messages: u8,
    /// How often the effect of each operation ran.
    pub runs: [u8; 3],
}

/// What a session, or a request from outside, is about to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named after the calls that the drive loop makes, in its order")]
pub enum Pc {
    ReadItem,
    LookUp(u8),
    Peek(u8),
    Claim,
    Walk { at: u8 },
    GiveUp { at: u8 },
    ReadJournal,
    AppendClaim,
    Run { op: u8, attempt: u8 },
    Append(Mark),
    End(End),
    TellParent(End),
    TellChild(End),
    Finish(End),
    FinishLook(End),
    FinishUnread { tail: u8 },
    FinishUnreadLook { tail: u8 },
    Release,
    Send,
    Wait { until: Option<u32> },
    WaitLook,
    SendDelayed,
    SubmitChild,
    SendChild,
    Rejoin,
    GiveBack,
}

/// What a request from outside asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    /// A signal or a cancel: this entry.
    Entry(Mark),
    /// A replay: this entry.
    Replay(Mark),
}

/// What a request from outside is about to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named after the calls of longhaul::outside, in its order")]
pub enum Opc {
    ReadItem,
    ReadJournal,
    Append,
    Wake,
    Look,
    LookBack,
    Reopen,
    Send,
}

/// A request from outside on its way, see `longhaul::outside`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outside {
    /// The job that it is for.
    pub job: u8,
    /// What it asks.
    pub ask: Ask,
    /// The next call.
    pub pc: Opc,
    /// Entries read.
    pub seen: u8,
    /// Whether the item stood as ended when it was read.
    pub ended: bool,
    /// Whether the item's mark is still the one read (reopening).
    pub cur: bool,
    /// Whether its append has landed already and is about to be repeated.
    pub landed: bool,
    /// The journal's length when it was read again (reopening).
    pub tail: u8,
}

impl Outside {
    /// A request about to begin. That the job exists is read with the journal where nothing else is asked of the item.
    #[must_use]
    pub const fn begin(job: u8, ask: Ask) -> Self {
        let pc = match ask {
            Ask::Entry(_) => Opc::ReadJournal,
            Ask::Replay(_) => Opc::ReadItem,
        };
        Self { job, ask, pc, seen: 0, ended: false, cur: false, landed: false, tail: 0 }
    }
}

/// A caller's request: what became of it so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Request {
    /// On its way.
    pub going: Option<Outside>,
    /// How often the caller has sent it.
    pub tries: u8,
    /// Whether it was acknowledged.
    pub acknowledged: bool,
}

/// What a session knows and does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Local {
    /// The job in hand.
    pub job: u8,
    /// The next call.
    pub pc: Pc,
    /// The item as read, until the claim.
    pub copy: Item,
    /// What a look at the lease's session said.
    pub dead: Option<bool>,
    /// What a look for news said.
    pub news: Option<bool>,
    /// Whether the claim takes over from a session that died.
    pub takeover: bool,
    /// The claim's epoch; 0 before.
    pub epoch: u8,
    /// Entries read.
    pub seen: u8,
    /// Whether the item's mark is still my last write's (before the claim: still the one read).
    pub cur: bool,
    /// Whether the item's lease is mine.
    pub lease: bool,
    /// Whether the item's wakes are still those that I saw.
    pub wakes: bool,
    /// Whether the write has landed already and is about to be repeated.
    pub landed: bool,
    /// Whether the child was submitted by this session.
    pub submitted: bool,
    /// Whether an effect was run under a newer claim.
    pub fenced_run: bool,
    /// A request to another job on its way.
    pub outside: Option<Outside>,
}

impl Local {
    /// A session that has received a continuation.
    #[must_use]
    pub fn begin(job: u8) -> Self {
        Self {
            job,
            pc: Pc::ReadItem,
            copy: Item::default(),
            dead: None,
            news: None,
            takeover: false,
            epoch: 0,
            seen: 0,
            cur: false,
            lease: false,
            wakes: false,
            landed: false,
            submitted: false,
            fenced_run: false,
            outside: None,
        }
    }
}

/// What became of an invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Phase {
    /// There is none.
    #[default]
    Free,
    /// It runs.
    Active(Local),
    /// Its handling failed: its item stays and is not refreshed any more.
    Failed,
    /// Its process died.
    Crashed,
    /// It ended in order and removed its item.
    Ended,
}

/// A worker invocation: one session that received one continuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Slot {
    /// What became of it.
    pub phase: Phase,
    /// Whether its item is older than the silence that counts as death.
    pub silent: bool,
    /// The job of its watchdog message, while one is on its way.
    pub watchdog: Option<u8>,
}

/// A write whose caller has given up, on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Late {
    /// An append.
    Append {
        /// To this job.
        job: u8,
        /// Behind so many entries.
        seen: u8,
        /// The entry.
        mark: Mark,
        /// The epoch of its driver, if it is one.
        epoch: Option<u8>,
    },
    /// A write of the item, which requires its mark.
    Item {
        /// Of this job.
        job: u8,
        /// What it writes.
        item: Item,
        /// Whether it requires the wakes as seen, too.
        wakes: bool,
    },
}

/// How many of each fault may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Processes that die.
    pub crash: u8,
    /// Store calls without an answer, landed or not.
    pub fail: u8,
    /// Writes that the SDK repeats.
    pub repeat: u8,
    /// Writes that land after their caller gave up.
    pub late: u8,
    /// Live sessions that fall silent, or whose lease's due time passes.
    pub pause: u8,
    /// Messages lost.
    pub loss: u8,
    /// Messages doubled.
    pub double: u8,
    /// Looks of the sweeper at a time when something else would have done.
    pub early: u8,
    /// Invocations that come to their deadline.
    pub deadline: u8,
    /// Requests that callers send again.
    pub again: u8,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The jobs: a job and its child.
    pub jobs: [JobState; 2],
    /// Worker invocations.
    pub slots: [Slot; SLOTS],
    /// Requests from callers.
    pub requests: [Request; ASKS],
    /// A write on its way.
    pub late: Option<Late>,
    /// The time.
    pub tick: u8,
    /// Faults that may still happen.
    pub left: Budget,
    /// What was broken.
    pub broken: Option<Broken>,
}

/// Who wrote an item: all others' compares fail from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A session.
    Slot(usize),
    /// A caller's request.
    Request(usize),
    /// A session's request to its job's relative.
    Relative(usize),
    /// A write that landed late.
    Nobody,
}

impl State {
    /// The job's journal and item.
    #[must_use]
    pub fn job(&self, job: u8) -> &JobState {
        &self.jobs[usize::from(job)]
    }

    /// The same, to be changed.
    pub fn job_mut(&mut self, job: u8) -> &mut JobState {
        &mut self.jobs[usize::from(job)]
    }

    /// What a session does, if it runs.
    #[must_use]
    pub fn local(&self, slot: usize) -> Option<&Local> {
        match &self.slots[slot].phase {
            Phase::Active(local) => Some(local),
            Phase::Free | Phase::Failed | Phase::Crashed | Phase::Ended => None,
        }
    }

    /// Notes what was broken first.
    pub fn breaks(&mut self, broken: Option<Broken>) {
        self.broken = self.broken.or(broken);
    }

    /// Calls `change` for each session that has this job in hand.
    fn each_local(&mut self, job: u8, mut change: impl FnMut(usize, &mut Local)) {
        for (slot, it) in self.slots.iter_mut().enumerate() {
            if let Phase::Active(local) = &mut it.phase
                && local.job == job
            {
                change(slot, local);
            }
        }
    }

    /// Appends where nothing stands; false when something does. The condition of the store's put.
    pub fn append(&mut self, ledger: &Ledger, job: u8, seen: u8, mark: Mark, epoch: Option<u8>) -> bool {
        let log = self.job(job).log;
        if log.len() != seen {
            return false;
        }
        let newest = log.fold().last_claim().map_or(0, |claim| claim.epoch.0);
        if epoch.is_some_and(|epoch| u64::from(epoch) < newest) {
            self.breaks(Some(Broken::OldEpochEntered));
        }
        let grown = ledger.grown(log, mark);
        self.breaks(grown.broken());
        self.job_mut(job).log = grown;
        true
    }

    /// Writes an item.
    pub fn put(&mut self, job: u8, item: Item, writer: Writer) {
        self.job_mut(job).item = item;
        self.each_local(job, |slot, local| {
            local.cur = writer == Writer::Slot(slot);
            // Also when a write of its own landed late: the lease is that of its claim.
            local.lease = local.epoch == item.epoch && item.mode == Mode::Processing(narrow(slot));
        });
        for (slot, it) in self.slots.iter_mut().enumerate() {
            if let Phase::Active(Local { outside: Some(out), .. }) = &mut it.phase
                && out.job == job
            {
                out.cur = writer == Writer::Relative(slot);
            }
        }
        for (index, request) in self.requests.iter_mut().enumerate() {
            if let Some(going) = &mut request.going
                && going.job == job
            {
                going.cur = writer == Writer::Request(index);
            }
        }
        if matches!(self.late, Some(Late::Item { job: other, .. }) if other == job) {
            self.late = None;
        }
    }

    /// Counts the wakes up.
    pub fn wake(&mut self, job: u8) {
        self.each_local(job, |_, local| local.wakes = false);
        if matches!(self.late, Some(Late::Item { job: other, wakes: true, .. }) if other == job) {
            self.late = None;
        }
        let item = &mut self.job_mut(job).item;
        if matches!(item.mode, Mode::Waiting { .. }) {
            item.mode = Mode::Pending;
            item.due = Due::Now;
        }
    }

    /// Puts a continuation into the queue.
    pub fn send(&mut self, job: u8) {
        let job = self.job_mut(job);
        job.messages = job.messages.saturating_add(1);
    }

    /// Frees what nobody can tell apart from nothing any more.
    pub fn tidy(&mut self) {
        if let Some(Late::Append { job, seen, .. }) = self.late
            && self.job(job).log.len() > seen
        {
            self.late = None;
        }
        let named = |slot: usize| {
            let is = |mode: Mode| mode == Mode::Processing(narrow(slot));
            self.jobs.iter().any(|job| is(job.item.mode))
                || matches!(self.late, Some(Late::Item { item, .. }) if is(item.mode))
                || self.slots.iter().any(|it| match &it.phase {
                    Phase::Active(local) => is(local.copy.mode) || is_looked_up(local, slot),
                    Phase::Free | Phase::Failed | Phase::Crashed | Phase::Ended => false,
                })
        };
        let free: Vec<usize> = (0..SLOTS)
            .filter(|slot| match self.slots[*slot].phase {
                Phase::Ended => !named(*slot),
                Phase::Failed | Phase::Crashed => self.slots[*slot].watchdog.is_none() && !named(*slot),
                Phase::Free | Phase::Active(_) => false,
            })
            .collect();
        for slot in free {
            self.slots[slot] = Slot::default();
        }
    }

    /// The lowest free place for an invocation.
    #[must_use]
    pub fn free_slot(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.phase == Phase::Free)
    }
}

fn is_looked_up(local: &Local, slot: usize) -> bool {
    matches!(local.pc, Pc::LookUp(other) if usize::from(other) == slot)
}

fn narrow(slot: usize) -> u8 {
    u8::try_from(slot).unwrap_or(u8::MAX)
}

/// The timestamp of a wait's end in few bytes, and back.
#[must_use]
pub fn short(until: Timestamp) -> u32 {
    u32::try_from(until.as_millis()).unwrap_or(u32::MAX)
}

/// See [`short`].
#[must_use]
pub fn long(until: u32) -> Timestamp {
    Timestamp::from_millis(u64::from(until))
}
