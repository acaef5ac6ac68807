//! What a journal says: cancels, replays, signals, and journals that cannot be read.

use longhaul_engine::append::{NextMove, ending, next_move};
use longhaul_engine::entry::{Entry, StepId, WaitEnd, WaitFor};
use longhaul_engine::ids::{Seq, StepKey};
use longhaul_engine::job::{JobState, Usage};
use longhaul_engine::journal::{Ending, FoldError, KeyKind, StepState};
use longhaul_engine::{ErrorClass, Failure, Journal, StepKind, Timestamp, limits};
use serde_json::json;

use crate::ground::{
    batches, cancel, claimed, completed, done, failed, job, job_failed, journal, replayed, signal, step,
};

#[test]
fn a_cancel_goes_before_the_agents_own_end() {
    let wanted = Ending::Completed { output: json!(1) };
    let rows: Vec<(&str, Vec<Entry>, bool)> = vec![
        ("no cancel", vec![claimed(1, false)], false),
        ("a cancel", vec![claimed(1, false), cancel()], true),
        ("a cancel before the claim", vec![cancel(), claimed(1, false)], true),
        ("a cancel of the time before a replay", vec![cancel(), job_failed(), replayed(None)], false),
    ];
    for (name, entries, cancelled) in rows {
        let journal = journal(entries);
        assert_eq!(matches!(ending(&journal, &wanted), Ending::Cancelled { .. }), cancelled, "{name}");
        assert_eq!(matches!(next_move(&journal), NextMove::End(Ending::Cancelled { .. })), cancelled, "{name}");
    }
}

#[test]
fn a_replay_keeps_what_was_good() {
    let story = || vec![claimed(1, false), done("0"), done("1"), failed("2"), job_failed()];
    let rows: Vec<(&str, Option<u64>, Vec<&str>)> =
        vec![("from the last good step", None, vec!["0", "1"]), ("from position 3", Some(3), vec!["0"])];
    for (name, from, kept) in rows {
        let mut entries = story();
        entries.push(replayed(from));
        let journal = journal(entries);
        let steps: Vec<&str> = journal.steps().map(|record| record.id.key.as_str()).collect();
        assert_eq!(steps, kept, "{name}");
        assert_eq!(journal.ending(), None, "{name}");
        let order = job(JobState::Pending, None).order;
        assert_eq!(journal.edited(&order).input, json!({"topic": "edited"}), "{name}");
        assert_eq!(journal.totals().usage.tokens(), 30, "{name}: what was paid stays paid");
    }
}

/// Found by seeds: a replay made an effect again that is made at most once and had been cut off.
#[test]
fn a_replay_does_not_repeat_what_may_have_happened_unless_it_is_told_to() {
    let id = || StepId { kind: StepKind::EffectOnce, ..step("0") };
    for (class, from, kept) in [
        (ErrorClass::Interrupted, None, true),
        (ErrorClass::Interrupted, Some(2), false),
        (ErrorClass::Invalid, None, false),
    ] {
        let failure = Failure::new(class, "cut off");
        let cut_off = Entry::StepFailed {
            id: id(),
            attempt: 1,
            started_at: Timestamp::from_millis(0),
            failure,
            usage: Usage::default(),
        };
        let started = Entry::StepStarted { id: id() };
        let journal = journal(vec![claimed(1, false), started, cut_off, job_failed(), replayed(from)]);
        assert_eq!(journal.steps().count() == 1, kept, "{class:?} {from:?}");
    }
}

#[test]
fn a_replay_forgets_a_childs_failure_and_keeps_its_result_for_the_wait_to_come() {
    let child = || StepId { kind: StepKind::Child, ..step("0") };
    let story = |status: &str| {
        let key = "child:7:0".parse().unwrap();
        let payload = json!({"status": status, "output": 1});
        vec![
            claimed(1, false),
            Entry::Signalled { signal: "child:7".parse().unwrap(), key, payload, by: "job:7".to_owned() },
            Entry::WaitEnded { id: child(), end: WaitEnd::Signal { signal_seq: Seq(2) } },
            job_failed(),
        ]
    };
    // How the child ended, from where the parent is replayed, whether its wait still has its end, and whether the
    // child's signal is there for a new wait.
    let rows = [
        ("COMPLETED", None, true, false),
        ("COMPLETED", Some(2), false, true),
        ("FAILED", None, false, false),
        ("FAILED", Some(2), false, false),
    ];
    for (status, from, kept, untaken) in rows {
        let mut entries = story(status);
        entries.push(replayed(from));
        let journal = journal(entries);
        assert_eq!(journal.step(&child().key).is_some(), kept, "{status} {from:?}");
        assert_eq!(journal.untaken_signal(&"child:7".parse().unwrap()).is_some(), untaken, "{status} {from:?}");
    }
}

#[test]
fn a_signal_is_kept_for_its_wait_and_taken_once() {
    let wait = |end| Entry::WaitEnded { id: StepId { kind: StepKind::Signal, ..step("0") }, end };
    let early = journal(vec![signal("approval"), claimed(1, false)]);
    let name = "approval".parse().unwrap();
    assert_eq!(early.untaken_signal(&name).map(|signal| signal.seq), Some(Seq(1)), "an early signal is kept");
    let taken = journal(vec![signal("approval"), claimed(1, false), wait(WaitEnd::Signal { signal_seq: Seq(1) })]);
    assert_eq!(taken.untaken_signal(&name), None);
    let late = journal(vec![claimed(1, false), wait(WaitEnd::Time), signal("approval")]);
    let state = &late.step(&StepKey::at("", 0)).unwrap().state;
    assert_eq!(*state, StepState::WaitEnded { end: WaitEnd::Time }, "a late signal does not undo a timeout");
    assert!(taken.has_key(KeyKind::Signal, &"key-approval".parse().unwrap()));
    assert!(!taken.has_key(KeyKind::Cancel, &"key-approval".parse().unwrap()), "a key is its kind's alone");
}

#[test]
fn journals_that_cannot_be_read() {
    let mut newer = batches(vec![claimed(1, false)]);
    newer[0].v = limits::PROTOCOL_VERSION + 1;
    let mut gap = batches(vec![claimed(1, false), done("0")]);
    gap[1].at = Seq(3);
    let waiting = Entry::Waiting { id: step("0"), on: WaitFor::Time, until: None };
    let rows = [
        (newer, FoldError::Newer { at: Seq(1), found: limits::PROTOCOL_VERSION + 1, known: limits::PROTOCOL_VERSION }),
        (gap, FoldError::Gap { expected: Seq(2), found: Seq(3) }),
        (batches(vec![done("0"), done("0")]), FoldError::SecondOutcome { step: StepKey::at("", 0), at: Seq(2) }),
        (batches(vec![done("0"), waiting]), FoldError::SecondOutcome { step: StepKey::at("", 0), at: Seq(2) }),
        (batches(vec![completed(), claimed(2, false)]), FoldError::AfterEnd { at: Seq(2) }),
    ];
    for (batches, expected) in rows {
        assert_eq!(Journal::read(batches), Err(expected));
    }
}
