//! The file of an exported job: its shape, held by a file of its first version, and what is said of damaged ones.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests"
)]

use std::path::PathBuf;

use longhaul_engine::ids::Nonce;
use longhaul_engine::job::{Order, Origin, Status};
use longhaul_engine::{Batch, Entry, JobState, Seq, Timestamp};
use longhaul_wire::export::{Export, ExportError};
use longhaul_wire::journal::JournalView;
use serde_json::{Value, json};
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_millis(1_795_953_600_000);

fn order() -> Order {
    serde_json::from_value(json!({
        "tenant": "acme",
        "id": "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f",
        "agent": {"name": "buyer", "version": 3},
        "input": {"what": "paper"},
        "budget": {"tokens": 1000},
        "webhook": "https://acme.example/hook?key=s3cret-hook",
        "labels": {"team": "blue"},
        "parent": {"job": "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e70", "step": "4", "depth": 1},
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "overrides": {"model": "small", "instructions": "Be brief."},
        "submitted_at": 1_795_953_500_000_u64,
        "submitted_by": "ada",
    }))
    .unwrap()
}

fn entries() -> Vec<Entry> {
    let entries = json!([
        {"type": "claimed", "epoch": 1, "session": "s-1", "takeover": false},
        {"type": "step_completed", "step": "0", "name": "plan", "kind": "step", "attempt": 1,
         "started_at": 1_795_953_501_000_u64, "output": {"plan": "read"}, "usage": {"input_tokens": 3, "output_tokens": 4}},
        {"type": "signalled", "signal": "approval", "key": "k", "payload": {"ok": true}, "by": "bob"},
        {"type": "failed", "failure": {"class": "refused", "message": "the model refused"}},
    ]);
    serde_json::from_value(entries).unwrap()
}

fn batches() -> Vec<Batch> {
    let entries = entries();
    let batch = |at: u64, entries: &[Entry]| {
        let nonce = Nonce::from_uuid(Uuid::from_u128(u128::from(at)));
        Batch::new(Seq(at), nonce, Timestamp::from_millis(1_795_953_510_000 + at), entries.to_vec())
    };
    vec![batch(1, &entries[..1]), batch(2, &entries[1..3]), batch(4, &entries[3..])]
}

fn export() -> Export {
    let order = order();
    let page = JournalView::page(order.id, &batches(), 0, 100);
    Export::new(&order, Status::Failed, Some(json!({"name": "buyer", "instructions": "Buy."})), page, NOW)
}

fn golden() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/export-1.json");
    if std::env::var_os("LONGHAUL_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&export()).unwrap() + "\n").unwrap();
    }
    std::fs::read_to_string(path).unwrap()
}

fn nonces() -> impl FnMut() -> Nonce {
    let mut number = 0_u128;
    move || {
        number += 1;
        Nonce::from_uuid(Uuid::from_u128(number))
    }
}

#[test]
fn the_file_has_its_shape_and_holds_no_secret() {
    let text = golden();
    assert_eq!(serde_json::to_string_pretty(&export()).unwrap() + "\n", text);
    for secret in ["s3cret-hook", "https://acme.example", "4bf92f3577b34da6"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn what_is_imported_is_what_was_exported() {
    let export = Export::read(golden().as_bytes()).unwrap();
    let (imported, job) = export.into_job("other".parse().unwrap(), NOW, nonces()).unwrap();
    let found: Vec<(u64, Vec<Entry>)> = imported.iter().map(|batch| (batch.at.0, batch.entries.clone())).collect();
    let wanted: Vec<(u64, Vec<Entry>)> = batches().iter().map(|batch| (batch.at.0, batch.entries.clone())).collect();
    assert_eq!(found, wanted);
    assert_eq!(
        imported.iter().map(|batch| batch.written_at).collect::<Vec<_>>(),
        batches().iter().map(|b| b.written_at).collect::<Vec<_>>()
    );
    assert_eq!(job.progress.state, JobState::Failed);
    assert_eq!((job.progress.due, job.progress.epoch.0, job.progress.tail), (None, 1, Seq(5)));
    assert_eq!(job.progress.totals.usage.tokens(), 7);
    let whole = order();
    assert_eq!(job.order.tenant.as_str(), "other");
    assert_eq!((&job.order.id, &job.order.agent, &job.order.input), (&whole.id, &whole.agent, &whole.input));
    assert_eq!(
        (&job.order.parent, &job.order.overrides, &job.order.budget),
        (&whole.parent, &whole.overrides, &whole.budget)
    );
    assert_eq!((&job.order.webhook, &job.order.traceparent), (&None, &None));
    assert_eq!(job.order.labels.get("imported").map(String::as_str), Some("yes"));
    assert!(matches!(job.order.origin, Origin::Imported(imported) if imported.at == NOW));
}

/// What is done to a whole file.
type Damage = fn(&mut Value);

fn said(change: impl FnOnce(&mut Value)) -> String {
    let mut file: Value = serde_json::from_str(&golden()).unwrap();
    change(&mut file);
    refusal(&file.to_string())
}

fn refusal(text: &str) -> String {
    let read = Export::read(text.as_bytes()).and_then(|export| export.into_job("acme".parse().unwrap(), NOW, nonces()));
    match read {
        Err(ExportError::Journal(error)) => format!("{}: {error}", ExportError::Journal(error.clone())),
        Err(error) => error.to_string(),
        Ok(_) => panic!("it was taken: {text}"),
    }
}

#[test]
fn a_damaged_file_is_refused_and_what_is_wrong_is_said() {
    let whole = golden();
    for (text, part) in [
        ("", "no export of a job: EOF"),
        ("[]", "no export of a job"),
        ("{}", "missing field `longhaul_export`"),
        (&whole[..whole.len() / 2], "EOF while parsing"),
        (&whole.replacen("\"journal\"", "\"jurnal\"", 1), "missing field `journal`"),
        (&whole.replacen("claimed", "conquered", 1), "entry at position 1 cannot be read: unknown variant `conquered`"),
    ] {
        let said = refusal(text);
        assert!(said.contains(part), "{said}");
    }
    let cases: [(Damage, &str); 18] = [
        (|file| file["longhaul_export"] = json!(2), "version 2 of the form; this program reads up to 1"),
        (|file| file["longhaul_export"] = json!(0), "longhaul_export must be at least 1"),
        (|file| file["job"]["labels"]["team"] = json!("a\u{1b}[2J"), "value must not hold control characters"),
        (|file| file["job"]["labels"]["team"] = json!("x".repeat(129)), "value must have at most 128 characters"),
        (|file| file["job"]["labels"][""] = json!("x"), "name must not be empty"),
        (|file| file["longhaul_export"] = json!("1"), "invalid type"),
        (|file| file["next"] = json!(4), "part of an export: it goes on behind position 4"),
        (|file| file["job"]["id"] = json!("7"), "no export of a job"),
        (|file| file["job"]["agent"] = json!("buyer"), "job.agent must be NAME@VERSION"),
        (|file| file["job"]["submitted_at"] = json!("soon"), "job.submitted_at must be a time"),
        (
            |file| file["job"]["status"] = json!("COMPLETED"),
            "says that the job is COMPLETED, but its journal says FAILED",
        ),
        (|file| file["journal"][1]["seq"] = json!(3), "goes on at position 2, but the file has 3 there"),
        (
            |file| drop(file["journal"].as_array_mut().unwrap().remove(0)),
            "goes on at position 1, but the file has 2 there",
        ),
        (|file| file["journal"][2]["at"] = json!("never"), "entry at position 3 cannot be read: `at` is no time"),
        (|file| file["journal"][1]["truncated"] = json!(true), "entry at position 2 cannot be read: only its kind"),
        (|file| file["journal"][1]["entry"]["output"] = Value::Null, ""),
        (
            |file| {
                let twice = file["journal"][1].clone();
                file["journal"][3] = twice;
                file["journal"][3]["seq"] = json!(4);
                file["job"]["status"] = json!("PENDING");
            },
            "do not make a journal: step 0 has a second outcome at 4",
        ),
        (
            |file| {
                let mut more = file["journal"][2].clone();
                more["seq"] = json!(5);
                file["journal"].as_array_mut().unwrap().push(more);
            },
            "the entry at 5 stands behind the job's end",
        ),
    ];
    for (change, part) in cases {
        if part.is_empty() {
            // What a step gave is the step's own.
            let mut file: Value = serde_json::from_str(&golden()).unwrap();
            change(&mut file);
            let export = Export::read(file.to_string().as_bytes()).unwrap();
            export.into_job("acme".parse().unwrap(), NOW, nonces()).unwrap();
            continue;
        }
        let said = said(change);
        assert!(said.contains(part), "{said}, and not {part}");
    }
}

/// A job that waits is found among those that wait; one for which something has come is there to go on.
#[test]
fn a_job_that_waits_waits_where_it_comes() {
    let wait = |until: Option<u64>| {
        json!({"type": "waiting", "step": "1", "name": "approval", "kind": "signal",
               "on": {"for": "signal", "signal": "approval"}, "until": until})
    };
    let retry = json!({"type": "attempt_failed", "step": "1", "name": "read", "kind": "step", "attempt": 1,
        "started_at": 1, "retry_at": 7_000, "failure": {"class": "timeout", "message": "no answer"}});
    let waiting = |until: Option<u64>| JobState::Waiting { until: until.map(Timestamp::from_millis), seen: Seq(4) };
    let signal = json!({"type": "signalled", "signal": "approval", "key": "k", "payload": 1, "by": "bob"});
    let cancel = json!({"type": "cancel_requested", "key": "k", "by": "bob"});
    for (status, third, fourth, wanted) in [
        ("WAITING", wait(None), None, waiting(None)),
        ("WAITING", wait(Some(9_000)), None, waiting(Some(9_000))),
        ("WAITING", retry, None, waiting(Some(7_000))),
        ("PROCESSING", wait(None), None, JobState::Pending),
        ("WAITING", wait(None), Some(signal), JobState::Pending),
        ("WAITING", wait(None), Some(cancel), JobState::Pending),
    ] {
        let mut file: Value = serde_json::from_str(&golden()).unwrap();
        file["job"]["status"] = json!(status);
        file["journal"][2]["entry"] = third.clone();
        match fourth {
            Some(fourth) => file["journal"][3]["entry"] = fourth,
            None => drop(file["journal"].as_array_mut().unwrap().pop()),
        }
        let export = Export::read(file.to_string().as_bytes()).unwrap();
        let (_, job) = export.into_job("acme".parse().unwrap(), NOW, nonces()).unwrap();
        assert_eq!((job.progress.state, job.progress.due), (wanted, None), "{status}: {third}");
    }
}

#[test]
fn an_open_job_is_open_where_it_comes_and_due_nowhere() {
    let mut file: Value = serde_json::from_str(&golden()).unwrap();
    file["journal"].as_array_mut().unwrap().pop();
    for status in ["PENDING", "PROCESSING", "WAITING", "BLOCKED"] {
        file["job"]["status"] = json!(status);
        let export = Export::read(file.to_string().as_bytes()).unwrap();
        let (_, job) = export.into_job("acme".parse().unwrap(), NOW, nonces()).unwrap();
        assert_eq!((job.progress.state, job.progress.due), (JobState::Pending, None), "{status}");
    }
}
