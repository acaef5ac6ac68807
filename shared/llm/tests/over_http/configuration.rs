//! Models by configuration: what is refused before the first call, and what reaches the server.

use longhaul_llm::{
    Access, Endpoint, Message, ModelErrorKind, ModelRequest, OutputLimitField, ResponseFormat, Secret,
    StructuredOutput, Wire,
};
use serde_json::{Value, json};

use crate::server::{Answer, End, Server};
use crate::wires::{KEY, WIRES, access, ask, endpoint, json_file, provider, request};

/// E08: what cannot stand in a header is refused when a model is configured, and the value is not shown.
#[tokio::test]
async fn e08_headers_are_checked_at_configuration() {
    let case = json_file("E08/tool_headers.json");
    let given = case["args"].as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned());
    let bad: Vec<String> = given
        .filter(|text| text != "ok" && !text.starts_with("xx"))
        .chain(["v1\r\n\r\n<html>", "abc\r\nSet-Cookie: a=1", " lead", "trail ", "a\nb"].map(str::to_owned))
        .collect();
    let server = Server::start().await;
    for wire in WIRES {
        for text in &bad {
            let mut with_header = endpoint(wire, &server);
            with_header.headers.insert("X-Trace".to_owned(), text.clone());
            let error = with_header.clone().open(access(wire)).unwrap_err();
            assert_eq!(error.kind(), &ModelErrorKind::Invalid, "{text:?}");
            assert!(error.message().contains("X-Trace") && !error.message().contains("Evil"), "{error}");
            if wire != Wire::Converse {
                let error = endpoint(wire, &server).open(Access::Key(Secret::new(text.clone()))).unwrap_err();
                assert!(error.message().starts_with("the API key"), "{error}");
            }
        }
        for name in ["", "a b", "x\r\ny", "Host", "content-length", "Transfer-Encoding"] {
            let mut with_header = endpoint(wire, &server);
            with_header.headers.insert(name.to_owned(), "v".to_owned());
            assert!(with_header.open(access(wire)).is_err(), "{name:?}");
        }
        // The marks of a call are given later, and are checked before anything is sent.
        for text in &bad {
            let asked = ModelRequest { idempotency_key: Some(text.clone()), ..request() };
            let error = ask(&provider(wire, &server), &asked).await.result.unwrap_err();
            assert_eq!(error.kind(), &ModelErrorKind::Invalid, "{text:?}");
        }
    }
    assert!(server.seen().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn what_is_configured_reaches_the_server() {
    let text = json!({
        "wire": "chat", "model": "llama", "name": "house", "base_url": "set below", "key_header": "api-key",
        "headers": {"X-Team": "blue"}, "time_limit_ms": 5000, "output_tokens_max": 64,
        "features": {"structured_output": "prompt", "stream_usage": false}, "extra": {"seed": 7, "top_k": 1},
    });
    let server = Server::start().await;
    let mut endpoint: Endpoint = serde_json::from_value(text).unwrap();
    let again: Endpoint = serde_json::from_value(serde_json::to_value(&endpoint).unwrap()).unwrap();
    assert_eq!(again, endpoint);
    assert!(!format!("{endpoint:?}").contains("blue"), "values of headers do not show");
    endpoint.base_url = Some(format!("{}/deployments/d?api-version=1", server.base_url));
    let model = endpoint.open(Access::Key(Secret::new(KEY))).unwrap();
    let schema = json!({"type": "object", "required": ["a"]});
    let mut asked = ModelRequest {
        messages: vec![Message::system("be brief"), Message::user("go")],
        response_format: ResponseFormat::JsonSchema { name: "t".to_owned(), schema: schema.clone() },
        ..request()
    };
    asked.extra.insert("top_k".to_owned(), json!(2));
    server.will_answer(Answer::ok(
        json!({"model": "llama-3", "choices": [{"finish_reason": "stop",
        "message": {"content": "{\"a\":1}"}}]})
        .to_string(),
    ));
    let reply = ask(&model, &asked).await.result.unwrap();
    assert_eq!((reply.model.as_str(), reply.answered_by.as_deref()), ("llama-3", Some("house")));
    assert_eq!(reply.structured(&schema).unwrap(), json!({"a": 1}));
    let seen = server.seen().remove(0);
    assert_eq!(seen.path, "/v1/deployments/d/chat/completions");
    assert_eq!((&seen.headers["api-key"], &seen.headers["x-team"]), (&KEY.parse().unwrap(), &"blue".parse().unwrap()));
    assert!(!seen.headers.contains_key("authorization"));
    let body = seen.body;
    assert_eq!(
        (&body["model"], &body["max_tokens"], &body["seed"], &body["top_k"]),
        (&json!("llama"), &json!(64), &json!(7), &json!(2))
    );
    assert_eq!((body.get("response_format"), body.get("stream_options")), (None, None));
    assert_eq!((&body["messages"][0]["content"], &body["messages"][2]["content"]), (&json!("be brief"), &json!("go")));
    assert!(body["messages"][1]["content"].as_str().unwrap().contains(&schema.to_string()));
}

/// A schema that a format's decoder cannot enforce is put in words; one that it can loses only what is checked anyway.
#[tokio::test]
async fn schemas_that_no_decoder_takes_are_put_in_words() {
    let server = Server::start().await;
    for wire in [Wire::Messages, Wire::Converse] {
        for (schema, in_words) in [
            (json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}), false),
            (json!({"type": "object", "additionalProperties": {"type": "string"}}), true),
        ] {
            let response_format = ResponseFormat::JsonSchema { name: "t".to_owned(), schema: schema.clone() };
            server.will_answer(Answer::status(500, ""));
            ask(&provider(wire, &server), &ModelRequest { response_format, ..request() }).await.result.unwrap_err();
            let body = server.seen().pop().unwrap().body;
            let native = body.get("output_config").or(body.get("outputConfig"));
            assert_eq!(native.is_none(), in_words, "{wire:?} {schema}");
            let words = body["system"]
                .as_array()
                .is_some_and(|it| it[0]["text"].as_str().unwrap().contains(&schema.to_string()));
            assert_eq!(words, in_words, "{wire:?} {schema}");
        }
    }
}

/// A server that falls silent is left before the time of the call is over.
#[tokio::test]
async fn silence_has_a_limit_of_its_own() {
    for wire in WIRES {
        let server = Server::start().await;
        let mut impatient = endpoint(wire, &server);
        impatient.silence_limit_ms = Some(100);
        let model = impatient.open(access(wire)).unwrap();
        server.will_answer(Answer::pieces(vec![b": hello\n\n".to_vec()], End::Open));
        let error = ask(&model, &request()).await.result.unwrap_err();
        assert_eq!(error.kind(), &ModelErrorKind::Timeout, "{wire:?}");
        assert!(error.message().contains("silent for 100 ms"), "{wire:?}: {error}");
        server.wait_for_open_bodies(0).await;
    }
}

#[tokio::test]
async fn the_name_of_the_output_limit_can_be_chosen() {
    let server = Server::start().await;
    let mut azure = endpoint(Wire::Chat, &server);
    azure.features.output_limit_field = Some(OutputLimitField::MaxCompletionTokens);
    server.will_answer(Answer::status(500, ""));
    let asked = ModelRequest { output_tokens_max: Some(9), ..request() };
    ask(&azure.open(access(Wire::Chat)).unwrap(), &asked).await.result.unwrap_err();
    let body = server.seen().pop().unwrap().body;
    assert_eq!((body.get("max_completion_tokens"), body.get("max_tokens")), (Some(&json!(9)), None));
}

#[test]
fn endpoints_that_cannot_be() {
    let rows: [(Value, &str); 6] = [
        (json!({"wire": "chat", "model": " "}), "names no model"),
        (json!({"wire": "chat", "model": "m", "base_url": "ftp://x"}), "no http(s) address"),
        (json!({"wire": "messages", "model": "m", "base_url": "//x"}), "no http(s) address"),
        (json!({"wire": "converse", "model": "m"}), "needs a `region`"),
        (json!({"wire": "chat", "model": "m", "key_header": "a b"}), "no header name"),
        (json!({"wire": "responses", "model": "m", "key_header": "\r"}), "no header name"),
    ];
    for (row, message) in rows {
        let endpoint: Endpoint = serde_json::from_value(row.clone()).unwrap();
        let error = endpoint.open(Access::Key(Secret::new("k"))).unwrap_err();
        assert!(error.message().contains(message), "{row}: {error}");
        assert_eq!(error.kind(), &ModelErrorKind::Invalid);
    }
    let signed = Endpoint { base_url: Some("http://127.0.0.1:1".to_owned()), ..Endpoint::new(Wire::Converse, "m") };
    assert!(signed.open(access(Wire::Converse)).unwrap_err().message().contains("region"));
    let error = Endpoint::new(Wire::Messages, "m").open(access(Wire::Converse)).unwrap_err();
    assert!(error.message().contains("AWS credentials"), "{error}");
    for typo in [
        json!({"wire": "chat", "model": "m", "modle": 1}),
        json!({"wire": "chat", "model": "m", "features": {"x": 1}}),
        json!({"wire": "smtp", "model": "m"}),
    ] {
        assert!(serde_json::from_value::<Endpoint>(typo.clone()).is_err(), "{typo}");
    }
}

#[test]
fn homes_of_the_formats() {
    for (wire, region, address) in [
        (Wire::Chat, None, "https://api.openai.com/v1"),
        (Wire::Responses, None, "https://api.openai.com/v1"),
        (Wire::Messages, None, "https://api.anthropic.com/v1"),
        (Wire::Converse, Some("eu-central-1"), "https://bedrock-runtime.eu-central-1.amazonaws.com"),
    ] {
        let endpoint = Endpoint { region: region.map(str::to_owned), ..Endpoint::new(wire, "m") };
        assert_eq!(endpoint.address().unwrap(), address);
        assert_eq!(StructuredOutput::default(), endpoint.features.structured_output);
    }
}

/// The endpoints of `docs/models.md` are ones.
#[test]
fn documented_endpoints_open() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models.md")).unwrap();
    let block = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let endpoints: Vec<Endpoint> = serde_json::from_str(block).unwrap();
    assert!(endpoints.len() > 10);
    for endpoint in endpoints {
        let wire = endpoint.wire;
        endpoint.clone().open(access(wire)).unwrap_or_else(|error| panic!("{endpoint:?}: {error}"));
    }
}
