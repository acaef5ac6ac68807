//! Decisions that the model check found wrong or missing, each held by its smallest case.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use longhaul_engine::append::{AfterLook, AfterRead, Rejoin, Stop, after_look, after_read, rejoin};
use longhaul_engine::claim::{ClaimDecision, Held, Holder, News, decide};
use longhaul_engine::entry::Batch;
use longhaul_engine::ids::{Epoch, Nonce, Seq, SessionId};
use longhaul_engine::job::{JobState, Lease, Order};
use longhaul_engine::journal::Ending;
use longhaul_engine::walk::{AfterWalk, Walk};
use longhaul_engine::{Entry, ErrorClass, Failure, Job, Journal, Timestamp, limits};
use serde_json::{Value, json};
use uuid::Uuid;

fn nonce(number: u128) -> Nonce {
    Nonce::from_uuid(Uuid::from_u128(number))
}

fn entry(wire: Value) -> Entry {
    serde_json::from_value(wire).unwrap()
}

fn claimed(epoch: u64) -> Entry {
    entry(json!({"type": "claimed", "epoch": epoch, "session": "s", "takeover": true}))
}

fn replayed() -> Entry {
    entry(json!({"type": "replayed", "key": "k", "by": "ada"}))
}

fn lost() -> Ending {
    Ending::Failed { failure: Failure::new(ErrorClass::WorkerLost, "lost") }
}

fn done() -> Ending {
    Ending::Completed { output: json!(1) }
}

fn batches(entries: Vec<Entry>) -> Vec<Batch> {
    let at = |place: usize| Seq(u64::try_from(place).unwrap() + 1);
    let now = Timestamp::from_millis(0);
    entries.into_iter().enumerate().map(|(place, entry)| Batch::new(at(place), nonce(9), now, vec![entry])).collect()
}

/// What stands at the journal's end, the claim's epoch, the attempts that the item counts, and what follows.
#[test]
fn a_walk_sees_claims_ends_and_replays() {
    let ended = || lost().into_entry();
    let many = limits::CLAIM_ATTEMPTS_MAX + 1;
    let table = [
        (vec![], 7, many, AfterWalk::GiveUp { deaths: many }),
        (vec![claimed(6)], 7, many, AfterWalk::Read),
        (vec![claimed(8)], 7, many + 3, AfterWalk::Stop(Stop::Fenced { by: Epoch(8) })),
        (vec![ended()], 7, many, AfterWalk::Settle(lost())),
        (vec![ended(), replayed()], 7, many, AfterWalk::Release),
        (vec![replayed()], 7, many, AfterWalk::Release),
        (vec![replayed(), claimed(8)], 7, many + 1, AfterWalk::Stop(Stop::Fenced { by: Epoch(8) })),
        (vec![ended(), replayed(), claimed(5), done().into_entry()], 7, many + 1, AfterWalk::Settle(done())),
    ];
    for (entries, epoch, attempts, expected) in table {
        let mut walk = Walk::from(Seq::FIRST);
        let count = u64::try_from(entries.len()).unwrap();
        batches(entries).into_iter().for_each(|batch| walk.pass(batch));
        assert_eq!(walk.at(), Seq::FIRST.plus(count));
        assert_eq!(walk.clone().decide(Epoch(epoch), attempts), expected, "{walk:?}");
    }
}

#[test]
fn a_settled_end_may_be_another_by_the_next_look() {
    let table = [
        (vec![lost().into_entry()], AfterLook::GoOn),
        (vec![lost().into_entry(), replayed()], AfterLook::Release),
        (vec![lost().into_entry(), replayed(), claimed(2), done().into_entry()], AfterLook::Settle(done())),
    ];
    for (entries, expected) in table {
        let journal = Journal::read(batches(entries)).unwrap();
        assert_eq!(after_look(&journal, &lost()), expected);
    }
}

/// A claim that was made before the job ended and was opened again gives it back: what ended it since may be about to write
/// that end.
#[test]
fn a_claim_knows_of_the_replay_that_it_drives_on_from() {
    let entries = vec![claimed(1), lost().into_entry(), replayed()];
    let journal = Journal::read(batches(entries)).unwrap();
    let table = [(1, AfterRead::Release), (3, AfterRead::Release), (4, AfterRead::Claim)];
    for (tail, expected) in table {
        assert_eq!(after_read(&journal, Epoch(2), Seq(tail)), expected, "{tail}");
    }
    // A replay of what had not ended, as of an imported job, changes nothing about whose the job is.
    let journal = Journal::read(batches(vec![claimed(1), replayed()])).unwrap();
    assert_eq!(after_read(&journal, Epoch(2), Seq::FIRST), AfterRead::Claim);
}

/// How the child ended, whether its parent heard of it, whether its item is terminal, and what follows.
#[test]
fn a_child_is_told_of_once_and_never_waited_for_in_vain() {
    let table = [
        (None, false, false, Rejoin::Wait),
        (None, true, true, Rejoin::Replay),
        (Some(done()), false, true, Rejoin::Tell),
        (Some(lost()), false, false, Rejoin::Tell),
        (Some(lost()), true, false, Rejoin::Replay),
        (Some(lost()), false, true, Rejoin::Replay),
    ];
    for (ending, heard, settled, expected) in table {
        assert_eq!(rejoin(ending.as_ref(), heard, settled), expected, "{ending:?} {heard} {settled}");
    }
}

fn job() -> Job {
    let order: Order = serde_json::from_value(json!({
        "tenant": "acme", "id": Uuid::from_u128(1), "agent": {"name": "agent", "version": 1}, "input": null,
        "submitted_at": 0, "submitted_by": "ada",
    }))
    .unwrap();
    Job::accepted(order, nonce(1))
}

/// A holder whose renewal went through without an answer finds its own lease under a mark that it does not know.
#[test]
fn a_holder_knows_its_lease_by_the_claims_mark() {
    let session: SessionId = "s1".parse().unwrap();
    let now = Timestamp::from_millis(0);
    let mut stored = job();
    let decision = decide(&stored, &session, Holder::Unknown, News::Unknown, nonce(2), now);
    let ClaimDecision::Claim(claim) = decision else { panic!("{decision:?}") };
    let mut held = Held::after_claim(&claim, &session, 0);
    stored.progress = claim.write.progress.clone();
    stored.last_write = nonce(3);
    assert!(held.catch_up(&stored), "its own renewal stands there");
    assert_eq!(held.last_write, nonce(3));

    // The same session and epoch under another claim's mark, and a job that was given back: not its own.
    let other = Lease { session: session.clone(), nonce: nonce(4) };
    for state in [JobState::Processing { lease: other }, JobState::Pending] {
        stored.progress.state = state;
        stored.last_write = nonce(5);
        assert!(!held.catch_up(&stored));
        assert_eq!(held.last_write, nonce(3));
    }
}
