//! What the wire formats that answer in blocks have in common beyond the cases: ends, errors, thoughts, ids.

use std::time::Duration;

use longhaul_llm::{Arguments, Cut, Delta, Finish, Message, ModelErrorKind, Role, ToolCall, Usage, Wire};
use serde_json::{Value, json};

use crate::faults_of_blocks::{cut, sent_back, tokens};
use crate::server::{Answer, Server};
use crate::wires::{answered, ask, event_stream, file, provider, request};

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

/// Promises of calls that did not come, and calls of nothing.
#[tokio::test]
async fn answers_that_make_no_sense_may_be_tried_again() {
    let messages = |content: Value| json!({"type": "message", "stop_reason": "tool_use", "content": content});
    let converse = |content: Value| json!({"output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use"});
    let rows = [
        (Wire::Messages, messages(json!([]))),
        (Wire::Messages, messages(json!([{"type": "tool_use", "id": "a", "input": {}}]))),
        (Wire::Messages, json!([1])),
        (Wire::Converse, converse(json!([]))),
        (Wire::Converse, converse(json!([{"toolUse": {"toolUseId": "a"}}]))),
        (Wire::Converse, json!({"output": {}})),
        (Wire::Responses, json!({"status": "completed", "output": [{"type": "function_call", "call_id": "a"}]})),
        (Wire::Responses, json!({"status": "in_progress", "output": []})),
        (Wire::Responses, json!({"object": "list"})),
    ];
    for (wire, body) in rows {
        let error = answered(wire, Answer::ok(body.to_string())).await.result.unwrap_err();
        assert_eq!(error.kind(), &ModelErrorKind::Transient, "{wire:?} {body}");
    }
}

/// A call without an id gets one that is counted, so that a replay finds the same.
#[tokio::test]
async fn made_up_ids_are_the_same_again() {
    let rows = [
        (
            Wire::Messages,
            json!({"stop_reason": "tool_use", "content": [{"type": "tool_use", "name": "t"}, {"type": "tool_use", "name": "t"}]}),
        ),
        (
            Wire::Converse,
            json!({"stopReason": "tool_use", "output": {"message": {"content": [{"toolUse": {"name": "t"}}, {"toolUse": {"name": "t"}}]}}}),
        ),
        (
            Wire::Responses,
            json!({"output": [{"type": "function_call", "name": "t"}, {"type": "function_call", "name": "t"}]}),
        ),
    ];
    for (wire, body) in rows {
        let server = Server::start().await;
        let mut next = request();
        for expected in [["call_1", "call_2"], ["call_3", "call_4"]] {
            server.will_answer(Answer::ok(body.to_string()));
            let reply = ask(&provider(wire, &server), &next).await.result.unwrap();
            let ids: Vec<String> = reply.message.tool_calls.iter().map(|call| call.id.clone()).collect();
            assert_eq!(ids, expected, "{wire:?}");
            next.messages.push(reply.message);
        }
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
