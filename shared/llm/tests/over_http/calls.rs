//! What a call sends, how long it lasts and what it costs: the path that no fault disturbs.

use std::time::Duration;

use crate::server::{Answer, End, Server};
use longhaul_llm::{
    Arguments, ChatCompletions, Delta, Message, Model, ModelErrorKind, ModelRequest, Part, ResponseFormat, Role,
    Secret, ToolCall, ToolChoice, ToolSpec, Usage,
};
use serde_json::{Value, json};

const KEY: &str = "sk-made-up-key-0123456789";
const STREAM: &str = concat!(
    "data: {\"id\":\"x1\",\"model\":\"m-2\",\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"reasoning_content\":\"hm\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,\"prompt_tokens_details\":{\"cached_tokens\":4},\"completion_tokens_details\":{\"reasoning_tokens\":2}}}\n\n",
    "data: [DONE]\n\n",
);

fn model(server: &Server) -> ChatCompletions {
    ChatCompletions::new(&server.base_url, Secret::new(KEY)).unwrap()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one whole request and what must be in it")]
async fn a_request_is_sent_as_published() {
    let server = Server::start().await;
    server.will_answer(Answer::ok(STREAM));
    let call = ToolCall {
        id: "c1".to_owned(),
        name: "search".to_owned(),
        arguments: Arguments::Object { object: json!({"q": "a"}).as_object().unwrap().clone() },
    };
    let broken = ToolCall {
        id: "c2".to_owned(),
        name: "search".to_owned(),
        arguments: Arguments::Malformed { text: "{\"q\":".to_owned(), reason: String::new() },
    };
    let mut assistant = Message::assistant("");
    assistant.content.clear();
    assistant.tool_calls = vec![call, broken];
    let mut user = Message::user("look");
    user.content.push(Part::Image { url: "https://example.test/a.png".to_owned() });
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let request = ModelRequest {
        tools: vec![ToolSpec {
            name: "search".to_owned(),
            description: "Searches.".to_owned(),
            parameters: json!({"type": "object"}),
        }],
        tool_choice: ToolChoice::Named { name: "search".to_owned() },
        response_format: ResponseFormat::JsonSchema { name: "thing".to_owned(), schema: schema.clone() },
        output_tokens_max: Some(99),
        temperature: Some(0.5),
        idempotency_key: Some("job/step".to_owned()),
        traceparent: Some("00-1-2-01".to_owned()),
        extra: json!({"seed": 7}).as_object().unwrap().clone(),
        ..ModelRequest::new("m", vec![Message::system("be brief"), user, assistant, Message::tool("c1", "found")])
    };
    model(&server).complete_with(&request, &mut |_| {}).await.unwrap();
    let seen = server.seen().remove(0);
    assert_eq!(seen.path, "/v1/chat/completions");
    for (name, value) in [
        ("authorization", format!("Bearer {KEY}")),
        ("idempotency-key", "job/step".to_owned()),
        ("traceparent", "00-1-2-01".to_owned()),
        ("content-type", "application/json".to_owned()),
    ] {
        assert_eq!(seen.headers[name], value, "{name}");
    }
    assert_eq!(
        seen.body,
        json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}},
                ]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{\"q\":\"a\"}"}},
                    {"id": "c2", "type": "function", "function": {"name": "search", "arguments": "{\"unreadable_arguments\":\"{\\\"q\\\":\"}"}},
                ]},
                {"role": "tool", "content": "found", "tool_call_id": "c1"},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {"name": "search", "description": "Searches.", "parameters": {"type": "object"}}}],
            "tool_choice": {"type": "function", "function": {"name": "search"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema, "strict": true}},
            "temperature": 0.5,
            "max_tokens": 99,
            "seed": 7,
        })
    );
    let stored: ModelRequest = serde_json::from_str(&serde_json::to_string(&request).unwrap()).unwrap();
    assert_eq!(stored, request);
}

#[tokio::test]
async fn an_answer_is_received_whole() {
    let server = Server::start().await;
    server.will_answer(Answer::ok(STREAM));
    let mut deltas = Vec::new();
    let model: Box<dyn Model> = Box::new(model(&server));
    let request = ModelRequest::new("m", vec![Message::user("hi")]);
    let reply = model.complete(&request, &mut |delta| deltas.push(delta)).await.unwrap();
    let text = |text: &str| Delta::Text { text: text.to_owned() };
    assert_eq!(deltas, [Delta::Reasoning { text: "hm".to_owned() }, text("Hel"), text("lo")]);
    assert_eq!(reply.message.role, Role::Assistant);
    assert_eq!(reply.message.text(), "Hello");
    assert_eq!(reply.model, "m-2");
    assert_eq!(
        reply.usage,
        Usage { input_tokens: 10, output_tokens: 5, cached_tokens: 4, reasoning_tokens: 2, ..Usage::default() }
    );
    assert_eq!(Value::Object(reply.extras), json!({"id": "x1", "system_fingerprint": "fp"}));
}

#[tokio::test]
async fn statuses_have_classes() {
    let server = Server::start().await;
    let retry_after = Some(Duration::from_secs(3));
    let rows = [
        (401, "{}", ModelErrorKind::Auth),
        (402, "{}", ModelErrorKind::Budget),
        (403, "<html>no</html>", ModelErrorKind::Auth),
        (404, r#"{"error":{"message":"no such model","code":"model_not_found"}}"#, ModelErrorKind::Invalid),
        (408, "", ModelErrorKind::Timeout),
        (422, r#"{"detail":"bad"}"#, ModelErrorKind::Invalid),
        (429, r#"{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}"#, ModelErrorKind::Budget),
        (429, "", ModelErrorKind::RateLimited { retry_after }),
        (400, r#"{"error":{"message":"flagged","code":"content_filter"}}"#, ModelErrorKind::Refused),
        (500, "oops", ModelErrorKind::Transient),
        (502, "", ModelErrorKind::Transient),
        (503, "", ModelErrorKind::Overloaded { retry_after }),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#,
            ModelErrorKind::Overloaded { retry_after },
        ),
        (307, "", ModelErrorKind::Invalid),
    ];
    for (status, body, kind) in rows {
        server.will_answer(Answer::status(status, body).header("retry-after", "3").header("location", "/elsewhere"));
        let request = ModelRequest::new("m", vec![Message::user("hi")]);
        let error = model(&server).complete_with(&request, &mut |_| {}).await.unwrap_err();
        assert_eq!((error.kind(), error.status()), (&kind, Some(status)), "{error}");
    }
}

#[tokio::test]
async fn the_key_is_never_shown() {
    let server = Server::start().await;
    let echo =
        json!({"error": {"message": format!("{} Incorrect key: {KEY}", "x".repeat(590)), "code": "invalid_api_key"}});
    server.will_answer(Answer::status(401, echo.to_string()));
    let model = model(&server);
    let request = ModelRequest::new("m", vec![Message::user("hi")]);
    let error = model.complete_with(&request, &mut |_| {}).await.unwrap_err();
    // Not even the part of it before the message is cut.
    assert!(!format!("{error:?} {error} {model:?}").contains("sk-made"), "{error:?}");
    let secret_url =
        ChatCompletions::new("http://user:hunter2@127.0.0.1:1/v1?api-key=abcdef", Secret::new("")).unwrap();
    let error = secret_url.complete_with(&request, &mut |_| {}).await.unwrap_err();
    let mut chain = format!("{error:?} {secret_url:?}");
    let mut source = std::error::Error::source(&error);
    assert!(source.is_some(), "the cause is kept");
    while let Some(cause) = source {
        chain.push_str(&format!("{cause:?} {cause}"));
        source = cause.source();
    }
    assert!(!chain.contains("hunter2") && !chain.contains("abcdef"), "{chain}");
    assert_eq!(error.kind(), &ModelErrorKind::Transient);
}

#[tokio::test]
async fn the_time_limit_covers_the_whole_call() {
    let server = Server::start().await;
    let begun = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    server.will_answer(Answer::pieces(vec![begun.into()], End::Open));
    let request = ModelRequest { time_limit_ms: 1_500, ..ModelRequest::new("m", vec![Message::user("hi")]) };
    let error = model(&server).complete_with(&request, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), &ModelErrorKind::Timeout);
    assert_eq!(error.partial().unwrap().text, "Hel");
    server.wait_for_open_bodies(0).await;
}

#[tokio::test]
async fn dropping_the_call_closes_the_connection() {
    let server = Server::start().await;
    server.will_answer(Answer::pieces(vec!["data: {\"choices\":[]}\n\n".into()], End::Open));
    let model = model(&server);
    let request = ModelRequest::new("m", vec![Message::user("hi")]);
    let mut ignore = |_| {};
    {
        let call = model.complete_with(&request, &mut ignore);
        tokio::select! {
            _ = call => panic!("the server never answers"),
            () = server.wait_for_open_bodies(1) => {}
        }
    }
    server.wait_for_open_bodies(0).await;
}

#[tokio::test]
async fn connections_are_used_again() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let server = Server::start().await;
    let request = ModelRequest::new("m", vec![Message::user("hi")]);
    let model = model(&server);
    for _ in 0..3 {
        server.will_answer(Answer::ok(STREAM));
        is_send(model.complete_with(&request, &mut |_| {})).await.unwrap();
    }
    let peers: std::collections::BTreeSet<_> = server.seen().iter().map(|seen| seen.peer).collect();
    assert_eq!((server.seen().len(), peers.len()), (3, 1));
}
