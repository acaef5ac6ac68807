//! Whatever stands in the table, the queue or a cursor: it is read, or refused with an error that says so. Never a panic.
//! What we write ourselves comes back as it was.
//!
//! `PROPTEST_CASES=100000 cargo test -p longhaul-aws --lib fuzz` makes a longer run; what was found once stays in
//! `fuzz.regressions`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic: that is how it fails"
)]

use std::path::PathBuf;

use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhaul::store::{Continuation, JobRef, StoreError};
use longhaul_engine::{Batch, Entry, JobId, Journal, Nonce, Seq};
use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::attributes::{Item, binary, text};
use super::batch_item::{self, StoredEntries};
use super::lists::Cursor;
use super::{job_item, jobs, sessions};
use crate::connections::{read_connection, read_subscriber};
use crate::sqs::{Incoming, IncomingError, continuation_body};

fn config() -> ProptestConfig {
    let persistence = FileFailurePersistence::Direct("src/dynamo/fuzz.regressions");
    ProptestConfig { failure_persistence: Some(Box::new(persistence)), ..ProptestConfig::default() }
}

/// The golden files whose names begin so.
fn golden(prefix: &str) -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let named = files.into_iter().filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix));
    let texts: Vec<String> = named.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert!(!texts.is_empty(), "no golden file begins with {prefix}");
    texts
}

/// What an attribute may be turned into.
fn attribute() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        any::<String>().prop_map(text),
        "[0-9]{1,30}|-1|1.5|1e3|\\+7|NaN|".prop_map(AttributeValue::N),
        vec(any::<u8>(), 0..40).prop_map(binary),
        Just(AttributeValue::Null(true)),
        Just(AttributeValue::Bool(false)),
        Just(AttributeValue::L(vec![])),
        select(vec![
            "[]",
            "{}",
            "null",
            "[{}]",
            "\"",
            "[{\"type\":\"claimed\"}]",
            "99",
            "FAILED",
            "JOB#",
            "J#0",
            "SUB#"
        ])
        .prop_map(text),
    ]
}

/// A change of an item: an attribute replaced, taken away, given another's value, or its text changed inside.
#[derive(Debug, Clone)]
enum Change {
    Replace(Index, AttributeValue),
    Remove(Index),
    Copy(Index, Index),
    Inside(Index, Index, String),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), attribute()).prop_map(|(at, value)| Change::Replace(at, value)),
        any::<Index>().prop_map(Change::Remove),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Copy(from, to)),
        (any::<Index>(), any::<Index>(), "[ -~]{0,3}|\\PC").prop_map(|(at, place, new)| Change::Inside(at, place, new)),
    ]
}

fn changed(mut item: Item, changes: &[Change]) -> Item {
    for change in changes {
        let mut names: Vec<String> = item.keys().cloned().collect();
        names.sort();
        if names.is_empty() {
            return item;
        }
        let name = |at: &Index| names[at.index(names.len())].clone();
        match change {
            Change::Replace(at, value) => drop(item.insert(name(at), value.clone())),
            Change::Remove(at) => drop(item.remove(&name(at))),
            Change::Copy(from, to) => {
                let value = item[&name(from)].clone();
                item.insert(name(to), value);
            }
            Change::Inside(at, place, new) => {
                if let Some(AttributeValue::S(text) | AttributeValue::N(text)) = item.get_mut(&name(at)) {
                    let mut chars: Vec<char> = text.chars().collect();
                    let place = place.index(chars.len() + 1);
                    let end = (place + 1).min(chars.len());
                    drop(chars.splice(place..end, new.chars()));
                    *text = chars.into_iter().collect();
                }
            }
        }
    }
    item
}

fn item() -> impl Strategy<Value = Item> {
    let mut all = Vec::new();
    for prefix in ["batch", "job", "session", "connection", "subscription"] {
        all.extend(golden(prefix));
    }
    let items: Vec<Item> =
        all.iter().map(|text| serde_json::from_str::<serde_dynamo::Item>(text).unwrap().into()).collect();
    (select(items), vec(change(), 0..4)).prop_map(|(item, changes)| changed(item, &changes))
}

/// An item that cannot be read is one that says so, and not a service that does not answer: that would be tried again.
fn refused<T>(read: Result<T, StoreError>) -> Result<Option<T>, TestCaseError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(StoreError::Corrupt { .. } | StoreError::Newer { .. }) => Ok(None),
        Err(error @ (StoreError::Unavailable { .. } | StoreError::Missing { .. })) => {
            Err(TestCaseError::fail(format!("{error:?}")))
        }
    }
}

/// Any JSON value, not deep.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("a number of JSON", |x| serde_json::Number::from_f64(x).map(Value::Number)),
        any::<String>().prop_map(Value::from),
        // Text that is compressed, and text that does not compress so well.
        ("\\PC{1,4}", 300_usize..3_000).prop_map(|(text, count)| Value::from(text.repeat(count))),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            hash_map(".{0,6}", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn reference() -> impl Strategy<Value = JobRef> {
    ("[A-Za-z0-9._:-]{1,64}", any::<u128>()).prop_map(|(tenant, job)| JobRef {
        tenant: tenant.parse().unwrap(),
        job: JobId::from_uuid(Uuid::from_u128(job)),
    })
}

proptest! {
    #![proptest_config(config())]

    /// An item out of the table, changed: read and folded, or refused.
    #[test]
    fn an_item_is_read_or_refused(item in item()) {
        if let Some(decoded) = refused(batch_item::decode(&item))? {
            let Batch { at, .. } = decoded.batch;
            prop_assert!(decoded.next >= at);
            // What the journal makes of it is its own affair, but it makes something of it.
            let _read_or_not = Journal::read([Batch { at: Seq::FIRST, ..decoded.batch }]);
        }
        if let Some(decoded) = refused(job_item::decode(&item))? {
            prop_assert_eq!(decoded.job.progress.state.is_terminal() && decoded.job.progress.due.is_some(), false);
        }
        let _read_or_not = refused(sessions::decode(&item))?;
        let _read_or_not = refused(read_connection("A=", &item))?;
        let _read_or_not = refused(read_subscriber(&item))?;
        let _read_or_not = refused(jobs::reference(&item))?;
    }

    /// What an append writes is what a reader gets, readable text or compressed.
    #[test]
    fn a_batch_comes_back(job in reference(), at in 1_u64..100_000, outputs in vec(value(), 1..6), nonce in any::<u128>()) {
        let entry = |output: &Value| -> Entry {
            serde_json::from_value(json!({
                "type": "step_completed", "step": "0", "name": "s", "kind": "step", "attempt": 1, "started_at": 0, "output": output,
            })).unwrap()
        };
        let written_at = serde_json::from_value(json!(1_795_953_600_000_u64)).unwrap();
        let nonce = Nonce::from_uuid(Uuid::from_u128(nonce));
        let batch = Batch::new(Seq(at), nonce, written_at, outputs.iter().map(entry).collect());
        let placed = batch_item::place(&job, &batch).unwrap();
        let referenced = matches!(placed, StoredEntries::Referenced { .. });
        let decoded = batch_item::decode(&batch_item::encode(&job, &batch, placed)).unwrap();
        prop_assert_eq!(&decoded.job, &job);
        prop_assert_eq!(decoded.next, batch.next());
        prop_assert_eq!(decoded.entries_ref.is_some(), referenced);
        if !referenced {
            prop_assert_eq!(decoded.batch, batch);
        }
    }

    /// A message, changed: read, or left in the queue as newer or as junk.
    #[test]
    fn a_message_is_read_or_refused(
        right in select(golden("message")), changes in vec((any::<Index>(), any::<Index>(), "[ -~]{0,6}|\\PC{0,3}"), 0..5), raw in prop::option::weighted(0.2, any::<String>()),
    ) {
        let mut chars: Vec<char> = raw.unwrap_or(right).chars().collect();
        for (from, to, new) in changes {
            let (from, to) = (from.index(chars.len() + 1), to.index(chars.len() + 1));
            // Mostly a short piece: a message of which half is gone is junk at once.
            let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 9));
            drop(chars.splice(from..to, new.chars()));
        }
        let body: String = chars.into_iter().collect();
        match Incoming::parse(&body) {
            Ok(incoming) => {
                let again = continuation_body(&incoming.continuation).unwrap();
                prop_assert_eq!(Incoming::parse(&again).unwrap().continuation, incoming.continuation);
            }
            Err(IncomingError::Newer { found }) => prop_assert!(found > 1),
            Err(IncomingError::Malformed { .. }) => {}
        }
    }

    #[test]
    fn a_continuation_comes_back(job in reference(), session in prop::option::of("[A-Za-z0-9-]{1,80}"), count in 0_usize..12) {
        let continuation = match session {
            Some(session) => Continuation::watchdog(session.parse().unwrap(), vec![job; count]),
            None => Continuation::job(job),
        };
        let incoming = Incoming::parse(&continuation_body(&continuation).unwrap()).unwrap();
        prop_assert_eq!(incoming, Incoming { continuation, redriven: None });
    }

    #[test]
    fn a_cursor_is_read_or_refused(kind in "[ns]?", job in any::<u128>(), sort in "[0-9]{0,20}|[0-9]{15}#[0-9a-f-]{36}|\\PC{0,20}", raw in any::<String>(), whole in any::<bool>()) {
        let job = Uuid::from_u128(job);
        let sort = if whole { format!("001795953600000#{job}") } else { sort };
        let text = URL_SAFE_NO_PAD.encode(format!("{kind} {job} {sort}"));
        let jobs = Cursor::of_jobs(&text);
        prop_assert_eq!(jobs.is_some(), kind == "s" && sort.get(16..) == Some(&job.to_string()) && sort.get(..15).is_some_and(|time| time.bytes().all(|b| b.is_ascii_digit())) && sort.get(15..16) == Some("#"));
        prop_assert_eq!(Cursor::of_dead_letters(&text).is_some(), kind == "n" && sort.parse::<u64>().is_ok());
        for read in [Cursor::of_jobs(&raw), Cursor::of_dead_letters(&raw)] {
            prop_assert!(read.is_none());
        }
    }
}
