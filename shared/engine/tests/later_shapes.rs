//! What this version makes of what a later one has written.
//!
//! A field that a later version adds beside the known ones is passed over: it must not change what the known ones mean. What
//! would change that is refused, with the version it takes: another kind of entry, another field of an edit (an edit that is
//! half applied is another edit), a batch of a later version of the protocol.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use longhaul_engine::journal::FoldError;
use longhaul_engine::{Batch, Journal, limits};
use serde_json::{Value, json};

fn batch(entry: Value) -> Value {
    json!({
        "v": limits::PROTOCOL_VERSION,
        "at": 1,
        "nonce": "00000000-0000-4000-8000-000000000001",
        "written_at": 1_795_953_600_000_u64,
        "entries": [entry],
    })
}

/// An entry of each kind, as it stands in a store.
fn entries() -> Vec<Value> {
    let failure = json!({ "class": "refused", "message": "no", "step": "2" });
    let usage = json!({ "input_tokens": 11, "output_tokens": 13 });
    let step = |kind: &str, more: Value| {
        let mut entry =
            json!({ "type": kind, "step": "2", "name": "read", "kind": "effect", "branch": { "index": 3, "of": 10 } });
        for (name, value) in more.as_object().unwrap() {
            entry[name] = value.clone();
        }
        entry
    };
    let began = 1_795_953_600_000_u64;
    vec![
        json!({ "type": "claimed", "epoch": 2, "session": "s-1", "takeover": true }),
        json!({ "type": "claimed", "epoch": 2, "session": "s-1", "takeover": true, "beside": 341 }),
        step("step_started", json!({})),
        step("step_completed", json!({ "attempt": 1, "started_at": began, "output": 1, "usage": usage })),
        step("attempt_failed", json!({ "attempt": 1, "started_at": began, "failure": failure, "retry_at": began })),
        step("step_failed", json!({ "attempt": 1, "started_at": began, "failure": failure })),
        step("waiting", json!({ "on": { "for": "time" }, "until": began })),
        step("waiting", json!({ "on": { "for": "signal", "signal": "approval" }, "until": null })),
        step(
            "waiting",
            json!({ "on": { "for": "child", "child": "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f" }, "until": null }),
        ),
        step("wait_ended", json!({ "end": { "by": "time" } })),
        step("wait_ended", json!({ "end": { "by": "signal", "signal_seq": 3 } })),
        step("emitted", json!({ "data": {} })),
        json!({ "type": "signalled", "signal": "approval", "key": "k", "payload": 1, "by": "ada" }),
        json!({ "type": "cancel_requested", "key": "k", "by": "ada", "reason": "enough" }),
        json!({ "type": "completed", "output": 1 }),
        json!({ "type": "failed", "failure": failure }),
        json!({ "type": "cancelled", "by": "ada" }),
        json!({ "type": "replayed", "key": "k", "by": "ada", "from": 3, "edit": {} }),
        json!({ "type": "forked", "job": "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f", "at": 5, "kept": 3 }),
    ]
}

#[test]
fn a_field_that_is_added_is_passed_over() {
    for entry in entries() {
        let known: Batch =
            serde_json::from_value(batch(entry.clone())).unwrap_or_else(|error| panic!("{entry}: {error}"));
        // In the batch, in the entry, and in what the entry holds.
        let mut places = vec![String::new(), "/entries/0".to_owned()];
        for within in ["branch", "usage", "failure", "on", "end"] {
            if entry.get(within).is_some() {
                places.push(format!("/entries/0/{within}"));
            }
        }
        for place in places {
            let mut later = batch(entry.clone());
            later.pointer_mut(&place).unwrap()["added_later"] = json!({ "of": ["a", "later", "version"] });
            let read: Batch =
                serde_json::from_value(later).unwrap_or_else(|error| panic!("{entry} at {place}: {error}"));
            assert_eq!(read, known, "{place}");
        }
    }
}

#[test]
fn what_changes_the_meaning_is_refused() {
    let unknown = json!({ "type": "paused", "by": "ada" });
    let edited = json!({ "type": "replayed", "key": "k", "by": "ada", "edit": { "temperature": 1 } });
    let waited = json!({ "type": "waiting", "step": "2", "name": "n", "kind": "signal", "on": { "for": "weather" }, "until": null });
    for entry in [unknown, edited, waited] {
        assert!(serde_json::from_value::<Batch>(batch(entry.clone())).is_err(), "{entry}");
    }
    let mut later = batch(entries().remove(0));
    later["v"] = json!(limits::PROTOCOL_VERSION + 1);
    let later: Batch = serde_json::from_value(later).unwrap();
    match Journal::read([later]) {
        Err(FoldError::Newer { found, known, .. }) => assert_eq!((found, known), (known + 1, limits::PROTOCOL_VERSION)),
        other => panic!("{other:?}"),
    }
}

/// What an earlier version wrote lacks the fields that were added since.
#[test]
fn a_field_that_is_missing_has_its_default() {
    for entry in entries() {
        let mut earlier = entry.clone();
        for added in ["branch", "usage", "reason"] {
            earlier.as_object_mut().unwrap().remove(added);
        }
        let read = serde_json::from_value::<Batch>(batch(earlier.clone()));
        assert!(read.is_ok(), "{earlier}: {read:?}");
    }
}

#[test]
fn an_order_is_read_like_a_batch() {
    let job = json!({
        "order": {
            "tenant": "acme", "id": "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f", "agent": { "name": "research", "version": 1 },
            "input": 1, "budget": {}, "webhook": null, "labels": {}, "parent": null, "traceparent": null,
            "submitted_at": 1, "submitted_by": "ada",
        },
    });
    let order: longhaul_engine::job::Order = serde_json::from_value(job["order"].clone()).unwrap();
    for place in ["", "/agent"] {
        let mut later = job["order"].clone();
        later.pointer_mut(place).unwrap()["added_later"] = json!(1);
        assert_eq!(serde_json::from_value::<longhaul_engine::job::Order>(later).unwrap(), order, "{place}");
    }
}
