//! Clients of the WebSocket: who comes in, what they ask and what they are told.

use std::time::Duration;

use longhaul::engine::entry::{StepId, StepKind};
use longhaul::engine::{Batch, Entry, Seq, StepKey};
use longhaul::outside::fresh_nonce;
use longhaul::store::{Append, JobRef, Store};
use serde_json::{Value, json};

use crate::far_end::{FarEnd, Mood};
use crate::ground::{Ground, now, order};

/// Something that an agent shows.
pub(crate) fn shown(number: u64) -> Entry {
    let id = StepId { key: StepKey::at("", number), name: "show".to_owned(), kind: StepKind::Emit, branch: None };
    Entry::Emitted { id, data: json!({ "number": number }) }
}

/// Appends entries as one batch at a position.
pub(crate) async fn append(ground: &Ground, job: &JobRef, at: u64, entries: Vec<Entry>) {
    let batch = Batch::new(Seq(at), fresh_nonce(), now(), entries);
    assert_eq!(ground.store.append(job, &batch).await.unwrap(), Append::Written);
}

/// Seven entries in three batches.
async fn seven_entries(ground: &Ground, job: &JobRef) {
    append(ground, job, 1, vec![shown(1)]).await;
    append(ground, job, 2, (2..=5).map(shown).collect()).await;
    append(ground, job, 6, vec![shown(6), Entry::Completed { output: json!("done") }]).await;
}

/// The positions of events among messages.
pub(crate) fn positions(messages: &[Value]) -> Vec<u64> {
    let events = messages.iter().filter(|message| message["type"] == "event");
    events.map(|message| message["event"]["sequence"].as_str().unwrap().parse().unwrap()).collect()
}

/// Only a token lets anybody in, by header or by parameter; the answers to all others say nothing of the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_needs_a_token() {
    let far = FarEnd::set_up().await;
    let good = far.token("acme", Duration::from_secs(600));
    let bearer = format!("Bearer {good}");
    let mut torn = good.clone();
    torn.truncate(good.len() - 9);
    let refused = [
        ("nothing", json!({}), Value::Null),
        ("null headers", Value::Null, Value::Null),
        ("no token", json!({ "Authorization": "Bearer " }), Value::Null),
        ("another scheme", json!({ "Authorization": format!("Basic {good}") }), Value::Null),
        ("a torn token", json!({ "Authorization": format!("Bearer {torn}") }), Value::Null),
        ("junk as parameter", json!({}), json!({ "token": "junk" })),
        ("a bad header beside a good parameter", json!({ "Authorization": "Bearer junk" }), json!({ "token": good })),
    ];
    for (what, headers, parameters) in refused {
        let answer = far.connect("A=", headers, parameters).await;
        insta::allow_duplicates! {
            insta::assert_json_snapshot!("websocket_refuses_a_handshake", answer, what);
        }
    }
    assert_eq!(far.ground.store.connection("A=").await.unwrap(), None);
    let taken = [
        ("B=", json!({ "Authorization": bearer }), Value::Null),
        ("C=", json!({ "authorization": bearer }), Value::Null),
        ("D=", json!({}), json!({ "token": good })),
    ];
    for (connection, headers, parameters) in taken {
        assert_eq!(far.connect(connection, headers, parameters).await, json!({ "statusCode": 200 }));
        let stored = far.ground.store.connection(connection).await.unwrap().expect("the connection");
        assert_eq!((stored.tenant.as_str(), stored.subject.as_str()), ("acme", "ada"));
        let left = now().until(stored.token_expires_at);
        assert!(left > Duration::from_secs(590) && left <= Duration::from_secs(600), "{left:?}");
    }
}

/// E03: no token that is none gets anybody in, by header, by parameter or at the gateway, and all are told the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e03_no_false_token_connects() {
    let far = FarEnd::set_up().await;
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../../shared/wire/tests/faults/E03/jwt_cases.json")).unwrap();
    let mut told = std::collections::BTreeSet::new();
    for (number, case) in cases.iter().enumerate().filter(|(_, case)| case["accept"] == json!(false)) {
        let token = case["token"].as_str().unwrap();
        let connection = format!("E{number}=");
        let (header, parameter) = (json!({ "Authorization": format!("Bearer {token}") }), json!({ "token": token }));
        told.insert(far.connect(&connection, header.clone(), Value::Null).await.to_string());
        told.insert(far.connect(&connection, json!({}), parameter.clone()).await.to_string());
        assert_eq!(far.ground.store.connection(&connection).await.unwrap(), None, "{}", case["name"]);
        for (headers, parameters) in [(header, json!({})), (json!({}), parameter)] {
            let question = json!({
                "type": "REQUEST", "methodArn": "arn:aws:execute-api:us-east-1:1:a/live/$connect",
                "headers": headers, "queryStringParameters": parameters,
            });
            let answer = far.invoke(question).await;
            let effect = &answer["policyDocument"]["Statement"][0]["Effect"];
            assert_eq!(effect, "Deny", "{}: {answer}", case["name"]);
        }
    }
    assert_eq!(told.len(), 1, "one answer for all of them: {told:?}");
}

/// E11: another tenant's job is to a watcher as one that does not exist, whoever knows its id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e11_a_foreign_job_is_not_watched() {
    let far = FarEnd::set_up().await;
    let foreign = far.ground.submit(order("acme", "ten", json!({ "secret": "plans" }))).await;
    append(&far.ground, &foreign, 1, vec![shown(1)]).await;
    let absent = uuid::Uuid::now_v7().to_string();
    far.come_in("B=", "bolt").await;
    let mut answers = Vec::new();
    for job in [foreign.job.to_string(), absent] {
        far.say("B=", &json!({ "action": "subscribe", "job": job, "after": 0 }).to_string()).await;
        answers.push(json!(far.told("B=")).to_string().replace(&job, "ID"));
    }
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].contains("no-such-job"), "{}", answers[0]);
    assert_eq!(far.ground.store.subscribers(foreign.job).await.unwrap(), []);
}

/// What is not understood or not allowed is answered by a problem, and nothing else happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_answered() {
    let far = FarEnd::set_up().await;
    let mut foreign = order("bolt", "ten", Value::Null);
    foreign.id = "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f".parse().unwrap();
    let foreign = far.ground.submit(foreign).await;
    far.come_in("A=", "acme").await;
    let mut answers = Vec::new();
    for text in [
        r#"{"action":"ping"}"#,
        "",
        "hello",
        "[]",
        r#"{"action":"dance"}"#,
        r#"{"action":"subscribe"}"#,
        r#"{"action":"subscribe","job":"7"}"#,
        r#"{"action":"subscribe","job":"0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f","after":-1}"#,
        r#"{"action":"subscribe","job":"0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f","after":0}"#,
        r#"{"action":"unsubscribe","job":"0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f"}"#,
    ] {
        assert_eq!(far.say("A=", text).await, json!({ "statusCode": 200 }), "{text}");
        answers.push(json!({ "said": text, "told": far.told("A=") }));
    }
    insta::assert_json_snapshot!("websocket_answers_messages", answers);
    assert_eq!(far.ground.store.subscribers(foreign.job).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_told_to_come_in_first() {
    let far = FarEnd::set_up().await;
    far.say("A=", r#"{"action":"ping"}"#).await;
    assert_eq!(far.told("A=")[0]["problem"]["type"], "urn:longhaul:problem:not-authenticated");
}

/// A subscriber first gets what it has not seen, in order, and then the word that this was all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_begins_with_what_has_happened() {
    let far = FarEnd::set_up().await;
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    seven_entries(&far.ground, &job).await;
    far.come_in("A=", "acme").await;
    for after in [0, 3, 5, 7] {
        let message = json!({ "action": "subscribe", "job": job.job, "after": after });
        far.say("A=", &message.to_string()).await;
        let told = far.told("A=");
        assert_eq!(positions(&told), (after + 1..=7).collect::<Vec<u64>>(), "after {after}");
        let last = told.last().expect("a word at the end");
        assert_eq!(*last, json!({ "type": "subscribed", "job": job.job, "after": 7 }), "after {after}");
        let subscribers = far.ground.store.subscribers(job.job).await.unwrap();
        assert_eq!(subscribers.iter().map(|subscriber| subscriber.after.0).collect::<Vec<_>>(), [after]);
    }
    far.say("A=", &json!({ "action": "unsubscribe", "job": job.job }).to_string()).await;
    assert_eq!(far.told("A="), [json!({ "type": "unsubscribed", "job": job.job })]);
    assert_eq!(far.ground.store.subscribers(job.job).await.unwrap(), []);
}

/// A watcher that cannot be caught up is told so and holds no subscription with a hole in front of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_too_slow_to_catch_up_is_not_subscribed() {
    let far = FarEnd::set_up().await;
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    seven_entries(&far.ground, &job).await;
    far.come_in("A=", "acme").await;
    // The first message's four tries fail; the problem gets through.
    far.set_mood("A=", Mood::Full(4));
    far.say("A=", &json!({ "action": "subscribe", "job": job.job, "after": 0 }).to_string()).await;
    let told = far.told("A=");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["problem"]["type"], "urn:longhaul:problem:unavailable");
    assert_eq!(told[0]["job"], json!(job.job));
    assert_eq!(far.ground.store.subscribers(job.job).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_gone_is_forgotten() {
    let far = FarEnd::set_up().await;
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    seven_entries(&far.ground, &job).await;
    let subscribe = json!({ "action": "subscribe", "job": job.job, "after": 0 }).to_string();
    // One says so, the other is found out.
    far.come_in("A=", "acme").await;
    far.say("A=", &subscribe).await;
    assert_eq!(far.go("A=").await, json!({ "statusCode": 200 }));
    far.come_in("B=", "acme").await;
    far.set_mood("B=", Mood::Gone);
    far.say("B=", &subscribe).await;
    for connection in ["A=", "B="] {
        assert_eq!(far.ground.store.connection(connection).await.unwrap(), None);
    }
    assert_eq!(far.ground.store.subscribers(job.job).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_token_ends_the_conversation() {
    let far = FarEnd::set_up().await;
    far.expired("A=", "acme").await;
    far.say("A=", r#"{"action":"ping"}"#).await;
    let told = far.told("A=");
    assert_eq!(told[0]["problem"]["type"], "urn:longhaul:problem:not-authenticated");
    assert_eq!(far.ground.store.connection("A=").await.unwrap(), None);
    assert_eq!(far.closed(), ["A="]);
}

/// One that the gateway does not close is told again at its next message, and can do nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_does_not_close_changes_nothing_for_who_has_expired() {
    let far = FarEnd::set_up().await;
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    far.expired("A=", "acme").await;
    far.set_mood("A=", Mood::Gone);
    far.say("A=", r#"{"action":"ping"}"#).await;
    assert_eq!(far.closed(), [] as [&str; 0], "one that is gone needs no closing");
    far.clear_mood("A=");
    for _ in 0..2 {
        far.say("A=", &json!({ "action": "subscribe", "job": job.job, "after": 0 }).to_string()).await;
        let told = far.told("A=");
        assert_eq!(told[0]["problem"]["type"], "urn:longhaul:problem:not-authenticated");
        assert_eq!(told[0]["job"], json!(job.job));
    }
    assert_eq!(far.closed(), ["A=", "A="]);
    assert_eq!(far.ground.store.subscribers(job.job).await.unwrap(), []);
}

/// A client's message and the time at which the gateway took it.
type Said<'a> = (&'a str, u64);

/// Messages of one connection about one job, in every order in which they may be handled: the one that the gateway took
/// last holds, and every answer tells what holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_asked_last_holds() {
    let far = FarEnd::set_up().await;
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    seven_entries(&far.ground, &job).await;
    let subscribe = json!({ "action": "subscribe", "job": job.job, "after": 5 }).to_string();
    let unsubscribe = json!({ "action": "unsubscribe", "job": job.job }).to_string();
    let (subscribe, unsubscribe) = (subscribe.as_str(), unsubscribe.as_str());
    let rows: [(&str, &[Said<'_>], Option<u64>, &str); 6] = [
        ("in order", &[(subscribe, 1), (unsubscribe, 2)], None, "unsubscribed"),
        ("in order, and again", &[(unsubscribe, 1), (subscribe, 2)], Some(5), "subscribed"),
        ("an end that was overtaken", &[(subscribe, 2), (unsubscribe, 1)], Some(5), "subscribed"),
        ("a beginning that was overtaken", &[(unsubscribe, 2), (subscribe, 1)], None, "unsubscribed"),
        ("three", &[(subscribe, 3), (unsubscribe, 2), (subscribe, 1)], Some(5), "subscribed"),
        ("in the same moment", &[(unsubscribe, 1), (subscribe, 1)], Some(5), "subscribed"),
    ];
    for (number, (what, messages, holds, answer)) in rows.into_iter().enumerate() {
        let connection = format!("{number}=");
        far.come_in(&connection, "acme").await;
        for (text, at) in messages {
            far.say_at(&connection, text, *at).await;
        }
        let subscribers = far.ground.store.subscribers(job.job).await.unwrap();
        assert_eq!(subscribers.first().map(|subscriber| subscriber.after.0), holds, "{what}");
        assert_eq!(far.told(&connection).last().unwrap()["type"], answer, "{what}");
        far.go(&connection).await;
        assert_eq!(far.ground.store.subscribers(job.job).await.unwrap(), [], "{what}");
    }
}

/// The same, really beside each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_are_handled_beside_each_other_leave_what_was_asked_last() {
    let far = FarEnd::set_up().await;
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    seven_entries(&far.ground, &job).await;
    let subscribe = json!({ "action": "subscribe", "job": job.job, "after": 7 }).to_string();
    let unsubscribe = json!({ "action": "unsubscribe", "job": job.job }).to_string();
    far.come_in("A=", "acme").await;
    for round in 0..30_u64 {
        let at = 10 * round;
        let (first, last) = if round % 2 == 0 { (&subscribe, &unsubscribe) } else { (&unsubscribe, &subscribe) };
        futures::join!(
            far.say_at("A=", first, at + 1),
            far.say_at("A=", last, at + 2),
            far.say_at("A=", first, at + 3),
            far.say_at("A=", last, at + 4)
        );
        let subscribed = !far.ground.store.subscribers(job.job).await.unwrap().is_empty();
        assert_eq!(subscribed, round % 2 == 1, "round {round}");
    }
}
