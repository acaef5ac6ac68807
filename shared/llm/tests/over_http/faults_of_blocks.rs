//! Cases of the wire formats that answer in blocks, by their ids under `tests/faults/`, over a real connection.

use std::time::Duration;

use longhaul_llm::{Arguments, Cut, Delta, Finish, Message, ModelErrorKind, ModelReply, Role, ToolCall, Usage, Wire};
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

fn cut(by: Cut) -> ModelErrorKind {
    ModelErrorKind::Truncated { cut: by }
}

fn tokens(input_tokens: u64, output_tokens: u64) -> Usage {
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
        ("A14/overloaded_mid_tool.sse", OVERLOADED),
        ("A14/error_first.sse", OVERLOADED),
        ("A14/invalid_in_stream.sse", ModelErrorKind::Invalid),
    ];
    for (name, kind) in rows {
        let retryable = kind.is_retryable();
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
async fn sent_back(wire: Wire, server: &Server, reply: &ModelReply, last: Answer) -> Value {
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

#[tokio::test]
async fn stop_reasons_have_meanings() {
    let unknown = || cut(Cut::UnknownFinish { raw: "nap_time".to_owned() });
    let rows: [(&str, Option<ModelErrorKind>); 10] = [
        ("end_turn", None),
        ("stop_sequence", None),
        ("pause_turn", None),
        ("max_tokens", Some(cut(Cut::OutputLimit))),
        ("model_context_window_exceeded", Some(ModelErrorKind::ContextOverflow)),
        ("refusal", Some(ModelErrorKind::Refused)),
        ("content_filtered", Some(ModelErrorKind::Refused)),
        ("guardrail_intervened", Some(ModelErrorKind::Refused)),
        ("malformed_tool_use", Some(ModelErrorKind::Transient)),
        ("nap_time", Some(unknown())),
    ];
    for (reason, kind) in rows {
        let message = json!({"type": "message", "content": [{"type": "text", "text": "Hm"}], "stop_reason": reason,
            "usage": {"input_tokens": 3, "output_tokens": 1}});
        let converse = json!({"output": {"message": {"role": "assistant", "content": [{"text": "Hm"}]}},
            "stopReason": reason, "usage": {"inputTokens": 3, "outputTokens": 1, "totalTokens": 4}});
        for (wire, body) in [(Wire::Messages, message), (Wire::Converse, converse)] {
            let result = answered(wire, Answer::ok(body.to_string())).await.result;
            match (&kind, result) {
                (None, Ok(reply)) => {
                    let finish = if reason == "pause_turn" { Finish::Paused } else { Finish::Stop };
                    assert_eq!(reply.finish, finish, "{wire:?} {reason}");
                }
                (Some(kind), Err(error)) => {
                    assert_eq!(error.kind(), kind, "{wire:?} {reason}");
                    assert_eq!(error.usage(), Some(tokens(3, 1)), "{wire:?} {reason}");
                    assert_eq!(error.partial().unwrap().text, "Hm", "{wire:?} {reason}");
                }
                (_, result) => panic!("{wire:?} {reason}: {result:?}"),
            }
        }
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn errors_of_each_format_have_classes() {
    let wait = Some(Duration::from_secs(3));
    let anthropic = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
    let credit = "Your credit balance is too low to access the Anthropic API.";
    let long = "prompt is too long: 215000 tokens > 200000 maximum";
    let rows = [
        (Wire::Messages, 401, "", anthropic("authentication_error", "x"), ModelErrorKind::Auth),
        (Wire::Messages, 400, "", anthropic("invalid_request_error", credit), ModelErrorKind::Budget),
        (Wire::Messages, 400, "", anthropic("invalid_request_error", long), ModelErrorKind::ContextOverflow),
        (Wire::Messages, 413, "", anthropic("request_too_large", "x"), ModelErrorKind::ContextOverflow),
        (
            Wire::Messages,
            429,
            "",
            anthropic("rate_limit_error", "x"),
            ModelErrorKind::RateLimited { retry_after: wait },
        ),
        (Wire::Messages, 504, "", anthropic("timeout_error", "x"), ModelErrorKind::Timeout),
        (Wire::Messages, 500, "", anthropic("api_error", "x"), ModelErrorKind::Transient),
        (
            Wire::Responses,
            429,
            "",
            json!({"error": {"code": "insufficient_quota", "message": "x"}}),
            ModelErrorKind::Budget,
        ),
        (
            Wire::Responses,
            400,
            "",
            json!({"error": {"code": "invalid_prompt", "message": "x"}}),
            ModelErrorKind::Refused,
        ),
        (
            Wire::Converse,
            429,
            "ThrottlingException",
            json!({"message": "x"}),
            ModelErrorKind::RateLimited { retry_after: wait },
        ),
        (
            Wire::Converse,
            400,
            "ServiceQuotaExceededException",
            json!({"message": "x"}),
            ModelErrorKind::RateLimited { retry_after: wait },
        ),
        (
            Wire::Converse,
            429,
            "ModelNotReadyException:http://internal/",
            json!({"message": "x"}),
            ModelErrorKind::Overloaded { retry_after: wait },
        ),
        (Wire::Converse, 408, "ModelTimeoutException", json!({"message": "x"}), ModelErrorKind::Timeout),
        (Wire::Converse, 424, "ModelErrorException", json!({"message": "x"}), ModelErrorKind::Transient),
        (Wire::Converse, 403, "AccessDeniedException", json!({"Message": "x"}), ModelErrorKind::Auth),
        (Wire::Converse, 400, "ValidationException", json!({"message": "x"}), ModelErrorKind::Invalid),
        (
            Wire::Converse,
            400,
            "ValidationException",
            json!({"message": "Input is too long for requested model."}),
            ModelErrorKind::ContextOverflow,
        ),
        (
            Wire::Converse,
            400,
            "",
            json!({"__type": "com.amazon.coral.service#ThrottlingException"}),
            ModelErrorKind::RateLimited { retry_after: wait },
        ),
        (
            Wire::Converse,
            503,
            "ServiceUnavailableException",
            json!({"message": "x"}),
            ModelErrorKind::Overloaded { retry_after: wait },
        ),
    ];
    for (wire, status, header, body, kind) in rows {
        let mut answer = Answer::status(status, body.to_string()).header("retry-after", "3");
        if !header.is_empty() {
            answer = answer.header("x-amzn-errortype", header);
        }
        let error = answered(wire, answer).await.result.unwrap_err();
        assert_eq!(error.kind(), &kind, "{wire:?} {status} {header} {body}");
        assert_eq!(error.status(), Some(status), "{wire:?} {header}");
    }
}

/// Thoughts as a stream brings them, and what must stand in the next request.
#[tokio::test]
async fn signed_thoughts_go_back_as_they_came() {
    let server = Server::start().await;
    let events = [
        json!({"type": "message_start", "message": {"model": "c-1", "usage": {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 11, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me "}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "see."}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQBCg=="}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "RmVk+/=="}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, "caller": {"type": "direct"}}}),
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": ""}}),
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{\"at\": "}}),
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "1}"}}),
        json!({"type": "content_block_stop", "index": 3}),
        json!({"type": "content_block_start", "index": 4, "content_block": {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}}),
        json!({"type": "content_block_delta", "index": 4, "delta": {"type": "input_json_delta", "partial_json": "{\"q\":\"x\"}"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ];
    let stream: String = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"])).collect();
    server.will_answer(Answer::ok(stream.clone()));
    let outcome = ask(&provider(Wire::Messages, &server), &request()).await;
    let reply = outcome.result.unwrap();
    let reasoning = |text: &str| Delta::Reasoning { text: text.to_owned() };
    let call = Delta::ToolCall { name: "look".to_owned() };
    assert_eq!(outcome.deltas, [reasoning("Let me "), reasoning("see."), call]);
    let usage =
        Usage { input_tokens: 23, output_tokens: 20, cached_tokens: 7, reasoning_tokens: 0, cache_write_tokens: 11 };
    assert_eq!((reply.usage, reply.model.as_str(), reply.finish), (usage, "c-1", Finish::ToolCalls));
    let body = sent_back(Wire::Messages, &server, &reply, Answer::ok(stream)).await;
    assert_eq!(
        body["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": "Let me see.", "signature": "EqQBCg=="},
            {"type": "redacted_thinking", "data": "RmVk+/=="},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": 1}, "caller": {"type": "direct"}},
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": "x"}},
        ])
    );
}

/// A history with what other servers make up is still one that each format takes.
#[tokio::test]
async fn ids_and_gaps_of_other_servers_are_made_fit() {
    let call = |id: &str| ToolCall {
        id: id.to_owned(),
        name: "look".to_owned(),
        arguments: Arguments::Malformed { text: "{\"a\":".to_owned(), reason: String::new() },
    };
    let mut assistant = Message::assistant(" ");
    assistant.tool_calls = vec![call("functions.look:0")];
    let empty = Message { content: Vec::new(), role: Role::Assistant, ..Message::assistant("") };
    let mut next = request();
    next.messages.extend([assistant, Message::tool("functions.look:0", ""), empty, Message::system("mind the gap")]);
    let server = Server::start().await;
    server.will_answer(Answer::ok(file("A15/unknown_types.sse")));
    ask(&provider(Wire::Messages, &server), &next).await.result.unwrap();
    assert_eq!(
        server.seen()[0].body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "functions_look_0", "name": "look",
                "input": {"unreadable_arguments": "{\"a\":"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "functions_look_0", "content": "The tool gave no output."},
                {"type": "text", "text": "mind the gap"}]},
        ])
    );
    server.will_answer(event_stream(file("A24/unknown_then_stop.bin")));
    ask(&provider(Wire::Converse, &server), &next).await.result.unwrap();
    let body = server.seen()[1].body.clone();
    assert_eq!(body["messages"][1]["content"][0]["toolUse"]["toolUseId"], "functions_look_0");
    // Tools of the past must be on offer, or the format refuses the history.
    assert_eq!(body["toolConfig"]["tools"][0]["toolSpec"]["name"], "look");
}
