//! Which tokens are taken: E03 and E04 of the fault log, keys of all three algorithms, claims by configuration.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod issuer;

use issuer::{Issuer, SigningKey};
use jsonwebtoken::Algorithm;
use longhaul_wire::token::{TokenError, TokenSettings};
use longhaul_wire::{Caller, Scope, TokenCheck};
use serde_json::{Map, Value, json};

fn settings(url: &str) -> TokenSettings {
    TokenSettings {
        jwks_url: url.to_owned(),
        issuer: "https://id.example.test/".into(),
        audience: "api://runner".into(),
        tenant_claim: "tenant".into(),
        scope_claim: "scope".into(),
    }
}

fn claims(change: &[(&str, Value)]) -> Map<String, Value> {
    let base = json!({
        "iss": "https://id.example.test/", "aud": "api://runner", "sub": "u1", "tenant": "tn_a",
        "exp": 4_102_444_800_u64, "scope": "jobs:read jobs:write other:thing",
    });
    let mut claims = base.as_object().unwrap().clone();
    for (name, value) in change {
        match value {
            Value::Null => claims.remove(*name),
            value => claims.insert((*name).to_owned(), value.clone()),
        };
    }
    claims
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// E03: ready-made tokens against the one trusted key.
#[tokio::test]
async fn e03_only_the_valid_tokens_pass() {
    let keys: Value = serde_json::from_str(include_str!("faults/E03/jwks.json")).unwrap();
    let issuer = Issuer::start(keys).await;
    let cases: Vec<Value> = serde_json::from_str(include_str!("faults/E03/jwt_cases.json")).unwrap();
    assert!(cases.len() >= 20);
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        // A check of its own for each, so that none lives on what another had read.
        let check = TokenCheck::new(settings(&issuer.url()));
        let found = check.check(case["token"].as_str().unwrap()).await;
        match &case["accept"] {
            Value::Bool(true) => assert_eq!(found.unwrap().tenant.as_str(), "tn_a", "{name}"),
            Value::Bool(false) => refused(name, found),
            // Either outcome of an absurd expiry is fine as long as nothing panics.
            Value::String(text) if text.contains("accept") => drop(found),
            Value::String(_) => refused(name, found),
            other => panic!("{name}: {other}"),
        }
    }
}

/// Refused, and with the one answer that all refusals share.
fn refused(name: &str, found: Result<Caller, TokenError>) {
    let error = found.expect_err(name);
    assert_eq!(error.problem(), longhaul_wire::Problem::NotAuthenticated, "{name}: {error:?}");
}

/// A name, claims that are changed (null: left out), and the scopes of the caller, if the token is taken.
type Case = (&'static str, Vec<(&'static str, Value)>, Option<&'static [Scope]>);

#[tokio::test]
async fn every_algorithm_and_claim() {
    let keys = [
        SigningKey::new("rsa", Algorithm::RS256),
        SigningKey::new("ec", Algorithm::ES256),
        SigningKey::new("ed", Algorithm::EdDSA),
    ];
    let issuer = Issuer::start(issuer::key_set(&keys)).await;
    let check = TokenCheck::new(settings(&issuer.url()));
    for key in &keys {
        let caller = check.check(&key.sign(&claims(&[]))).await.unwrap();
        assert_eq!(caller.subject, "u1");
        assert_eq!(caller.scopes, [Scope::Read, Scope::Write]);
        assert!(caller.require(Scope::Read).is_ok());
        assert!(caller.require(Scope::Operate).is_err());
    }
    let [key, ..] = &keys;
    let soon = now() - 10;
    let ago = now() - 120;
    let table: Vec<Case> = vec![
        ("no scope", vec![("scope", Value::Null)], Some(&[])),
        ("scopes in a list", vec![("scope", json!(["jobs:operate", 7]))], Some(&[Scope::Operate])),
        ("scope is an object", vec![("scope", json!({ "jobs:read": true }))], None),
        ("within the leeway", vec![("exp", json!(soon))], Some(&[Scope::Read, Scope::Write])),
        ("past the leeway", vec![("exp", json!(ago))], None),
        ("not yet", vec![("nbf", json!(now() + 120))], None),
        ("no subject", vec![("sub", Value::Null)], None),
        ("empty subject", vec![("sub", json!(""))], None),
        ("long subject", vec![("sub", json!("x".repeat(257)))], None),
        ("no tenant", vec![("tenant", Value::Null)], None),
        ("empty tenant", vec![("tenant", json!(""))], None),
        ("tenant that breaks out of a key", vec![("tenant", json!("a#JOB"))], None),
        ("wrong audience", vec![("aud", json!("api://runner2"))], None),
        ("wrong issuer", vec![("iss", json!("https://id.example.test"))], None),
    ];
    for (name, change, wanted) in table {
        let found = check.check(&key.sign(&claims(&change))).await;
        match wanted {
            Some(scopes) => assert_eq!(found.unwrap().scopes, scopes, "{name}"),
            None => refused(name, found),
        }
    }
    assert_eq!(issuer.reads(), 1, "known keys are not read again");
}

#[tokio::test]
async fn claims_are_named_by_configuration() {
    let key = SigningKey::new("k", Algorithm::EdDSA);
    let issuer = Issuer::start(issuer::key_set(std::slice::from_ref(&key))).await;
    let check = TokenCheck::new(TokenSettings {
        tenant_claim: "https://acme.test/org".into(),
        scope_claim: "permissions".into(),
        ..settings(&issuer.url())
    });
    let token = key.sign(&claims(&[("https://acme.test/org", json!("acme")), ("permissions", json!(["jobs:read"]))]));
    let caller = check.check(&token).await.unwrap();
    assert_eq!((caller.tenant.as_str(), caller.scopes), ("acme", vec![Scope::Read]));
}

#[tokio::test]
async fn headers() {
    let key = SigningKey::new("k", Algorithm::EdDSA);
    let issuer = Issuer::start(issuer::key_set(std::slice::from_ref(&key))).await;
    let check = TokenCheck::new(settings(&issuer.url()));
    let token = key.sign(&claims(&[]));
    for (header, taken) in [
        (Some(format!("Bearer {token}")), true),
        (Some(format!("bearer  {token}")), true),
        (Some(format!("Basic {token}")), false),
        (Some(token.clone()), false),
        (Some(format!("Bearer {token} x")), false),
        (Some("Bearer ".into()), false),
        (Some(format!("Bearer {}", "x".repeat(100_000))), false),
        (None, false),
    ] {
        let found = check.check_header(header.as_deref()).await;
        assert_eq!(found.is_ok(), taken, "{header:?}");
    }
}

/// E04: a flood of unknown key ids asks the issuer once, and does not disturb those whose key is known.
#[tokio::test]
async fn e04_a_flood_of_unknown_keys_does_not_reach_the_issuer() {
    let known = SigningKey::new("k1", Algorithm::EdDSA);
    let issuer = Issuer::start(issuer::key_set(std::slice::from_ref(&known))).await;
    let check = TokenCheck::new(settings(&issuer.url()));
    let valid = known.sign(&claims(&[]));
    check.check(&valid).await.unwrap();
    let ids = ["../../etc/passwd".to_owned(), "x".repeat(5_000)].into_iter().chain((0..200).map(|n| format!("k-{n}")));
    for id in ids {
        let unknown = SigningKey { id, ..known.clone() };
        refused("unknown key", check.check(&unknown.sign(&claims(&[]))).await);
        check.check(&valid).await.unwrap();
    }
    assert_eq!(issuer.reads(), 1);
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_is_no_fault_of_the_caller() {
    let key = SigningKey::new("k", Algorithm::EdDSA);
    let issuer = Issuer::start(issuer::key_set(std::slice::from_ref(&key))).await;
    let token = key.sign(&claims(&[]));
    issuer.answer(500, json!({}));
    let check = TokenCheck::new(settings(&issuer.url()));
    let error = check.check(&token).await.unwrap_err();
    assert!(matches!(error, TokenError::KeysUnavailable(Some(_))), "{error:?}");
    assert_eq!(error.problem().status(), 503);
    for (name, status, body) in [
        ("no key set", 200, json!({ "jwks": [] })),
        ("no usable key", 200, json!({ "keys": [{ "kty": "oct", "k": "c2VjcmV0", "kid": "k" }] })),
        ("a redirect", 302, json!({})),
        ("too large", 200, json!({ "keys": [], "more": "x".repeat(300_000) })),
    ] {
        issuer.answer(status, body);
        let check = TokenCheck::new(settings(&issuer.url()));
        let error = check.check(&token).await.unwrap_err();
        assert_eq!(error.problem().status(), 503, "{name}: {error:?}");
    }
}

/// An odd key beside a good one does not spoil it, and one that is not for signatures is not taken.
#[tokio::test]
async fn odd_keys_are_left_out() {
    let good = SigningKey::new("good", Algorithm::ES256);
    let other = SigningKey::new("enc", Algorithm::ES256);
    let mut set = issuer::key_set(&[good.clone(), other.clone()]);
    let list = set["keys"].as_array_mut().unwrap();
    list[1]["use"] = json!("enc");
    list.insert(0, json!({ "kty": "quantum", "kid": "q" }));
    list.insert(0, json!("nonsense"));
    let issuer = Issuer::start(set).await;
    let check = TokenCheck::new(settings(&issuer.url()));
    check.check(&good.sign(&claims(&[]))).await.unwrap();
    refused("a key for encryption", check.check(&other.sign(&claims(&[]))).await);
}
