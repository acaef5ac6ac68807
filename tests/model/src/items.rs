//! Between the engine's job item and the model's: what a decision is asked about, and what its write comes to.

use std::cell::RefCell;

use longhaul_engine::claim::{At, Held};
use longhaul_engine::ids::SessionId;
use longhaul_engine::job::{JobWrite, Order, Totals};
use longhaul_engine::{Epoch, Job, JobState as EngineState, Lease, Nonce, Seq, Timestamp};
use serde_json::json;

use crate::ledger::{at, job_id, nonce};
use crate::state::{Due, Item, Local, Mode, Status, long, short};

/// The mark that stands in an item, whatever it is; a holder whose mark it is holds this one.
pub(crate) const STANDS: Nonce = nonce(1);
/// Any other.
pub(crate) const OTHER: Nonce = nonce(2);
/// The mark of the write that is being made.
pub(crate) const MINE: Nonce = nonce(3);
/// The wakes that stand in an item.
const WAKES: u64 = 1;

/// The id of the session in a slot.
pub(crate) fn session(slot: usize) -> SessionId {
    format!("s{slot}").parse().expect("a short id")
}

fn slot_of(session: &SessionId) -> u8 {
    session.as_str().trim_start_matches('s').parse().expect("the id of a slot")
}

thread_local! {
    /// A job to ask about: making its order anew each time would take most of the check's time.
    static ASKED: RefCell<Job> = RefCell::new(Job::accepted(order(), STANDS));
}

fn order() -> Order {
    let order = json!({
        "tenant": "acme", "id": job_id(0), "agent": {"name": "model", "version": 1}, "input": null,
        "submitted_at": 0, "submitted_by": "ada",
    });
    serde_json::from_value(order).expect("an order in its wire form")
}

/// Asks about a job whose item is this.
pub(crate) fn asked<T>(item: &Item, tick: u8, ask: impl FnOnce(&Job) -> T) -> T {
    ASKED.with_borrow_mut(|job| {
        let progress = &mut job.progress;
        progress.state = match item.mode {
            Mode::Absent | Mode::Pending => EngineState::Pending,
            Mode::Processing(slot) => {
                EngineState::Processing { lease: Lease { session: session(usize::from(slot)), nonce: STANDS } }
            }
            Mode::Waiting { until, seen } => {
                EngineState::Waiting { until: until.map(long), seen: Seq(u64::from(seen) + 1) }
            }
            Mode::Ended(Status::Completed) => EngineState::Completed,
            Mode::Ended(Status::Failed) => EngineState::Failed,
            Mode::Ended(Status::Cancelled) => EngineState::Cancelled,
        };
        progress.epoch = Epoch(u64::from(item.epoch));
        progress.attempts = u32::from(item.attempts);
        let now = at(tick);
        progress.due = match item.due {
            Due::Never => None,
            Due::Now => Some(now),
            Due::Later => Some(at(tick + 1)),
        };
        progress.tail = Seq(u64::from(item.tail) + 1);
        ask(job)
    })
}

/// What an engine's write puts into the item.
pub(crate) fn written(write: &JobWrite, tick: u8) -> Item {
    let progress = &write.progress;
    let mode = match &progress.state {
        EngineState::Pending | EngineState::Blocked { .. } => Mode::Pending,
        EngineState::Processing { lease } => Mode::Processing(slot_of(&lease.session)),
        EngineState::Waiting { until, seen } => {
            Mode::Waiting { until: until.map(short), seen: narrow(seen.0.saturating_sub(1)) }
        }
        EngineState::Completed => Mode::Ended(Status::Completed),
        EngineState::Failed => Mode::Ended(Status::Failed),
        EngineState::Cancelled => Mode::Ended(Status::Cancelled),
    };
    let due = match progress.due {
        None => Due::Never,
        Some(due) if due <= at(tick) => Due::Now,
        Some(_) => Due::Later,
    };
    Item {
        mode,
        epoch: narrow(progress.epoch.0),
        attempts: narrow(u64::from(progress.attempts)),
        due,
        tail: narrow(progress.tail.0.saturating_sub(1)),
    }
}

fn narrow(number: u64) -> u8 {
    u8::try_from(number).expect("numbers here stay small")
}

/// Whether the item's condition holds for a write: what the store checks.
pub(crate) fn is_accepted(write: &JobWrite) -> bool {
    write.last_write == STANDS && write.wakes.is_none_or(|wakes| wakes == WAKES)
}

/// The job as its holder knows it.
pub(crate) fn held(local: &Local, slot: usize) -> Held {
    Held {
        last_write: if local.cur { STANDS } else { OTHER },
        wakes: if local.wakes { WAKES } else { WAKES - 1 },
        epoch: Epoch(u64::from(local.epoch)),
        lease: Lease { session: session(slot), nonce: STANDS },
    }
}

/// What the holder's journal says at a write.
pub(crate) fn at_tail(seen: u8, tick: u8) -> At {
    At { tail: Seq(u64::from(seen) + 1), totals: Totals::default(), now: at(tick) }
}

/// The time at a tick.
pub(crate) fn now(tick: u8) -> Timestamp {
    at(tick)
}
