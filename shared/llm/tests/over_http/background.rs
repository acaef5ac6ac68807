//! Responses in the background: the id is all that a job keeps while the provider works.

use longhaul_llm::{Background, ModelErrorKind, ModelRequest, ResponseId, Stage, Usage, Wire};
use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::wires::{KEY, provider, request};

fn response(status: &str, more: Value) -> Answer {
    let mut body =
        json!({"id": "resp_7", "object": "response", "status": status, "model": "m-1", "error": null, "output": []});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Answer::ok(body.to_string())
}

#[tokio::test]
async fn started_checkpointed_and_fetched() {
    let server = Server::start().await;
    let asked = ModelRequest { idempotency_key: Some("job/step".to_owned()), ..request() };
    server.will_answer(response("queued", json!({})));
    let (id, state) = provider(Wire::Responses, &server).start(&asked).await.unwrap();
    assert!(matches!(state, Background::Running { stage: Stage::Queued }));
    // The worker is let go; another one comes back with nothing but the id.
    let stored: ResponseId = serde_json::from_str(&serde_json::to_string(&id).unwrap()).unwrap();
    assert_eq!(stored.as_str(), "resp_7");
    let model = provider(Wire::Responses, &server);
    server.will_answer(response("in_progress", json!({})));
    assert!(matches!(model.poll(&stored, &asked).await.unwrap(), Background::Running { stage: Stage::InProgress }));
    let output = json!([
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA+/=="},
        {"type": "function_call", "id": "fc_1", "call_id": "c_1", "name": "look", "arguments": "{ \"at\": 1 }", "status": "completed"},
    ]);
    let usage = json!({"input_tokens": 30, "output_tokens": 16, "input_tokens_details": {"cached_tokens": 9}, "output_tokens_details": {"reasoning_tokens": 12}});
    server.will_answer(response("completed", json!({"output": output, "usage": usage})));
    let Background::Done { reply } = model.poll(&stored, &asked).await.unwrap() else { panic!("it is done") };
    assert_eq!((reply.model.as_str(), reply.answered_by.as_deref()), ("m-1", Some("m")));
    assert_eq!(
        reply.usage,
        Usage { input_tokens: 30, output_tokens: 16, cached_tokens: 9, reasoning_tokens: 12, ..Usage::default() }
    );
    // Sent back in the next turn: exactly what came, blanks and all.
    let mut next = request();
    next.messages.push(reply.message);
    server.will_answer(Answer::status(500, ""));
    model.complete_with(&next, &mut |_| {}).await.unwrap_err();
    let seen = server.seen();
    let lines: Vec<String> = seen.iter().map(|it| format!("{} {}", it.method, it.path)).collect();
    assert_eq!(
        lines,
        ["POST /v1/responses", "GET /v1/responses/resp_7", "GET /v1/responses/resp_7", "POST /v1/responses"]
    );
    let first = &seen[0].body;
    assert_eq!((&first["background"], &first["store"], first.get("stream")), (&json!(true), &json!(true), None));
    assert_eq!(seen[0].headers["idempotency-key"], "job/step");
    assert!(seen.iter().all(|it| it.headers["authorization"] == format!("Bearer {KEY}")));
    assert_eq!(seen[3].body["input"].as_array().unwrap()[1..], output.as_array().unwrap()[..]);
}

#[tokio::test]
async fn every_end_has_a_state() {
    let server = Server::start().await;
    let model = provider(Wire::Responses, &server);
    let id = ResponseId::new("resp_7");
    let usage = json!({"input_tokens": 3, "output_tokens": 2});
    let failed = json!({"error": {"code": "rate_limit_exceeded", "message": "slow down"}});
    server.will_answer(response("failed", failed));
    let Background::Failed { error } = model.poll(&id, &request()).await.unwrap() else { panic!("failed") };
    assert_eq!(error.kind(), &ModelErrorKind::RateLimited { retry_after: None });
    server.will_answer(response(
        "incomplete",
        json!({"incomplete_details": {"reason": "content_filter"}, "usage": usage}),
    ));
    let Background::Failed { error } = model.poll(&id, &request()).await.unwrap() else { panic!("incomplete") };
    assert_eq!((error.kind(), error.usage().unwrap().input_tokens), (&ModelErrorKind::Refused, 3));
    server.will_answer(Answer::status(404, "{}"));
    assert!(matches!(model.poll(&id, &request()).await.unwrap(), Background::Lost));
    // That the provider cannot say is not an end of the response.
    server.will_answer(Answer::status(503, ""));
    assert!(model.poll(&id, &request()).await.unwrap_err().is_retryable());
    server.will_answer(response("cancelled", json!({"usage": usage})));
    let Background::Cancelled { usage } = model.cancel(&id, &request()).await.unwrap() else { panic!("cancelled") };
    assert_eq!(usage.unwrap().output_tokens, 2);
    assert_eq!(
        (server.seen()[4].method.as_str(), server.seen()[4].path.as_str()),
        ("POST", "/v1/responses/resp_7/cancel")
    );
    // A cancel that came too late.
    server.will_answer(response(
        "completed",
        json!({"output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}]}),
    ));
    let Background::Done { reply } = model.cancel(&id, &request()).await.unwrap() else { panic!("too late") };
    assert_eq!(reply.message.text(), "Hi");
    // An id from outside stays one segment of the path.
    server.will_answer(Answer::status(404, ""));
    model.poll(&ResponseId::new("../x?y"), &request()).await.unwrap();
    assert_eq!(server.seen()[6].path, "/v1/responses/..%2Fx%3Fy");
}

#[tokio::test]
async fn other_formats_have_no_background() {
    let server = Server::start().await;
    for wire in [Wire::Chat, Wire::Messages, Wire::Converse] {
        let model = provider(wire, &server);
        assert!(!model.has_background());
        let error = model.start(&request()).await.unwrap_err();
        assert_eq!(error.kind(), &ModelErrorKind::Invalid);
    }
    assert!(server.seen().is_empty());
}
