//! Journals, each kept once: an entry in a byte or four, its fold by the engine, and what is wrong with it.
//!
//! A journal only grows, so the journals of all states form a tree: a node is its parent and one entry more. A worker's
//! view of a journal is a prefix, hence a length. The fold is the production one, made once a node, which is what makes
//! millions of states a minute possible.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{PoisonError, RwLock};

use longhaul_engine::entry::Batch;
use longhaul_engine::ids::{SignalKey, SignalName};
use longhaul_engine::journal::{Ending, FoldError};
use longhaul_engine::retry::{AfterFailure, RetryPolicy, after_failure};
use longhaul_engine::{
    Entry, ErrorClass, Failure, JobId, Journal, Nonce, Seq, StepKey, Timestamp, append, claim, limits,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::broken::Broken;
use crate::script::{Op, Script};

/// How a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// With a result.
    Completed,
    /// With a failure.
    Failed(Why),
    /// On request.
    Cancelled,
}

/// Why a job failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// A step of its agent failed for good.
    Agent,
    /// Its workers died, as the journal counts.
    Lost,
    /// Its workers died before they could append anything, as the job item counts.
    Unread,
}

impl End {
    /// What the engine's ending comes to here.
    #[must_use]
    pub fn of(ending: &Ending) -> Self {
        match ending {
            Ending::Completed { .. } => Self::Completed,
            Ending::Failed { failure } if failure.class == ErrorClass::WorkerLost => Self::Failed(Why::Lost),
            Ending::Failed { .. } => Self::Failed(Why::Agent),
            Ending::Cancelled { .. } => Self::Cancelled,
        }
    }

    /// The engine's ending for this one.
    #[must_use]
    pub fn ending(self) -> Ending {
        match self {
            Self::Completed => Ending::Completed { output: Value::Null },
            Self::Failed(Why::Agent) => {
                Ending::Failed { failure: Failure::new(ErrorClass::Terminal, "the step failed") }
            }
            Self::Failed(Why::Lost | Why::Unread) => {
                Ending::Failed { failure: append::worker_lost(limits::CRASHES_MAX) }
            }
            Self::Cancelled => Ending::Cancelled { by: "ada".to_owned(), reason: None },
        }
    }
}

/// A journal entry in few bytes. One batch holds one entry here: the engine treats a batch as its entries in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the entry of its name; fields as there")]
pub enum Mark {
    Claimed {
        epoch: u8,
        takeover: bool,
        /// Beside many other jobs of its process.
        shared: bool,
    },
    Started {
        op: u8,
    },
    Done {
        op: u8,
        attempt: u8,
    },
    AttemptFailed {
        op: u8,
        attempt: u8,
        tick: u8,
    },
    StepFailed {
        op: u8,
        attempt: u8,
        interrupted: bool,
    },
    Waiting {
        op: u8,
        tick: u8,
    },
    /// A wait ended by the signal at this position, or by its time.
    WaitEnded {
        op: u8,
        by: Option<u8>,
    },
    Signalled {
        key: u8,
    },
    ChildEnded {
        replays: u8,
        end: End,
    },
    CancelRequested {
        key: u8,
    },
    Ended(End),
    Replayed {
        key: u8,
        from: Option<u8>,
        edited: bool,
    },
}

impl Mark {
    /// All kinds of entries.
    pub const KINDS: [&'static str; 16] = [
        "claimed",
        "step_started",
        "step_completed",
        "attempt_failed",
        "step_failed",
        "interrupted",
        "waiting",
        "wait_ended by a signal",
        "wait_ended by time",
        "signalled",
        "child ended",
        "cancel_requested",
        "completed",
        "failed",
        "cancelled",
        "replayed",
    ];

    /// Which of them it is.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Claimed { .. } => "claimed",
            Self::Started { .. } => "step_started",
            Self::Done { .. } => "step_completed",
            Self::AttemptFailed { .. } => "attempt_failed",
            Self::StepFailed { interrupted: true, .. } => "interrupted",
            Self::StepFailed { interrupted: false, .. } => "step_failed",
            Self::Waiting { .. } => "waiting",
            Self::WaitEnded { by: Some(_), .. } => "wait_ended by a signal",
            Self::WaitEnded { by: None, .. } => "wait_ended by time",
            Self::Signalled { .. } => "signalled",
            Self::ChildEnded { .. } => "child ended",
            Self::CancelRequested { .. } => "cancel_requested",
            Self::Ended(End::Completed) => "completed",
            Self::Ended(End::Failed(_)) => "failed",
            Self::Ended(End::Cancelled) => "cancelled",
            Self::Replayed { .. } => "replayed",
        }
    }
}

/// The key of the cancel that a job's end sends to its children, the job's replays to be added.
pub const PARENT_ENDED: u8 = 100;
/// The key of the replay of a child that a replayed parent sends, the job's replays to be added.
pub const PARENT_REPLAYED: u8 = 200;

/// The time at a tick. A tick is an hour: longer than every distance of the protocol, so that between two ticks
/// everything that was due comes due.
#[must_use]
pub const fn at(tick: u8) -> Timestamp {
    Timestamp::from_millis(1_000_000_000 + 3_600_000 * tick as u64)
}

/// How long a wait with a timeout lasts.
pub const TIMEOUT_MS: u64 = 30 * 60_000;

/// The id of job number `job`.
#[must_use]
pub fn job_id(job: u8) -> JobId {
    JobId::from_uuid(Uuid::from_u128(u128::from(job) + 1))
}

/// The mark of a write that a compare is to find equal (the same number) or not.
#[must_use]
pub const fn nonce(number: u8) -> Nonce {
    Nonce::from_uuid(Uuid::from_u128(number as u128))
}

struct Node {
    id: u32,
    job: u8,
    marks: Vec<Mark>,
    /// The nodes of all shorter prefixes, the root first.
    prefixes: Vec<Log>,
    fold: Journal,
    broken: Option<Broken>,
}

/// A journal.
#[derive(Clone, Copy)]
pub struct Log(&'static Node);

impl PartialEq for Log {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for Log {}

impl Hash for Log {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0.marks).finish()
    }
}

impl Log {
    /// How many entries it has.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "journals here have some twenty entries")]
    pub fn len(self) -> u8 {
        self.0.marks.len() as u8
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.marks.is_empty()
    }

    /// Its first entries.
    #[must_use]
    pub fn prefix(self, length: u8) -> Self {
        self.0.prefixes.get(usize::from(length)).copied().unwrap_or(self)
    }

    /// The entry behind the first `seen`.
    #[must_use]
    pub fn behind(self, seen: u8) -> Option<Mark> {
        self.0.marks.get(usize::from(seen)).copied()
    }

    /// All entries.
    #[must_use]
    pub fn marks(self) -> &'static [Mark] {
        &self.0.marks
    }

    /// What the engine reads out of it.
    #[must_use]
    pub fn fold(self) -> &'static Journal {
        &self.0.fold
    }

    /// What its last entry broke.
    #[must_use]
    pub fn broken(self) -> Option<Broken> {
        self.0.broken
    }

    /// The batch of the entry behind the first `seen`, under a mark of its own or that of the reader's write.
    #[must_use]
    pub fn batch(self, seen: u8, own: Nonce, is_own: bool, script: Script) -> Option<Batch> {
        let mark = self.behind(seen)?;
        Some(batch(self.0.job, seen, if is_own { own } else { nonce(99) }, mark, script))
    }
}

/// All journals that were met.
pub struct Ledger {
    script: [Script; 2],
    nodes: RwLock<HashMap<(u32, Mark), Log>>,
    roots: [Log; 2],
}

impl Ledger {
    /// A ledger of jobs that run these scripts.
    #[must_use]
    pub fn new(script: [Script; 2]) -> Self {
        // Leaked: a check needs its journals to its end, and a process makes few checks.
        let root = |id: u32, job: u8| {
            let node =
                Node { id, job, marks: Vec::new(), prefixes: Vec::new(), fold: Journal::default(), broken: None };
            Log(Box::leak(Box::new(node)))
        };
        Self { script, nodes: RwLock::default(), roots: [root(0, 0), root(1, 1)] }
    }

    /// The empty journal of a job.
    #[must_use]
    pub fn empty(&self, job: u8) -> Log {
        self.roots[usize::from(job)]
    }

    /// The script of a job.
    #[must_use]
    pub fn script(&self, job: u8) -> Script {
        self.script[usize::from(job)]
    }

    /// The kinds of entries that were written in some journal.
    #[must_use]
    pub fn kinds(&self) -> BTreeSet<&'static str> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).keys().map(|(_, mark)| mark.kind()).collect()
    }

    /// A journal with one entry more.
    #[must_use]
    pub fn grown(&self, log: Log, mark: Mark) -> Log {
        let key = (log.0.id, mark);
        if let Some(known) = self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return *known;
        }
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        let id = u32::try_from(nodes.len() + 2).expect("fewer than four thousand million journals");
        *nodes.entry(key).or_insert_with(|| Log(Box::leak(Box::new(self.node(id, log, mark)))))
    }

    fn node(&self, id: u32, log: Log, mark: Mark) -> Node {
        let mut fold = log.fold().clone();
        let batch = batch(log.0.job, log.len(), nonce(99), mark, self.script(log.0.job));
        let folded = fold.take_in(batch);
        let broken = flaw(log, mark, folded.err().as_ref());
        let marks = log.0.marks.iter().copied().chain([mark]).collect();
        let prefixes = log.0.prefixes.iter().copied().chain([log]).collect();
        Node { id, job: log.0.job, marks, prefixes, fold, broken }
    }
}

/// What `mark` behind `log` breaks.
fn flaw(log: Log, mark: Mark, error: Option<&FoldError>) -> Option<Broken> {
    let fold = log.fold();
    let stands = |wanted: Mark| log.marks().contains(&wanted);
    let request_twice = match mark {
        Mark::Replayed { key, .. } => {
            log.marks().iter().any(|mark| matches!(mark, Mark::Replayed { key: other, .. } if *other == key))
        }
        Mark::Signalled { .. } | Mark::CancelRequested { .. } => stands(mark),
        Mark::ChildEnded { replays, .. } => {
            log.marks().iter().any(|mark| matches!(mark, Mark::ChildEnded { replays: other, .. } if *other == replays))
        }
        _ => false,
    };
    if request_twice {
        return Some(Broken::RequestTwice);
    }
    match (error, mark) {
        (Some(FoldError::SecondOutcome { .. }), _) => Some(Broken::SecondOutcome),
        (Some(FoldError::AfterEnd { .. }), Mark::Signalled { .. } | Mark::CancelRequested { .. }) => {
            Some(Broken::SeenByNobody)
        }
        (Some(FoldError::AfterEnd { .. }), _) => Some(Broken::BehindTheEnd),
        (Some(FoldError::Newer { .. } | FoldError::Gap { .. } | FoldError::TooLong { .. }), _) => {
            Some(Broken::Unreadable)
        }
        (None, Mark::Claimed { epoch, .. }) => {
            let grown = fold.last_claim().is_none_or(|last| last.epoch.0 < u64::from(epoch));
            (!grown).then_some(Broken::EpochNotGrown)
        }
        // A journal that is too much to read is not looked through for a cancel.
        (None, Mark::Ended(End::Failed(Why::Unread))) => None,
        (None, Mark::Ended(End::Completed | End::Failed(_))) if fold.cancel().is_some() => {
            Some(Broken::CancelPassedOver)
        }
        (None, Mark::Ended(End::Failed(Why::Lost))) if is_behind_progress(log) => Some(Broken::CrashMiscounted),
        (None, _) => None,
    }
}

/// Whether the last claim was followed by an outcome or a wait.
fn is_behind_progress(log: Log) -> bool {
    let since_claim = log.marks().iter().rev().take_while(|mark| !matches!(mark, Mark::Claimed { .. }));
    since_claim.into_iter().any(|mark| match mark {
        Mark::Done { .. }
        | Mark::AttemptFailed { .. }
        | Mark::StepFailed { .. }
        | Mark::Waiting { .. }
        | Mark::WaitEnded { .. } => true,
        Mark::Claimed { .. }
        | Mark::Started { .. }
        | Mark::Signalled { .. }
        | Mark::ChildEnded { .. }
        | Mark::CancelRequested { .. }
        | Mark::Ended(_)
        | Mark::Replayed { .. } => false,
    })
}

fn batch(job: u8, seen: u8, own: Nonce, mark: Mark, script: Script) -> Batch {
    Batch::new(Seq(u64::from(seen) + 1), own, at(0), vec![entry(job, mark, script)])
}

/// When the attempt after a failed one may begin, as the engine decides.
#[must_use]
pub fn retry_at(job: u8, op: u8, attempt: u8, tick: u8) -> Option<Timestamp> {
    let step = StepKey::at("", u64::from(op));
    let policy = RetryPolicy::default();
    match after_failure(&policy, job_id(job), &step, u32::from(attempt), ErrorClass::Transient, None, at(tick)) {
        AfterFailure::Retry { at } => Some(at),
        AfterFailure::GiveUp => None,
    }
}

/// The entry as the protocol writes it. By way of its wire form, in which what an entry may leave out may be left out.
fn entry(job: u8, mark: Mark, script: Script) -> Entry {
    let step = |op: u8, kind: &str, more: Value| {
        let mut entry = json!({
            "type": kind, "step": op.to_string(), "name": script.name(op), "kind": script.kind(op).as_str(),
        });
        if let (Some(fields), Value::Object(more)) = (entry.as_object_mut(), more) {
            fields.extend(more);
        }
        entry
    };
    let failure = |class: &str| json!({"class": class, "message": "it failed"});
    let child = job_id(1);
    let wire = match mark {
        Mark::Claimed { epoch, takeover, shared } => {
            let beside = claim::beside(if shared { u32::MAX } else { 0 });
            json!({"type": "claimed", "epoch": epoch, "session": "s", "takeover": takeover, "beside": beside})
        }
        Mark::Started { op } => step(op, "step_started", json!({})),
        Mark::Done { op, attempt } => {
            step(op, "step_completed", json!({"attempt": attempt, "started_at": 0, "output": null}))
        }
        Mark::AttemptFailed { op, attempt, tick } => {
            let retry_at = retry_at(job, op, attempt, tick).map(Timestamp::as_millis);
            let more = json!({
                "attempt": attempt, "started_at": 0, "failure": failure("transient"), "retry_at": retry_at,
            });
            step(op, "attempt_failed", more)
        }
        Mark::StepFailed { op, attempt, interrupted } => {
            let class = if interrupted { "interrupted" } else { "invalid" };
            step(op, "step_failed", json!({"attempt": attempt, "started_at": 0, "failure": failure(class)}))
        }
        Mark::Waiting { op, tick } => step(op, "waiting", awaited(script, op, tick)),
        Mark::WaitEnded { op, by: None } => step(op, "wait_ended", json!({"end": {"by": "time"}})),
        Mark::WaitEnded { op, by: Some(seq) } => {
            step(op, "wait_ended", json!({"end": {"by": "signal", "signal_seq": seq}}))
        }
        Mark::Signalled { key } => {
            json!({"type": "signalled", "signal": "approval", "key": format!("k{key}"), "payload": null, "by": "ada"})
        }
        Mark::ChildEnded { replays, end } => {
            let payload = match end {
                End::Completed => json!({"status": "COMPLETED", "output": null}),
                End::Failed(_) => json!({"status": "FAILED", "failure": failure("terminal")}),
                End::Cancelled => json!({"status": "CANCELLED"}),
            };
            let (signal, key) = (SignalName::of_child_end(child), SignalKey::of_child_end(child, replays.into()));
            json!({
                "type": "signalled", "signal": signal, "key": key, "payload": payload,
                "by": format!("job:{child}"),
            })
        }
        Mark::CancelRequested { key } => {
            json!({"type": "cancel_requested", "key": format!("k{key}"), "by": "ada"})
        }
        Mark::Ended(end) => return end.ending().into_entry(),
        Mark::Replayed { key, from, edited } => {
            let edit = if edited { json!({"input": "changed"}) } else { json!({}) };
            json!({"type": "replayed", "key": format!("k{key}"), "by": "ada", "from": from, "edit": edit})
        }
    };
    serde_json::from_value(wire).expect("an entry in its wire form")
}

/// What a wait is for, and until when.
fn awaited(script: Script, op: u8, tick: u8) -> Value {
    let timeout = at(tick).as_millis() + TIMEOUT_MS;
    match script.op(op) {
        Some(Op::Child) => json!({"on": {"for": "child", "child": job_id(1)}, "until": null}),
        Some(Op::Sleep) => json!({"on": {"for": "time"}, "until": timeout}),
        Some(Op::Wait { timeout: true }) => json!({"on": {"for": "signal", "signal": "approval"}, "until": timeout}),
        Some(Op::Wait { timeout: false } | Op::Step { .. }) | None => {
            json!({"on": {"for": "signal", "signal": "approval"}, "until": null})
        }
    }
}
