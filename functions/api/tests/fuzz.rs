//! Whatever is asked of the api: an answer below 500, and a problem where it is a refusal. Never a panic, which on Lambda
//! would be an answer without a word.
//!
//! `PROPTEST_CASES=100000` makes a longer run; what was found once stays in `fuzz.regressions`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod world;

use axum::body::Body;
use axum::extract::Request;
use http::{HeaderName, HeaderValue, Method, Uri};
use longhaul::engine::{Entry, JobId};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use serde_json::json;
use tower::ServiceExt;
use world::{World, read};

/// A request, its parts as they would come off the wire.
#[derive(Debug, Clone)]
struct Asked {
    method: &'static str,
    path: String,
    query: Option<String>,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
}

/// Parts of addresses. `{job}` stands for a job that is there, `{end}` for one that has ended.
fn path() -> impl Strategy<Value = String> {
    let routes = select(vec![
        "/v1/jobs",
        "/v1/jobs/{job}",
        "/v1/jobs/{job}/events",
        "/v1/jobs/{job}/journal",
        "/v1/jobs/{job}/cancel",
        "/v1/jobs/{job}/signals/approval",
        "/v1/jobs/{end}/replay",
        "/v1/jobs/{end}",
        "/v1/dead-letters",
        "/v1/agents",
        "/healthz",
        "/openapi.json",
    ]);
    let segment = prop_oneof![
        select(vec![
            "v1", "jobs", "{job}", "{end}", "events", "signals", "..", ".", "", "%2e%2e", "%00", "%ff", "%", "a%2Fb",
            "{JOB}"
        ])
        .prop_map(str::to_owned),
        "[!-~]{0,12}",
    ];
    prop_oneof![
        4 => routes.prop_map(str::to_owned),
        1 => vec(segment.clone(), 0..6).prop_map(|segments| format!("/{}", segments.join("/"))),
        1 => segment.prop_map(|segment| format!("/v1/jobs/{{job}}/signals/{segment}")),
    ]
}

fn query() -> impl Strategy<Value = Option<String>> {
    let name = select(vec!["limit", "cursor", "after", "status", "agent", "label", "wait", "x", "%6cimit", ""]);
    let value = prop_oneof![
        select(vec![
            "",
            "0",
            "1",
            "200",
            "201",
            "-1",
            "1e3",
            "9999999999",
            "10000000000",
            "99999999999",
            "18446744073709551615",
            "18446744073709551616",
            "FAILED",
            "research",
            "k=v",
            "%00",
            "%ff",
            "+",
            "a.b",
            "{cursor}",
            "{cursor}x",
        ])
        .prop_map(str::to_owned),
        "[!-~]{0,16}",
    ];
    // A wait is a wait: nothing is found by sitting through one.
    let pair = (name, value).prop_map(|(name, value)| {
        let value =
            if name == "wait" && value.parse::<u64>().is_ok_and(|seconds| seconds <= 25) { "0".into() } else { value };
        format!("{name}={value}")
    });
    prop::option::of(vec(pair, 0..4).prop_map(|pairs| pairs.join("&")))
}

fn headers() -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    let name = select(vec![
        "idempotency-key",
        "content-type",
        "content-encoding",
        "traceparent",
        "prefer",
        "accept",
        "host",
        "x-request-id",
    ]);
    let value = prop_oneof![
        select(vec![
            &b"k-1"[..],
            b"\"k-1\"",
            b"application/json",
            b"application/json; charset=utf-16",
            b"text/plain",
            b"gzip",
            b"",
            b"\xff\xfe",
            b"child:x",
            b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            b"respond-async",
            b"wait=0",
            b"wait=",
            b"127.0.0.1",
            b"h:99999",
        ])
        .prop_map(<[u8]>::to_vec),
        "[ -~]{0,300}".prop_map(String::into_bytes),
    ];
    vec((name, value), 0..4).prop_map(|headers| {
        let waits = |value: &[u8]| String::from_utf8_lossy(value).contains("wait=") && value != b"wait=0";
        headers.into_iter().filter(|(name, value)| *name != "prefer" || !waits(value)).collect()
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let right = select(vec![
        r#"{"agent":"research","input":{"topic":"how queues work"}}"#,
        r#"{"agent":"agent-10","labels":{"k":"v"}}"#,
        r#"{"agent":"research@1","input":{"topic":"abc","sources_max":3},"budget":{"tokens":5},"webhook":"https://example.com/"}"#,
        r#"{"payload":{"decision":"approved"}}"#,
        r#"{"reason":"late"}"#,
        r#"{"from":2,"edit":{"input":{"topic":"edited"}}}"#,
        "{}",
        "",
    ]);
    let pieces = select(vec![
        "\"",
        "\\",
        "{",
        "}",
        "[",
        ":",
        ",",
        "null",
        "1e999",
        "\\ud800",
        "\u{0}",
        "é",
        "99999999999999999999",
        "\"agent\":\"x\",",
        " ",
    ]);
    let changed =
        (right, vec((any::<prop::sample::Index>(), 0_usize..9, pieces), 0..4)).prop_map(|(right, changes)| {
            let mut chars: Vec<char> = right.chars().collect();
            for (at, length, piece) in changes {
                let at = at.index(chars.len() + 1);
                let end = (at + length).min(chars.len());
                drop(chars.splice(at..end, piece.chars()));
            }
            chars.into_iter().collect::<String>().into_bytes()
        });
    prop_oneof![6 => changed, 1 => vec(any::<u8>(), 0..60)]
}

fn asked() -> impl Strategy<Value = Asked> {
    let method = select(vec!["GET", "GET", "GET", "POST", "POST", "POST", "PUT", "DELETE", "PATCH", "BREW"]);
    (method, path(), query(), headers(), body()).prop_map(|(method, path, query, headers, body)| Asked {
        method,
        path,
        query,
        headers,
        body,
    })
}

/// The request, if a server could have read it: the address of one that cannot be parsed never comes to a handler.
fn request(asked: &Asked, places: &[(&str, &str)], token: &str) -> Option<Request> {
    let mut address = asked.path.clone();
    if let Some(query) = &asked.query {
        address = format!("{address}?{query}");
    }
    for (name, place) in places {
        address = address.replace(name, place);
    }
    let uri: Uri = address.parse().ok()?;
    let mut request = Request::builder().method(Method::from_bytes(asked.method.as_bytes()).ok()?).uri(uri);
    request = request.header("authorization", format!("Bearer {token}"));
    let mut typed = false;
    for (name, value) in &asked.headers {
        typed |= *name == "content-type";
        request = request.header(HeaderName::from_static(name), HeaderValue::from_bytes(value).ok()?);
    }
    if !typed {
        request = request.header("content-type", "application/json");
    }
    request.body(Body::from(asked.body.clone())).ok()
}

async fn submitted(world: &World) -> JobId {
    let answer =
        world.by("tn_a").post("/v1/jobs", &json!({ "agent": "research", "input": { "topic": "queues" } })).await;
    answer.job()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_has_an_answer() {
    let world = World::new().await;
    let (job, end) = (submitted(&world).await, submitted(&world).await);
    let failed = json!({ "type": "failed", "failure": { "class": "invalid", "message": "no", "causes": [] } });
    let failed: Entry = serde_json::from_value(failed).unwrap();
    world.drive("tn_a", end, vec![failed]).await;
    submitted(&world).await;
    let page = world.by("tn_a").get("/v1/jobs?limit=1").await;
    let cursor = page.body["next"].as_str().unwrap().to_owned();
    let (job, end) = (job.to_string(), end.to_string());
    let upper = job.to_uppercase();
    let places = [("{job}", job.as_str()), ("{end}", &end), ("{JOB}", &upper), ("{cursor}", &cursor)];
    let token = world.token("tn_a", "jobs:read jobs:write jobs:operate");

    let persistence = FileFailurePersistence::Direct("tests/fuzz.regressions");
    let config = ProptestConfig { failure_persistence: Some(Box::new(persistence)), ..ProptestConfig::default() };
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        TestRunner::new(config)
            .run(&asked(), |asked| {
                let Some(request) = request(&asked, &places, &token) else { return Ok(()) };
                // `read` holds every answer to what all have: JSON, an id, and a problem where it is a refusal.
                let answer =
                    runtime.block_on(async { read(world.router.clone().oneshot(request).await.unwrap()).await });
                prop_assert!(answer.status.as_u16() < 500, "{}: {}", answer.status, answer.text);
                prop_assert!(answer.status.is_success() || answer.status.is_client_error(), "{}", answer.status);
                Ok(())
            })
            .unwrap();
    });
    // Whatever all that was, the service is as it was.
    assert_eq!(world.by("tn_a").get(&format!("/v1/jobs/{job}")).await.status, 200);
}
