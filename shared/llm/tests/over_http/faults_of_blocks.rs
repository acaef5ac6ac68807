//! Cases of the wire formats that answer in blocks, by their ids under `tests/faults/`, over a real connection.

use longhaul_llm::{Arguments, Cut, Finish, Message, ModelErrorKind, ModelReply, Usage, Wire};
use serde_json::{Value, json};

use crate::server::{Answer, End, Server};
use crate::wires::{Outcome, answered, ask, event_stream, file, json_file, provider, request};

/// What an answer must come to.
enum Expected {
    Text(&'static str),
    Failure(ModelErrorKind),
}
use Expected::{Failure, Text};

async fn check(name: &str, wire: Wire, answer: Answer, expected: Expected) -> Outcome {
    let outcome = answered(wire, answer).await;
    match (&expected, &outcome.result) {
        (Text(text), Ok(reply)) => {
            assert_eq!(reply.message.text(), *text, "{name}");
            assert_eq!(reply.finish, Finish::Stop, "{name}");
            assert_eq!(outcome.shown, *text, "{name}: what watchers saw");
        }
        (Failure(kind), Err(error)) => assert_eq!(error.kind(), kind, "{name}: {error}"),
        (_, result) => panic!("{name}: {result:?}"),
    }
    outcome
}

pub(crate) fn cut(by: Cut) -> ModelErrorKind {
    ModelErrorKind::Truncated { cut: by }
}

pub(crate) fn tokens(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

const OVERLOADED: ModelErrorKind = ModelErrorKind::Overloaded { retry_after: None };
const LIMITED: ModelErrorKind = ModelErrorKind::RateLimited { retry_after: None };

#[tokio::test]
async fn a10_output_limit_in_a_tool_call() {
    let answer = Answer::ok(file("A10/anthropic_max_tokens.sse"));
    let outcome = check("max_tokens", Wire::Messages, answer, Failure(cut(Cut::OutputLimit))).await;
    let error = outcome.result.unwrap_err();
    assert!(!error.is_retryable());
    assert_eq!(error.partial().unwrap().tools, ["write_file"]);
    assert_eq!(error.usage(), Some(tokens(40, 64)));
}

#[tokio::test]
async fn a12_refusal() {
    let answer = Answer::ok(file("A12/anthropic_refusal.json"));
    let error = check("refusal", Wire::Messages, answer, Failure(ModelErrorKind::Refused)).await.result.unwrap_err();
    assert!(!error.is_retryable());
    assert_eq!(error.usage(), Some(tokens(12, 0)), "spent tokens count");
}

#[tokio::test]
async fn a14_errors_inside_a_stream() {
    let rows = [
        ("A14/overloaded_mid_tool.sse", OVERLOADED, true),
        ("A14/error_first.sse", OVERLOADED, true),
        ("A14/invalid_in_stream.sse", ModelErrorKind::Invalid, false),
    ];
    for (name, kind, retryable) in rows {
        let outcome = check(name, Wire::Messages, Answer::ok(file(name)), Failure(kind)).await;
        assert_eq!(outcome.result.unwrap_err().is_retryable(), retryable, "{name}");
    }
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let error = check("d: status", Wire::Messages, Answer::status(529, body), Failure(OVERLOADED)).await;
    assert_eq!(error.result.unwrap_err().status(), Some(529));
    // (a), with the retry: a whole answer of its own, and nothing of the first attempt in it.
    let server = Server::start().await;
    let model = provider(Wire::Messages, &server);
    server.will_answer(Answer::ok(file("A14/overloaded_mid_tool.sse")));
    let first = ask(&model, &request()).await.result.unwrap_err();
    assert_eq!(first.partial().unwrap().text, "Let me book it.");
    assert_eq!(first.usage(), Some(tokens(80, 1)), "spent tokens count");
    let booked = json!({"type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "toolu_c", "name": "book", "input": {"seat": "14C"}}]});
    server.will_answer(Answer::ok(booked.to_string()));
    let second = ask(&model, &request()).await.result.unwrap();
    assert_eq!(second.message.text(), "");
    let seats: Vec<_> = second.message.tool_calls.iter().map(|call| call.arguments.clone()).collect();
    assert_eq!(seats, [Arguments::Object { object: json!({"seat": "14C"}).as_object().unwrap().clone() }]);
}

/// The second request of a conversation whose first answer was `reply`, after a stay in the journal.
pub(crate) async fn sent_back(wire: Wire, server: &Server, reply: &ModelReply, last: Answer) -> Value {
    let stored: ModelReply = serde_json::from_str(&serde_json::to_string(reply).unwrap()).unwrap();
    assert_eq!(stored, *reply);
    let mut next = request();
    let calls: Vec<String> = stored.message.tool_calls.iter().map(|call| call.id.clone()).collect();
    next.messages.push(stored.message);
    next.messages.extend(calls.iter().map(|id| Message::tool(id, "found")));
    if calls.is_empty() {
        next.messages.push(Message::user("go on"));
    }
    server.will_answer(last);
    ask(&provider(wire, server), &next).await.result.unwrap();
    server.seen().last().unwrap().body.clone()
}

#[tokio::test]
async fn a15_unknown_events_blocks_and_items() {
    let server = Server::start().await;
    let model = provider(Wire::Messages, &server);
    let stream = || Answer::ok(file("A15/unknown_types.sse"));
    server.will_answer(stream());
    let outcome = ask(&model, &request()).await;
    let reply = outcome.result.unwrap();
    assert_eq!((reply.message.text().as_str(), reply.usage, outcome.shown.as_str()), ("Done.", tokens(10, 6), "Done."));
    assert!(reply.message.tool_calls.is_empty(), "never run as one of ours");
    let body = sent_back(Wire::Messages, &server, &reply, stream()).await;
    assert_eq!(
        body["messages"][1]["content"],
        json!([
            {"type": "hosted_search_call", "id": "srv_1", "name": "search", "input": {}},
            {"type": "text", "text": "Done.", "citations": [{"url": "https://example.org"}]},
        ])
    );
    let server = Server::start().await;
    let model = provider(Wire::Responses, &server);
    let whole = || Answer::ok(file("A15/responses_unknown_item.json"));
    server.will_answer(whole());
    let reply = ask(&model, &request()).await.result.unwrap();
    assert_eq!((reply.message.text().as_str(), reply.usage), ("Done.", tokens(10, 6)));
    let body = sent_back(Wire::Responses, &server, &reply, whole()).await;
    let output = json_file("A15/responses_unknown_item.json")["output"].clone();
    assert_eq!(body["input"].as_array().unwrap()[1..3], output.as_array().unwrap()[..], "exactly what came");
}

#[tokio::test]
async fn a16_results_of_parallel_calls_stand_together() {
    let server = Server::start().await;
    let model = provider(Wire::Messages, &server);
    server.will_answer(Answer::ok(file("A16/anthropic_three_tools.json")));
    let reply = ask(&model, &request()).await.result.unwrap();
    assert_eq!(reply.message.tool_calls.len(), 3);
    let mut next = request();
    next.messages.extend([
        reply.message,
        Message::tool("toolu_1", "4 °C"),
        Message::user("and be brief"),
        Message::tool_error("toolu_2", ""),
        Message::tool("toolu_3", "19 °C"),
    ]);
    server.will_answer(Answer::ok(file("A15/unknown_types.sse")));
    ask(&model, &next).await.result.unwrap();
    let messages = server.seen()[1].body["messages"].clone();
    assert_eq!(messages[1]["content"], json_file("A16/anthropic_three_tools.json")["content"]);
    assert_eq!(
        messages[2],
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "4 °C"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "The tool failed and gave no reason.", "is_error": true},
            {"type": "tool_result", "tool_use_id": "toolu_3", "content": "19 °C"},
            {"type": "text", "text": "and be brief"},
        ]})
    );
    assert_eq!(messages.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a23_ends_of_a_response() {
    let rows = [
        ("A23/failed.sse", ModelErrorKind::Transient, "Part", None),
        ("A23/incomplete.sse", cut(Cut::OutputLimit), "", Some(tokens(30, 16))),
        ("A23/error_event.sse", LIMITED, "", None),
    ];
    for (name, kind, partial, usage) in rows {
        let error = check(name, Wire::Responses, Answer::ok(file(name)), Failure(kind)).await.result.unwrap_err();
        assert_eq!(error.partial().map_or("", |partial| partial.text.as_str()), partial, "{name}");
        assert_eq!(error.usage(), usage, "{name}");
    }
    // The end is an event of its own: whatever stands before it is half an answer.
    let whole = file("A23/failed.sse");
    let last = whole.windows(6).rposition(|bytes| bytes == b"event:").unwrap();
    for end in [End::Clean, End::Abort] {
        let answer = Answer::pieces(vec![whole[..last].to_vec()], end);
        check("no end", Wire::Responses, answer, Failure(cut(Cut::Connection))).await;
    }
}

#[tokio::test]
async fn a24_exceptions_inside_an_event_stream() {
    let throttled = file("A24/throttle_mid_stream.bin");
    let unknown = file("A24/unknown_then_stop.bin");
    let bytes = |whole: &[u8]| whole.iter().map(|byte| vec![*byte]).collect::<Vec<_>>();
    let framed =
        |pieces| Answer::pieces(pieces, End::Clean).header("content-type", "application/vnd.amazon.eventstream");
    for pieces in [vec![throttled.clone()], bytes(&throttled)] {
        let outcome = check("throttled", Wire::Converse, framed(pieces), Failure(LIMITED)).await;
        let error = outcome.result.unwrap_err();
        assert!(error.is_retryable());
        assert_eq!(error.message(), "Too many tokens, please wait");
        assert_eq!(error.partial().unwrap().text, "Half ");
    }
    for pieces in [vec![unknown.clone()], bytes(&unknown)] {
        let outcome = check("unknown event", Wire::Converse, framed(pieces), Text("All")).await;
        assert_eq!(outcome.result.unwrap().usage, tokens(5, 1));
    }
    let mut damaged = throttled.clone();
    let length = damaged.len();
    for byte in &mut damaged[length - 4..] {
        *byte ^= 0xFF;
    }
    check("damaged", Wire::Converse, event_stream(damaged), Failure(ModelErrorKind::Transient)).await;
    // Cut between two frames, and in the middle of one.
    let first_two = u32::from_be_bytes(throttled[..4].try_into().unwrap()) as usize;
    for length in [first_two, first_two + 20] {
        for end in [End::Clean, End::Abort] {
            let answer = Answer::pieces(vec![throttled[..length].to_vec()], end)
                .header("content-type", "application/vnd.amazon.eventstream");
            check("cut", Wire::Converse, answer, Failure(cut(Cut::Connection))).await;
        }
    }
}
