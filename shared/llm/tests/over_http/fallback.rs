//! Several models in order, over real connections.

use longhaul_llm::{
    Delta, Fallback, Message, Model, ModelErrorKind, ModelReply, ModelRequest, Money, Prices, Usage, Wire,
};
use serde_json::json;

use crate::server::{Answer, End, Server};
use crate::wires::{access, endpoint, file, json_file, provider, request};

fn said(text: &str) -> Answer {
    Answer::ok(
        json!({"choices": [{"finish_reason": "stop", "message": {"content": text}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1}})
        .to_string(),
    )
}

#[tokio::test]
async fn which_failures_fall_over() {
    let rows = [
        (Answer::status(500, ""), true),
        (Answer::status(429, ""), true),
        (Answer::status(529, ""), true),
        (Answer::status(408, ""), true),
        (Answer::pieces(vec![file("A04/a_eof_no_finish.sse")], End::Clean), true),
        (Answer::status(400, ""), false),
        (Answer::status(401, ""), false),
        (Answer::status(402, ""), false),
        (Answer::status(413, ""), false),
        (Answer::ok(file("A12/refusal.json")), false),
        (Answer::ok(file("A10/length_parseable.json")), false),
    ];
    for (answer, falls_over) in rows {
        let (first, second) = (Server::start().await, Server::start().await);
        first.will_answer(answer.clone());
        second.will_answer(said("here"));
        let mut named = endpoint(Wire::Chat, &second);
        named.name = Some("spare".to_owned());
        let models = Fallback::new(provider(Wire::Chat, &first), vec![named.open(access(Wire::Chat)).unwrap()]);
        let asked = ModelRequest { idempotency_key: Some("k".to_owned()), ..request() };
        let result = models.complete(&asked, &mut |_| {}).await;
        assert_eq!(result.is_ok(), falls_over, "{} {:?}", answer.status, result);
        assert_eq!(second.seen().len(), usize::from(falls_over));
        if let Ok(reply) = result {
            assert_eq!(reply.answered_by.as_deref(), Some("spare"));
            assert_eq!(reply.failed_attempts.len(), 1);
            assert_eq!(reply.failed_attempts[0].model, "m");
            assert_eq!(second.seen()[0].headers["idempotency-key"], "k/fallback-1");
        }
    }
}

#[tokio::test]
async fn watchers_are_told_to_forget_and_all_of_it_is_paid() {
    let (first, second) = (Server::start().await, Server::start().await);
    first.will_answer(Answer::ok(file("A14/overloaded_mid_tool.sse")));
    second.will_answer(said("Booked."));
    let mut cheap = endpoint(Wire::Messages, &first);
    cheap.name = Some("claude-haiku-4-5".to_owned());
    let mut dear = endpoint(Wire::Chat, &second);
    dear.name = Some("gpt-4.1".to_owned());
    let open = |endpoint: longhaul_llm::Endpoint| endpoint.clone().open(access(endpoint.wire)).unwrap();
    let models = Fallback::new(open(cheap), vec![open(dear)]);
    let mut deltas = Vec::new();
    let reply = models.complete(&request(), &mut |delta| deltas.push(delta)).await.unwrap();
    let text = |text: &str| Delta::Text { text: text.to_owned() };
    let call = Delta::ToolCall { name: "book".to_owned() };
    assert_eq!(deltas, [text("Let me book it."), call, Delta::Discard, text("Booked.")]);
    let spent = Usage { input_tokens: 80, output_tokens: 1, ..Usage::default() };
    assert_eq!(reply.failed_attempts[0].usage, Some(spent));
    let stored: ModelReply = serde_json::from_str(&serde_json::to_string(&reply).unwrap()).unwrap();
    // 10 × $2 + 1 × $8 for the answer, 80 × $1 + 1 × $5 for what was lost, each for a million.
    let price = Prices::built_in().unwrap().price_of_reply(&stored).unwrap();
    assert_eq!(price, Money::from_nano_usd(28_000 + 85_000));
}

#[tokio::test]
async fn when_all_fail_the_last_error_tells_the_story() {
    let servers = [Server::start().await, Server::start().await];
    servers[0].will_answer(Answer::status(503, "").header("retry-after", "60"));
    servers[1].will_answer(Answer::status(429, "").header("retry-after", "2"));
    let [first, second] = [&servers[0], &servers[1]].map(|server| provider(Wire::Chat, server));
    let error = Fallback::new(first, vec![second]).complete(&request(), &mut |_| {}).await.unwrap_err();
    assert!(matches!(error.kind(), ModelErrorKind::RateLimited { .. }));
    assert!(error.message().starts_with("after m: overloaded: "), "{error}");
    assert_eq!(error.failed_attempts().len(), 1);
}

/// What one provider sent in fields of its own does not reach another, whatever format either speaks.
#[tokio::test]
async fn vendor_state_stays_with_its_vendor() {
    let gemini = Server::start().await;
    gemini.will_answer(Answer::ok(file("A26/gemini_turn1.json")));
    let asked = request();
    let first = provider(Wire::Chat, &gemini).complete_with(&asked, &mut |_| {}).await.unwrap();
    let claude = Server::start().await;
    claude.will_answer(Answer::ok(
        json!({"type": "message", "stop_reason": "tool_use", "content": [
        {"type": "thinking", "thinking": "secret", "signature": "thought_signature"},
        {"type": "tool_use", "id": "g_9", "name": "find", "input": {}}]})
        .to_string(),
    ));
    let second = provider(Wire::Messages, &claude).complete_with(&asked, &mut |_| {}).await.unwrap();
    assert!(first.message.vendor.is_some() && second.message.vendor.is_some());
    let mut next = request();
    next.messages.extend([first.message, Message::tool("g_1", "a"), Message::tool("g_2", "b")]);
    next.messages.extend([second.message, Message::tool("g_9", "c")]);
    for wire in crate::wires::WIRES {
        let other = Server::start().await;
        other.will_answer(Answer::status(500, ""));
        provider(wire, &other).complete_with(&next, &mut |_| {}).await.unwrap_err();
        let body = other.seen()[0].body.to_string();
        assert!(!body.contains("thought_signature") && !body.contains("secret"), "{wire:?}: {body}");
        for id in ["g_1", "g_2", "g_9"] {
            assert!(body.contains(id), "{wire:?}: the calls themselves go along");
        }
    }
    assert!(json_file("A26/gemini_turn1.json").to_string().contains("thought_signature"));
}
