//! Odd and broken answers of real servers, each a case by its id under `tests/faults/`, sent over a real connection.

use std::time::{Duration, Instant, SystemTime};

use crate::server::{Answer, End, Server};
use base64::Engine as _;
use longhaul_llm::{
    Arguments, ChatCompletions, Cut, Delta, Finish, Message, ModelError, ModelErrorKind, ModelReply, ModelRequest,
    Secret, Usage, retry_after,
};
use serde_json::{Value, json};

const KEY: &str = "sk-made-up-key-0123456789";

fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/faults/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).expect(&path)
}

fn json_file(name: &str) -> Value {
    serde_json::from_slice(&file(name)).expect(name)
}

fn request() -> ModelRequest {
    ModelRequest { time_limit_ms: 10_000, ..ModelRequest::new("m", vec![Message::user("go")]) }
}

struct Outcome {
    result: Result<ModelReply, ModelError>,
    /// The text that watchers saw.
    shown: String,
}

async fn ask_with(answer: Answer, request: &ModelRequest) -> Outcome {
    let server = Server::start().await;
    server.will_answer(answer);
    let model = ChatCompletions::new(&server.base_url, Secret::new(KEY)).unwrap();
    let mut shown = String::new();
    let result = model
        .complete_with(request, &mut |delta| {
            if let Delta::Text { text } = delta {
                shown.push_str(&text);
            }
        })
        .await;
    if let Err(error) = &result {
        assert!(!format!("{error} {error:?}").contains(KEY), "the key shows: {error:?}");
    }
    assert_eq!(server.seen().len(), 1, "the client itself must not repeat a call");
    Outcome { result, shown }
}

async fn ask(answer: Answer) -> Outcome {
    ask_with(answer, &request()).await
}

/// What an answer must come to.
enum Expected {
    Text(&'static str),
    /// Name and arguments of each call, in order; `None` for arguments that are no object.
    Calls(Vec<(&'static str, Option<Value>)>),
    Failure(ModelErrorKind),
}
use Expected::{Calls, Failure, Text};

/// Every family of this file: an answer goes in, a text, tool calls or a class of failure come out.
async fn check(name: &str, answer: Answer, expected: Expected) -> Outcome {
    let outcome = ask(answer).await;
    match (&expected, &outcome.result) {
        (Text(text), Ok(reply)) => {
            assert_eq!(reply.message.text(), *text, "{name}");
            assert_eq!(reply.finish, Finish::Stop, "{name}");
            assert_eq!(outcome.shown, *text, "{name}: what watchers saw");
        }
        (Calls(calls), Ok(reply)) => {
            let got: Vec<_> = reply
                .message
                .tool_calls
                .iter()
                .map(|call| match &call.arguments {
                    Arguments::Object { object } => (call.name.as_str(), Some(Value::Object(object.clone()))),
                    Arguments::Malformed { .. } => (call.name.as_str(), None),
                })
                .collect();
            assert_eq!(got, *calls, "{name}");
            assert_eq!(reply.finish, Finish::ToolCalls, "{name}");
        }
        (Failure(kind), Err(error)) => assert_eq!(error.kind(), kind, "{name}: {error}"),
        (_, result) => panic!("{name}: {result:?}"),
    }
    outcome
}

fn cut(by: Cut) -> ModelErrorKind {
    ModelErrorKind::Truncated { cut: by }
}

#[tokio::test]
async fn a01_characters_and_lines_cut_by_chunks() {
    const TEXT: &str = "Zürich 天气 🙂 ok";
    let pieces = json_file("A01/chunks.json")["chunks_b64"]
        .as_array()
        .unwrap()
        .iter()
        .map(|piece| base64::engine::general_purpose::STANDARD.decode(piece.as_str().unwrap()).unwrap())
        .collect();
    check("as reported", Answer::pieces(pieces, End::Clean), Text(TEXT)).await;
    let whole = file("A01/stream.sse");
    for at in 0..=whole.len() {
        let halves = vec![whole[..at].to_vec(), whole[at..].to_vec()];
        check(&format!("cut at {at}"), Answer::pieces(halves, End::Clean), Text(TEXT)).await;
    }
    let smile = whole.windows(4).position(|bytes| bytes == "🙂".as_bytes()).unwrap();
    for end in [End::Clean, End::Abort] {
        let half = Answer::pieces(vec![whole[..smile + 2].to_vec()], end);
        let outcome = check("half a smile", half, Failure(cut(Cut::Connection))).await;
        assert!(outcome.result.unwrap_err().is_retryable());
        assert!(!outcome.shown.contains('\u{fffd}'));
    }
}

#[tokio::test]
async fn a03_comments_blank_data_bom_unknown_fields() {
    check("oddities", Answer::ok(file("A03/oddities.sse")), Text("one two three")).await;
}

#[tokio::test]
async fn a04_end_of_stream() {
    let stream = |name: &str, end| Answer::pieces(vec![file(&format!("A04/{name}.sse"))], end);
    let rows = [
        ("a_eof_no_finish", End::Clean, Failure(cut(Cut::Connection))),
        ("a_eof_no_finish", End::Abort, Failure(cut(Cut::Connection))),
        ("b_done_no_finish", End::Clean, Text("The total is 4.")),
        ("c_finish_no_done", End::Clean, Text("The total is 4.")),
        ("c_finish_no_done", End::Abort, Text("The total is 4.")),
        ("e_open_tool_call_then_done", End::Clean, Failure(cut(Cut::Connection))),
    ];
    for (name, end, expected) in rows {
        check(name, stream(name, end), expected).await;
    }
    let begun = Instant::now();
    check("d: left open", stream("b_done_no_finish", End::Open), Text("The total is 4.")).await;
    assert!(begun.elapsed() < Duration::from_secs(2));
    let outcome = ask(stream("a_eof_no_finish", End::Clean)).await;
    assert_eq!(outcome.result.unwrap_err().partial().unwrap().text, "The total is ");
}

#[tokio::test]
async fn a05_empty_choices_and_repeated_usage() {
    let outcome = check("empty choices", Answer::ok(file("A05/empty_choices.sse")), Text("Bonjour")).await;
    let usage = Usage { input_tokens: 11, output_tokens: 7, ..Usage::default() };
    assert_eq!(outcome.result.unwrap().usage, usage);
}

#[tokio::test]
async fn a06_a07_a09_a20_tool_calls() {
    let a = || Some(json!({"sku": "A"}));
    let rows = [
        (
            "A06/no_index.sse",
            vec![
                ("get_price", a()),
                ("get_price", Some(json!({"sku": "B"}))),
                ("get_stock", Some(json!({"sku": "C"}))),
            ],
        ),
        ("A06/index_gap.sse", vec![("get_price", a()), ("get_stock", Some(json!({"sku": "C"})))]),
        (
            "A07/index_collision.sse",
            vec![("list_files", Some(json!({"dir": "/a"}))), ("list_files", Some(json!({"dir": "/b"})))],
        ),
        (
            "A09/empty_args.json",
            ["server_time", "server_time", "server_time", "transfer", "server_time", "server_time"]
                .map(|name| (name, Some(json!({}))))
                .to_vec(),
        ),
        ("A20/llm_args_lone_surrogate.json", vec![("note", Some(json!({"text": "hi \u{fffd}"})))]),
    ];
    for (name, calls) in rows {
        let outcome = check(name, Answer::ok(file(name)), Calls(calls)).await;
        assert_eq!(outcome.shown, "", "{name}: arguments must not show as text");
    }
}

#[tokio::test]
async fn a08_made_up_ids_link_calls_and_results() {
    let calls = || Calls(vec![("read_page", Some(json!({"page": 4}))), ("read_page", Some(json!({"page": 5})))]);
    let first = check("first", Answer::ok(file("A08/no_id.sse")), calls()).await.result.unwrap();
    let again = check("again", Answer::ok(file("A08/no_id.sse")), calls()).await.result.unwrap();
    let ids = |reply: &ModelReply| reply.message.tool_calls.iter().map(|call| call.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&first), ids(&again), "the same answer gets the same ids");
    // The next turn of the conversation, from its checkpoint: new ids are new, old ones stand beside their results.
    let stored: ModelReply = serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
    assert_eq!(stored, first);
    let mut next = request();
    next.messages.push(stored.message);
    next.messages.extend(ids(&first).iter().map(|id| Message::tool(id, "text")));
    let second = ask_with(Answer::ok(file("A08/no_id.sse")), &next).await.result.unwrap();
    let all: std::collections::BTreeSet<_> = ids(&first).into_iter().chain(ids(&second)).collect();
    assert_eq!(all.len(), 4);
}

#[tokio::test]
async fn a10_output_limit_in_a_tool_call() {
    for (name, text, tools) in [
        ("A10/length_two_calls.json", "Writing both files.", vec!["write_file", "write_file"]),
        ("A10/length_parseable.json", "", vec!["delete_rows"]),
    ] {
        let outcome = check(name, Answer::ok(file(name)), Failure(cut(Cut::OutputLimit))).await;
        let error = outcome.result.unwrap_err();
        assert!(!error.is_retryable(), "{name}");
        assert_eq!(error.usage(), Some(Usage { input_tokens: 50, output_tokens: 64, ..Usage::default() }));
        assert_eq!(
            (error.partial().unwrap().text.as_str(), &error.partial().unwrap().tools),
            (text, &tools.iter().map(|tool| (*tool).to_owned()).collect())
        );
    }
}

#[tokio::test]
async fn a12_refusals_and_unknown_ends() {
    let unknown = Cut::UnknownFinish { raw: "model_length".to_owned() };
    let rows = [
        ("A12/content_filter.json", ModelErrorKind::Refused, "content_filter", 12),
        ("A12/refusal.json", ModelErrorKind::Refused, "I can't help with that request.", 12),
        ("A12/unknown_finish.json", cut(unknown), "model_length", 12),
    ];
    for (name, kind, words, input_tokens) in rows {
        let error = check(name, Answer::ok(file(name)), Failure(kind)).await.result.unwrap_err();
        assert!(!error.is_retryable(), "{name}");
        assert!(error.message().contains(words), "{name}: {error}");
        assert_eq!(error.usage().unwrap().input_tokens, input_tokens, "{name}: spent tokens count");
    }
}

#[tokio::test]
async fn a13_errors_in_the_body_of_a_200() {
    let rows = [
        ("A13/body_error_429.json", ModelErrorKind::RateLimited { retry_after: None }, "Upstream is busy"),
        ("A13/choice_error.json", ModelErrorKind::Transient, "provider dropped"),
        ("A13/stream_error.sse", ModelErrorKind::Transient, "provider dropped"),
        ("A13/body_error_auth.json", ModelErrorKind::Auth, "No auth credentials found"),
    ];
    for (name, kind, message) in rows {
        let retryable = kind.is_retryable();
        let error = check(name, Answer::ok(file(name)), Failure(kind)).await.result.unwrap_err();
        assert_eq!(error.message(), message, "{name}");
        assert_eq!(error.is_retryable(), retryable, "{name}");
    }
}

#[tokio::test]
async fn a18_retry_after() {
    let table = json_file("A18/retry_after_table.json");
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_741_608_000);
    for row in table["rows"].as_array().unwrap() {
        let mut answer = Answer::status(429, "slow down");
        for (name, value) in row["headers"].as_object().unwrap() {
            answer = answer.header(name, value.as_str().unwrap());
        }
        let headers = answer.headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let wait = retry_after(&headers.collect(), now).map(|wait| wait.as_secs_f64());
        match (row["wait_s"].as_array(), row["rule"].as_str()) {
            (Some(range), _) => {
                let wait = wait.expect("a wait");
                assert!(range[0].as_f64().unwrap() <= wait && wait <= range[1].as_f64().unwrap(), "{row}: {wait}");
            }
            (None, Some("no panic, capped")) => assert_eq!(wait, Some(86_400.0)),
            (None, Some(rule)) if rule.starts_with("1.5 s") => assert_eq!(wait, Some(1.5)),
            (None, Some(rule)) if rule.starts_with("durable wait") => assert_eq!(wait, Some(5_400.0)),
            (None, rule) => assert_eq!(wait, None, "{rule:?}"),
        }
        // Over the wire as well; dates are compared with the clock there, so only the class is.
        let error = ask(answer).await.result.unwrap_err();
        assert!(matches!(error.kind(), ModelErrorKind::RateLimited { .. }), "{error}");
        if row["rule"].is_string() {
            assert_eq!(error.kind().retry_after().map(|wait| wait.as_secs_f64()), wait, "{row}");
        }
    }
}

#[tokio::test]
async fn a19_context_overflow() {
    let table = json_file("A19/context_errors.json");
    for row in table.as_array().unwrap() {
        let kind = match (row["overflow"].as_bool().unwrap(), row["status"].as_u64().unwrap()) {
            (true, _) => ModelErrorKind::ContextOverflow,
            (false, 429) => ModelErrorKind::RateLimited { retry_after: None },
            (false, _) => ModelErrorKind::Invalid,
        };
        let status = row["status"].as_u64().unwrap().try_into().unwrap();
        let name = row["provider"].as_str().unwrap();
        let error =
            check(name, Answer::status(status, row["body"].to_string()), Failure(kind)).await.result.unwrap_err();
        assert_eq!(error.status(), Some(status), "{name}");
    }
    let in_stream = format!("data: {}\n\n", table[0]["body"]);
    check("in a stream", Answer::ok(in_stream), Failure(ModelErrorKind::ContextOverflow)).await;
}

#[tokio::test]
async fn a20_lone_surrogates() {
    let outcome = ask(Answer::ok(file("A20/pair_split_over_deltas.sse"))).await;
    assert_eq!(outcome.result.unwrap().message.text(), "smile \u{fffd}\u{fffd}!");
    let tool_output = String::from_utf8(file("A20/tool_output_lone_surrogate.json")).unwrap();
    let value = longhaul_llm::lenient_json(&tool_output).unwrap();
    assert_eq!(value, json!({"title": "ok \u{fffd} end", "items": ["\u{fffd}", 1]}));
}

#[tokio::test]
async fn a21_structured_output() {
    let schema = json!({
        "type": "object",
        "properties": {"title": {"type": "string"}, "doc": {"type": "string"}},
        "required": ["title", "doc"],
        "additionalProperties": false,
    });
    let structured = async |name: &str| {
        let reply = ask(Answer::ok(file(name))).await.result.unwrap();
        reply.structured(&schema)
    };
    let plan = json!({"title": "Plan", "doc": "Use ```sh\nls\n``` first"});
    assert_eq!(structured("A21/fenced.json").await.unwrap(), plan);
    for name in ["A21/trailing.json", "A21/wrong_type.json"] {
        let error = structured(name).await.unwrap_err();
        assert_eq!(error.kind(), &ModelErrorKind::Schema, "{name}: {error}");
        assert!(!error.is_retryable() && error.usage().is_some(), "{name}");
    }
}

#[tokio::test]
async fn a26_vendor_fields_return_to_their_origin_only() {
    let server = Server::start().await;
    let model = ChatCompletions::new(&server.base_url, Secret::new(KEY)).unwrap();
    server.will_answer(Answer::ok(file("A26/gemini_turn1.json")));
    let reply = model.complete_with(&request(), &mut |_| {}).await.unwrap();
    let stored: ModelReply = serde_json::from_str(&serde_json::to_string(&reply).unwrap()).unwrap();
    let mut next = request();
    next.messages.push(stored.message);
    next.messages.extend(["g_1", "g_2"].map(|id| Message::tool(id, "found")));
    let other = Server::start().await;
    for target in [&server, &other] {
        target.will_answer(Answer::ok(file("A04/c_finish_no_done.sse")));
        let model = ChatCompletions::new(&target.base_url, Secret::new(KEY)).unwrap();
        model.complete_with(&next, &mut |_| {}).await.unwrap();
    }
    let sent = json_file("A26/gemini_turn1.json")["choices"][0]["message"]["tool_calls"].clone();
    assert_eq!(server.seen()[1].body["messages"][1]["tool_calls"], sent, "exactly what came");
    assert!(!other.seen()[0].body.to_string().contains("thought_signature"), "nothing to another provider");
}

#[tokio::test]
async fn e06_deep_arguments_are_malformed_not_fatal() {
    let deep = String::from_utf8(file("E06/deep_object.json")).unwrap();
    let body = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant",
        "tool_calls": [{"id": "d", "type": "function", "function": {"name": "note", "arguments": deep}}]}}]});
    check("deep", Answer::ok(body.to_string()), Calls(vec![("note", None)])).await;
}
