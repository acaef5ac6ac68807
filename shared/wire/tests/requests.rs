//! What is taken and what is refused of requests, and which field a refusal names. E08 of the fault log is among them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use longhaul_engine::ids::{SignalKey, SignalName};
use longhaul_engine::{JobId, Seq};
use longhaul_wire::Problem;
use longhaul_wire::requests::{
    CancelRequest, ReplayRequest, SignalRequest, SubmitRequest, idempotency_key, parse, parse_or_default, signal_key,
    signal_name, traceparent,
};
use serde_json::{Value, json};

/// What a table expects: taken, or refused with this problem at this field (or parameter).
type Wanted = Result<(), (&'static str, &'static str)>;

fn check(text: &str, found: Result<(), Problem>, wanted: Wanted) {
    let found = found.map_err(|problem| {
        let body = serde_json::to_value(problem.body(None, None)).unwrap();
        let field = body["field"].as_str().or(body["parameter"].as_str()).unwrap_or_default().to_owned();
        (problem.name(), field)
    });
    assert_eq!(
        found,
        wanted.map_err(|(name, field)| (name, field.to_owned())),
        "{}",
        text.chars().take(120).collect::<String>()
    );
}

#[test]
fn submissions() {
    let labels = |count: usize| {
        let labels: serde_json::Map<String, Value> = (0..count).map(|n| (format!("l{n}"), json!("v"))).collect();
        json!({ "agent": "a", "labels": labels }).to_string()
    };
    let hook = |url: &str| json!({ "agent": "a", "webhook": url }).to_string();
    let deep = format!(r#"{{"agent":"a","input":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let table: Vec<(String, Wanted)> = vec![
        (r#"{"agent":"a"}"#.into(), Ok(())),
        (r#"{"agent":"a","input":null}"#.into(), Ok(())),
        (r#"{"agent":"a","budget":{"tokens":1}}"#.into(), Ok(())),
        (labels(16), Ok(())),
        (r#"{"agent":"a","labels":{"k":""}}"#.into(), Ok(())),
        (hook("https://example.com/x?y=1"), Ok(())),
        (hook("http://127.0.0.1:9/x"), Ok(())),
        (String::new(), Err(("invalid-json", ""))),
        ("{".into(), Err(("invalid-json", ""))),
        (r#"{"agent":"a"}x"#.into(), Err(("invalid-json", ""))),
        ("\u{feff}{\"agent\":\"a\"}".into(), Err(("invalid-json", ""))),
        (deep, Err(("invalid-json", ""))),
        ("[]".into(), Err(("invalid-field", ""))),
        ("{}".into(), Err(("invalid-field", ""))),
        (r#"{"agent":7}"#.into(), Err(("invalid-field", "/agent"))),
        (r#"{"agent":"a","agent":"b"}"#.into(), Err(("invalid-field", "/agent"))),
        (r#"{"agent":"a","tenant":"t"}"#.into(), Err(("invalid-field", "/tenant"))),
        (r#"{"agent":"a","parent_job_id":""}"#.into(), Err(("invalid-field", "/parent_job_id"))),
        (r#"{"agent":"a","budget":{"tokens":-1}}"#.into(), Err(("invalid-field", "/budget/tokens"))),
        (r#"{"agent":"a","budget":{"tokens":1.5}}"#.into(), Err(("invalid-field", "/budget/tokens"))),
        (r#"{"agent":"a","budget":{"steps":0}}"#.into(), Err(("invalid-field", "/budget/steps"))),
        (r#"{"agent":"a","budget":{"money":1}}"#.into(), Err(("invalid-field", "/budget/money"))),
        (labels(17), Err(("invalid-field", "/labels"))),
        (r#"{"agent":"a","labels":{"":"v"}}"#.into(), Err(("invalid-field", "/labels/"))),
        (r#"{"agent":"a","labels":{"k":7}}"#.into(), Err(("invalid-field", "/labels/k"))),
        (r#"{"agent":"a","labels":{"a/b~c":"\u0000"}}"#.into(), Err(("invalid-field", "/labels/a~1b~0c"))),
        (json!({ "agent": "a", "labels": { "k": "v".repeat(129) } }).to_string(), Err(("invalid-field", "/labels/k"))),
        (r#"{"agent":"a","labels":{"team=red":"v"}}"#.into(), Err(("invalid-field", "/labels/team=red"))),
        (r#"{"agent":"a","labels":{"team":"red=blue"}}"#.into(), Ok(())),
        (r#"{"agent":"a","priority":null}"#.into(), Err(("invalid-field", "/priority"))),
        (r#"{"agent":"a","thread":"t","on_busy":null,"priority":7}"#.into(), Err(("invalid-field", "/priority"))),
        (r#"{"agent":"a","thread":"t","on_busy":[]}"#.into(), Err(("invalid-field", "/on_busy"))),
        (r#"{"agent":"a","thread":"t","on_busy":"wait"}"#.into(), Err(("invalid-field", "/on_busy"))),
        (
            r#"{"agent":"a","webhook":"https://h.example","webhook_events":[null]}"#.into(),
            Err(("invalid-field", "/webhook_events/0")),
        ),
        (r#"{"agent":"a","priority":nul}"#.into(), Err(("invalid-json", ""))),
        (r#"{"agent":"a","budget":{"tokens":1e999}}"#.into(), Err(("invalid-json", ""))),
        (hook("ftp://example.com"), Err(("invalid-field", "/webhook"))),
        (hook("file:///proc/self/environ"), Err(("invalid-field", "/webhook"))),
        (hook("/relative"), Err(("invalid-field", "/webhook"))),
        (hook("https://user:pw@example.com/"), Err(("invalid-field", "/webhook"))),
        (hook(&format!("https://example.com/{}", "x".repeat(2_100))), Err(("invalid-field", "/webhook"))),
        (format!(r#"{{"agent":"{}"}}"#, "a".repeat(1_100_000)), Err(("body-too-large", ""))),
    ];
    for (text, wanted) in table {
        check(&text, parse::<SubmitRequest>(text.as_bytes()).and_then(|request| request.check()), wanted);
    }
}

/// Wherever a name stands twice, however it is spelt: readers disagree about which of the two counts.
#[test]
fn doubled_names() {
    for (text, at) in [
        (r#"{"agent":"a","labels":{"k":"1","k":"2"}}"#, "/labels/k"),
        (r#"{"agent":"a","labels":{"k":"1","\u006b":"1"}}"#, "/labels/k"),
        (r#"{"agent":"a","input":{"x":1,"y":2,"x":1}}"#, "/input/x"),
        (r#"{"agent":"a","input":[0,{"deep":{"":1,"":{}}}]}"#, "/input/1/deep/"),
        (r#"{"agent":"a","budget":{"steps":1,"steps":1}}"#, "/budget/steps"),
        (r#"{"input":{},"agent":"a","input":{}}"#, "/input"),
        (r#"{"agent":"a","labels":{"a/b":"1","a/b":"2"}}"#, "/labels/a~1b"),
    ] {
        let found = parse::<SubmitRequest>(text.as_bytes()).map(|_| ());
        check(text, found, Err(("invalid-field", at)));
    }
    // The same name in different objects is nothing of the kind.
    let text = r#"{"agent":"a","input":{"x":{"x":[{"x":1},{"x":2}]}},"labels":{"x":"1","X":"2","x ":"3"}}"#;
    assert!(parse::<SubmitRequest>(text.as_bytes()).is_ok());
    check(
        "",
        parse::<SignalRequest>(br#"{"payload":{"a":1,"a":2}}"#).map(|_| ()),
        Err(("invalid-field", "/payload/a")),
    );
}

#[test]
fn bytes_that_are_no_text() {
    for body in [&b"{\"agent\":\"caf\xe9\"}"[..], b"\xff\xfe{\x00\"\x00", b"\x00"] {
        let problem = parse::<SubmitRequest>(body).unwrap_err();
        assert_eq!(problem.name(), "invalid-json", "{body:?}");
    }
}

#[test]
fn signals_cancels_and_replays() {
    let empty = "";
    check(empty, parse_or_default::<SignalRequest>(b"").and_then(|request| request.check()), Ok(()));
    check(empty, parse_or_default::<CancelRequest>(b"").and_then(|request| request.check()), Ok(()));
    check(empty, parse_or_default::<ReplayRequest>(b"").and_then(|request| request.check()), Ok(()));
    let large = json!({ "payload": "x".repeat(70_000) }).to_string();
    check(
        &large,
        parse::<SignalRequest>(large.as_bytes()).and_then(|request| request.check()),
        Err(("invalid-field", "/payload")),
    );
    let long = json!({ "reason": "x".repeat(1_001) }).to_string();
    check(
        &long,
        parse::<CancelRequest>(long.as_bytes()).and_then(|request| request.check()),
        Err(("invalid-field", "/reason")),
    );
    let table: Vec<(&str, Wanted)> = vec![
        (r#"{"from":3,"edit":{"input":{"topic":"x"},"budget":{"tokens":5}}}"#, Ok(())),
        (r#"{"from":0}"#, Err(("invalid-field", "/from"))),
        (r#"{"from":"3"}"#, Err(("invalid-field", "/from"))),
        (r#"{"edit":{"budget":{"tokens":0}}}"#, Err(("invalid-field", "/edit/budget/tokens"))),
        (r#"{"edit":{"prompt":"x"}}"#, Err(("invalid-field", "/edit/prompt"))),
        (r#"{"from":2,"by_hand":true}"#, Ok(())),
        (r#"{"by_hand":null}"#, Err(("invalid-field", "/by_hand"))),
    ];
    for (text, wanted) in table {
        check(text, parse::<ReplayRequest>(text.as_bytes()).and_then(|request| request.check()), wanted);
    }
}

#[test]
fn a_problem_does_not_repeat_what_was_sent() {
    let secret = "sk-live-0123456789";
    for body in [
        json!({ "agent": "a", "budget": secret }),
        json!({ "agent": "a", "budget": { "tokens": secret } }),
        json!({ "agent": { "key": secret } }),
        json!({ "agent": "a", "labels": [secret] }),
        json!({ "agent": "a", "labels": { "k": format!("\u{1}{secret}") } }),
        json!({ "agent": "a", "webhook": format!("https://u:{secret}@h/") }),
    ] {
        let problem =
            parse::<SubmitRequest>(body.to_string().as_bytes()).and_then(|request| request.check()).unwrap_err();
        let answer = serde_json::to_string(&problem.body(None, None)).unwrap();
        assert!(!answer.contains(secret), "{answer}");
    }
}

/// What is said of a part of a body is one sentence, as what is said of the whole is.
#[test]
fn a_sentence_ends_once() {
    let unknown = Problem::UnknownAgent { agent: "triage".to_owned(), known: vec!["research@1".to_owned()] };
    for problem in [unknown, Problem::field("/input", "is missing"), Problem::KeyReused] {
        let detail = problem.below("/job").body(None, None).detail;
        assert!(detail.ends_with('.') && !detail.ends_with(".."), "{detail}");
    }
}

#[test]
fn keys() {
    let longest = "k".repeat(255);
    let too_long = "k".repeat(256);
    for (text, wanted) in [
        ("k-77", Some("k-77")),
        ("\"k-77\"", Some("k-77")),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", Some("8e03978e-40d5-43dd-bc93-6894a57f9324")),
        (longest.as_str(), Some(longest.as_str())),
        (too_long.as_str(), None),
        ("", None),
        ("\"\"", None),
        ("\"k", None),
        ("two words", None),
        ("täg", None),
    ] {
        assert_eq!(idempotency_key(text).ok().as_ref().map(|key| key.as_str()), wanted, "{text}");
    }
}

/// E08: what would break out of a header breaks out of nothing here.
#[test]
fn e08_header_injection() {
    let case: Value = serde_json::from_str(include_str!("faults/E08/tool_headers.json")).unwrap();
    let bad: Vec<&str> = case["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(bad.len() >= 4);
    for text in bad {
        assert!(idempotency_key(text).is_err(), "{text:?}");
    }
    let body = json!({ "agent": "a", "labels": { "k": case["label"] } }).to_string();
    check(
        &body,
        parse::<SubmitRequest>(body.as_bytes()).and_then(|request| request.check()),
        Err(("invalid-field", "/labels/k")),
    );
}

#[test]
fn traces() {
    for (text, taken) in [
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true),
        ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", false),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false),
        ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false),
        ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", false),
        ("", false),
    ] {
        assert_eq!(traceparent(text).is_some(), taken, "{text}");
    }
}

/// Nobody outside can write what only jobs write to each other.
#[test]
fn reserved_names() {
    let job: JobId = "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f".parse().unwrap();
    let child = SignalName::of_child_end(job);
    for (text, taken) in [
        ("approval", true),
        ("approval:legal", true),
        ("children", true),
        (child.as_str(), false),
        ("child:", false),
        ("a b", false),
        ("", false),
    ] {
        assert_eq!(signal_name(text).is_ok(), taken, "{text}");
    }
    for (text, taken) in [
        ("key", true),
        ("interrupted", true),
        (SignalKey::of_child_end(job, 0).as_str(), false),
        (SignalKey::of_parent_end(job, 0).as_str(), false),
        (SignalKey::of_parent_replay(job, 0).as_str(), false),
        (SignalKey::of_interruption(job).as_str(), false),
        (SignalKey::of_kept_signal(Seq(1)).as_str(), false),
        (&format!("\"{}\"", SignalKey::of_child_end(job, 0)), false),
    ] {
        assert_eq!(signal_key(text).is_ok(), taken, "{text}");
    }
}
