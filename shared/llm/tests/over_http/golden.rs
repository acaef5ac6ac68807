//! Request bodies of each wire format, whole, as golden files.

use longhaul_llm::{Arguments, Message, ModelRequest, Part, ResponseFormat, ToolCall, ToolChoice, ToolSpec, Wire};
use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::wires::{KEY, WIRES, access, endpoint, request};

/// Everything that a request can say, once.
fn full() -> ModelRequest {
    let call = |id: &str, arguments: Value| ToolCall {
        id: id.to_owned(),
        name: "search".to_owned(),
        arguments: Arguments::Object { object: arguments.as_object().unwrap().clone() },
    };
    let mut assistant = Message::assistant("I look.");
    assistant.tool_calls = vec![call("c1", json!({"q": "a"})), call("c2", json!({}))];
    let mut user = Message::user("look");
    user.content.push(Part::Image { url: "data:image/png;base64,iVBORw0KGgo=".to_owned() });
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let parameters = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    ModelRequest {
        tools: vec![ToolSpec { name: "search".to_owned(), description: "Searches.".to_owned(), parameters }],
        tool_choice: ToolChoice::Named { name: "search".to_owned() },
        response_format: ResponseFormat::JsonSchema { name: "thing".to_owned(), schema },
        output_tokens_max: Some(99),
        temperature: Some(0.5),
        idempotency_key: Some("job/step".to_owned()),
        traceparent: Some("00-1-2-01".to_owned()),
        extra: json!({"custom": {"kept": true}}).as_object().unwrap().clone(),
        messages: vec![
            Message::system("be brief"),
            Message::system("be kind"),
            user,
            assistant,
            Message::tool("c1", "found"),
            Message::tool_error("c2", "no query given"),
            Message::system("time is short"),
        ],
        ..request()
    }
}

#[tokio::test]
async fn request_bodies() {
    let server = Server::start().await;
    let mut bodies = serde_json::Map::new();
    for wire in WIRES {
        for streaming in [true, false] {
            let mut endpoint = endpoint(wire, &server);
            endpoint.features.streaming = streaming;
            endpoint.features.prompt_cache = Some(streaming);
            server.will_answer(Answer::status(500, ""));
            let asked = if streaming { full() } else { request() };
            endpoint.open(access(wire)).unwrap().complete_with(&asked, &mut |_| {}).await.unwrap_err();
            let seen = server.seen().pop().unwrap();
            let name = serde_json::to_value(wire).unwrap();
            let form = if streaming { "full" } else { "smallest" };
            bodies.insert(
                format!("{} {form}", name.as_str().unwrap()),
                json!({"request": format!("{} {}", seen.method, seen.path), "body": seen.body}),
            );
            let key = match wire {
                Wire::Chat | Wire::Responses => ("authorization", format!("Bearer {KEY}")),
                Wire::Messages => ("x-api-key", KEY.to_owned()),
                Wire::Converse => ("x-amz-date", seen.headers["x-amz-date"].to_str().unwrap().to_owned()),
            };
            assert_eq!(seen.headers[key.0], key.1, "{wire:?}");
            assert_eq!(seen.headers["content-type"], "application/json");
            if streaming {
                assert_eq!(
                    (&seen.headers["idempotency-key"], &seen.headers["traceparent"]),
                    (&"job/step".parse().unwrap(), &"00-1-2-01".parse().unwrap())
                );
            }
            if wire == Wire::Messages {
                assert_eq!(seen.headers["anthropic-version"], "2023-06-01");
            }
        }
    }
    insta::assert_json_snapshot!("requests", bodies);
}

/// Each way to choose tools, in each format's words.
#[tokio::test]
async fn tool_choices() {
    let server = Server::start().await;
    let choices =
        [ToolChoice::Auto, ToolChoice::None, ToolChoice::Required, ToolChoice::Named { name: "search".to_owned() }];
    let mut bodies = serde_json::Map::new();
    for wire in WIRES {
        for choice in &choices {
            let asked = ModelRequest { tool_choice: choice.clone(), ..full() };
            server.will_answer(Answer::status(500, ""));
            let provider = endpoint(wire, &server).open(access(wire)).unwrap();
            provider.complete_with(&asked, &mut |_| {}).await.unwrap_err();
            let body = server.seen().pop().unwrap().body;
            let sent = match wire {
                Wire::Chat | Wire::Responses | Wire::Messages => body.get("tool_choice").cloned(),
                Wire::Converse => body["toolConfig"].get("toolChoice").cloned(),
            };
            bodies.insert(format!("{wire:?} {choice:?}"), sent.unwrap_or_default());
        }
    }
    insta::assert_json_snapshot!("tool_choices", bodies);
}
