//! Whatever a caller sends: it is taken, or refused with a problem of the 400s that repeats no more of it than a few
//! characters. Never a panic.
//!
//! `PROPTEST_CASES=100000` makes a longer run; what was found once stays in `fuzz.regressions`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[allow(dead_code, reason = "each test file uses its own part")]
mod issuer;

use issuer::{Issuer, SigningKey};
use jsonwebtoken::Algorithm;
use longhaul_wire::requests::{
    CancelRequest, ReplayRequest, SignalRequest, SubmitRequest, idempotency_key, parse, parse_or_default, signal_key,
    signal_name, traceparent,
};
use longhaul_wire::socket::ClientMessage;
use longhaul_wire::text::{json_prefix, parse_rfc3339, rfc3339, shortened};
use longhaul_wire::token::TokenSettings;
use longhaul_wire::{Problem, TokenCheck};
use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use serde_json::{Map, Value, json};

fn config() -> ProptestConfig {
    let persistence = FileFailurePersistence::Direct("tests/fuzz.regressions");
    ProptestConfig { failure_persistence: Some(Box::new(persistence)), ..ProptestConfig::default() }
}

/// Bodies and messages that are right: what mutations begin with.
const RIGHT: [&str; 9] = [
    r#"{"agent":"research@1","input":{"topic":"queues"},"budget":{"tokens":9,"steps":1},"labels":{"k":"v"}}"#,
    r#"{"agent":"a","webhook":"https://example.com/hooks/jobs"}"#,
    r#"{"reason":"too late"}"#,
    r#"{"payload":{"decision":"approved","\u00e9":[1,2.5e3,null,true]}}"#,
    r#"{"from":3,"edit":{"input":{"topic":"x"},"budget":{"wall_seconds":5}}}"#,
    r#"{"action":"subscribe","job":"0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f","after":7}"#,
    r#"{"action":"unsubscribe","job":"0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f"}"#,
    r#"{"action":"ping"}"#,
    "",
];

/// A change of some bytes: put in, taken out, put over, doubled.
#[derive(Debug, Clone)]
struct Change(Index, Index, u8, Vec<u8>);

fn change() -> impl Strategy<Value = Change> {
    let pieces = select(vec![
        &b"\""[..],
        b"\\",
        b"\\u",
        b"\\ud800",
        b"{",
        b"}",
        b"[",
        b",",
        b":",
        b"null",
        b"1e999",
        b"-0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\x00",
        b"18446744073709551616",
        b"\"agent\":1,",
        b"\"x\":{",
        b" ",
        b"\n",
    ]);
    let piece = prop_oneof![pieces.prop_map(<[u8]>::to_vec), vec(any::<u8>(), 0..4)];
    (any::<Index>(), any::<Index>(), 0_u8..4, piece).prop_map(|(at, other, kind, piece)| Change(at, other, kind, piece))
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for Change(at, other, kind, piece) in changes {
        let (at, other) = (at.index(bytes.len() + 1), other.index(bytes.len() + 1));
        let (from, to) = (at.min(other), at.max(other));
        match kind {
            0 => drop(bytes.splice(at..at, piece.iter().copied())),
            1 => drop(bytes.drain(from..to)),
            2 => drop(bytes.splice(from..to, piece.iter().copied())),
            _ => {
                let part = bytes[from..to].to_vec();
                drop(bytes.splice(to..to, part));
            }
        }
    }
    bytes
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let mutated = (select(RIGHT.to_vec()), vec(change(), 0..5))
        .prop_map(|(right, changes)| changed(right.as_bytes().to_vec(), &changes));
    prop_oneof![8 => mutated, 1 => vec(any::<u8>(), 0..200), 1 => any::<String>().prop_map(String::into_bytes)]
}

/// A refusal as it would be sent: of the 400s, and small.
fn refusal(problem: &Problem) -> Result<(), TestCaseError> {
    prop_assert!((400..500).contains(&problem.status()), "{problem:?}");
    let sent = serde_json::to_string(&problem.body(Some("/v1/jobs"), Some("r"))).unwrap();
    prop_assert!(sent.len() < 4_000, "{} bytes of {problem:?}", sent.len());
    Ok(())
}

/// Any JSON value, not deep.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("a number of JSON", |x| serde_json::Number::from_f64(x).map(Value::Number)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            hash_map(".{0,6}", inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_body_is_taken_or_refused(body in body()) {
        for problem in [
            parse::<SubmitRequest>(&body).and_then(|request| request.check()).err(),
            parse_or_default::<SignalRequest>(&body).and_then(|request| request.check()).err(),
            parse_or_default::<CancelRequest>(&body).and_then(|request| request.check()).err(),
            parse_or_default::<ReplayRequest>(&body).and_then(|request| request.check()).err(),
        ].into_iter().flatten() {
            refusal(&problem)?;
        }
    }

    /// What is taken is what was sent: an input comes out as it went in.
    #[test]
    fn an_input_is_taken_whole(input in value(), payload in value()) {
        let body = json!({ "agent": "a", "input": input }).to_string();
        prop_assert_eq!(parse::<SubmitRequest>(body.as_bytes()).unwrap().input, input);
        let body = json!({ "payload": payload }).to_string();
        prop_assert_eq!(parse::<SignalRequest>(body.as_bytes()).unwrap().payload, payload);
    }

    /// A name that stands twice in one object is found wherever it stands, and however its second spelling is escaped.
    #[test]
    fn a_doubled_name_is_refused(
        around in vec((".{0,4}", any::<bool>()), 0..6), name in ".{0,6}", first in value(), second in value(), escaped in any::<bool>(),
    ) {
        let plain = serde_json::to_string(&name).unwrap();
        let again = if escaped {
            let units: String = name.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            format!("\"{units}\"")
        } else {
            plain.clone()
        };
        let mut text = format!("{{{plain}:{first},{again}:{second}}}");
        for (name, list) in &around {
            let name = serde_json::to_string(name).unwrap();
            text = if *list { format!("[null,{text},1]") } else { format!("{{{name}:{text}}}") };
        }
        let body = format!(r#"{{"agent":"a","input":{text}}}"#);
        let problem = parse::<SubmitRequest>(body.as_bytes()).unwrap_err();
        prop_assert_eq!(problem.name(), "invalid-field");
        refusal(&problem)?;
    }

    #[test]
    fn a_message_is_taken_or_refused(body in body()) {
        let text = String::from_utf8_lossy(&body);
        if let Err(problem) = ClientMessage::parse(&text) {
            refusal(&problem)?;
        }
    }

    #[test]
    fn headers_and_names_are_taken_or_refused(text in prop_oneof![any::<String>(), "[ -~]{0,300}", "00-[0-9a-f-]{40,60}"]) {
        for problem in [idempotency_key(&text).err(), signal_key(&text).err(), signal_name(&text).err()].into_iter().flatten() {
            refusal(&problem)?;
        }
        if let Some(taken) = traceparent(&text) {
            prop_assert!(taken.len() == 55 && taken.is_ascii());
        }
    }

    #[test]
    fn texts_are_cut_between_characters(text in any::<String>(), length in 0_usize..40, bytes in 0_usize..80) {
        prop_assert!(shortened(&text, length).chars().count() <= length.max(1));
        let (prefix, cut) = json_prefix(&text, bytes);
        prop_assert!(text.starts_with(prefix) && cut == (prefix != text));
        if let Some(time) = parse_rfc3339(&text) {
            prop_assert_eq!(parse_rfc3339(&rfc3339(time)), Some(time));
        }
    }
}

/// A token is the issuer's to the last character, or it is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_token_is_refused() {
    let keys = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA].map(|algorithm| SigningKey::new("k", algorithm));
    let [rsa, ec, ed] = &keys;
    let mut tokens = Vec::new();
    let mut checks = Vec::new();
    let mut issuers = Vec::new();
    let claims = json!({
        "iss": "https://id.example.test/", "aud": "api://runner", "sub": "u1", "tenant": "tn_a", "exp": 4_102_444_800_u64,
    });
    for key in [rsa, ec, ed] {
        let issuer = Issuer::start(issuer::key_set(std::slice::from_ref(key))).await;
        let check = TokenCheck::new(TokenSettings {
            jwks_url: issuer.url(),
            issuer: "https://id.example.test/".into(),
            audience: "api://runner".into(),
            tenant_claim: "tenant".into(),
            scope_claim: "scope".into(),
        });
        let token = key.sign(claims.as_object().unwrap());
        assert_eq!(check.check(&token).await.unwrap().tenant.as_str(), "tn_a");
        tokens.push(token);
        checks.push(check);
        issuers.push(issuer);
    }
    let token = (0..3_usize, vec(change(), 1..4), any::<String>(), 0_u8..5);
    let cases = (config().cases / 2).max(1);
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        TestRunner::new(ProptestConfig { cases, ..config() })
            .run(&token, |(which, changes, text, kind)| {
                let right = &tokens[which];
                let sent = match kind {
                    0 => text,
                    1 => format!("{right}{text}"),
                    // Another key's token.
                    2 => tokens[(which + 1) % 3].clone(),
                    _ => String::from_utf8_lossy(&changed(right.clone().into_bytes(), &changes)).into_owned(),
                };
                let found = runtime.block_on(checks[which].check(&sent));
                match found {
                    Ok(_) => prop_assert_eq!(&sent, right, "a changed token was taken"),
                    Err(error) => prop_assert_eq!(error.problem(), Problem::NotAuthenticated),
                }
                Ok(())
            })
            .unwrap();
    });
}
