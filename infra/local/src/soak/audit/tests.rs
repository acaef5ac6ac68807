//! The auditor, shown books that are right and books that were tampered with: one that finds nothing proves nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is how a test fails")]

use longhaul_engine::ids::Epoch;
use longhaul_engine::{Seq, Timestamp};
use serde_json::{Value, json};

use super::*;

/// A journal in short: `c` a claim, `t` a takeover, `0`..`9` the outcome of that step, `!` before a digit a failed
/// attempt of it, `+` completed, `x` failed.
fn journal(short: &str) -> Vec<Batch> {
    let mut epoch = 0;
    let mut failed = false;
    let mut at = 1;
    let mut batches = Vec::new();
    for letter in short.chars() {
        let step = |kind: &str| json!({"type": kind, "step": letter.to_string(), "name": "s", "kind": "effect", "attempt": 1, "started_at": 5});
        let failure = json!({"class": "terminal", "message": "told to"});
        let with = |mut entry: Value, fields: Value| {
            entry.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            entry
        };
        let entry = match letter {
            'c' | 't' => {
                epoch += 1;
                json!({"type": "claimed", "epoch": epoch, "session": "s-1", "takeover": letter == 't'})
            }
            '!' => {
                failed = true;
                continue;
            }
            '0'..='9' if std::mem::take(&mut failed) => {
                with(step("attempt_failed"), json!({"failure": failure, "retry_at": 9}))
            }
            '0'..='9' => with(step("step_completed"), json!({"output": 1})),
            '+' => json!({"type": "completed", "output": 1}),
            'x' => json!({"type": "failed", "failure": failure}),
            other => panic!("{other}"),
        };
        let entry = serde_json::from_value(entry).unwrap();
        let nonce = longhaul::outside::fresh_nonce();
        batches.push(Batch::new(Seq(at), nonce, Timestamp::from_millis(at), vec![entry]));
        at += 1;
    }
    batches
}

/// The item of a job that has ended so.
fn item(state: JobState) -> Job {
    let order = serde_json::from_value(json!({
        "tenant": "t", "id": "00000000-0000-7000-8000-000000000001", "agent": {"name": "a", "version": 1},
        "input": {}, "submitted_at": 1, "submitted_by": "me",
    }));
    let mut job = Job::accepted(order.unwrap(), longhaul::outside::fresh_nonce());
    job.progress.state = state;
    job.progress.due = None;
    job.progress.epoch = Epoch(9);
    job
}

fn books(short: &str, asked: &[(&str, u64)]) -> JobBooks {
    let state = if short.ends_with('x') { JobState::Failed } else { JobState::Completed };
    let item = item(state);
    JobBooks {
        job: item.order.id,
        item: Some(item),
        journal: journal(short),
        asked: asked.iter().map(|(step, times)| ((*step).to_owned(), *times)).collect(),
    }
}

fn found(books: &JobBooks, expected: Expected) -> Vec<String> {
    let id = books.job.to_string();
    audit(books, expected).findings.iter().map(|finding| finding.to_string().replace(&id, "JOB")).collect()
}

/// How often each step was asked for.
type Asked = &'static [(&'static str, u64)];
/// A way to tamper with books.
type Tamper = fn(&mut JobBooks);

const TWO: Expected = Expected::Completed { steps: 2 };

#[test]
fn books_that_are_right_are_left_alone() {
    // The journal, how often each step was asked for, and repetitions that are known and allowed.
    let rows: [(&str, [u64; 2], u64); 7] = [
        ("c01+", [1, 1], 0),
        // Killed while step 1 ran, or just before it, or after it had acted.
        ("c0t1+", [1, 2], 1),
        ("c0t1+", [1, 1], 0),
        ("ct01+", [2, 1], 1),
        ("ctt0t1+", [3, 2], 3),
        // An attempt that failed may be made again by the same session.
        ("c0!11+", [1, 2], 1),
        ("c!0t01+", [3, 1], 2),
    ];
    for (short, [first, second], again) in rows {
        let audited = audit(&books(short, &[("0", first), ("1", second)]), TWO);
        assert_eq!((audited.findings.as_slice(), audited.asked_again), (&[][..], again), "{short} {first} {second}");
        assert_eq!(audited.steps, 2, "{short}");
    }
    assert_eq!(found(&books("c0x", &[("0", 1)]), Expected::Failed), Vec::<String>::new());
}

#[test]
fn what_was_tampered_with_is_found() {
    // The journal, how often each step was asked for, and what is wrong with that.
    let rows: [(&str, Asked, &str); 12] = [
        ("c01+", &[("0", 2), ("1", 1)], "JOB: step 0 was asked for 2 times, 1 are allowed"),
        // The claim stands before the outcome of the step before: it allows nothing for step 1.
        ("ct01+", &[("0", 1), ("1", 2)], "JOB: step 1 was asked for 2 times, 1 are allowed"),
        ("c0t1+", &[("0", 2), ("1", 1)], "JOB: step 0 was asked for 2 times, 1 are allowed"),
        ("c0t1+", &[("0", 1), ("1", 3)], "JOB: step 1 was asked for 3 times, 2 are allowed"),
        ("c01+", &[("0", 1)], "JOB: step 1: has an outcome and was never asked for"),
        ("c01+", &[("0", 1), ("1", 1), ("2", 1)], "JOB: step 2: was asked for and has no outcome in a completed job"),
        ("c001+", &[("0", 1), ("1", 1)], "JOB: at 3: a second outcome of step 0, whose first stands at 2"),
        ("c01+t", &[("0", 1), ("1", 1)], "JOB: at 5: an entry behind the end"),
        ("01+", &[("0", 1), ("1", 1)], "JOB: at 1: an outcome before any claim"),
        ("c0+", &[("0", 1)], "JOB: at 3: holds 1 outcomes and not 2"),
        ("c01", &[("0", 1), ("1", 1)], "JOB has not ended: COMPLETED, journal up to 3"),
        ("c01x", &[("0", 1), ("1", 1)], "JOB ended FAILED and not COMPLETED: told to"),
    ];
    for (short, asked, expected) in rows {
        let found = found(&books(short, asked), TWO);
        assert!(found.iter().any(|finding| finding == expected), "{short}: {found:?}");
    }
}

#[test]
fn items_and_positions_are_held_against_the_journal() {
    let right = books("c01+", &[("0", 1), ("1", 1)]);
    let changed = |change: Tamper| {
        let mut books = right.clone();
        change(&mut books);
        found(&books, TWO)
    };
    let rows: [(Tamper, &str); 5] = [
        (|books| books.item = None, "JOB was accepted and is not there"),
        (
            |books| books.item = Some(item(JobState::Failed)),
            "JOB: its item says FAILED where the journal says COMPLETED",
        ),
        (
            |books| books.item.as_mut().unwrap().progress.due = Some(Timestamp::from_millis(7)),
            "JOB: its item is due at 7 after its end",
        ),
        (|books| drop(books.journal.remove(1)), "JOB: at 3: position 2 was to come"),
        (
            |books| {
                let twice = journal("cc").pop().unwrap().entries;
                books.journal = journal("cc01+");
                books.journal.first_mut().unwrap().entries = twice;
            },
            "JOB: at 2: a claim of epoch 2 behind one of 2",
        ),
    ];
    for (change, expected) in rows {
        let found = changed(change);
        assert!(found.iter().any(|finding| finding == expected), "{expected}: {found:?}");
    }
}

#[test]
fn branches_are_audited_by_their_own_order() {
    let key = |text: &str| serde_json::from_value::<StepKey>(json!(text)).unwrap();
    let outcomes: BTreeMap<StepKey, Outcome> = [("0", 3), ("1[0].0", 5), ("1[0].1", 9), ("1[1].0", 7)]
        .map(|(text, at)| (key(text), Outcome { at, kind: StepKind::Effect }))
        .into();
    for (text, expected) in
        [("0", None), ("1[0].0", None), ("1[0].1", Some(5)), ("1[0].2", Some(9)), ("1[1].1", Some(7)), ("2", Some(3))]
    {
        assert_eq!(step_before(&key(text), &outcomes), expected, "{text}");
    }
}
