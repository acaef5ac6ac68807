//! What a fork keeps, and how it is written down, however often its worker begins anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use longhaul_engine::entry::{Edit, StepId, WaitEnd, WaitFor};
use longhaul_engine::fork::{Fork, Kept, begun_at, kept, next_entries, repeats};
use longhaul_engine::ids::Nonce;
use longhaul_engine::job::{Imported, Order, Origin, Overrides};
use longhaul_engine::{
    Batch, Entry, ErrorClass, Failure, JobId, Journal, Seq, StepKey, StepKind, Timestamp, Usage, limits,
};
use serde_json::{Value, json};
use uuid::Uuid;

fn id(position: u64, kind: StepKind) -> StepId {
    StepId { key: StepKey::at("", position), name: format!("s{position}"), kind, branch: None }
}

fn completed(position: u64, kind: StepKind) -> Entry {
    let usage = Usage { input_tokens: 7, ..Usage::default() };
    let started_at = Timestamp::from_millis(1);
    Entry::StepCompleted { id: id(position, kind), attempt: 1, started_at, output: json!(position), usage, look: false }
}

fn failed(position: u64, kind: StepKind, class: ErrorClass) -> Entry {
    let failure = Failure::new(class, "no");
    let started_at = Timestamp::from_millis(1);
    Entry::StepFailed { id: id(position, kind), attempt: 1, started_at, failure, usage: Usage::default() }
}

fn signalled(name: &str, key: &str, payload: Value) -> Entry {
    Entry::Signalled { signal: name.parse().unwrap(), key: key.parse().unwrap(), payload, by: "ada".to_owned() }
}

fn waited(position: u64, kind: StepKind, signal_seq: u64) -> Entry {
    Entry::WaitEnded { id: id(position, kind), end: WaitEnd::Signal { signal_seq: Seq(signal_seq) } }
}

fn waits(position: u64, kind: StepKind, on: WaitFor) -> Entry {
    Entry::Waiting { id: id(position, kind), on, until: None }
}

fn replayed(from: Option<u64>) -> Entry {
    Entry::Replayed { key: "r".parse().unwrap(), by: "ada".to_owned(), from: from.map(Seq), edit: Edit::default() }
}

fn claimed(epoch: u64) -> Entry {
    serde_json::from_value(json!({"type": "claimed", "epoch": epoch, "session": "s", "takeover": false})).unwrap()
}

fn batch(at: u64, entries: Vec<Entry>) -> Batch {
    Batch::new(Seq(at), Nonce::from_uuid(Uuid::from_u128(u128::from(at))), Timestamp::from_millis(1), entries)
}

/// A journal of batches of two.
fn journal(entries: &[Entry]) -> Vec<Batch> {
    let pairs = entries.chunks(2).zip((1_u64..).step_by(2));
    pairs.map(|(entries, at)| batch(at, entries.to_vec())).collect()
}

fn fork_at(at: u64, without_failures: bool) -> Fork {
    Fork { job: JobId::from_uuid(Uuid::from_u128(9)), at: Seq(at), without_failures }
}

fn kinds(kept: &[Kept]) -> Vec<String> {
    let of = |kept: &Kept| match kept {
        Kept::Step(Entry::StepCompleted { id, usage, .. }) => {
            assert!(usage.is_zero(), "it was paid for by the other job");
            format!("{}", id.key)
        }
        Kept::Step(Entry::StepStarted { id }) => format!("{} begun", id.key),
        Kept::Step(Entry::StepFailed { id, .. }) => format!("{} failed", id.key),
        Kept::Step(Entry::WaitEnded { id, .. }) => format!("{} time", id.key),
        Kept::Step(Entry::Emitted { id, .. }) => format!("{} shown", id.key),
        Kept::Waited { id, .. } => format!("{} signal", id.key),
        Kept::Early(_) => "early".to_owned(),
        Kept::Step(other) => panic!("{other:?}"),
    };
    kept.iter().map(of).collect()
}

fn check(what: &str, entries: &[Entry], fork: &Fork, wanted: &[&str]) {
    let batches = journal(entries);
    let kept = kept(&batches, fork).unwrap();
    assert_eq!(kinds(&kept), wanted, "{what}");
    // Written down by one worker, or by as many as there are entries, each dying behind one batch that others pushed into.
    for disturbed in [false, true] {
        let mut mine = Journal::default();
        let (mut number, mut written) = (0_u64, Vec::new());
        while let Some(entries) = next_entries(&kept, fork, &mine) {
            assert!(!entries.is_empty() && entries.len() <= limits::BATCH_ENTRIES_MAX, "{what}");
            number += 1;
            assert!(number < 100, "{what}: it does not come to an end");
            if disturbed && number % 2 == 1 {
                // A signal came first: the position is another one now, and what is written is made anew.
                mine.take_in(batch(mine.next().0, vec![signalled("other", &format!("o{number}"), json!(0))])).unwrap();
                continue;
            }
            let batch = batch(mine.next().0, entries);
            written.extend(batch.entries.clone());
            mine.take_in(batch).unwrap();
        }
        assert!(mine.forked() && mine.totals().usage.is_zero(), "{what}");
        for entry in &written {
            if let Entry::WaitEnded { id, end: WaitEnd::Signal { signal_seq } } = entry {
                let signal = mine.signal_at(*signal_seq).unwrap_or_else(|| panic!("{what}: {} has no signal", id.key));
                assert!(signal.taken && signal.payload.get("totals").is_none(), "{what}");
            }
        }
    }
}

#[test]
fn a_fork_keeps_outcomes_and_signals_and_nothing_else() {
    use StepKind::{Child, Effect, EffectOnce, Signal, Step};
    let child = WaitFor::Child { child: JobId::from_uuid(Uuid::from_u128(3)), budget: Default::default() };
    let told = json!({"status": "COMPLETED", "output": 1, "totals": {"usage": {"input_tokens": 5}, "steps": 1}});
    let story = [
        claimed(1),                                                                 // 1
        completed(0, Step),                                                         // 2
        signalled("go", "k1", json!("east")),                                       // 3
        waits(1, Signal, WaitFor::Signal { signal: "go".parse().unwrap() }),        // 4
        waited(1, Signal, 3),                                                       // 5
        waits(2, Child, child),                                                     // 6
        signalled("child:00000000-0000-0000-0000-000000000003", "child:3:0", told), // 7
        waited(2, Child, 7),                                                        // 8
        signalled("later", "k2", json!(1)),                                         // 9
        Entry::StepStarted { id: id(3, EffectOnce) },                               // 10
        completed(3, EffectOnce),                                                   // 11
        completed(4, Effect),                                                       // 12
        failed(5, Step, ErrorClass::Invalid),                                       // 13
        Entry::Failed { failure: Failure::new(ErrorClass::Invalid, "no") },         // 14
    ];
    for (at, without_failures, wanted) in [
        (1, false, &[][..]),
        (2, false, &[]),
        (3, false, &["0"]),
        (4, false, &["0", "early"]),
        (5, false, &["0", "early"]),
        (6, false, &["0", "1 signal"]),
        (7, false, &["0", "1 signal"]),
        (8, false, &["0", "1 signal"]),
        (9, false, &["0", "1 signal", "2 signal"]),
        (10, false, &["0", "1 signal", "2 signal", "early"]),
        (11, false, &["0", "1 signal", "2 signal", "early", "3 begun"]),
        (13, false, &["0", "1 signal", "2 signal", "early", "3", "4"]),
        (14, false, &["0", "1 signal", "2 signal", "early", "3", "4", "5 failed"]),
        (15, true, &["0", "1 signal", "2 signal", "early", "3", "4"]),
    ] {
        check(&format!("at {at}"), &story, &fork_at(at, without_failures), wanted);
    }
    // An effect of unknown fate is left out by nothing.
    let interrupted = [claimed(1), failed(0, EffectOnce, ErrorClass::Interrupted)];
    check("interrupted", &interrupted, &fork_at(3, true), &["0 failed"]);
    // What a replay forgot is not there.
    let again = [
        claimed(1),
        completed(0, Step),
        completed(1, Step),
        story[13].clone(),
        replayed(Some(3)),
        claimed(2),
        completed(1, Step),
    ];
    check("replayed", &again, &fork_at(7, false), &["0"]);
    check("replayed and done", &again, &fork_at(8, false), &["0", "1"]);
    // More than fits one batch.
    let long: Vec<Entry> = (0..50).map(|position| completed(position, Step)).collect();
    let all: Vec<String> = (0..50).map(|position: u64| position.to_string()).collect();
    check("long", &long, &fork_at(51, false), &all.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn effects_behind_the_position_are_told() {
    let story = journal(&[
        completed(0, StepKind::Effect),
        completed(1, StepKind::EffectOnce),
        completed(2, StepKind::Effect),
        completed(3, StepKind::Step),
    ]);
    for (at, wanted) in
        [(1, &[("s0", false), ("s1", true), ("s2", false)][..]), (2, &[("s1", true), ("s2", false)]), (4, &[])]
    {
        let kept = kept(&story, &fork_at(at, false)).unwrap();
        let once = |id: StepId| (id.name, id.kind == StepKind::EffectOnce);
        let told: Vec<(String, bool)> = repeats(&story, &kept).into_iter().map(once).collect();
        let wanted: Vec<(String, bool)> = wanted.iter().map(|(name, once)| ((*name).to_owned(), *once)).collect();
        assert_eq!(told, wanted, "at {at}");
    }
}

/// An older worker must not take a fork, or a job that came as a file, for one that has just been submitted.
#[test]
fn what_an_older_worker_would_misread_carries_a_newer_version() {
    let order: Order = serde_json::from_value(json!({
        "tenant": "acme", "id": JobId::from_uuid(Uuid::from_u128(1)), "agent": {"name": "a", "version": 1}, "input": null,
        "submitted_at": 0, "submitted_by": "ada",
    }))
    .unwrap();
    let imported = Origin::Imported(Imported { at: Timestamp::from_millis(1) });
    let overrides = Overrides { model: Some("m".to_owned()), ..Overrides::default() };
    for (order, version) in [
        (order.clone(), limits::PROTOCOL_VERSION_PLAIN),
        (Order { origin: Origin::Forked(fork_at(1, false)), ..order.clone() }, limits::PROTOCOL_VERSION_FORKS),
        (Order { origin: imported, ..order.clone() }, limits::PROTOCOL_VERSION_FORKS),
        (Order { overrides, ..order }, limits::PROTOCOL_VERSION_FORKS),
    ] {
        assert_eq!(order.version(), version, "{order:?}");
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
    }
    let forked = Entry::Forked { job: JobId::from_uuid(Uuid::from_u128(1)), at: Seq(1), kept: 0 };
    let edit = Edit { model: Some("m".to_owned()), ..Edit::default() };
    let edited = Entry::Replayed { key: "r".parse().unwrap(), by: "ada".to_owned(), from: None, edit };
    for (entries, version) in [
        (vec![claimed(1)], limits::PROTOCOL_VERSION_PLAIN),
        (vec![claimed(1), forked], limits::PROTOCOL_VERSION_FORKS),
        (vec![edited], limits::PROTOCOL_VERSION_FORKS),
    ] {
        assert_eq!(batch(1, entries.clone()).v, version, "{entries:?}");
    }
}

/// Nothing but the time of a step's beginning is another one, whatever is written beside it.
#[test]
fn what_a_fork_keeps_begins_when_it_is_written() {
    let now = Timestamp::from_millis(500_000);
    let entries = vec![
        signalled("early", "fork:3", json!(1)),
        completed(0, StepKind::Step),
        failed(1, StepKind::Effect, ErrorClass::Invalid),
        waited(2, StepKind::Signal, 1),
        Entry::Forked { job: JobId::from_uuid(Uuid::from_u128(9)), at: Seq(9), kept: 4 },
    ];
    let begun = begun_at(entries.clone(), now);
    for (was, is) in entries.iter().zip(&begun) {
        let (mut was, is) = (serde_json::to_value(was).unwrap(), serde_json::to_value(is).unwrap());
        if was.get("started_at").is_some() {
            was["started_at"] = json!(now);
        }
        assert_eq!(was, is);
    }
    let beginnings = begun.iter().filter(|entry| serde_json::to_string(entry).unwrap().contains("500000")).count();
    assert_eq!((begun.len(), beginnings), (entries.len(), 2));
}
