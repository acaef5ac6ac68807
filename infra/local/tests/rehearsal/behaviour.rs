//! The wire format, time, memory and scripted faults.

use std::time::{Duration, Instant};

use insta::assert_snapshot;
use longhaul_llm::{Cut, Message, ModelErrorKind, ModelRequest, Usage};
use longhaul_local::rehearsal::{Rehearsal, RehearsalError, RequestRecord, start};
use serde_json::{Value, json};

use crate::prompts::{Stand, TOPIC, request};

async fn get(url: String) -> Value {
    reqwest::get(url).await.unwrap().json().await.unwrap()
}

async fn records(stand: &Stand) -> Vec<RequestRecord> {
    serde_json::from_value(get(stand.url("/rehearsal/requests")).await).unwrap()
}

async fn post(url: String, body: &Value) -> (u16, String) {
    let response = reqwest::Client::new().post(url).body(body.to_string()).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

fn without_time(text: &str) -> String {
    let marker = "\"created\":";
    let mut parts = text.split(marker);
    let mut result = parts.next().unwrap().to_owned();
    for part in parts {
        result += marker;
        result += "0";
        result += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    result
}

#[tokio::test]
async fn the_wire_format_is_the_real_one() {
    let stand = Stand::start(Rehearsal::default()).await;
    let ask = json!({"model": "any", "messages": [
        {"role": "developer", "content": "x"},
        {"role": "user", "content": [{"type": "text", "text": "Tides are raised by the moon twice a day."}]},
    ]});
    let completions = stand.url("/v1/chat/completions");
    let (status, whole) = post(completions.clone(), &ask).await;
    assert_eq!(status, 200);
    assert_snapshot!("whole", without_time(&whole));
    let mut streamed = ask.clone();
    streamed["stream"] = json!(true);
    streamed["stream_options"] = json!({"include_usage": true});
    assert_snapshot!("stream_with_usage", without_time(&post(completions.clone(), &streamed).await.1));
    streamed["stream_options"] = json!(null);
    let (_, plain) = post(completions.clone(), &streamed).await;
    assert!(!plain.contains("usage") && plain.ends_with("data: [DONE]\n\n"), "{plain}");
    assert_eq!(get(stand.url("/v1/models")).await["data"][0]["id"], "rehearsal");
    for bad in [json!({}), json!({"messages": []}), json!({"messages": [{"role": "king"}]}), json!([])] {
        let (status, body) = post(completions.clone(), &bad).await;
        let error: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &error["error"]["type"]), (400, &json!("invalid_request_error")), "{bad}");
    }
    assert_eq!(post(stand.url("/v1/other"), &ask).await.0, 404);
}

#[tokio::test]
async fn usage_counts_four_characters_as_a_token() {
    let stand = Stand::start(Rehearsal::default()).await;
    let reply = stand.complete(&ModelRequest::new("m", vec![Message::user("12345678 9")])).await.unwrap();
    let output_tokens = (reply.message.text().chars().count() as u64).div_ceil(4);
    assert_eq!(reply.usage, Usage { input_tokens: 3, output_tokens, ..Usage::default() });
}

#[tokio::test]
async fn every_request_is_remembered() {
    let stand = Stand::start(Rehearsal::default()).await;
    let plan = |topic: &str, key: &str| ModelRequest {
        idempotency_key: Some(key.to_owned()),
        ..request("research_plan", &[("topic", topic)])
    };
    stand.complete(&plan(TOPIC, "job/1")).await.unwrap();
    stand.complete(&plan(TOPIC, "job/2")).await.unwrap();
    stand.complete(&ModelRequest::new("m", vec![Message::user("hi")])).await.unwrap();
    let records = records(&stand).await;
    let seen: Vec<_> = records
        .iter()
        .map(|record| (record.sequence, record.schema.as_deref(), record.idempotency_key.as_deref(), record.finished))
        .collect();
    let plan = Some("research_plan");
    assert_eq!(seen, [(1, plan, Some("job/1"), true), (2, plan, Some("job/2"), true), (3, None, None, true)]);
    assert_eq!(records[0].messages_hash, records[1].messages_hash);
    assert_ne!(records[0].messages_hash, records[2].messages_hash);
}

#[tokio::test]
async fn an_abandoned_request_stays_unfinished() {
    let stand = Stand::start(Rehearsal { think_time: Duration::from_secs(60), tokens_per_second: None }).await;
    let ask = request("research_plan", &[("topic", TOPIC)]);
    let noticed = async { while records(&stand).await.is_empty() {} };
    tokio::select! {
        answer = stand.complete(&ask) => panic!("after a minute: {answer:?}"),
        () = noticed => {}
    }
    assert!(!records(&stand).await[0].finished);
}

#[tokio::test]
async fn scripted_faults_happen_once_each() {
    let stand = Stand::start(Rehearsal::default()).await;
    let faults = json!([
        {"schema": "reading_notes", "nth": 1, "status": 429, "retry_after": 1},
        {"schema": "research_plan", "nth": 2, "status": 503},
        {"schema": "research_plan", "nth": 3, "cut_after_bytes": 700},
        {"schema": "research_plan", "nth": 4, "refuse": true},
        {"schema": "ticket", "think_ms": 40},
    ]);
    assert_eq!(post(stand.url("/rehearsal/faults"), &faults).await, (200, "{\"waiting\":5}".to_owned()));
    let ask = request("research_plan", &[("topic", TOPIC)]);
    let overloaded = ModelErrorKind::Overloaded { retry_after: None };
    let cut = ModelErrorKind::Truncated { cut: Cut::Connection };
    for expected in [None, Some(overloaded), Some(cut), Some(ModelErrorKind::Refused), None] {
        let outcome = stand.complete(&ask).await;
        assert_eq!(outcome.as_ref().err().map(|error| error.kind().clone()), expected, "{outcome:?}");
    }
    let finished: Vec<bool> = records(&stand).await.iter().map(|record| record.finished).collect();
    assert_eq!(finished, [true, true, false, true, true]);
    let notes = request("reading_notes", &[("topic", TOPIC), ("file", "f"), ("title", "t"), ("text", "x")]);
    let error = stand.complete(&notes).await.unwrap_err();
    assert_eq!(error.kind(), &ModelErrorKind::RateLimited { retry_after: Some(Duration::from_secs(1)) });
    stand.complete(&notes).await.unwrap();
    let begun = Instant::now();
    let rule = [("id", "R"), ("title", ""), ("requirement", "x"), ("finding", "{}")];
    stand.complete(&request("ticket", &rule)).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(40));
    for bad in [json!([{"nth": 1}]), json!([{"nth": 0, "refuse": true}]), json!({}), json!([{"sstatus": 429}])] {
        assert_eq!(post(stand.url("/rehearsal/faults"), &bad).await.0, 400, "{bad}");
    }
}

#[tokio::test]
async fn answers_keep_their_pace() {
    let think_time = Duration::from_millis(30);
    let stand = Stand::start(Rehearsal { think_time, tokens_per_second: Some(500) }).await;
    let begun = Instant::now();
    let reply = stand.complete(&request("research_plan", &[("topic", TOPIC)])).await.unwrap();
    let least = think_time + Duration::from_secs(reply.usage.output_tokens) / 500;
    assert!(begun.elapsed() >= least, "{:?} for {least:?}", begun.elapsed());
}

#[tokio::test]
async fn it_listens_on_loopback_only_and_stops() {
    let refused = start("0.0.0.0:0".parse().unwrap(), Rehearsal::default()).await;
    assert!(matches!(refused, Err(RehearsalError::NotLoopback { .. })), "{refused:?}");
    let stand = Stand::start(Rehearsal::default()).await;
    let taken = start(stand.handle.address, Rehearsal::default()).await;
    assert!(matches!(taken, Err(RehearsalError::Listen { .. })), "{taken:?}");
    let address = stand.handle.address;
    stand.handle.shutdown().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
