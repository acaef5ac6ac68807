//! Whatever text is taken for an id and whatever stands in a journal: an answer, never a panic. Ids are one text each.
//!
//! `PROPTEST_CASES=100000` makes a longer run; what was found once stays in `fuzz.regressions`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use longhaul_engine::ids::{SignalKey, SignalName, StepKey};
use longhaul_engine::{Batch, Entry, JobId, Journal, Nonce, Seq, SessionId, TenantId, limits};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};
use uuid::Uuid;

fn config() -> ProptestConfig {
    let persistence = FileFailurePersistence::Direct("tests/fuzz.regressions");
    ProptestConfig { failure_persistence: Some(Box::new(persistence)), ..ProptestConfig::default() }
}

/// Texts near those that ids are made of.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[A-Za-z0-9._:-]{0,80}",
        "[A-Za-z0-9._:#/ -]{0,300}",
        "\\PC{0,40}",
        vec(select(vec!["a", ":", "#", "..", "/", "\u{0}", "é", "ａ", "\u{200d}", "%2e", "\n"]), 0..12)
            .prop_map(|parts| parts.concat()),
        uuid_like(),
    ]
}

fn uuid_like() -> impl Strategy<Value = String> {
    (any::<u128>(), 0_u8..7, any::<prop::sample::Index>(), any::<char>()).prop_map(|(bits, form, at, other)| {
        let uuid = Uuid::from_u128(bits);
        match form {
            0 => uuid.to_string(),
            1 => uuid.to_string().to_uppercase(),
            2 => uuid.simple().to_string(),
            3 => uuid.urn().to_string(),
            4 => uuid.braced().to_string(),
            5 => format!(" {uuid}"),
            _ => {
                let mut chars: Vec<char> = uuid.to_string().chars().collect();
                let place = at.index(chars.len());
                chars[place] = other;
                chars.into_iter().collect()
            }
        }
    })
}

/// An id reads as it is written, holds nothing that could break out of a key, an address or a log line, and reads the same
/// out of JSON.
macro_rules! one_text_each {
    ($text:expr, $($id:ty),*) => {$(
        let read = $text.parse::<$id>();
        if let Ok(id) = &read {
            prop_assert_eq!(id.to_string(), $text.clone());
            prop_assert!($text.bytes().all(|b| b.is_ascii_graphic() && !b"#/%?&\"\\'".contains(&b)));
        }
        let out_of_json = serde_json::from_value::<$id>(json!($text));
        prop_assert_eq!(out_of_json.ok(), read.ok());
    )*};
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_id_is_one_text(text in text()) {
        one_text_each!(text, TenantId, SessionId, SignalName, SignalKey);
        if let Ok(job) = text.parse::<JobId>() {
            prop_assert_eq!(job.to_string(), text, "one job has one address");
        }
    }

    #[test]
    fn keys_of_different_tenants_or_callers_are_different_jobs(
        one in ("[a:1]{1,5}", "[a:1]{1,5}"), other in ("[a:1]{1,5}", "[a:1]{1,5}"),
    ) {
        let job = |(tenant, key): &(String, String)| JobId::of_key(&tenant.parse().unwrap(), key);
        prop_assert_eq!(job(&one) == job(&other), one == other);
    }

    #[test]
    fn children_of_different_steps_are_different_jobs(parent in any::<u128>(), one in 0_u64..40, other in 0_u64..40) {
        let parent = JobId::from_uuid(Uuid::from_u128(parent));
        let child = |position: u64| JobId::of_child(parent, &StepKey::at("1[2].", position));
        prop_assert_eq!(child(one) == child(other), one == other);
        prop_assert_ne!(child(one), JobId::of_child(parent, &StepKey::at("", one)));
    }
}

/// Entries as journals have them, near each other enough to meet: two steps, two keys, small epochs.
fn entry() -> impl Strategy<Value = Entry> {
    let step = (select(vec!["0", "1", "2[0].0"]), select(vec!["step", "effect_once", "signal", "child"]));
    let failure = json!({ "class": "transient", "message": "away", "causes": [] });
    (0_u8..14, step, 0_u64..5, 1_u64..12, select(vec!["k", "l"])).prop_map(move |(kind, (step, of), epoch, seq, key)| {
        let id = json!({ "step": step, "name": "s", "kind": of });
        let with = |more: Value| {
            let mut entry = id.clone();
            entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            entry
        };
        let entry = match kind {
            0 => json!({ "type": "claimed", "epoch": epoch, "session": "s-1", "takeover": seq % 2 == 0 }),
            1 => with(json!({ "type": "step_started" })),
            2 => with(json!({
                "type": "step_completed", "attempt": 1, "started_at": 0, "output": seq,
                "usage": { "input_tokens": u64::MAX / epoch.max(1) },
            })),
            3 => with(json!({
                "type": "attempt_failed", "attempt": epoch, "started_at": 0, "failure": failure, "retry_at": u64::MAX,
            })),
            4 => with(json!({ "type": "step_failed", "attempt": 3, "started_at": 0, "failure": failure })),
            5 => with(json!({ "type": "waiting", "on": { "for": "signal", "signal": key }, "until": seq })),
            6 => with(json!({ "type": "wait_ended", "end": { "by": "signal", "signal_seq": seq } })),
            7 => with(json!({ "type": "emitted", "data": {} })),
            8 => json!({ "type": "signalled", "signal": key, "key": key, "payload": { "status": "COMPLETED" }, "by": "a" }),
            9 => json!({ "type": "cancel_requested", "key": key, "by": "a" }),
            10 => json!({ "type": "completed", "output": null }),
            11 => json!({ "type": "failed", "failure": failure }),
            12 => json!({ "type": "cancelled", "by": "a" }),
            _ => json!({ "type": "replayed", "key": key, "by": "a", "from": seq }),
        };
        serde_json::from_value(entry).unwrap()
    })
}

/// Batches in a row, some of them out of place or of another version.
fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let place = prop_oneof![20 => Just(0_i64), 1 => -3_i64..4, 1 => Just(i64::MAX)];
    vec((vec(entry(), 0..6), place, prop_oneof![30 => Just(1_u32), 1 => any::<u32>()]), 0..12).prop_map(|parts| {
        let mut next = 1_u64;
        (0_u128..)
            .zip(parts)
            .map(|(number, (entries, off, v))| {
                let at = Seq(next.saturating_add_signed(off));
                let batch = Batch {
                    v,
                    ..Batch::new(
                        at,
                        Nonce::from_uuid(Uuid::from_u128(number)),
                        serde_json::from_value(json!(0)).unwrap(),
                        entries,
                    )
                };
                next = batch.next().0;
                batch
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(config())]

    /// Read at once or batch by batch: the same journal or the same fault; as JSON and back: the same batches.
    #[test]
    fn a_journal_is_read_or_refused(batches in batches()) {
        let text = serde_json::to_string(&batches).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Vec<Batch>>(&text).unwrap(), &batches);
        let whole = Journal::read(batches.clone());
        let mut journal = Journal::default();
        let mut fault = None;
        for batch in &batches {
            if let Err(error) = journal.take_in(batch.clone()) {
                fault = Some(error);
                break;
            }
        }
        match (whole, fault) {
            (Ok(whole), None) => {
                let entries = batches.iter().map(|batch| batch.entries.len() as u64).sum::<u64>();
                prop_assert_eq!(whole.next(), Seq(1 + entries));
                prop_assert!(whole.next().0 <= limits::JOURNAL_ENTRIES_MAX);
                prop_assert_eq!(whole, journal);
            }
            (Err(error), Some(fault)) => prop_assert_eq!(error, fault),
            (whole, fault) => prop_assert!(false, "{whole:?} at once, {fault:?} batch by batch"),
        }
    }

    /// What a journal says holds of its entries, whatever their order.
    #[test]
    fn a_journal_says_what_stands_in_it(entries in vec(entry(), 0..30)) {
        let batch = Batch::new(Seq::FIRST, Nonce::from_uuid(Uuid::nil()), serde_json::from_value(json!(0)).unwrap(), entries.clone());
        let Ok(journal) = Journal::read([batch]) else { return Ok(()) };
        let last = entries.last();
        prop_assert_eq!(journal.ending().is_some(), last.is_some_and(Entry::is_terminal));
        let replays = entries.iter().filter(|entry| matches!(entry, Entry::Replayed { .. })).count();
        prop_assert_eq!(journal.replays() as usize, replays);
        let claim = entries.iter().rev().find_map(|entry| match entry {
            Entry::Claimed { epoch, .. } => Some(*epoch),
            _ => None,
        });
        prop_assert_eq!(journal.last_claim().map(|claim| claim.epoch), claim);
        let claims = entries.iter().filter(|entry| matches!(entry, Entry::Claimed { .. })).count();
        prop_assert!(journal.crashes_in_row() as usize <= claims);
        let outcomes = journal.steps().filter(|record| record.state.is_outcome()).count();
        prop_assert!(journal.totals().steps as usize >= outcomes);
    }
}
