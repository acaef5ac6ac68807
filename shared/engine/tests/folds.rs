//! What a journal comes to: what was used, which keys were taken in, what a replay changes and forgets, how much fits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use longhaul_engine::append::{NextMove, next_move};
use longhaul_engine::budget::Budget;
use longhaul_engine::entry::{StepId, WaitFor};
use longhaul_engine::ids::{JobId, Nonce, Seq, SignalName, StepKey};
use longhaul_engine::job::Order;
use longhaul_engine::journal::{FoldError, KeyKind};
use longhaul_engine::{Batch, Entry, Journal, StepKind, Timestamp, limits};
use serde_json::{Value, json};
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn batch(at: u64, entries: Vec<Entry>) -> Batch {
    Batch::new(Seq(at), Nonce::from_uuid(Uuid::from_u128(u128::from(at))), NOW, entries)
}

fn entry(json: Value) -> Entry {
    serde_json::from_value(json).unwrap()
}

fn journal(entries: impl IntoIterator<Item = Value>) -> Journal {
    Journal::read((1..).zip(entries).map(|(at, json)| batch(at, vec![entry(json)]))).unwrap()
}

/// An entry about a step at a position.
fn about(position: u64, kind: StepKind, mut said: Value) -> Value {
    let id = StepId { key: StepKey::at("", position), name: "it".to_owned(), kind, branch: None };
    let id = serde_json::to_value(id).unwrap();
    said.as_object_mut().unwrap().extend(id.as_object().unwrap().clone());
    said
}

fn claimed(epoch: u64, takeover: bool) -> Value {
    json!({"type": "claimed", "epoch": epoch, "session": "s", "takeover": takeover})
}

fn failure() -> Value {
    json!({"class": "invalid", "message": "no"})
}

fn job_failed() -> Value {
    json!({"type": "failed", "failure": failure()})
}

fn replayed(key: &str, edit: Value) -> Value {
    json!({"type": "replayed", "key": key, "by": "ada", "edit": edit})
}

#[test]
fn what_is_used_counts_whatever_came_of_it() {
    let usage = json!({"input_tokens": 7, "output_tokens": 3});
    let rows = [
        json!({"type": "step_completed", "output": 1}),
        json!({"type": "attempt_failed", "failure": failure(), "retry_at": NOW}),
        json!({"type": "step_failed", "failure": failure()}),
    ];
    for mut row in rows {
        let all = json!({"attempt": 1, "started_at": NOW, "usage": usage});
        row.as_object_mut().unwrap().extend(all.as_object().unwrap().clone());
        let row = about(0, StepKind::Step, row);
        let journal = journal([row.clone()]);
        assert_eq!(journal.totals().usage.tokens(), 10, "{row}");
        assert!(journal.step(&StepKey::at("", 0)).is_some(), "{row}");
    }
}

/// A child says all that it has used, and after a replay says it again, with what came since.
#[test]
fn what_a_child_used_counts_once() {
    let told = |replays: u64, tokens: u64| {
        let payload = json!({"status": "FAILED", "totals": {"usage": {"input_tokens": tokens}, "steps": tokens}});
        json!({"type": "signalled", "signal": "child:7", "key": format!("child:7:{replays}"), "payload": payload, "by": "job:7"})
    };
    let heard =
        |kind, seq: u64| about(0, kind, json!({"type": "wait_ended", "end": {"by": "signal", "signal_seq": seq}}));
    let twice = || {
        vec![
            told(0, 10),
            heard(StepKind::Child, 1),
            job_failed(),
            replayed("r", json!({})),
            told(1, 25),
            heard(StepKind::Child, 5),
        ]
    };
    let rows = [
        ("told and not heard", vec![told(0, 10)], 0),
        ("heard", vec![told(0, 10), heard(StepKind::Child, 1)], 10),
        ("heard again behind a replay", twice(), 25),
        ("a signal that only says so", vec![told(0, 10), heard(StepKind::Signal, 1)], 0),
    ];
    for (name, entries, expected) in rows {
        assert_eq!(journal(entries).totals().usage.tokens(), expected, "{name}");
    }
}

#[test]
fn a_later_replay_keeps_what_an_earlier_one_changed() {
    let order: Order = serde_json::from_value(json!({
        "tenant": "acme", "id": JobId::from_uuid(Uuid::from_u128(7)), "agent": {"name": "research", "version": 1},
        "input": "first", "budget": {"tokens": 1}, "overrides": {"model": "small", "instructions": "be brief"},
        "submitted_at": NOW, "submitted_by": "ada",
    }))
    .unwrap();
    let edit = json!({"input": "second", "budget": {"tokens": 2}, "model": "large", "instructions": "be long"});
    let rows = [
        ("nothing changed", vec![json!({})], ("first", 1, "small", "be brief")),
        ("all changed", vec![edit.clone()], ("second", 2, "large", "be long")),
        ("nothing more changed", vec![edit.clone(), json!({})], ("second", 2, "large", "be long")),
        ("one more changed", vec![edit, json!({"model": "third"})], ("second", 2, "third", "be long")),
    ];
    for (name, edits, (input, tokens, model, instructions)) in rows {
        let replays = edits.len();
        let entries = (0..).zip(edits).flat_map(|(at, edit)| [job_failed(), replayed(&format!("r{at}"), edit)]);
        let journal = journal(entries);
        let edited = journal.edited(&order);
        assert_eq!(edited.input, json!(input), "{name}");
        assert_eq!(edited.budget, Budget { tokens: Some(tokens), ..Budget::default() }, "{name}");
        assert_eq!(edited.overrides.model.as_deref(), Some(model), "{name}");
        assert_eq!(edited.overrides.instructions.as_deref(), Some(instructions), "{name}");
        assert_eq!(journal.replays() as usize, replays, "{name}");
    }
}

/// Before its next claim, too: a job of a thread is looked at there, and one that counts as lost does not wait its turn.
#[test]
fn deaths_before_a_replay_are_forgotten_by_it() {
    let mut entries = vec![claimed(1, false), claimed(2, true), claimed(3, true), claimed(4, true)];
    assert!(matches!(next_move(&journal(entries.clone())), NextMove::End(_)));
    entries.extend([job_failed(), replayed("r", json!({}))]);
    assert_eq!(next_move(&journal(entries.clone())), NextMove::Drive);
    entries.push(claimed(5, true));
    assert_eq!(journal(entries).crashes_in_row(), 1, "the death of whoever ended it counts, and no other");
}

#[test]
fn keys_are_known_by_their_kind() {
    let entries = [
        json!({"type": "signalled", "signal": "go", "key": "s", "payload": null, "by": "ada"}),
        json!({"type": "cancel_requested", "key": "c", "by": "ada"}),
        job_failed(),
        replayed("r", json!({})),
    ];
    let journal = journal(entries);
    for (key, known) in [("s", KeyKind::Signal), ("c", KeyKind::Cancel), ("r", KeyKind::Replay)] {
        for kind in [KeyKind::Signal, KeyKind::Cancel, KeyKind::Replay] {
            assert_eq!(journal.has_key(kind, &key.parse().unwrap()), kind == known, "{key} as {kind:?}");
        }
    }
    let name = |name: &str| name.parse::<SignalName>().unwrap();
    assert!(journal.untaken_signal(&name("go")).is_some());
    assert!(journal.untaken_signal(&name("stop")).is_none(), "a signal is for the wait of its name");
}

#[test]
fn children_that_run_hold_back_what_they_may_use() {
    let waits = |position: u64, tokens: u64| {
        let child = JobId::from_uuid(Uuid::from_u128(position.into()));
        let on = WaitFor::Child { child, budget: Budget { tokens: Some(tokens), steps: Some(2), ..Budget::default() } };
        about(position, StepKind::Child, json!({"type": "waiting", "on": on}))
    };
    let held = journal([waits(0, 10), waits(1, 5)]).held_for_children();
    assert_eq!((held.tokens, held.steps, held.unpriced), (15, 4, false));
}

#[test]
fn a_journal_takes_in_all_that_it_has_room_for() {
    let fill = |journal: &mut Journal, until: u64| {
        while journal.next().0 < until {
            let count = (until - journal.next().0).min(limits::BATCH_ENTRIES_MAX as u64);
            let entries = (0..count).map(|_| entry(claimed(1, false))).collect();
            journal.take_in(batch(journal.next().0, entries)).unwrap();
        }
    };
    let mut journal = Journal::default();
    let max = limits::JOURNAL_ENTRIES_MAX;
    // The last position of each room, in which its owner still writes, and the first one in which it does not.
    fill(&mut journal, max - limits::JOURNAL_ENTRIES_RESERVED);
    assert!(journal.has_room_for_steps());
    fill(&mut journal, max - limits::JOURNAL_ENTRIES_RESERVED + 1);
    assert!(!journal.has_room_for_steps() && journal.has_room_for_requests());
    fill(&mut journal, max - limits::JOURNAL_ENTRIES_WORKER_RESERVED);
    assert!(journal.has_room_for_requests());
    fill(&mut journal, max - limits::JOURNAL_ENTRIES_WORKER_RESERVED + 1);
    assert!(!journal.has_room_for_requests());
    fill(&mut journal, max);
    let one_more = batch(max, vec![entry(claimed(1, false))]);
    assert_eq!(journal.take_in(one_more), Err(FoldError::TooLong { max }));
}

/// A batch says which version one must know to read it, and one that knows that version reads it.
#[test]
fn a_batch_is_of_the_version_of_what_stands_in_it() {
    let (plain, forks) = (limits::PROTOCOL_VERSION_PLAIN, limits::PROTOCOL_VERSION_FORKS);
    let rows = [
        (json!({}), plain),
        (json!({"input": 1, "budget": {"tokens": 1}}), plain),
        (json!({"model": "large"}), forks),
        (json!({"instructions": "be brief"}), forks),
    ];
    for (edit, version) in rows {
        assert_eq!(batch(1, vec![entry(replayed("r", edit.clone()))]).v, version, "{edit}");
    }
    let newest = Batch { v: limits::PROTOCOL_VERSION, ..batch(1, vec![entry(claimed(1, false))]) };
    assert!(Journal::read([newest]).is_ok());
}
