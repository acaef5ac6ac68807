//! Real traffic, recorded without its secrets and replayed without its servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use longhaul_llm::{Access, Endpoint, Secret, Wire};
use longhaul_testing::{Ended, Traffic, Trial, TrialError};
use serde_json::{Value, json};

/// Secrets, each in a place of its own.
const CANARIES: [&str; 11] = [
    MODEL_KEY,
    TOOL_KEY,
    QUERY_KEY,
    BODY_PASSWORD,
    ANSWER_TOKEN,
    COOKIE,
    USER_PASSWORD,
    SHAPED,
    NAMED,
    HEADER_KEY,
    JWT,
];
const MODEL_KEY: &str = "canary-model-key-01";
const TOOL_KEY: &str = "canary-tool-key-02";
const QUERY_KEY: &str = "canary-query-key-03";
const BODY_PASSWORD: &str = "canary body/password \"04\"";
const ANSWER_TOKEN: &str = "canary-answer-token-05";
const COOKIE: &str = "canary-cookie-06";
const USER_PASSWORD: &str = "canary-basic-password-07";
/// No place gives it away, its form does.
const SHAPED: &str = "sk-proj-canary0123456789abcdef08";
/// Neither place nor form gives it away: the author names it.
const NAMED: &str = "canary customer Ms. Nine";
const HEADER_KEY: &str = "canary-configured-header-10";
const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlLWNhbmFyeQ";

type Seen = Arc<Mutex<Vec<String>>>;

/// A model that calls the tool and then ends, and the tool; both say more than is good for them.
async fn serve(State(seen): State<Seen>, request: Request) -> impl IntoResponse {
    let path = request.uri().to_string();
    let headers = format!("{:?}", request.headers());
    let auth = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    seen.lock().unwrap().push(format!("{path} {headers} {body}"));
    let said = |body: Value| (StatusCode::OK, [("set-cookie", format!("session={COOKIE}"))], axum::Json(body));
    if path.starts_with("/v1/chat") {
        let told = body["messages"].as_array().unwrap().iter().any(|message| message["role"] == "tool");
        let message = if told {
            json!({"role": "assistant", "content": format!("Filed for {NAMED}; your key is {MODEL_KEY}, mine is {SHAPED}.")})
        } else {
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {
                "name": "file", "arguments": json!({"text": "a letter", "password": BODY_PASSWORD}).to_string()}}]})
        };
        let finish = if told { "stop" } else { "tool_calls" };
        return said(json!({"choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 5}}));
    }
    said(json!({"number": 4711, "access_token": ANSWER_TOKEN, "note": format!(
        "you sent {} and {HEADER_KEY}; next time use {ANSWER_TOKEN} or {JWT}", auth.unwrap_or_default())}))
}

fn definition(server: SocketAddr) -> Value {
    json!({
        "name": "filer", "description": "Files.", "instructions": "File it.", "models": [{"provider": "main"}],
        "tools": [{
            "kind": "http", "name": "file", "description": "Files a text.", "method": "POST",
            "url": format!("http://{server}/files?folder=in&api_key={QUERY_KEY}"),
            "headers": {"x-partner-key": HEADER_KEY},
            "body": {"text": "{text}", "password": "{password}"},
            "auth": {"header": "authorization", "prefix": "Bearer ", "secret": "ssm:/filer/key"},
            "input_schema": {"type": "object", "properties": {"text": {"type": "string"}, "password": {"type": "string"}}},
            "effect": "keyed",
        }],
    })
}

fn trial(definition: &Value, server: SocketAddr, keys: (&str, &str)) -> Trial {
    let mut endpoint = Endpoint::new(Wire::Chat, "m");
    endpoint.base_url = Some(format!("http://ada:{USER_PASSWORD}@{server}/v1"));
    endpoint.features.streaming = false;
    Trial::of_definition(&definition.to_string()).allow_host("127.0.0.1").secret("ssm:/filer/key", keys.1).provider(
        "main",
        endpoint,
        Access::Key(Secret::new(keys.0)),
    )
}

/// Records a job at `path` against servers that are gone behind it.
fn record(path: &Path) -> (Ended, SocketAddr, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let seen = Seen::default();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let server = listener.local_addr().unwrap();
    let routes = Router::new().fallback(serve).with_state(Arc::clone(&seen));
    runtime.spawn(async move { axum::serve(listener, routes).await });
    let ended = trial(&definition(server), server, (MODEL_KEY, TOOL_KEY))
        .traffic(Traffic::recorded(path).without(NAMED))
        .run(json!("go"))
        .unwrap();
    runtime.shutdown_background();
    let seen = seen.lock().unwrap().clone();
    (ended, server, seen)
}

#[test]
fn no_secret_is_written_down_and_a_replay_needs_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made/filer.json");
    let (recorded, server, seen) = record(&path);
    let sent = seen.join("\n");
    for canary in [MODEL_KEY, TOOL_KEY, QUERY_KEY, HEADER_KEY] {
        assert!(sent.contains(canary), "the servers were really sent {canary}: {sent}");
    }
    assert!(recorded.result().unwrap().as_str().unwrap().contains(MODEL_KEY), "the agent got the real answers");
    let text = std::fs::read_to_string(&path).unwrap();
    for canary in CANARIES {
        let inside = serde_json::to_string(canary).unwrap();
        let encoded = canary.replace(' ', "%20").replace('"', "%22").replace('/', "%2F");
        for form in [canary, inside.trim_matches('"'), &encoded] {
            assert!(!text.contains(form), "{form} was written down:\n{text}");
        }
    }
    let file: Value = serde_json::from_str(&text).unwrap();
    let exchanges = file["exchanges"].as_array().unwrap();
    assert_eq!(exchanges.len(), 3);
    let tool = &exchanges[1]["request"];
    assert_eq!(tool["url"], format!("http://{server}/files?folder=in&api_key=[removed]"));
    assert_eq!(
        (&tool["headers"]["authorization"], &tool["body"]["json"]["text"]),
        (&json!("[removed]"), &json!("a letter"))
    );
    assert_eq!(exchanges[1]["response"]["body"]["json"]["number"], 4711, "what is no secret stays");

    // With other keys, and with nobody there: the same steps, and what was removed is all that differs.
    let replayed = trial(&definition(server), server, ("another-model-key", "another-tool-key"))
        .traffic(Traffic::replayed(&path).unwrap())
        .run(json!("go"))
        .unwrap();
    assert_eq!(replayed.result().unwrap(), "Filed for [removed]; your key is [removed], mine is [removed].");
    let steps = |ended: &Ended| -> Vec<String> {
        ended.journal.lines().filter(|line| !line.starts_with("     ")).map(str::to_owned).collect()
    };
    assert_eq!(steps(&replayed), steps(&recorded));
    let again = trial(&definition(server), server, ("another-model-key", "another-tool-key"))
        .traffic(Traffic::replayed(&path).unwrap())
        .run(json!("go"))
        .unwrap();
    assert_eq!(again.journal, replayed.journal, "each replay is the same to the letter");
}

/// A request that was not recorded ends the trial, and says what differs from the one that is most alike.
#[test]
fn a_mismatch_says_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("filer.json");
    let (_, server, _) = record(&path);
    let replay = |definition: &Value| {
        trial(definition, server, ("k", "k")).traffic(Traffic::replayed(&path).unwrap()).run(json!("go"))
    };
    let mut words = definition(server);
    words["instructions"] = json!("File it at once.");
    let mut address = definition(server);
    address["tools"][0]["url"] = json!(format!("http://{server}/letters?folder=in"));
    let mut body = definition(server);
    body["tools"][0]["body"] = json!({"text": "{text}", "password": "{password}", "copies": 2});
    let rows: [(Value, &[&str]); 3] = [
        (words, &["/messages/0/content: recorded \"File it.\", now \"File it at once.\""]),
        (
            address,
            &[
                "/letters?folder=in is not in the recording",
                "the address: recorded",
                "/files?folder=in&api_key=[removed]",
            ],
        ),
        (body, &["/copies: not recorded, now 2"]),
    ];
    for (definition, said) in rows {
        let error = replay(&definition).unwrap_err();
        assert!(matches!(error, TrialError::Traffic(_)), "{error:?}");
        for said in said {
            assert!(error.to_string().contains(said), "{said} is not in:\n{error}");
        }
    }
    let missing = Traffic::replayed(folder.path().join("none.json")).unwrap_err();
    assert!(missing.to_string().contains("LONGHAUL_RECORD=1"), "{missing}");
}

/// What a test has prepared and the job never asks for is a fault of the test.
#[test]
fn what_is_left_over_is_said() {
    let simple =
        json!({"name": "a", "description": "A.", "instructions": "B.", "models": [{"provider": "main"}]}).to_string();
    let script = std::rc::Rc::new(longhaul_testing::Script::new().says("one").says("two"));
    let left = Trial::of_definition(&simple).script(script).run(json!("go")).unwrap_err();
    assert!(matches!(left, TrialError::Unsaid { left: 1, failure: None }), "{left}");
    let script = std::rc::Rc::new(longhaul_testing::Script::new().says("one"));
    let unasked = Trial::of_definition(&simple).script(script).person("approval", json!("approved")).run(json!("go"));
    assert!(unasked.unwrap_err().to_string().contains("approval"));
    let faulty = Trial::of_definition("{\"name\": 7}").run(json!("go")).unwrap_err();
    assert!(faulty.to_string().contains("/name"), "{faulty}");
}
