//! What the writes of a job item say: who makes which, on what condition, and when somebody must look after the job.
//!
//! A due time that is too near has a sound job taken over or called up for nothing; a write without the wakes passes over
//! a signal; a holder's write that counts as a claim ends jobs as lost which nobody has lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::time::Duration;

use longhaul_engine::append::{OnConflict, on_outside_conflict};
use longhaul_engine::claim::{At, ClaimDecision, Driver, Held, Holder, News, decide, may_drive};
use longhaul_engine::ids::{Epoch, JobId, Nonce, Seq};
use longhaul_engine::job::{Imported, Job, JobWrite, Lease, Mismatch, Order, Origin, Status, Totals};
use longhaul_engine::journal::Ending;
use longhaul_engine::walk::{AfterWalk, Walk};
use longhaul_engine::{Batch, Entry, ErrorClass, Failure, Timestamp, limits};
use serde_json::json;
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn after(millis: u64) -> Timestamp {
    NOW.plus(Duration::from_millis(millis))
}

fn nonce(number: u128) -> Nonce {
    Nonce::from_uuid(Uuid::from_u128(number))
}

fn job() -> Job {
    let order: Order = serde_json::from_value(json!({
        "tenant": "acme", "id": JobId::from_uuid(Uuid::from_u128(7)), "agent": {"name": "research", "version": 1},
        "input": null, "submitted_at": NOW, "submitted_by": "ada",
    }))
    .unwrap();
    Job::accepted(order, nonce(1))
}

fn claim_of(job: &Job) -> (JobWrite, bool) {
    match decide(job, &"me".parse().unwrap(), Holder::Unknown, News::Unknown, nonce(42), NOW) {
        ClaimDecision::Claim(claim) => (claim.write, claim.suspicious),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_holder_writes() {
    let lease = Lease { session: "me".parse().unwrap(), nonce: nonce(9) };
    let held = Held { last_write: nonce(8), wakes: 3, epoch: Epoch(5), lease };
    let at = At { tail: Seq(12), totals: Totals::default(), now: NOW };
    let failed = Ending::Failed { failure: Failure::new(ErrorClass::Invalid, "no") };
    let cancelled = Ending::Cancelled { by: "ada".to_owned(), reason: None };
    let mismatch = Mismatch { step: None, recorded: String::new(), attempted: String::new() };
    let write = nonce(10);
    // The write, its status, whether it requires the wakes, and in how many milliseconds the job is due.
    let rows = [
        (held.renew(write, &at), Status::Processing, false, Some(limits::LEASE_DUE_MS)),
        (held.release(write, &at), Status::Pending, false, Some(limits::CONTINUATION_DUE_MS)),
        (held.stand_in_line(write, &at), Status::Pending, false, Some(limits::TURN_LOOK_INTERVAL_MS)),
        (held.block(write, mismatch, &at), Status::Blocked, false, Some(limits::BLOCKED_LOOK_INTERVAL_MS)),
        (held.wait(write, None, &at), Status::Waiting, true, Some(limits::CONTINUATION_DUE_MS)),
        (held.finish(write, &Ending::Completed { output: json!(1) }, &at), Status::Completed, true, None),
        (held.finish(write, &failed, &at), Status::Failed, true, None),
        (held.finish(write, &cancelled, &at), Status::Cancelled, true, None),
    ];
    for (found, status, requires_wakes, due) in rows {
        let progress = &found.progress;
        assert_eq!(progress.state.status(), status);
        assert_eq!((found.nonce, found.last_write), (write, nonce(8)), "{status:?}: on what was read");
        assert_eq!(found.wakes, requires_wakes.then_some(3), "{status:?}: whether a signal stands against it");
        assert_eq!(progress.due, due.map(after), "{status:?}");
        assert_eq!((progress.epoch, progress.tail), (Epoch(5), Seq(12)), "{status:?}");
        assert_eq!(progress.attempts, 0, "{status:?}: whatever the holder writes shows that it lives");
    }
}

#[test]
fn a_claim_counts_until_its_holder_writes() {
    // Claims since the last sign of life, and whether the next one has to look for deaths that left no entry.
    let rows = [(0, false), (limits::CLAIM_ATTEMPTS_MAX - 1, false), (limits::CLAIM_ATTEMPTS_MAX, true)];
    for (attempts, suspicious) in rows {
        let mut job = job();
        job.progress.attempts = attempts;
        let (write, found) = claim_of(&job);
        assert_eq!(write.progress.attempts, attempts + 1);
        assert_eq!(found, suspicious, "behind {attempts} claims");
        assert_eq!(write.progress.due, Some(after(limits::LEASE_DUE_MS)), "a claim is looked after as a lease is");
        assert_eq!(write.wakes, None, "a claim reads whatever signal came");
    }
}

#[test]
fn who_drives_which_jobs() {
    let imported = || Origin::Imported(Imported { at: NOW });
    let rows = [
        (Origin::Submitted, Driver::Worker, true),
        (Origin::Submitted, Driver::Person, false),
        (imported(), Driver::Worker, false),
        (imported(), Driver::Person, true),
    ];
    for (origin, driver, expected) in rows {
        assert_eq!(may_drive(&origin, driver), expected, "{origin:?} by {driver:?}");
    }
}

#[test]
fn a_writer_from_outside_knows_its_own_write() {
    let entry = Entry::CancelRequested { key: "c".parse().unwrap(), by: "ada".to_owned(), reason: None };
    let found = Batch::new(Seq(3), nonce(77), NOW, vec![entry]);
    assert_eq!(on_outside_conflict(nonce(77), &found), OnConflict::Own);
    assert_eq!(on_outside_conflict(nonce(78), &found), OnConflict::Reconsider);
}

#[test]
fn what_a_walk_to_the_end_of_a_journal_comes_to() {
    let claimed =
        |epoch| Entry::Claimed { epoch: Epoch(epoch), session: "s".parse().unwrap(), takeover: true, beside: 0 };
    let done = || Entry::Completed { output: json!(1) };
    let replayed: Entry =
        serde_json::from_value(json!({"type": "replayed", "key": "r", "by": "ada", "edit": {}})).unwrap();
    let deaths = limits::CLAIM_ATTEMPTS_MAX + 1;
    let ended = Ending::Completed { output: json!(1) };
    // What stands behind the tail as last known, for the claim of epoch 9 that is the so-and-so-many-th without a sign of life.
    let rows: Vec<(&str, Vec<Entry>, u32, AfterWalk)> = vec![
        ("nothing", vec![], deaths, AfterWalk::GiveUp { deaths }),
        ("a claim that was written", vec![claimed(3)], deaths, AfterWalk::Read),
        ("too many beside it", vec![claimed(3)], deaths + 1, AfterWalk::GiveUp { deaths }),
        (
            "a higher claim",
            vec![claimed(10)],
            deaths,
            AfterWalk::Stop(longhaul_engine::append::Stop::Fenced { by: Epoch(10) }),
        ),
        (
            "mine by number only",
            vec![claimed(9)],
            deaths,
            AfterWalk::Stop(longhaul_engine::append::Stop::Fenced { by: Epoch(9) }),
        ),
        ("an end", vec![done()], deaths, AfterWalk::Settle(ended)),
        ("an end and a replay", vec![done(), replayed], deaths, AfterWalk::Release),
    ];
    for (name, entries, attempts, expected) in rows {
        let mut walk = Walk::from(Seq(5));
        for (at, entry) in (5..).zip(entries) {
            walk.pass(Batch::new(Seq(at), nonce(u128::from(at)), NOW, vec![entry]));
        }
        assert_eq!(walk.decide(Epoch(9), attempts), expected, "{name}");
    }
}
