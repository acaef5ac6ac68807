//! Bad input through the real gateway: a clear problem, and nothing stored.

use longhaul_tests::program::{Stack, entries};
use reqwest::{Client, Method};
use serde_json::{Value, json};

struct Row {
    name: &'static str,
    method: Method,
    path: &'static str,
    body: String,
    token: Option<String>,
    status: u16,
    problem: &'static str,
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of bad requests")]
fn bad_requests_are_refused_and_store_nothing() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let local = stack.token("local");
    let token = Some(local.clone());
    let job = |agent: &str, input: Value| json!({"agent": agent, "input": input}).to_string();
    let foreign_id = stack.submit("agent-10", &json!({"steps": 1}));
    let foreign: &'static str = Box::leak(format!("/v1/jobs/{foreign_id}").into_boxed_str());
    let row = |name, method, path, body: String, token, status, problem| Row {
        name,
        method,
        path,
        body,
        token,
        status,
        problem,
    };
    let post = Method::POST;
    let get = Method::GET;
    let rows = [
        row("no token", post.clone(), "/v1/jobs", job("agent-10", json!({})), None, 401, "not-authenticated"),
        row(
            "a token of nobody",
            get.clone(),
            "/v1/jobs",
            String::new(),
            Some("a.b.c".to_owned()),
            401,
            "not-authenticated",
        ),
        row(
            "an unknown agent",
            post.clone(),
            "/v1/jobs",
            job("nobody", json!({})),
            token.clone(),
            400,
            "unknown-agent",
        ),
        row(
            "an unknown version",
            post.clone(),
            "/v1/jobs",
            job("agent-10@9", json!({})),
            token.clone(),
            400,
            "unknown-agent",
        ),
        row(
            "a wrong input",
            post.clone(),
            "/v1/jobs",
            job("research", json!({"topic": 7})),
            token.clone(),
            400,
            "invalid-input",
        ),
        row("no JSON", post.clone(), "/v1/jobs", "{\"agent\": ".to_owned(), token.clone(), 400, "invalid-json"),
        row(
            "an unknown field",
            post.clone(),
            "/v1/jobs",
            json!({"agent": "agent-10", "x": 1}).to_string(),
            token.clone(),
            400,
            "invalid-field",
        ),
        row(
            "too large",
            post,
            "/v1/jobs",
            job("agent-10", json!("x".repeat(2_000_000))),
            token.clone(),
            413,
            "body-too-large",
        ),
        row("a bad id", get.clone(), "/v1/jobs/seven", String::new(), token.clone(), 404, "no-such-job"),
        row(
            "no such job",
            get.clone(),
            "/v1/jobs/0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f",
            String::new(),
            token.clone(),
            404,
            "no-such-job",
        ),
        row(
            "another tenant's job",
            get.clone(),
            foreign,
            String::new(),
            Some(stack.token("other")),
            404,
            "no-such-job",
        ),
        row("an unknown route", get, "/v1/nothing", String::new(), token.clone(), 404, "unknown-route"),
        row("a wrong method", Method::DELETE, "/v1/jobs", String::new(), token.clone(), 405, "method-not-allowed"),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = Client::new();
    for Row { name, method, path, body, token, status, problem } in rows {
        let answer = runtime.block_on(async {
            let mut call = client.request(method, format!("{}{path}", stack.address("api"))).body(body);
            if let Some(token) = &token {
                call = call.bearer_auth(token);
            }
            let answer = call.header("content-type", "application/json").send().await.unwrap();
            let found = (answer.status().as_u16(), answer.headers().clone());
            (found, answer.json::<Value>().await.unwrap())
        });
        let ((found, headers), body) = answer;
        assert_eq!(found, status, "{name}: {body}");
        assert_eq!(headers["content-type"], "application/problem+json", "{name}");
        assert!(headers.contains_key("x-request-id"), "{name}");
        assert_eq!(body["type"], format!("urn:longhaul:problem:{problem}"), "{name}: {body}");
        let secret = token.filter(|token| token.len() > 20);
        assert!(secret.is_none_or(|token| !body.to_string().contains(&token)), "{name}: the token is not echoed");
    }
    let jobs = stack.json(&["jobs", "ls", "--json"]);
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "only the one that was right: {jobs}");
    for function in ["api", "worker", "websocket"] {
        let log = std::fs::read_to_string(stack.data().join(format!("logs/{function}.log"))).unwrap_or_default();
        assert!(!log.contains(&local), "the token is in {function}.log");
    }
}

#[test]
fn a_submission_under_a_key_is_made_once_and_may_be_waited_for() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let (url, token) = (format!("{}/v1/jobs", stack.address("api")), stack.token("local"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = Client::new();
    let submit = |body: Value, wait: Option<u32>| {
        let mut call = client.post(&url).bearer_auth(&token).header("idempotency-key", "order-7").json(&body);
        if let Some(seconds) = wait {
            call = call.header("prefer", format!("wait={seconds}"));
        }
        runtime.block_on(async {
            let answer = call.send().await.unwrap();
            (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
        })
    };
    let body = json!({"agent": "agent-10", "input": {"steps": 3}});
    let (status, waited) = submit(body.clone(), Some(20));
    assert_eq!((status, &waited["status"]), (200, &json!("COMPLETED")), "{waited}");
    let (_, again) = submit(body, None);
    assert_eq!(again["id"], waited["id"], "the same key is the same job");
    let (status, other) = submit(json!({"agent": "agent-10", "input": {"steps": 4}}), None);
    assert!(status == 409 || status == 422, "another body under it is refused: {other}");
    let job = stack.ended(waited["id"].as_str().unwrap());
    assert_eq!(entries(&job, "step_completed").len(), 3);
    assert_eq!(stack.json(&["jobs", "ls", "--json"])["jobs"].as_array().unwrap().len(), 1);
}
