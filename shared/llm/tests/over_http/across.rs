//! One conversation on all four wire formats: equal neutral answers, and calls that end in the same way.

use std::time::Duration;

use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Frame};
use longhaul_llm::{
    Arguments, Delta, Finish, Message, ModelErrorKind, ModelReply, ModelRequest, ToolCall, Usage, Wire,
};
use serde_json::{Value, json};

use crate::server::{Answer, End, Server};
use crate::wires::{WIRES, ask, provider, request};

/// Frames as AWS writes them.
fn framed(events: &[(&str, Value)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, payload) in events {
        let text = |text: &str| HeaderValue::String(text.to_owned().into());
        let frame = Frame::new(payload.to_string().into_bytes())
            .add_header(Header::new(":message-type", text("event")))
            .add_header(Header::new(":event-type", text(kind)))
            .add_header(Header::new(":content-type", text("application/json")));
        aws_smithy_eventstream::frame::write_message_to(&frame, &mut bytes).unwrap();
    }
    bytes
}

fn events(events: &[Value]) -> Vec<u8> {
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>().into_bytes()
}

/// The answers of a turn with thoughts, text and two calls, and of the turn that ends the conversation: in each format's
/// stream.
fn turns(wire: Wire) -> [Vec<u8>; 2] {
    match wire {
        Wire::Chat => chat_turns(),
        Wire::Responses => responses_turns(),
        Wire::Messages => messages_turns(),
        Wire::Converse => converse_turns(),
    }
}

fn chat_turns() -> [Vec<u8>; 2] {
    let delta = |delta: Value| json!({"model": "m-1", "choices": [{"index": 0, "delta": delta}]});
    let end = |reason: &str| json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    let usage = |input: u64, output: u64| {
        json!({"choices": [], "usage": {"prompt_tokens": input, "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": 4}}})
    };
    [
        events(&[
            delta(json!({"role": "assistant", "reasoning_content": "Two places."})),
            delta(json!({"content": "Let me "})),
            delta(json!({"content": "see."})),
            delta(
                json!({"tool_calls": [{"index": 0, "id": "c_1", "type": "function", "function": {"name": "weather", "arguments": ""}}]}),
            ),
            delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"city\":"}}]})),
            delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"Oslo\"}"}}]})),
            delta(
                json!({"tool_calls": [{"index": 1, "id": "c_2", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Lima\"}"}}]}),
            ),
            end("tool_calls"),
            usage(20, 30),
        ]),
        events(&[delta(json!({"content": "Cold, warm."})), end("stop"), usage(60, 5)]),
    ]
}

fn responses_turns() -> [Vec<u8>; 2] {
    let done = |output: Value, input: u64, written: u64| {
        json!({"type": "response.completed", "response": {"id": "r", "model": "m-1", "status": "completed", "output": output,
            "usage": {"input_tokens": input, "output_tokens": written, "input_tokens_details": {"cached_tokens": 4}}}})
    };
    let message = |text: &str| {
        json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]})
    };
    let call = |id: &str, city: &str| {
        json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "weather",
            "arguments": json!({"city": city}).to_string(), "status": "completed"})
    };
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Two places."}], "encrypted_content": "gAAA"});
    [
        events(&[
            json!({"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}),
            json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Two places."}),
            json!({"type": "response.output_text.delta", "output_index": 1, "delta": "Let me "}),
            json!({"type": "response.output_text.delta", "output_index": 1, "delta": "see."}),
            json!({"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "call_id": "c_1", "name": "weather", "arguments": ""}}),
            json!({"type": "response.output_item.added", "output_index": 3, "item": {"type": "function_call", "call_id": "c_2", "name": "weather", "arguments": ""}}),
            done(json!([thought, message("Let me see."), call("c_1", "Oslo"), call("c_2", "Lima")]), 20, 30),
        ]),
        events(&[
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Cold, warm."}),
            done(json!([message("Cold, warm.")]), 60, 5),
        ]),
    ]
}

fn messages_turns() -> [Vec<u8>; 2] {
    let start = |input: u64| json!({"type": "message_start", "message": {"model": "m-1", "content": [], "usage": {"input_tokens": input, "cache_read_input_tokens": 4, "output_tokens": 1}}});
    let block =
        |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let end = |reason: &str, output: u64| json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": output}});
    let stop = json!({"type": "message_stop"});
    let text = |text: &str| json!({"type": "text_delta", "text": text});
    let json_piece = |text: &str| json!({"type": "input_json_delta", "partial_json": text});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "weather", "input": {}});
    [
        events(&[
            start(16),
            block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "Two places."})),
            delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
            json!({"type": "ping"}),
            block(1, json!({"type": "text", "text": ""})),
            delta(1, text("Let me ")),
            delta(1, text("see.")),
            block(2, call("c_1")),
            delta(2, json_piece("{\"city\":")),
            delta(2, json_piece("\"Oslo\"}")),
            block(3, call("c_2")),
            delta(3, json_piece("{\"city\":\"Lima\"}")),
            end("tool_use", 30),
            stop.clone(),
        ]),
        events(&[
            start(56),
            block(0, json!({"type": "text", "text": ""})),
            delta(0, text("Cold, warm.")),
            end("end_turn", 5),
            stop,
        ]),
    ]
}

fn converse_turns() -> [Vec<u8>; 2] {
    let delta = |index: u64, delta: Value| ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}));
    let call = |index: u64, id: &str| {
        (
            "contentBlockStart",
            json!({"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": id, "name": "weather"}}}),
        )
    };
    let stop = |index: u64| ("contentBlockStop", json!({"contentBlockIndex": index}));
    let end = |reason: &str| ("messageStop", json!({"stopReason": reason}));
    let usage = |input: u64, output: u64| {
        (
            "metadata",
            json!({"usage": {"inputTokens": input, "cacheReadInputTokens": 4, "outputTokens": output}, "metrics": {"latencyMs": 1}}),
        )
    };
    [
        framed(&[
            ("messageStart", json!({"role": "assistant"})),
            delta(0, json!({"reasoningContent": {"text": "Two places."}})),
            delta(0, json!({"reasoningContent": {"signature": "c2ln"}})),
            stop(0),
            delta(1, json!({"text": "Let me "})),
            delta(1, json!({"text": "see."})),
            call(2, "c_1"),
            delta(2, json!({"toolUse": {"input": "{\"city\":"}})),
            delta(2, json!({"toolUse": {"input": "\"Oslo\"}"}})),
            call(3, "c_2"),
            delta(3, json!({"toolUse": {"input": "{\"city\":\"Lima\"}"}})),
            end("tool_use"),
            usage(16, 30),
        ]),
        framed(&[delta(0, json!({"text": "Cold, warm."})), end("end_turn"), usage(56, 5)]),
    ]
}

fn streamed(wire: Wire, bytes: Vec<u8>) -> Answer {
    let kind = if wire == Wire::Converse { "application/vnd.amazon.eventstream" } else { "text/event-stream" };
    Answer::ok(bytes).header("content-type", kind)
}

/// What remains of an answer when the provider's own fields are taken away.
fn neutral(reply: &ModelReply) -> (Message, Finish, Usage) {
    (Message { vendor: None, ..reply.message.clone() }, reply.finish, reply.usage)
}

#[tokio::test]
async fn the_same_conversation_gives_equal_answers() {
    let call = |id: &str, city: &str| ToolCall {
        id: id.to_owned(),
        name: "weather".to_owned(),
        arguments: Arguments::Object { object: json!({"city": city}).as_object().unwrap().clone() },
    };
    let mut asks = Message::assistant("Let me see.");
    asks.tool_calls = vec![call("c_1", "Oslo"), call("c_2", "Lima")];
    let usage =
        |input_tokens, output_tokens| Usage { input_tokens, output_tokens, cached_tokens: 4, ..Usage::default() };
    for wire in WIRES {
        let server = Server::start().await;
        let model = provider(wire, &server);
        let [first, last] = turns(wire);
        server.will_answer(streamed(wire, first));
        let outcome = ask(&model, &request()).await;
        let reply = outcome.result.unwrap();
        assert_eq!(neutral(&reply), (asks.clone(), Finish::ToolCalls, usage(20, 30)), "{wire:?}");
        let text = |text: &str| Delta::Text { text: text.to_owned() };
        let named = || Delta::ToolCall { name: "weather".to_owned() };
        let thought = Delta::Reasoning { text: "Two places.".to_owned() };
        assert_eq!(outcome.deltas, [thought, text("Let me "), text("see."), named(), named()], "{wire:?}");
        let mut next = request();
        next.messages.extend([reply.message, Message::tool("c_1", "4 °C"), Message::tool("c_2", "19 °C")]);
        server.will_answer(streamed(wire, last));
        let reply = ask(&model, &next).await.result.unwrap();
        assert_eq!(neutral(&reply), (Message::assistant("Cold, warm."), Finish::Stop, usage(60, 5)), "{wire:?}");
        assert!(server.seen()[1].body.to_string().contains("19 °C"), "{wire:?}");
    }
}

/// Whatever byte a stream is cut at, it is whole or a failure that may be tried again; never half an answer.
#[tokio::test]
async fn a_stream_cut_anywhere_is_no_answer() {
    for wire in WIRES {
        let [first, _] = turns(wire);
        let server = Server::start().await;
        let model = provider(wire, &server);
        let mut whole = 0;
        for at in (0..first.len()).step_by(7) {
            let kind = if wire == Wire::Converse { "application/vnd.amazon.eventstream" } else { "text/event-stream" };
            server.will_answer(Answer::pieces(vec![first[..at].to_vec()], End::Clean).header("content-type", kind));
            match ask(&model, &request()).await.result {
                // Only what came after the end of the answer may be missing: usage, the end mark.
                Ok(reply) => {
                    assert_eq!(reply.message.tool_calls.len(), 2, "{wire:?} {at}");
                    whole += 1;
                }
                Err(error) => assert!(error.is_retryable(), "{wire:?} {at}: {error}"),
            }
        }
        assert!(whole * 3 < first.len() / 7, "{wire:?}: most cuts are failures");
    }
}

async fn check_time_limit_and_drop(wire: Wire) {
    let server = Server::start().await;
    let model = provider(wire, &server);
    let [first, _] = turns(wire);
    let open = || {
        let kind = if wire == Wire::Converse { "application/vnd.amazon.eventstream" } else { "text/event-stream" };
        Answer::pieces(vec![first[..first.len() / 2].to_vec()], End::Open).header("content-type", kind)
    };
    server.will_answer(open());
    // Long enough for half an answer on a busy machine.
    let asked = ModelRequest { time_limit_ms: 1_500, ..request() };
    let error = ask(&model, &asked).await.result.unwrap_err();
    assert_eq!(error.kind(), &ModelErrorKind::Timeout, "{wire:?}");
    assert!(error.partial().unwrap().text.starts_with("Let me "), "{wire:?}: what had arrived is told");
    server.wait_for_open_bodies(0).await;
    server.will_answer(open());
    {
        let asked = request();
        let call = ask(&model, &asked);
        tokio::select! {
            _ = call => panic!("the server never answers"),
            () = server.wait_for_open_bodies(1) => {}
        }
    }
    // The server sees the connection close, not only the silence of a client.
    tokio::time::timeout(Duration::from_secs(2), server.wait_for_open_bodies(0)).await.expect("closed");
}

#[tokio::test]
async fn the_time_limit_and_a_drop_close_the_connection() {
    futures::future::join_all(WIRES.map(check_time_limit_and_drop)).await;
}

#[tokio::test]
async fn connections_are_used_again() {
    for wire in WIRES {
        let server = Server::start().await;
        let model = provider(wire, &server);
        for _ in 0..3 {
            let [_, last] = turns(wire);
            server.will_answer(streamed(wire, last));
            ask(&model, &request()).await.result.unwrap();
        }
        let peers: std::collections::BTreeSet<_> = server.seen().iter().map(|seen| seen.peer).collect();
        assert_eq!((server.seen().len(), peers.len()), (3, 1), "{wire:?}");
    }
}

/// A13 on every format: an error in the body of a 200 has the class that its status would have given.
#[tokio::test]
async fn a13_errors_in_the_body_of_a_200() {
    let rows = [
        ("A13/body_error_429.json", ModelErrorKind::RateLimited { retry_after: None }),
        ("A13/body_error_auth.json", ModelErrorKind::Auth),
        ("A13/stream_error.sse", ModelErrorKind::Transient),
    ];
    for wire in [Wire::Chat, Wire::Responses, Wire::Messages] {
        for (name, kind) in &rows {
            let error = crate::wires::answered(wire, Answer::ok(crate::wires::file(name))).await.result.unwrap_err();
            assert_eq!(error.kind(), kind, "{wire:?} {name}: {error}");
        }
    }
    for (name, kind) in &rows[..2] {
        let error =
            crate::wires::answered(Wire::Converse, Answer::ok(crate::wires::file(name))).await.result.unwrap_err();
        assert_eq!(error.kind(), kind, "{name}: {error}");
    }
}

/// Every counter, from the words that each format has for it, means the same.
#[tokio::test]
async fn usage_is_counted_alike() {
    let all =
        Usage { input_tokens: 100, output_tokens: 50, cached_tokens: 30, reasoning_tokens: 20, cache_write_tokens: 10 };
    let rows = [
        (
            Wire::Chat,
            json!({"choices": [{"finish_reason": "stop", "message": {"content": "a"}}], "usage": {
                "prompt_tokens": 100, "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10},
                "completion_tokens_details": {"reasoning_tokens": 20}}}),
            all,
        ),
        (
            Wire::Responses,
            json!({"output": [], "usage": {"input_tokens": 100, "output_tokens": 50,
                "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10},
                "output_tokens_details": {"reasoning_tokens": 20}}}),
            all,
        ),
        (
            Wire::Messages,
            json!({"content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 60, "output_tokens": 50,
                "cache_read_input_tokens": 30, "cache_creation_input_tokens": 10,
                "output_tokens_details": {"thinking_tokens": 20}}}),
            all,
        ),
        (
            Wire::Converse,
            json!({"output": {"message": {"content": []}}, "stopReason": "end_turn", "usage": {"inputTokens": 60,
                "outputTokens": 50, "cacheReadInputTokens": 30, "cacheWriteInputTokens": 10}}),
            // This format does not tell thoughts apart.
            Usage { reasoning_tokens: 0, ..all },
        ),
    ];
    for (wire, body, usage) in rows {
        let reply = crate::wires::answered(wire, Answer::ok(body.to_string())).await.result.unwrap();
        assert_eq!(reply.usage, usage, "{wire:?}");
    }
}
