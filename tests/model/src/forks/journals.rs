//! The journals of both jobs: entries by number, so that a state is small, and what the engine makes of them, once each.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use longhaul_engine::entry::Batch;
use longhaul_engine::fork::{self, Fork, Kept};
use longhaul_engine::{Entry, JobId, Journal, Nonce, Seq, Timestamp};
use serde_json::json;

/// Steps that the other job had done when it was forked: more than one append holds.
const STEPS: u64 = 17;

/// The other job's journal, of which only a part stands at first: it goes on, fails, is opened again before the fork's
/// position and does steps anew.
pub(super) fn tape() -> Vec<Entry> {
    let step = |number: u64, output: u64| {
        json!({
            "type": "step_completed", "step": number.to_string(), "name": "step", "kind": "step", "attempt": 1,
            "started_at": 0, "output": output,
        })
    };
    let signal = json!({"type": "signalled", "signal": "go", "key": "k", "payload": 1, "by": "ada"});
    let head = std::iter::once(json!({"type": "claimed", "epoch": 1, "session": "s", "takeover": false}));
    let kept = head.chain((0..STEPS).map(|number| step(number, 0))).chain([signal]);
    let later = [
        step(STEPS, 0),
        json!({"type": "failed", "failure": {"class": "terminal", "message": "no"}}),
        json!({"type": "replayed", "key": "again", "by": "ada", "from": 3, "edit": {}}),
        step(2, 7),
    ];
    kept.chain(later).map(|wire| serde_json::from_value(wire).expect("an entry")).collect()
}

/// Entries of the tape that stand when the fork is made; it begins behind them.
pub(super) fn before() -> u64 {
    STEPS + 2
}

pub(super) fn nonce(number: u128) -> Nonce {
    Nonce::from_uuid(uuid::Uuid::from_u128(number))
}

fn source() -> JobId {
    JobId::from_uuid(uuid::Uuid::from_u128(7))
}

/// Entries by number, so that a state is small and can be compared.
static ENTRIES: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub(super) fn number_of(entry: &Entry) -> u16 {
    let text = serde_json::to_string(entry).expect("an entry in its wire form");
    let mut known = ENTRIES.lock().unwrap_or_else(PoisonError::into_inner);
    let at = known.iter().position(|other| *other == text).unwrap_or_else(|| {
        known.push(text);
        known.len() - 1
    });
    u16::try_from(at).expect("few entries")
}

pub(super) fn entry(number: u16) -> Entry {
    let known = ENTRIES.lock().unwrap_or_else(PoisonError::into_inner);
    serde_json::from_str(&known[usize::from(number)]).expect("an entry")
}

/// A journal: batches of entries.
pub(super) type Log = Vec<Vec<u16>>;
/// What is kept, by how much of the other job's journal stands and where the fork begins.
type KeptBy = HashMap<(usize, u64), Rc<Vec<Kept>>>;

thread_local! {
    static READ: RefCell<HashMap<Log, Option<Rc<Journal>>>> = RefCell::default();
    static KEPT: RefCell<KeptBy> = RefCell::default();
}

/// The journal as the engine reads it; none: it cannot.
pub(super) fn read(log: &[Vec<u16>]) -> Option<Rc<Journal>> {
    READ.with_borrow_mut(|known| {
        let make = || {
            let mut journal = Journal::default();
            for numbers in log {
                let entries = numbers.iter().map(|number| entry(*number)).collect();
                journal.take_in(Batch::new(journal.next(), nonce(1), Timestamp::from_millis(1), entries)).ok()?;
            }
            Some(Rc::new(journal))
        };
        known.entry(log.to_vec()).or_insert_with(make).clone()
    })
}

pub(super) fn journal(log: &[Vec<u16>]) -> Rc<Journal> {
    read(log).expect("it was read when it was written")
}

/// What is kept of the other job's journal, of which so many entries stand, by a fork that begins at this position.
pub(super) fn kept(stands: usize, at: u64) -> Rc<Vec<Kept>> {
    KEPT.with_borrow_mut(|known| {
        let make = || {
            let batches = (1..)
                .zip(tape())
                .take(stands)
                .map(|(at, entry)| Batch::new(Seq(at), nonce(1), Timestamp::from_millis(1), vec![entry]));
            let batches: Vec<Batch> = batches.collect();
            Rc::new(fork::kept(&batches, &made(at)).expect("a journal"))
        };
        Rc::clone(known.entry((stands, at)).or_insert_with(make))
    })
}

pub(super) fn made(at: u64) -> Fork {
    Fork { job: source(), at: Seq(at), without_failures: false }
}
