//! Every event fits a WebSocket frame, whatever the agent, the model or a caller wrote (fault D03).
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use longhaul_engine::entry::{Edit, StepId};
use longhaul_engine::{Entry, ErrorClass, Failure, JobId, Seq, StepKey, StepKind, Timestamp, Usage};
use longhaul_wire::socket::ServerMessage;
use longhaul_wire::{Event, limits};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

/// API Gateway's bound for one frame.
const FRAME_BYTES_MAX: usize = 32 * 1024;

fn entries(text: &str) -> Vec<Entry> {
    let id = || StepId { key: StepKey::at(text, 0), name: text.into(), kind: StepKind::Step, branch: None };
    let failure = || Failure {
        class: ErrorClass::Transient,
        message: text.into(),
        causes: vec![text.into(); 20],
        step: Some(StepKey::at(text, 1)),
        partial: Some(Box::new(text.into())),
        sent: Some(Box::new(text.into())),
    };
    let at = Timestamp::from_millis(0);
    let value = json!({ "a": text, "b": [text, text] });
    vec![
        Entry::StepCompleted {
            id: id(),
            attempt: 1,
            started_at: at,
            output: value.clone(),
            usage: Usage::default(),
            look: false,
        },
        Entry::StepCompleted {
            id: id(),
            attempt: 1,
            started_at: at,
            output: json!(text),
            usage: Usage::default(),
            look: false,
        },
        Entry::AttemptFailed {
            id: id(),
            attempt: 1,
            started_at: at,
            failure: failure(),
            retry_at: at,
            usage: Usage::default(),
        },
        Entry::StepFailed { id: id(), attempt: 1, started_at: at, failure: failure(), usage: Usage::default() },
        Entry::Emitted { id: id(), data: value.clone() },
        Entry::Signalled {
            signal: "s".repeat(64).parse().unwrap(),
            key: "k".parse().unwrap(),
            payload: value.clone(),
            by: text.into(),
        },
        Entry::CancelRequested { key: "k".parse().unwrap(), by: text.into(), reason: Some(text.into()) },
        Entry::Completed { output: value.clone() },
        Entry::Failed { failure: failure() },
        Entry::Cancelled { by: text.into(), reason: Some(text.into()) },
        Entry::Replayed {
            key: "k".parse().unwrap(),
            by: text.into(),
            from: None,
            edit: Edit { input: Some(value), budget: None, ..Edit::default() },
        },
    ]
}

fn check(text: &str) {
    for entry in entries(text) {
        let event = Event::of_entry(JobId::from_uuid(Uuid::max()), Seq(u64::MAX), Timestamp::from_millis(0), &entry);
        let bytes = serde_json::to_vec(&event).unwrap().len();
        assert!(bytes <= limits::EVENT_BYTES_MAX, "{:?} has {bytes} bytes", event.kind);
        let message = serde_json::to_vec(&ServerMessage::event(event)).unwrap();
        assert!(message.len() <= FRAME_BYTES_MAX, "a message has {} bytes", message.len());
    }
}

#[test]
fn large_values_are_cut() {
    for text in ["漢\"", "\u{1}", "\"", "\\", "🙂", "plain", "\n"] {
        for count in [1, 100, 8_000, 131_000] {
            check(&text.repeat(count));
        }
    }
}

#[test]
fn a_cut_value_says_so_and_how_large_it_is() {
    let shown = |output: Value| {
        let entry = Entry::Completed { output };
        Event::of_entry(JobId::from_uuid(Uuid::nil()), Seq(1), Timestamp::from_millis(0), &entry).data
    };
    // A JSON text of exactly the limit is whole, one byte more is cut.
    let whole = json!("x".repeat(limits::EVENT_VALUE_BYTES_MAX - 2));
    assert_eq!(Value::Object(shown(whole.clone())), json!({ "result": whole }));
    let cut = shown(json!("x".repeat(limits::EVENT_VALUE_BYTES_MAX - 1)));
    assert_eq!(cut["truncated"], json!(true));
    assert_eq!(cut["bytes"], json!(limits::EVENT_VALUE_BYTES_MAX + 1));
    let cut = shown(json!({ "list": vec![1; 10_000] }));
    assert!(cut["result"].as_str().unwrap().starts_with(r#"{"list":[1,1,"#), "{cut:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_text_fits(text in "\\PC{0,64}|[\\x00-\\x7f]{0,64}", count in 0_usize..1_000) {
        check(&text.repeat(count));
    }
}
