//! Calls against a server that speaks Chat Completions and says what it is told to say.

// Reason: a test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::json;

use super::server as server_of;
use super::*;

const COLOUR: Form = Form {
    name: "colour",
    schema: r#"{"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"], "additionalProperties": false}"#,
    answer_tokens: 20,
};

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Colour {
    colour: String,
}

/// What the server does with one request.
#[derive(Debug, Clone, Copy)]
enum Says {
    /// This text, whole.
    Text(&'static str),
    /// This text, which ended for this reason.
    Ended(&'static str, &'static str),
    /// A refusal.
    Refusal,
    /// Half a stream.
    Half,
    /// This status, with this `Retry-After` in seconds.
    Status(u16, Option<u16>),
}

#[derive(Clone, Default)]
struct Script {
    says: Arc<Mutex<VecDeque<Says>>>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

async fn complete(State(script): State<Script>, headers: HeaderMap, body: String) -> Response {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    script.asked.lock().unwrap().push((key, serde_json::from_str(&body).unwrap()));
    let says = script.says.lock().unwrap().pop_front().expect("one request more than was expected");
    let whole = |message: Value, reason: &str| {
        let choice = json!({"index": 0, "message": message, "finish_reason": reason});
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13});
        axum::Json(json!({"model": "teller-1", "choices": [choice], "usage": usage})).into_response()
    };
    let text = |text: &str| json!({"role": "assistant", "content": text});
    match says {
        Says::Text(said) => whole(text(said), "stop"),
        Says::Ended(said, reason) => whole(text(said), reason),
        Says::Refusal => whole(json!({"role": "assistant", "content": null, "refusal": "No."}), "stop"),
        Says::Half => {
            let event = json!({"choices": [{"index": 0, "delta": {"content": "{\"col"}}]});
            ([(header::CONTENT_TYPE, "text/event-stream")], format!("data: {event}\n\n")).into_response()
        }
        Says::Status(status, wait) => {
            let mut response = (StatusCode::from_u16(status).unwrap(), "told to fail").into_response();
            if let Some(wait) = wait {
                response.headers_mut().insert(header::RETRY_AFTER, wait.into());
            }
            response
        }
    }
}

/// Asks for a colour other than grey; what came of it and what the server was asked.
async fn ask(says: &[Says]) -> (Result<Answer<Colour>, StepError>, Vec<(String, Value)>) {
    let script = Script { says: Arc::new(Mutex::new(says.iter().copied().collect())), ..Script::default() };
    let router = Router::new().route("/v1/chat/completions", post(complete)).with_state(script.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a server of the test's own")]
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let settings = Settings::read(|name| match name {
        "LONGHAUL_MODEL_URL" => Some(format!("http://{address}/v1")),
        "LONGHAUL_MODEL" => Some("teller".to_owned()),
        _ => None,
    });
    let settings = settings.unwrap();
    let model = ModelSteps::new(&settings, server_of(&settings).unwrap());
    let question = Question { form: COLOUR, system: "Name a colour.", user: "Which?".to_owned() };
    let not_grey = |answer: &Colour| match answer.colour.as_str() {
        "grey" => Err("grey is no colour".to_owned()),
        _ => Ok(()),
    };
    let answer = model
        .answer_that(
            &Asking { key: "job/1".to_owned(), traceparent: "00-1-2-00".to_owned(), shown: None },
            &question,
            not_grey,
        )
        .await;
    server.abort();
    let asked = script.asked.lock().unwrap().clone();
    assert!(script.says.lock().unwrap().is_empty(), "fewer requests than expected: {asked:?}");
    (answer, asked)
}

#[tokio::test]
async fn a_good_answer_is_taken_and_a_bad_one_is_repaired_once() {
    let cases: [(&[Says], Result<u64, ErrorClass>); 7] = [
        (&[Says::Text(r#"{"colour": "red"}"#)], Ok(10)),
        (&[Says::Text("```json\n{\"colour\": \"red\"}\n```")], Ok(10)),
        (&[Says::Text("Red, I think."), Says::Text(r#"{"colour": "red"}"#)], Ok(20)),
        (&[Says::Text(r#"{"color": "red"}"#), Says::Text(r#"{"colour": "red"}"#)], Ok(20)),
        (&[Says::Text(r#"{"colour": "grey"}"#), Says::Text(r#"{"colour": "red"}"#)], Ok(20)),
        (&[Says::Text("Red."), Says::Text("RED!")], Err(ErrorClass::Schema)),
        (&[Says::Text("Red."), Says::Status(503, None)], Err(ErrorClass::Overloaded)),
    ];
    for (says, expected) in cases {
        let (answer, asked) = ask(says).await;
        match (answer, expected) {
            (Ok(answer), Ok(input_tokens)) => {
                assert_eq!((answer.value.colour.as_str(), answer.model.as_str()), ("red", "teller-1"), "{says:?}");
                assert_eq!(answer.usage.input_tokens, input_tokens, "{says:?}");
            }
            (Err(error), Err(class)) => assert_eq!(error.failure.class, class, "{says:?}: {error:?}"),
            (answer, _) => panic!("{says:?}: {answer:?}"),
        }
        assert_eq!(asked[0].0, "job/1");
        let format = &asked[0].1["response_format"]["json_schema"];
        assert_eq!((&format["name"], &format["strict"]), (&json!("colour"), &json!(true)));
        if let Some((key, body)) = asked.get(1) {
            let last = body["messages"].as_array().unwrap().last().unwrap();
            assert_eq!((key.as_str(), &last["role"]), ("job/1/repair", &json!("user")));
        }
    }
}

#[tokio::test]
async fn failures_get_the_class_that_decides_about_another_attempt() {
    let cases: [(Says, ErrorClass, Option<u64>); 9] = [
        (Says::Status(429, Some(7)), ErrorClass::RateLimited, Some(7)),
        (Says::Status(503, Some(2)), ErrorClass::Overloaded, Some(2)),
        (Says::Status(500, None), ErrorClass::Transient, None),
        (Says::Status(401, None), ErrorClass::Auth, None),
        (Says::Status(402, None), ErrorClass::Budget, None),
        (Says::Status(404, None), ErrorClass::Invalid, None),
        (Says::Refusal, ErrorClass::Refused, None),
        (Says::Half, ErrorClass::Truncated, None),
        (Says::Ended("{\"col", "length"), ErrorClass::Schema, None),
    ];
    for (says, class, wait_seconds) in cases {
        let (answer, _) = ask(&[says]).await;
        let error = answer.expect_err("a failure");
        let wait = error.retry_after.map(|wait| wait.as_secs());
        assert_eq!((error.failure.class, wait), (class, wait_seconds), "{says:?}: {error:?}");
        assert!(error.failure.message.contains("`teller`"), "{error}");
    }
    let (answer, _) = ask(&[Says::Half]).await;
    let causes = answer.expect_err("a failure").failure.causes;
    assert!(causes.iter().any(|cause| cause.ends_with("{\"col")), "the half is kept for people: {causes:?}");
}
