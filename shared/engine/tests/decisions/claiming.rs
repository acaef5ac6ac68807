//! Who may drive a job, what a driver finds in its way, and when a job has died too often.

use longhaul_engine::append::{AfterRead, NextMove, OnConflict, Stop, after_read, next_move, on_conflict};
use longhaul_engine::claim::{ClaimDecision, Holder, News, NoClaim, beside, decide, died_unread, holder};
use longhaul_engine::entry::{Batch, Entry};
use longhaul_engine::ids::{Epoch, Seq};
use longhaul_engine::job::{JobState, Lease, Mismatch};
use longhaul_engine::journal::Ending;
use longhaul_engine::{Journal, Timestamp, limits};
use serde_json::json;

use crate::ground::{
    NOW, after, cancel, claimed, completed, done, job, job_failed, journal, nonce, replayed, session, signal, step,
};

#[test]
fn who_may_claim() {
    enum Expect {
        NoClaim(NoClaim),
        LookUp,
        Peek,
        Claim { takeover: bool },
    }
    use Expect::{Claim, LookUp, Peek};
    let lease = |name: &str| JobState::Processing { lease: Lease { session: session(name), nonce: nonce(9) } };
    let waiting = |until: Option<Timestamp>| JobState::Waiting { until, seen: Seq(3) };
    let blocked =
        JobState::Blocked { mismatch: Mismatch { step: None, recorded: String::new(), attempted: String::new() } };
    let later = Some(after(60_000));
    let past = Some(NOW);
    let (unknown, unread) = (Holder::Unknown, News::Unknown);
    let rows = [
        ("pending", JobState::Pending, later, unknown, unread, Claim { takeover: false }),
        ("completed", JobState::Completed, None, unknown, unread, Expect::NoClaim(NoClaim::Ended)),
        ("failed", JobState::Failed, None, unknown, unread, Expect::NoClaim(NoClaim::Ended)),
        ("cancelled", JobState::Cancelled, None, unknown, unread, Expect::NoClaim(NoClaim::Ended)),
        ("held, holder unknown", lease("other"), later, unknown, unread, LookUp),
        ("held by a live one", lease("other"), later, Holder::Alive, unread, Expect::NoClaim(NoClaim::Held)),
        ("held by a dead one", lease("other"), later, Holder::Dead, unread, Claim { takeover: true }),
        ("lease lapsed unrenewed", lease("other"), past, Holder::Alive, unread, Claim { takeover: true }),
        ("mine by name only", lease("me"), later, unknown, unread, Claim { takeover: true }),
        ("waiting, not looked", waiting(later), later, unknown, unread, Peek),
        ("waiting, nothing new", waiting(later), later, unknown, News::Nothing, Expect::NoClaim(NoClaim::NothingNew)),
        ("waiting, a signal", waiting(None), later, unknown, News::Something, Claim { takeover: false }),
        ("waiting, time is up", waiting(past), later, unknown, unread, Claim { takeover: false }),
        ("blocked", blocked, later, unknown, unread, Claim { takeover: false }),
    ];
    for (name, state, due, holder, news, expect) in rows {
        let job = job(state, due);
        let decision = decide(&job, &session("me"), holder, news, nonce(42), NOW);
        match (expect, decision) {
            (Expect::NoClaim(expected), ClaimDecision::Acknowledge(found)) => assert_eq!(found, expected, "{name}"),
            (LookUp, ClaimDecision::LookUp(found)) => assert_eq!(found, session("other"), "{name}"),
            (Peek, ClaimDecision::Peek(from)) => assert_eq!(from, Seq(3), "{name}"),
            (Claim { takeover }, ClaimDecision::Claim(claim)) => {
                assert_eq!(claim.takeover, takeover, "{name}");
                assert_eq!(claim.epoch, Epoch(5), "{name}: the epoch grows by one");
                assert_eq!(claim.write.last_write, nonce(1), "{name}: exactly on what was read");
                assert!(claim.write.progress.due.is_some(), "{name}: due is set while a job lives");
            }
            (_, other) => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_session_is_dead_after_its_silence() {
    let rows = [(0, Holder::Alive), (19_999, Holder::Alive), (20_000, Holder::Dead), (600_000, Holder::Dead)];
    for (silence, expected) in rows {
        assert_eq!(holder(Some(NOW), after(silence)), expected, "silent for {silence} ms");
    }
    assert_eq!(holder(None, NOW), Holder::Dead, "a session without an item");
    let arrives = limits::WATCHDOG_DELAY_SECONDS * 1_000;
    assert!(arrives >= limits::SESSION_SILENCE_MAX_MS, "the last watchdog must find the session dead");
    assert!(arrives + limits::HEARTBEAT_INTERVAL_MS <= 30_000, "a killed worker's job goes on within 30 s");
}

#[test]
fn what_stands_at_my_position() {
    let rows: Vec<(&str, Vec<Entry>, OnConflict)> = vec![
        ("a signal", vec![signal("go")], OnConflict::Reconsider),
        ("a cancel", vec![cancel()], OnConflict::Reconsider),
        ("an older claim", vec![claimed(4, false)], OnConflict::Reconsider),
        ("a newer claim", vec![claimed(6, true)], OnConflict::Stop(Stop::Fenced { by: Epoch(6) })),
        ("my epoch, not mine", vec![claimed(5, false)], OnConflict::Stop(Stop::Fenced { by: Epoch(5) })),
        ("the end", vec![completed()], OnConflict::Stop(Stop::Ended)),
        (
            "a signal, then a newer claim",
            vec![signal("go"), claimed(6, true)],
            OnConflict::Stop(Stop::Fenced { by: Epoch(6) }),
        ),
        ("an outcome of an older epoch", vec![done("0")], OnConflict::Reconsider),
    ];
    for (name, entries, expected) in rows {
        let found = Batch::new(Seq(3), nonce(77), NOW, entries.clone());
        assert_eq!(on_conflict(Epoch(5), nonce(1), &found), expected, "{name}");
        let mine = Batch::new(Seq(3), nonce(1), NOW, entries);
        assert_eq!(on_conflict(Epoch(5), nonce(1), &mine), OnConflict::Own, "{name}, my own mark");
    }
}

#[test]
fn what_a_claimer_finds_in_the_journal() {
    let rows: Vec<(&str, Vec<Entry>, AfterRead)> = vec![
        ("nothing", vec![], AfterRead::Claim),
        ("an older claim", vec![claimed(4, false), done("0")], AfterRead::Claim),
        ("a newer claim", vec![claimed(6, false)], AfterRead::Stop(Stop::Fenced { by: Epoch(6) })),
        ("my epoch taken", vec![claimed(5, false)], AfterRead::Stop(Stop::Fenced { by: Epoch(5) })),
        (
            "the end",
            vec![claimed(4, false), completed()],
            AfterRead::Repair(Ending::Completed { output: json!("done") }),
        ),
        ("opened again", vec![claimed(4, false), job_failed(), replayed(None)], AfterRead::Claim),
    ];
    for (name, entries, expected) in rows {
        let journal = journal(entries);
        assert_eq!(after_read(&journal, Epoch(5), journal.next()), expected, "{name}");
    }
}

#[test]
fn crashes_in_a_row_are_counted_in_the_journal() {
    let rows: Vec<(&str, Vec<Entry>, u32)> = vec![
        ("a first claim", vec![claimed(1, false)], 0),
        ("three crashes", vec![claimed(1, false), claimed(2, true), claimed(3, true), claimed(4, true)], 3),
        ("progress between", vec![claimed(1, false), claimed(2, true), done("0"), claimed(3, true)], 1),
        ("a release between", vec![claimed(1, false), claimed(2, true), claimed(3, false), claimed(4, true)], 1),
        ("releases alone", vec![claimed(1, false), claimed(2, false), claimed(3, false), claimed(4, false)], 0),
        ("an epoch that never wrote", vec![claimed(1, false), claimed(2, true), claimed(4, true)], 1),
        ("signals are no progress", vec![claimed(1, false), claimed(2, true), signal("go"), claimed(3, true)], 2),
        (
            "the start of an at-most-once step is no progress",
            vec![claimed(1, false), claimed(2, true), Entry::StepStarted { id: step("0") }, claimed(3, true)],
            2,
        ),
    ];
    for (name, entries, expected) in rows {
        let journal = journal(entries);
        assert_eq!(journal.crashes_in_row(), expected, "{name}");
        let ends = matches!(next_move(&journal), NextMove::End(Ending::Failed { .. }));
        assert_eq!(ends, expected >= limits::CRASHES_MAX, "{name}: worker_lost at {}", limits::CRASHES_MAX);
    }
}

/// A claim by a process that has so many other jobs in hand.
fn among(epoch: u64, takeover: bool, others: u32) -> Entry {
    Entry::Claimed { epoch: Epoch(epoch), session: session("s"), takeover, beside: beside(others) }
}

/// The story of a job: for each of its sessions, which all die without progress, how many others its process had in hand.
fn dying(others: &[u32]) -> Journal {
    let claims = (1..).zip(others).map(|(epoch, others)| among(epoch, epoch > 1, *others));
    let last = among(others.len() as u64 + 1, true, 0);
    journal(claims.chain([last]).collect())
}

#[test]
fn a_death_among_many_is_not_the_jobs_own() {
    let few = limits::NEIGHBOURS_FEW_MAX;
    let rows: [(&str, &[u32], bool); 9] = [
        ("alone", &[0; 3], true),
        ("a batch of the queue", &[few; 3], true),
        ("one more than that", &[few + 1; 3], false),
        ("alone at the last", &[500, 500, 0], false),
        ("twice alone", &[500, 0, 0], false),
        ("three times alone among others", &[500, 0, 500, 0, 500, 0], true),
        ("always among many", &[500; 8], false),
        ("always among many, once more", &[500; 9], true),
        ("both together", &[500, 500, 500, 0, 500, 500, 500, 0, 500], true),
    ];
    for (name, others, ends) in rows {
        let journal = dying(others);
        let own = others.iter().filter(|others| **others <= few).count() as u32;
        assert_eq!((journal.crashes_in_row(), journal.own_crashes_in_row()), (others.len() as u32, own), "{name}");
        assert_eq!(matches!(next_move(&journal), NextMove::End(Ending::Failed { .. })), ends, "{name}");
    }
}

/// Whatever neighbours a job has: it does not die for ever.
#[test]
fn every_job_that_only_dies_ends_in_bounded_time() {
    let most = limits::CRASHES_SHARED_MAX as usize;
    for pattern in 0_u32..1 << most {
        let others: Vec<u32> = (0..most).map(|at| if pattern >> at & 1 == 1 { 500 } else { 0 }).collect();
        let ends = (1..=most).find(|died| next_move(&dying(&others[..*died])) != NextMove::Drive);
        assert!(ends.is_some_and(|died| died >= limits::CRASHES_MAX as usize), "{others:?}");
    }
}

#[test]
fn progress_forgets_deaths_among_many_too() {
    let mut entries: Vec<Entry> = (1..8).map(|epoch| among(epoch, epoch > 1, 500)).collect();
    entries.extend([done("0"), among(8, true, 500), among(9, true, 500)]);
    let journal = journal(entries);
    assert_eq!((journal.crashes_in_row(), journal.own_crashes_in_row()), (2, 0));
}

#[test]
fn a_claim_without_many_neighbours_is_written_as_ever() {
    let written = |others| serde_json::to_value(among(2, true, others)).unwrap();
    let ever = json!({"type": "claimed", "epoch": 2, "session": "s", "takeover": true});
    assert_eq!(written(limits::NEIGHBOURS_FEW_MAX), ever);
    assert_eq!(written(341)["beside"], 341);
}

#[test]
fn deaths_before_anything_was_written_are_told_from_those_behind_a_claim() {
    let rows = [(5, 0, false), (6, 0, true), (6, 1, false), (12, 7, false), (12, 6, true)];
    for (attempts, claims_written, expected) in rows {
        assert_eq!(died_unread(attempts, claims_written), expected, "{attempts} claims, {claims_written} written");
    }
}
