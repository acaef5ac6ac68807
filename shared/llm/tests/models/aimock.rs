//! Turns and faults as aimock plays them, on all four wire formats.

use std::time::Duration;

use longhaul_llm::{
    Arguments, Cut, Delta, Finish, Message, ModelErrorKind, ModelReply, ModelRequest, Provider, ToolSpec, Wire,
};
use serde_json::{Value, json};

use crate::servers::{Server, ask, provider};

/// Each format with the path that aimock has for it and a model that thinks there.
const WIRES: [(Wire, &str, &str); 4] = [
    (Wire::Chat, "/v1", "gpt-5"),
    (Wire::Responses, "/v1", "gpt-5"),
    (Wire::Messages, "/v1", "claude-opus-4-5"),
    (Wire::Converse, "", "anthropic.claude-opus-4-5-20251101-v1:0"),
];

fn model(server: &Server, wire: Wire, streaming: bool) -> Provider {
    let (_, path, model) = WIRES.into_iter().find(|row| row.0 == wire).unwrap();
    provider(wire, format!("{}{path}", server.url), model, streaming)
}

fn request(text: &str) -> ModelRequest {
    let tool = ToolSpec {
        name: "weather".to_owned(),
        description: "The weather of a city.".to_owned(),
        parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
    };
    let messages = vec![Message::system("Be brief."), Message::user(text)];
    ModelRequest { tools: vec![tool], time_limit_ms: 20_000, ..ModelRequest::new("", messages) }
}

/// What of the provider's own an answer must carry, so that the next request can bring it back.
fn assert_state_is_kept(wire: Wire, reply: &ModelReply) {
    let kept = serde_json::to_string(&reply.message.vendor).unwrap();
    let marks: &[&str] = match wire {
        Wire::Chat => &["Two places, so two calls."],
        Wire::Responses => &["encrypted_content", "Two places, so two calls."],
        Wire::Messages => &["c2lnbmF0dXJlIG9mIHRoZSB0ZXN0+/==", "Two places, so two calls.", "cmVkYWN0ZWQ="],
        Wire::Converse => &["Two places, so two calls."],
    };
    for mark in marks {
        assert!(kept.contains(mark), "{wire:?}: {mark} is not in {kept}");
    }
}

#[tokio::test]
async fn a_tool_turn_with_thoughts_streamed_and_whole() {
    let server = Server::aimock().await;
    for (wire, ..) in WIRES {
        for streaming in [true, false] {
            let model = model(&server, wire, streaming);
            let (result, deltas) = ask(&model, &request("weather")).await;
            let reply = result.unwrap_or_else(|error| panic!("{wire:?} {streaming}: {error:?}"));
            assert_eq!(reply.message.text(), "Let me look at both.", "{wire:?} {streaming}");
            let calls: Vec<_> =
                reply.message.tool_calls.iter().map(|call| (call.id.as_str(), &call.arguments)).collect();
            let city = |city: &str| Arguments::Object { object: json!({"city": city}).as_object().unwrap().clone() };
            assert_eq!(calls, [("call_oslo", &city("Oslo")), ("call_lima", &city("Lima"))], "{wire:?} {streaming}");
            assert_eq!(reply.finish, Finish::ToolCalls);
            assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (20, 30), "{wire:?} {streaming}");
            assert_state_is_kept(wire, &reply);
            let named = |delta: &&Delta| matches!(delta, Delta::ToolCall { name } if name == "weather");
            assert_eq!(deltas.iter().filter(named).count(), 2, "{wire:?} {streaming}");
            if streaming {
                assert!(deltas.iter().any(|delta| matches!(delta, Delta::Reasoning { .. })), "{wire:?}");
            }
            // Through the journal, and on with the results.
            let stored: ModelReply = serde_json::from_str(&serde_json::to_string(&reply).unwrap()).unwrap();
            let mut next = request("weather");
            next.messages.extend([
                stored.message,
                Message::tool("call_oslo", "4 °C"),
                Message::tool("call_lima", "19 °C"),
            ]);
            let last = ask(&model, &next).await.0.unwrap_or_else(|error| panic!("{wire:?} {streaming}: {error:?}"));
            assert_eq!(last.message.text(), "Cold in Oslo, warm in Lima.", "{wire:?} {streaming}");
            assert_eq!((last.finish, last.usage.output_tokens), (Finish::Stop, 9), "{wire:?} {streaming}");
        }
    }
    // What aimock understood of our requests: the calls and their results, in pairs.
    let journal = server.get("/__aimock/journal").await;
    let second_turns = journal.as_array().unwrap().iter().filter(|entry| {
        entry["body"]["messages"].as_array().is_some_and(|list| list.iter().any(|it| it["role"] == "tool"))
    });
    let mut count = 0;
    for entry in second_turns {
        count += 1;
        let messages = entry["body"]["messages"].as_array().unwrap();
        let ids = |role: &str, pointer: &str| -> Vec<Value> {
            messages.iter().filter(|it| it["role"] == role).filter_map(|it| it.pointer(pointer).cloned()).collect()
        };
        assert_eq!(ids("tool", "/tool_call_id"), ["call_oslo", "call_lima"], "{}", entry["path"]);
        assert_eq!(ids("tool", "/content"), ["4 °C", "19 °C"], "{}", entry["path"]);
    }
    assert_eq!(count, 8);
}

#[tokio::test]
async fn faults_have_their_classes() {
    let server = Server::aimock().await;
    let cut = |cut| ModelErrorKind::Truncated { cut };
    let wait = Some(Duration::from_secs(7));
    let rows = [
        ("limited", ModelErrorKind::RateLimited { retry_after: wait }, Some(429)),
        ("refused key", ModelErrorKind::Auth, Some(401)),
        ("garbled", ModelErrorKind::Transient, None),
        ("cut", cut(Cut::Connection), None),
        ("hang up", ModelErrorKind::Transient, None),
    ];
    for (wire, ..) in WIRES {
        for (text, kind, status) in &rows {
            let (result, deltas) = ask(&model(&server, wire, true), &request(text)).await;
            let error = result.expect_err(text);
            assert_eq!((error.kind(), error.status()), (kind, *status), "{wire:?} {text}: {error:?}");
            if *text == "cut" {
                let shown: String = deltas
                    .iter()
                    .filter_map(|delta| match delta {
                        Delta::Text { text } => Some(text.as_str()),
                        Delta::Reasoning { .. } | Delta::ToolCall { .. } | Delta::Discard => None,
                    })
                    .collect();
                assert!("This answer will be cut off".starts_with(&shown), "{wire:?}: {shown:?}");
            }
        }
    }
}
