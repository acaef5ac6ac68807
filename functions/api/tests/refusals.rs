//! Bad requests: the right status, problem and field, and nothing stored or sent.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod world;

use http::Method;
use longhaul_wire::limits;
use serde_json::{Value, json};
use world::{Answer, World, issuer};

const NO_JOB: &str = "/v1/jobs/0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f";

fn research(topic: &str) -> Value {
    json!({ "agent": "research", "input": { "topic": topic } })
}

/// A refusal: status, problem, field or parameter.
type Wanted = (u16, &'static str, &'static str);

fn check(name: &str, answer: &Answer, wanted: Wanted) {
    let found = (answer.status.as_u16(), answer.problem(), answer.field());
    assert_eq!(found, wanted, "{name}: {}", answer.text);
}

#[tokio::test]
async fn bodies_of_submissions() {
    let world = World::new().await;
    let table: Vec<(&str, Vec<u8>, Wanted)> = vec![
        ("nothing", vec![], (400, "invalid-json", "")),
        ("no JSON", b"{\"agent\": research}".into(), (400, "invalid-json", "")),
        ("no text", b"{\"agent\":\"caf\xe9\"}".into(), (400, "invalid-json", "")),
        ("a list", b"[]".into(), (400, "invalid-field", "")),
        (
            "unknown field",
            json!({ "agent": "research", "inputs": {} }).to_string().into(),
            (400, "invalid-field", "/inputs"),
        ),
        ("unknown agent", json!({ "agent": "reserch" }).to_string().into(), (400, "unknown-agent", "/agent")),
        ("unknown version", json!({ "agent": "research@9" }).to_string().into(), (400, "unknown-agent", "/agent")),
        ("no topic", json!({ "agent": "research" }).to_string().into(), (400, "invalid-input", "/input/topic")),
        ("short topic", research("ab").to_string().into(), (400, "invalid-input", "/input/topic")),
        ("long topic", research(&"x".repeat(501)).to_string().into(), (400, "invalid-input", "/input/topic")),
        (
            "too many sources",
            json!({ "agent": "research", "input": { "topic": "queues", "sources_max": 11 } }).to_string().into(),
            (400, "invalid-input", "/input/sources_max"),
        ),
        (
            "input is text",
            json!({ "agent": "agent-10", "input": "x" }).to_string().into(),
            (400, "invalid-input", "/input"),
        ),
        (
            "unknown input",
            json!({ "agent": "agent-10", "input": { "stepz": 1 } }).to_string().into(),
            (400, "invalid-input", "/input"),
        ),
        (
            "bad label",
            json!({ "agent": "agent-10", "labels": { "": "v" } }).to_string().into(),
            (400, "invalid-field", "/labels/"),
        ),
        ("oversize", format!("{{\"agent\":\"{}\"}}", "x".repeat(1_100_000)).into(), (413, "body-too-large", "")),
        ("12 MB", vec![b'['; 12_000_000], (413, "body-too-large", "")),
    ];
    for (name, body, wanted) in table {
        check(name, &world.by("tn_a").send(Method::POST, "/v1/jobs", body).await, wanted);
    }
    assert_eq!((world.count("PutItem"), world.messages()), (0, 0), "something was stored or sent");
    let position = world.by("tn_a").send(Method::POST, "/v1/jobs", b"{\n  \"agent\": research}".into()).await;
    assert_eq!((&position.body["line"], &position.body["column"]), (&json!(2), &json!(12)));
}

#[tokio::test]
async fn addresses_methods_and_parameters() {
    let world = World::new().await;
    let table: Vec<(Method, &str, Wanted)> = vec![
        (Method::GET, "/", (404, "unknown-route", "")),
        (Method::GET, "/v1/jops", (404, "unknown-route", "")),
        (Method::GET, "/v1/jobs/", (404, "unknown-route", "")),
        (Method::PUT, "/v1/jobs", (405, "method-not-allowed", "")),
        (Method::DELETE, NO_JOB, (405, "method-not-allowed", "")),
        (Method::GET, NO_JOB, (404, "no-such-job", "")),
        (Method::GET, "/v1/jobs/7", (404, "no-such-job", "")),
        (Method::GET, "/v1/jobs/0190b6a27d3c7c4e9b1f0a2b3c4d5e6f", (404, "no-such-job", "")),
        (Method::GET, "/v1/jobs/%ff%fe", (404, "no-such-job", "")),
        (Method::GET, "/v1/jobs?status=", (400, "invalid-parameter", "status")),
        (Method::GET, "/v1/jobs?status=DONE", (400, "invalid-parameter", "status")),
        (Method::GET, "/v1/jobs?stauts=FAILED", (400, "invalid-parameter", "stauts")),
        (Method::GET, "/v1/jobs?label=x", (400, "invalid-parameter", "label")),
        (Method::GET, "/v1/jobs?limit=0", (400, "invalid-parameter", "limit")),
        (Method::GET, "/v1/jobs?limit=201", (400, "invalid-parameter", "limit")),
        (Method::GET, "/v1/jobs?limit=1&limit=2", (400, "invalid-parameter", "limit")),
        (Method::GET, "/v1/jobs?cursor=abc", (400, "invalid-parameter", "cursor")),
        (Method::GET, "/v1/dead-letters?cursor=abc.def", (400, "invalid-parameter", "cursor")),
    ];
    for (method, path, wanted) in table {
        check(path, &world.by("tn_a").send(method, path, vec![]).await, wanted);
    }
    for (tail, wanted) in [
        ("/events?wait=26", (400, "invalid-parameter", "wait")),
        ("/events?wait=soon", (400, "invalid-parameter", "wait")),
        ("/events?after=-1", (400, "invalid-parameter", "after")),
        ("/events", (404, "no-such-job", "")),
        ("/journal?limit=9999", (400, "invalid-parameter", "limit")),
        ("/journal", (404, "no-such-job", "")),
    ] {
        check(tail, &world.by("tn_a").get(&format!("{NO_JOB}{tail}")).await, wanted);
    }
    let wrong = world.by("tn_a").send(Method::PUT, "/v1/jobs", vec![]).await;
    assert!(wrong.header("allow").contains("POST"), "{:?}", wrong.headers);
}

#[tokio::test]
async fn headers() {
    let world = World::new().await;
    let submit = |name: &'static str, value: String| {
        let caller = world.by("tn_a").with(name, &value);
        async move { caller.post("/v1/jobs", &research("queues")).await }
    };
    let table: Vec<(&str, String, Wanted)> = vec![
        ("idempotency-key", String::new(), (400, "invalid-parameter", "Idempotency-Key")),
        ("idempotency-key", "x".repeat(256), (400, "invalid-parameter", "Idempotency-Key")),
        ("idempotency-key", "two words".into(), (400, "invalid-parameter", "Idempotency-Key")),
        ("idempotency-key", "täg".into(), (400, "invalid-parameter", "Idempotency-Key")),
        ("content-type", "text/plain".into(), (415, "unsupported-media-type", "")),
        ("content-type", "application/x-www-form-urlencoded".into(), (415, "unsupported-media-type", "")),
        ("content-encoding", "gzip".into(), (415, "unsupported-media-type", "")),
    ];
    for (name, value, wanted) in table {
        check(name, &submit(name, value).await, wanted);
    }
    for (name, value) in [("content-type", "application/json; charset=utf-8"), ("content-encoding", "identity")] {
        assert_eq!(submit(name, value.into()).await.status, 202, "{name}: {value}");
    }
}

#[tokio::test]
async fn signals_cancels_and_replays() {
    let world = World::new().await;
    let table: Vec<(String, Value, Wanted)> = vec![
        (format!("{NO_JOB}/cancel"), json!({}), (404, "no-such-job", "")),
        (format!("{NO_JOB}/cancel"), json!({ "reason": 7 }), (400, "invalid-field", "/reason")),
        (format!("{NO_JOB}/cancel"), json!({ "reason": "x".repeat(1_001) }), (400, "invalid-field", "/reason")),
        (format!("{NO_JOB}/signals/approval"), json!({ "payload": 1 }), (404, "no-such-job", "")),
        (format!("{NO_JOB}/signals/a%20b"), json!({}), (400, "invalid-parameter", "name")),
        (format!("{NO_JOB}/signals/child:{}", uuid::Uuid::nil()), json!({}), (400, "invalid-parameter", "name")),
        (format!("{NO_JOB}/replay"), json!({}), (404, "no-such-job", "")),
        (format!("{NO_JOB}/replay"), json!({ "edit": { "input": 1 } }), (404, "no-such-job", "")),
        (format!("{NO_JOB}/replay"), json!({ "from": 0 }), (400, "invalid-field", "/from")),
        ("/v1/jobs/x/replay".into(), json!({}), (404, "no-such-job", "")),
    ];
    for (path, body, wanted) in table {
        check(&path, &world.by("tn_a").post(&path, &body).await, wanted);
    }
}

#[tokio::test]
async fn scopes() {
    let world = World::new().await;
    let none = world.token("tn_a", "other:thing");
    let read = world.token("tn_a", "jobs:read");
    let write = world.token("tn_a", "jobs:write");
    let table: Vec<(&str, &str, &str, u16)> = vec![
        ("GET", "/v1/jobs", &none, 403),
        ("GET", "/v1/jobs", &read, 200),
        ("GET", "/v1/jobs", &write, 403),
        ("GET", "/v1/agents", &none, 403),
        ("GET", "/v1/dead-letters", &write, 403),
        ("GET", NO_JOB, &write, 403),
        ("POST", "/v1/jobs", &read, 403),
        ("POST", "/v1/jobs", &write, 202),
        ("POST", "/v1/jobs/0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f/cancel", &read, 403),
        ("POST", "/v1/jobs/0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f/signals/x", &read, 403),
        ("POST", "/v1/jobs/0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f/replay", &write, 403),
    ];
    for (method, path, token, wanted) in table {
        let caller = world.anybody().with("authorization", &format!("Bearer {token}"));
        let body = if method == "POST" { research("queues").to_string().into_bytes() } else { vec![] };
        let answer = caller.send(method.parse().unwrap(), path, body).await;
        assert_eq!(answer.status.as_u16(), wanted, "{method} {path}: {}", answer.text);
        if wanted == 403 {
            assert_eq!(answer.problem(), "not-allowed");
        }
    }
}

/// E03: what is no valid token gets one and the same answer, and nothing happens.
#[tokio::test]
async fn e03_tokens() {
    let keys: Value = serde_json::from_str(include_str!("../../../shared/wire/tests/faults/E03/jwks.json")).unwrap();
    let unused = issuer::SigningKey::new("unused", jsonwebtoken::Algorithm::EdDSA);
    let world = World::with_issuer(issuer::Issuer::start(keys).await, unused).await;
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../../shared/wire/tests/faults/E03/jwt_cases.json")).unwrap();
    let mut first: Option<Value> = None;
    for case in cases.iter().filter(|case| case["name"] != "exp_huge_float") {
        let token = format!("Bearer {}", case["token"].as_str().unwrap());
        for (method, path) in [(Method::POST, "/v1/jobs"), (Method::GET, "/v1/jobs"), (Method::GET, NO_JOB)] {
            let body = if method == Method::POST { research("queues").to_string().into_bytes() } else { vec![] };
            let mut answer = world.anybody().with("authorization", &token).send(method, path, body).await;
            if case["accept"] == json!(true) {
                // These tokens name no scope of ours: known, and allowed nothing.
                assert_eq!(answer.problem(), "not-allowed", "{}", case["name"]);
                continue;
            }
            check(case["name"].as_str().unwrap(), &answer, (401, "not-authenticated", ""));
            assert_eq!(answer.header("www-authenticate"), "Bearer");
            for own in ["request_id", "instance"] {
                answer.body.as_object_mut().unwrap().remove(own);
            }
            assert_eq!(first.get_or_insert(answer.body.clone()), &answer.body, "{}", case["name"]);
        }
    }
    assert_eq!((world.count("PutItem"), world.messages()), (0, 0));
    // Without any token too, while what everybody may see needs none.
    check("none", &world.anybody().get("/v1/agents").await, (401, "not-authenticated", ""));
    assert_eq!(world.anybody().get("/healthz").await.status, 200);
    assert_eq!(world.anybody().get("/openapi.json").await.status, 200);
}

/// E05: odd ids are the ids of no job.
#[tokio::test]
async fn e05_ids() {
    let world = World::new().await;
    let ids: Vec<String> = serde_json::from_str(include_str!("faults/E05/ids.json")).unwrap();
    for id in ids {
        let encoded: String =
            url::form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>().replace('+', "%20");
        for path in [format!("/v1/jobs/{encoded}"), format!("/v1/jobs/{encoded}/events")] {
            let answer = world.by("tn_a").get(&path).await;
            assert_eq!(answer.status, 404, "{id}: {}", answer.text);
            assert!(answer.text.len() < 1_500, "an answer repeats {} bytes", answer.text.len());
        }
    }
}

/// E05: odd texts where names go into keys and paths: refused by name, or the names of nothing. (A signal's name is a value
/// in the journal and part of no key.)
#[tokio::test]
async fn e05_odd_names() {
    let world = World::new().await;
    let ids: Vec<String> = serde_json::from_str(include_str!("faults/E05/ids.json")).unwrap();
    let made = world.by("tn_a").post("/v1/jobs", &json!({ "agent": "agent-10" })).await.job();
    let (writes, objects) = (world.count("PutItem"), world.shelves.lock().unwrap().objects.len());
    for id in ids.iter().filter(|id| *id != "JOB_01" && *id != "ｊob_01") {
        let encoded: String =
            url::form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>().replace('+', "%20");
        let caller = world.by("tn_a");
        let definition = json!({
            "name": id, "description": "d", "instructions": "i", "models": [{ "provider": "default" }],
        });
        let answers = [
            ("an agent to look at", caller.get(&format!("/v1/agents/{encoded}")).await),
            (
                "an agent to define",
                caller.send(Method::PUT, &format!("/v1/agents/{encoded}"), definition.to_string().into()).await,
            ),
            ("an agent to run", caller.post("/v1/jobs", &json!({ "agent": id })).await),
            ("a cursor", caller.get(&format!("/v1/jobs?cursor={encoded}")).await),
        ];
        for (what, answer) in answers {
            let refused = [400, 404, 405].contains(&answer.status.as_u16());
            assert!(refused, "{what} {id:.40}: {} {}", answer.status, answer.text);
            assert!(answer.text.len() < 2_000, "an answer repeats {} bytes", answer.text.len());
        }
        // The tenant is the token's, and a claim that could be taken for another part of a key is none.
        let token = format!("Bearer {}", world.token(id, "jobs:read jobs:write"));
        let answer = world.anybody().with("authorization", &token).get(&format!("/v1/jobs/{made}")).await;
        assert!([401, 404].contains(&answer.status.as_u16()), "a tenant {id:.40}: {}", answer.text);
    }
    assert_eq!(world.count("PutItem"), writes, "something was stored");
    assert_eq!(world.shelves.lock().unwrap().objects.len(), objects);
}

/// E08: what callers name their requests is not sent back as headers of ours.
#[tokio::test]
async fn e08_nothing_of_a_request_becomes_a_header() {
    let case: Value =
        serde_json::from_str(include_str!("../../../shared/wire/tests/faults/E08/tool_headers.json")).unwrap();
    let world = World::new().await;
    let headers = case["caller_headers"].as_object().unwrap();
    let mut refused_by_http = 0;
    for name in headers.keys().map(String::as_str).chain(["x-request-id", "traceparent", "idempotency-key"]) {
        for text in case["args"].as_array().unwrap().iter().chain(headers.values()).map(|text| text.as_str().unwrap()) {
            // A server's own parser never lets these in; the others reach us.
            if http::HeaderValue::from_bytes(text.as_bytes()).is_err() {
                refused_by_http += 1;
                continue;
            }
            let answer = world.by("tn_a").with(name, text).post("/v1/jobs", &research("queues")).await;
            assert!(answer.status.as_u16() < 500, "{name}: {}", answer.text);
            for (header, value) in &answer.headers {
                assert!(!header.as_str().contains("evil") && header != "set-cookie", "{header}");
                assert!(value.as_bytes().is_ascii() && value.len() < 300, "{header}: {value:?}");
                assert_ne!(value.as_bytes(), text.as_bytes(), "{header} repeats what the caller wrote");
            }
        }
    }
    assert!(refused_by_http > 0);
    assert_eq!(world.by("tn_a").post("/v1/jobs", &research("queues")).await.status, 202);
}

/// E12: no callback that is signed with a shared secret is taken in. What comes to a job from outside comes with a token of
/// its own and under a key of its own: the token is what says when it is too old, and the key what makes a repetition one.
#[tokio::test]
async fn e12_callbacks_need_a_token_and_count_once() {
    let cases: Value = serde_json::from_str(include_str!("faults/E12/callbacks.json")).unwrap();
    let world = World::new().await;
    let job = world.by("tn_a").post("/v1/jobs", &json!({ "agent": "agent-10" })).await.job();
    let path = |signal: &str| format!("/v1/jobs/{job}/signals/{signal}");
    let signals = async || {
        let entries = world.by("tn_a").get(&format!("/v1/jobs/{job}/journal")).await.body["entries"].clone();
        entries.as_array().unwrap().iter().filter(|view| view["entry"]["type"] == "signalled").count()
    };
    // A signature opens no door, be it good, old, without a time or empty: there is one answer, and no effect.
    for row in cases["rows"].as_array().unwrap() {
        let said: Value = serde_json::from_str(row["body"].as_str().unwrap()).unwrap();
        let mut caller = world.anybody().with("x-signature", row["sig"].as_str().unwrap());
        if let Some(time) = row["ts"].as_str() {
            caller = caller.with("x-timestamp", time).with("webhook-timestamp", time);
        }
        caller = caller.with("webhook-signature", row["sig"].as_str().unwrap()).with("webhook-id", "msg_1");
        let answer = caller.post(&path(said["approval"].as_str().unwrap()), &json!({ "payload": said })).await;
        check(row["name"].as_str().unwrap(), &answer, (401, "not-authenticated", ""));
    }
    assert_eq!(signals().await, 0);

    // The rows with what callers do have: a token of this moment.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let claims = |from: u64, to: u64| {
        let claims = json!({
            "iss": world::ISSUER, "aud": world::AUDIENCE, "sub": "s", "tenant": "tn_a", "scope": "jobs:write",
            "nbf": from, "exp": to,
        });
        world.sign(claims.as_object().unwrap())
    };
    let good = claims(now - 10, now + 300);
    let said = json!({ "payload": { "decision": "approve" } });
    let send = async |token: String, key: &str, body: &Value| {
        let caller = world.anybody().with("authorization", &format!("Bearer {token}")).with("idempotency-key", key);
        caller.post(&path("ap_1"), body).await
    };
    assert_eq!(send(good.clone(), "delivery-1", &said).await.status, 202, "good");
    let again = send(good.clone(), "delivery-1", &said).await;
    assert_eq!((again.status.as_u16(), &again.body["seq"]), (202, &Value::Null), "the replay has no second effect");
    let other = json!({ "payload": { "decision": "reject" } });
    check("captured, with another body", &send(good, "delivery-1", &other).await, (422, "idempotency-key-reused", ""));
    for (name, token) in [
        ("old", claims(now - 1_000, now - 400)),
        ("future", claims(now + 1_000, now + 2_000)),
        (
            "without a time",
            world.sign(
                json!({ "iss": world::ISSUER, "aud": world::AUDIENCE, "sub": "s", "tenant": "tn_a" })
                    .as_object()
                    .unwrap(),
            ),
        ),
        ("empty", String::new()),
    ] {
        check(name, &send(token, "delivery-2", &said).await, (401, "not-authenticated", ""));
    }
    let torn = {
        let mut token = claims(now, now + 300);
        token.truncate(token.len() - 4);
        token
    };
    check("a changed signature", &send(torn, "delivery-3", &said).await, (401, "not-authenticated", ""));
    assert_eq!(signals().await, 1, "one decision stands in the journal");
}

/// E06: deep and doubled JSON is refused, and the next request is served.
#[tokio::test]
async fn e06_deep_and_doubled_json() {
    let world = World::new().await;
    let inner = |text: &str| format!(r#"{{"agent":"agent-10","input":{text}}}"#).into_bytes();
    for (name, text) in [
        ("deep array", include_str!("faults/E06/deep_array.json")),
        ("deep object", include_str!("faults/E06/deep_object.json")),
    ] {
        for body in [text.as_bytes().to_vec(), inner(text)] {
            let answer = world.by("tn_a").send(Method::POST, "/v1/jobs", body).await;
            assert_eq!(answer.status, 400, "{name}: {}", answer.text);
        }
    }
    let doubled = include_str!("faults/E06/dup_keys.json");
    for (body, field) in [(doubled.as_bytes().to_vec(), "/prompt"), (inner(doubled), "/input/prompt")] {
        let answer = world.by("tn_a").send(Method::POST, "/v1/jobs", body).await;
        check("doubled", &answer, (400, "invalid-field", field));
    }
    assert_eq!(world.by("tn_a").post("/v1/jobs", &research("queues")).await.status, 202);
}

/// C08: empty texts are refused by name where they would be keys, and kept where they are values.
#[tokio::test]
async fn c08_empty_texts() {
    let world = World::new().await;
    let cases: Vec<Value> = serde_json::from_str(include_str!("faults/C08/requests.json")).unwrap();
    for case in &cases {
        let mut caller = world.by("tn_a");
        for (name, value) in case["headers"].as_object().into_iter().flatten() {
            caller = caller.with(&name.to_ascii_lowercase(), value.as_str().unwrap());
        }
        // The stand-in `prompt` of the cases is our research agent's topic.
        let mut body = case["body"].clone();
        if let Some(fields) = body.as_object_mut() {
            fields.remove("prompt");
            fields.insert("agent".into(), json!("research"));
            fields.insert("input".into(), json!({ "topic": "queues" }));
        }
        let method = case["method"].as_str().unwrap().parse().unwrap();
        let body = if body.is_null() { vec![] } else { body.to_string().into_bytes() };
        let answer = caller.send(method, case["path"].as_str().unwrap(), body).await;
        assert!([400, 404].contains(&answer.status.as_u16()), "{case}: {}", answer.text);
    }
    let kept = json!({ "agent": "agent-10", "labels": { "k": "" } });
    assert_eq!(world.by("tn_a").post("/v1/jobs", &kept).await.body["labels"], json!({ "k": "" }));
}

/// Nothing secret in an answer: neither tokens nor values of a refused input.
#[tokio::test]
async fn refusals_repeat_no_values() {
    let world = World::new().await;
    let secret = "sk-live-0123456789abcdef";
    for body in [
        json!({ "agent": "research", "input": { "topic": [secret] } }),
        json!({ "agent": "research", "input": { "topic": "queues", "sources_max": secret } }),
        json!({ "agent": "compliance", "input": { "document": "d", "rules": [[secret]] } }),
        json!({ "agent": "compliance", "input": { "document": "d", "rules": "r", "tickets_url": secret } }),
        json!({ "agent": "agent-10", "input": secret }),
    ] {
        let answer = world.by("tn_a").post("/v1/jobs", &body).await;
        assert_eq!(answer.problem(), "invalid-input", "{}", answer.text);
        assert!(!answer.text.contains(secret), "{}", answer.text);
        let many = answer.body["violations"].as_array().unwrap().len();
        assert!((1..=limits::VIOLATIONS_MAX).contains(&many));
    }
}
