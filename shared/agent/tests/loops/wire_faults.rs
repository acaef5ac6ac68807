//! Odd and broken answers of model servers, each a case by its id, in a whole job: how often the model is asked, which tools
//! run, how the job ends and what it has paid.

use std::rc::Rc;
use std::time::Duration;

use longhaul::ErrorClass;
use longhaul::engine::journal::Ending;
use longhaul_llm::Wire;
use serde_json::{Value, json};

use crate::canned::{Canned, Cans, Played, play};
use crate::room::{Hall, definition, echo, failure, lambda, result};

const LONG: Duration = Duration::from_secs(900);

fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/../llm/tests/faults/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).expect(&path)
}

fn canned(name: &str) -> Canned {
    Canned::ok(file(name))
}

/// The last answer of a job, in each format.
fn says(wire: Wire, text: &str) -> Canned {
    Canned::ok(
        match wire {
            Wire::Chat => json!({"choices": [{"finish_reason": "stop", "message": {"content": text}}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1}}),
            Wire::Messages => json!({"type": "message", "role": "assistant", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 1, "output_tokens": 1}}),
            Wire::Responses => json!({"object": "response", "status": "completed", "output": [{"type": "message",
                "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text}]}],
                "usage": {"input_tokens": 1, "output_tokens": 1}}),
            Wire::Converse => json!({"output": {"message": {"role": "assistant", "content": [{"text": text}]}},
                "stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 1}}),
        }
        .to_string(),
    )
}

/// All tools that a case speaks of; `transfer` wants an amount.
fn granted() -> Value {
    let names = [
        "get_price",
        "get_stock",
        "list_files",
        "read_page",
        "server_time",
        "write_file",
        "delete_rows",
        "pay",
        "note",
        "book",
        "search",
    ];
    let mut tools: Vec<Value> = names.iter().map(|name| lambda(name, "keyed")).collect();
    let mut transfer = lambda("transfer", "keyed");
    transfer["input_schema"] =
        json!({"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]});
    tools.push(transfer);
    let mut definition = definition(&[], json!({}));
    definition["tools"] = json!(tools);
    definition
}

enum End {
    Says(&'static str),
    Fails(ErrorClass, &'static str),
}
use End::{Fails, Says};

struct Row {
    name: &'static str,
    wire: Wire,
    answers: Vec<Canned>,
    end: End,
    /// Each tool that ran, and how often.
    tools: &'static [(&'static str, usize)],
    /// Tokens in and out that the job has paid.
    tokens: (u64, u64),
}

/// Every row of this file: all its answers are asked for and no more, with a job in one long invocation and with one that
/// goes on in another worker after nearly every step.
async fn check(rows: Vec<Row>) {
    for row in rows {
        for invocation in [LONG, Duration::from_millis(3_500)] {
            let hall = Hall::new(echo);
            let cans = Cans::new(row.answers.clone());
            // No step may ask for more time than an invocation has.
            let played = play(&granted(), row.wire, &cans, &hall, invocation).await;
            held(&row, &played, &cans, &hall);
        }
    }
}

fn held(row: &Row, played: &Played, cans: &Cans, hall: &Rc<Hall>) {
    let Row { name, wire: _, answers, end, tools, tokens } = row;
    let story = played.workshop.story(&played.job);
    let journal = played.workshop.journal(&played.job);
    match (end, journal.ending()) {
        (Says(text), Some(Ending::Completed { output })) => assert_eq!(output, &json!(text), "{name}\n{story}"),
        (Fails(class, words), Some(Ending::Failed { failure })) => {
            assert_eq!(failure.class, *class, "{name}: {failure:?}\n{story}");
            assert!(failure.message.contains(words), "{name}: {failure:?}");
        }
        (_, other) => panic!("{name}: {other:?}\n{story}"),
    }
    assert_eq!((cans.asked().len(), cans.left()), (answers.len(), 0), "{name}: model calls\n{story}");
    let ran: Vec<(String, usize)> = hall.counts().into_iter().collect();
    let expected: Vec<(String, usize)> = tools.iter().map(|(tool, count)| ((*tool).to_owned(), *count)).collect();
    assert_eq!(ran, expected, "{name}: tools\n{story}");
    let usage = journal.totals().usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), *tokens, "{name}: paid\n{story}");
    let micros = tokens.0 * 10 + tokens.1 * 50;
    assert_eq!((usage.money_micros, usage.unpriced_tokens), (micros, 0), "{name}: money");
}

/// A row of a job that asks for `files` one after the other, and for a last answer where `end` says one.
fn row(
    name: &'static str,
    wire: Wire,
    files: &[&str],
    end: End,
    tools: &'static [(&'static str, usize)],
    tokens: (u64, u64),
) -> Row {
    let answers = files.iter().map(|name| match *name {
        "done" => says(wire, "done"),
        name => canned(name),
    });
    Row { name, wire, answers: answers.collect(), end, tools, tokens }
}

#[tokio::test(start_paused = true)]
async fn a03_a04_a05_streams() {
    let (half, open) = ("A04/a_eof_no_finish.sse", "A04/e_open_tool_call_then_done.sse");
    let whole = Says("The total is 4.");
    check(vec![
        row("A03", Wire::Chat, &["A03/oddities.sse"], Says("one two three"), &[], (0, 0)),
        row("A04 a, then whole", Wire::Chat, &[half, "A04/c_finish_no_done.sse"], whole, &[], (0, 0)),
        row("A04 a", Wire::Chat, &[half, half, half], Fails(ErrorClass::Truncated, ""), &[], (0, 0)),
        row("A04 e", Wire::Chat, &[open, open, open], Fails(ErrorClass::Truncated, ""), &[], (0, 0)),
        row("A05", Wire::Chat, &["A05/empty_choices.sse"], Says("Bonjour"), &[], (11, 7)),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a06_a07_a09_calls_run_once_each() {
    check(vec![
        row(
            "A06 a",
            Wire::Chat,
            &["A06/no_index.sse", "done"],
            Says("done"),
            &[("get_price", 2), ("get_stock", 1)],
            (1, 1),
        ),
        row(
            "A06 b",
            Wire::Chat,
            &["A06/index_gap.sse", "done"],
            Says("done"),
            &[("get_price", 1), ("get_stock", 1)],
            (1, 1),
        ),
        row("A07", Wire::Chat, &["A07/index_collision.sse", "done"], Says("done"), &[("list_files", 2)], (1, 1)),
        row("A09", Wire::Chat, &["A09/empty_args.json", "done"], Says("done"), &[("server_time", 5)], (10, 10)),
    ])
    .await;
    // What each was called with, and what the model is told of the call that could not be made.
    let hall = Hall::new(echo);
    let cans = Cans::new([canned("A07/index_collision.sse"), canned("A09/empty_args.json"), says(Wire::Chat, "done")]);
    play(&granted(), Wire::Chat, &cans, &hall, LONG).await;
    let mut arguments: Vec<Value> = hall.done.borrow().iter().map(|(_, event)| event["arguments"].clone()).collect();
    arguments.dedup();
    assert_eq!(arguments, [json!({"dir": "/a"}), json!({"dir": "/b"}), json!({})]);
    let last = cans.asked().pop().unwrap();
    let told = last["messages"].as_array().unwrap().iter().find(|message| message["tool_call_id"] == "n4").unwrap();
    assert!(told["content"].as_str().unwrap().contains("amount"), "the missing field is named: {told}");
}

/// The ids that were made up link calls and results, are unique, and are the same from a checkpoint.
#[tokio::test(start_paused = true)]
async fn a08_a26_what_goes_back() {
    let mut bodies = Vec::new();
    for invocation in [LONG, Duration::from_millis(3_500)] {
        let hall = Hall::new(echo);
        let answers = [canned("A08/no_id.sse"), canned("A08/no_id.sse"), canned("A26/gemini_turn1.json")];
        let cans = Cans::new(answers.into_iter().chain([says(Wire::Chat, "done")]));
        let played = play(&granted(), Wire::Chat, &cans, &hall, invocation).await;
        assert_eq!(result(&played.workshop, &played.job), json!("done"));
        assert_eq!((hall.count("read_page"), hall.count("search")), (4, 2));
        bodies.push(cans.asked());
    }
    assert_eq!(bodies[0], bodies[1], "the same requests from a checkpoint");
    let last = bodies[0].last().unwrap()["messages"].as_array().unwrap().clone();
    let calls: Vec<&Value> = last.iter().filter_map(|message| message["tool_calls"].as_array()).flatten().collect();
    let ids: Vec<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    let answered: Vec<&str> = last.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
    assert_eq!(ids, answered, "each call stands before its result");
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 6, "unique in the job: {ids:?}");
    let shown = last.iter().filter(|message| message["role"] == "assistant" && message["content"].is_string());
    assert!(
        shown.clone().all(|message| !message["content"].as_str().unwrap().contains("page")),
        "no arguments as text"
    );
    // Gemini's signature stands beside the first of its calls exactly as it came, and beside no other.
    let sent = serde_json::from_slice::<Value>(&file("A26/gemini_turn1.json")).unwrap();
    let sent = sent["choices"][0]["message"]["tool_calls"][0]["extra_content"].clone();
    let with: Vec<&Value> = calls.iter().filter_map(|call| call.get("extra_content")).collect();
    assert_eq!((with.len(), with[0], &calls[4]["extra_content"]), (1, &sent, &sent));
}

/// An answer that was cut at its limit: nothing of it runs, the model is told, and it ends after a few times.
#[tokio::test(start_paused = true)]
async fn a10_output_limit() {
    let (two, parseable, anthropic) =
        ("A10/length_two_calls.json", "A10/length_parseable.json", "A10/anthropic_max_tokens.sse");
    let truncated = || Fails(ErrorClass::Schema, "output_truncated");
    check(vec![
        row("A10 a", Wire::Chat, &[two, two, two], truncated(), &[], (150, 192)),
        row("A10 b", Wire::Chat, &[parseable, parseable, "done"], Says("done"), &[], (101, 129)),
        row("A10 c", Wire::Messages, &[anthropic, anthropic, anthropic], truncated(), &[], (120, 192)),
    ])
    .await;
    let cans = Cans::new([canned(two), says(Wire::Chat, "done")]);
    play(&granted(), Wire::Chat, &cans, &Hall::new(echo), LONG).await;
    let second = cans.asked().pop().unwrap()["messages"].clone();
    let last = second.as_array().unwrap().last().unwrap();
    assert!(last["content"].as_str().unwrap().contains("cut"), "{last}");
    assert!(!second.to_string().contains("b.txt"), "nothing of the half call goes back: {second}");
}

#[tokio::test(start_paused = true)]
async fn a12_refusals_end_the_job_at_once() {
    let refused = |words| Fails(ErrorClass::Refused, words);
    check(vec![
        row("A12 filter", Wire::Chat, &["A12/content_filter.json"], refused("content_filter"), &[], (12, 0)),
        row("A12 refusal", Wire::Chat, &["A12/refusal.json"], refused("I can't help with that"), &[], (12, 9)),
        row("A12 anthropic", Wire::Messages, &["A12/anthropic_refusal.json"], refused(""), &[], (12, 0)),
        row(
            "A12 unknown",
            Wire::Chat,
            &["A12/unknown_finish.json"],
            Fails(ErrorClass::Schema, "model_length"),
            &[],
            (12, 0),
        ),
    ])
    .await;
    // Also of a job that asks for an answer of a form: no repair, no error of the form.
    let mut definition = granted();
    definition["output_schema"] =
        json!({"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}});
    let cans = Cans::new([canned("A12/refusal.json")]);
    let played = play(&definition, Wire::Chat, &cans, &Hall::new(echo), LONG).await;
    let failure = failure(&played.workshop, &played.job);
    assert_eq!((failure.class, cans.asked().len()), (ErrorClass::Refused, 1), "{failure:?}");
}

#[tokio::test(start_paused = true)]
async fn a13_a14_a23_a24_errors_behind_a_200() {
    let overloaded = "A14/overloaded_mid_tool.sse";
    let throttled =
        || canned("A24/throttle_mid_stream.bin").header("content-type", "application/vnd.amazon.eventstream");
    check(vec![
        row("A13 429", Wire::Chat, &["A13/body_error_429.json", "done"], Says("done"), &[], (1, 1)),
        row("A13 choice", Wire::Chat, &["A13/choice_error.json", "done"], Says("done"), &[], (1, 1)),
        row("A13 stream", Wire::Chat, &["A13/stream_error.sse", "done"], Says("done"), &[], (1, 1)),
        row("A13 auth", Wire::Chat, &["A13/body_error_auth.json"], Fails(ErrorClass::Auth, "No auth"), &[], (0, 0)),
        // All attempts count, and all that they cost.
        row("A14 always", Wire::Messages, &[overloaded; 3], Fails(ErrorClass::Overloaded, ""), &[], (240, 3)),
        row("A14 b", Wire::Messages, &["A14/error_first.sse", "done"], Says("done"), &[], (1, 1)),
        row("A14 c", Wire::Messages, &["A14/invalid_in_stream.sse"], Fails(ErrorClass::Invalid, ""), &[], (0, 0)),
        row("A23 failed", Wire::Responses, &["A23/failed.sse", "done"], Says("done"), &[], (1, 1)),
        row("A23 incomplete", Wire::Responses, &["A23/incomplete.sse", "done"], Says("done"), &[], (31, 17)),
        row("A23 error", Wire::Responses, &["A23/error_event.sse", "done"], Says("done"), &[], (1, 1)),
        Row {
            answers: vec![throttled(), says(Wire::Converse, "done")],
            ..row("A24", Wire::Converse, &[], Says("done"), &[], (1, 1))
        },
        Row {
            answers: vec![
                canned("A24/unknown_then_stop.bin").header("content-type", "application/vnd.amazon.eventstream"),
            ],
            ..row("A24 unknown", Wire::Converse, &[], Says("All"), &[], (5, 1))
        },
    ])
    .await;
    // The waits of the retry policy lie between the attempts: 10 s, then 30 s.
    let cans = Cans::new([canned("A13/body_error_429.json"), canned("A23/failed.sse"), says(Wire::Chat, "done")]);
    let played = play(&granted(), Wire::Chat, &cans, &Hall::new(echo), LONG).await;
    assert!((30..=60).contains(&played.took.as_secs()), "{:?}", played.took);
}

/// (a) with its retry: booked once, with the seat of the whole answer.
#[tokio::test(start_paused = true)]
async fn a14_a_retry_books_once() {
    let booked = json!({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content":
        [{"type": "tool_use", "id": "toolu_c", "name": "book", "input": {"seat": "14C"}}],
        "usage": {"input_tokens": 80, "output_tokens": 9}});
    for invocation in [LONG, Duration::from_millis(3_500)] {
        let hall = Hall::new(echo);
        let answers =
            [canned("A14/overloaded_mid_tool.sse"), Canned::ok(booked.to_string()), says(Wire::Messages, "done")];
        let cans = Cans::new(answers);
        let played = play(&granted(), Wire::Messages, &cans, &hall, invocation).await;
        assert_eq!(result(&played.workshop, &played.job), json!("done"));
        let seats: Vec<Value> =
            hall.done.borrow().iter().map(|(_, event)| event["arguments"]["seat"].clone()).collect();
        assert_eq!(seats, [json!("14C")]);
        assert!(!cans.asked().pop().unwrap().to_string().contains("Let me book it"), "nothing of the first attempt");
        assert_eq!(played.workshop.journal(&played.job).totals().usage.tokens(), 81 + 89 + 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a15_a20_a21_answers() {
    let whole = "smile \u{fffd}\u{fffd}!";
    check(vec![
        row("A15", Wire::Messages, &["A15/unknown_types.sse"], Says("Done."), &[], (10, 6)),
        row("A15 responses", Wire::Responses, &["A15/responses_unknown_item.json"], Says("Done."), &[], (10, 6)),
        row("A20 b", Wire::Chat, &["A20/llm_args_lone_surrogate.json", "done"], Says("done"), &[("note", 1)], (2, 2)),
        row("A20 c", Wire::Chat, &["A20/pair_split_over_deltas.sse"], Says(whole), &[], (0, 0)),
    ])
    .await;
    let schema = json!({"type": "object", "properties": {"title": {"type": "string"}, "doc": {"type": "string"}},
        "required": ["title", "doc"], "additionalProperties": false});
    let rows: [(&str, usize, Option<Value>); 3] = [
        ("A21/fenced.json", 1, Some(json!({"title": "Plan", "doc": "Use ```sh\nls\n``` first"}))),
        ("A21/trailing.json", 3, None),
        ("A21/wrong_type.json", 3, None),
    ];
    for (name, calls, expected) in rows {
        let mut definition = granted();
        definition["output_schema"] = schema.clone();
        let cans = Cans::new(std::iter::repeat_n(canned(name), calls));
        let played = play(&definition, Wire::Chat, &cans, &Hall::new(echo), LONG).await;
        match expected {
            Some(expected) => assert_eq!(result(&played.workshop, &played.job), expected, "{name}"),
            None => assert_eq!(failure(&played.workshop, &played.job).class, ErrorClass::Schema, "{name}"),
        }
        assert_eq!((cans.asked().len(), cans.left()), (calls, 0), "{name}: repairs are bounded");
    }
}

/// What a tool answers with half a character does not spoil the job: every request is JSON to a strict reader.
#[tokio::test(start_paused = true)]
async fn a20_a_tools_broken_characters() {
    let mut definition = granted();
    definition["tools"] = json!([{"kind": "http", "name": "look", "description": "Looks.", "method": "GET",
        "url": "http://192.0.2.7/look", "input_schema": {"type": "object"}, "effect": "idempotent"}]);
    // An address of documentation is not public; a name is judged when it is looked up, which nobody does here.
    definition["tools"][0]["url"] = json!("https://tool.example.com/look");
    let called = json!({"choices": [{"finish_reason": "tool_calls", "message": {"content": null, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}}]});
    let broken = Canned::ok(file("A20/tool_output_lone_surrogate.json")).header("content-type", "application/json");
    let cans = Cans::new([Canned::ok(called.to_string()), broken, says(Wire::Chat, "done")]);
    let played = play(&definition, Wire::Chat, &cans, &Hall::new(echo), LONG).await;
    assert_eq!(result(&played.workshop, &played.job), json!("done"));
    assert_eq!(cans.urls()[1], "https://tool.example.com/look");
    let told = cans.asked().pop().unwrap()["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert!(told.as_str().unwrap().contains("ok \u{fffd} end"), "{told}");
}

/// A wait that a server asks for is kept, however long: the job is given back meanwhile.
#[tokio::test(start_paused = true)]
async fn a18_waits_of_a_server() {
    let table: Value = serde_json::from_slice(&file("A18/retry_after_table.json")).unwrap();
    for row in table["rows"].as_array().unwrap() {
        let headers = row["headers"].as_object().unwrap();
        if headers.values().any(|value| value.as_str().unwrap().contains("GMT")) {
            // A date is read against the machine's clock, which is not this world's.
            continue;
        }
        let mut limited = Canned::status(429, "slow down");
        for (name, value) in headers {
            limited = limited.header(name, value.as_str().unwrap());
        }
        let cans = Cans::new([limited, says(Wire::Chat, "done")]);
        let played = play(&granted(), Wire::Chat, &cans, &Hall::new(echo), LONG).await;
        assert_eq!(result(&played.workshop, &played.job), json!("done"), "{row}");
        let took = played.took.as_secs_f64() - 1.0;
        let (least, most) = match (row["wait_s"].as_array(), row["rule"].as_str().unwrap_or_default()) {
            (Some(range), _) => (range[0].as_f64().unwrap(), range[1].as_f64().unwrap() + 1.0),
            (None, rule) if rule.contains("capped") => (86_400.0, 86_400.0 * 1.2 + 120.0),
            (None, rule) if rule.starts_with("durable") => (5_400.0, 5_400.0 * 1.2 + 120.0),
            (None, rule) if rule.starts_with("1.5 s") => (1.5, 3.0),
            // Its own: ten seconds, more or less.
            (None, _) => (5.0, 20.0),
        };
        assert!((least..=most).contains(&took), "{row}: {took} s");
        let epochs = played.workshop.sim.job(played.job.job).unwrap().progress.epoch.0;
        assert!(epochs > 1 || took <= 3.0, "{row}: no function sleeps through a wait that is longer than a moment");
    }
}

/// A request that is too large is never sent again as it is: it gets smaller, or the job ends with that class.
#[tokio::test(start_paused = true)]
async fn a19_a_request_that_is_too_large() {
    let table: Vec<Value> = serde_json::from_slice(&file("A19/context_errors.json")).unwrap();
    let called = json!({"choices": [{"finish_reason": "tool_calls", "message": {"content": null, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "read_page", "arguments": "{}"}}]}}]});
    for row in table {
        let status = u16::try_from(row["status"].as_u64().unwrap()).unwrap();
        let error = Canned::status(status, row["body"].to_string());
        let hall = Hall::new(|_, _| Ok(longhaul_agent::Invoked::Answered(json!("all of a page. ".repeat(1_500)))));
        let turn = || Canned::ok(called.to_string());
        let overflow = row["overflow"].as_bool().unwrap();
        let mut answers = vec![turn(), turn(), error.clone()];
        match (overflow, status) {
            (true, _) => answers.push(says(Wire::Chat, "done")),
            (false, 429) => answers.extend([error.clone(), error]),
            (false, _) => {}
        }
        let cans = Cans::new(answers);
        let played = play(&granted(), Wire::Chat, &cans, &hall, LONG).await;
        let sizes: Vec<usize> = cans.asked().iter().map(|body| body.to_string().len()).collect();
        assert_eq!(cans.left(), 0, "{row}: {sizes:?}");
        match (overflow, status) {
            (true, _) => {
                assert_eq!(result(&played.workshop, &played.job), json!("done"), "{row}");
                assert!(sizes[3] < sizes[2], "{row}: {sizes:?}");
            }
            (false, 429) => assert_eq!(failure(&played.workshop, &played.job).class, ErrorClass::RateLimited, "{row}"),
            (false, _) => assert_eq!(failure(&played.workshop, &played.job).class, ErrorClass::Invalid, "{row}"),
        }
    }
    // Where nothing can be left out, the job ends with that class and the request is not sent again.
    let error = Canned::ok(format!(
        "data: {}\n\n",
        json!({"error": {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"}})
    ));
    let cans = Cans::new([error]);
    let played = play(&granted(), Wire::Chat, &cans, &Hall::new(echo), LONG).await;
    assert_eq!(failure(&played.workshop, &played.job).class, ErrorClass::ContextOverflow);
    assert_eq!(cans.asked().len(), 1);
}

/// F03 over HTTP: three megabytes of text, and bytes that are none. The model's server refuses what is above 120 KB.
#[tokio::test(start_paused = true)]
async fn f03_what_an_http_tool_brings() {
    let called = json!({"choices": [{"finish_reason": "tool_calls", "message": {"content": null, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}}]});
    let rows: [(&str, Vec<u8>, &str); 3] = [
        ("text/plain", "line of the report\n".repeat(3 * 1024 * 1024 / 19).into_bytes(), "[cut: "),
        ("image/png", [0x89, b'P', b'N', b'G', 0, 0xFF].repeat(512 * 1024), "bytes that are no text, image/png]"),
        ("text/html", "x".repeat(2 * 1024 * 1024).into_bytes(), "[cut: "),
    ];
    for (media, body, said) in rows {
        let mut definition = definition(&[], json!({"context": {"window_tokens": 32_000}}));
        definition["tools"] = json!([{"kind": "http", "name": "look", "description": "Looks.", "method": "GET",
            "url": "https://tool.example.com/look", "size_max_bytes": 8_388_608, "input_schema": {"type": "object"},
            "effect": "idempotent"}]);
        let brought = Canned::ok(body).header("content-type", media);
        let cans = Cans::new([Canned::ok(called.to_string()), brought, says(Wire::Chat, "done")]);
        let played = play(&definition, Wire::Chat, &cans, &Hall::new(echo), LONG).await;
        assert_eq!(result(&played.workshop, &played.job), json!("done"), "{media}");
        let last = cans.asked().pop().unwrap();
        assert!(last.to_string().len() < 120_000, "{media}: {}", last.to_string().len());
        let told = last["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
        assert!(told.contains(said), "{media}: {}", &told[told.len().saturating_sub(300)..]);
        assert!(!told.contains('\u{fffd}') && !told.contains("PNG"), "{media}: bytes are not pasted as text");
    }
}
