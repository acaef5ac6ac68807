//! The fault log's kind D where events are pushed: connections that are gone, forbidden, deaf or another's, events that
//! are large, and readers that come at the worst moment.

use std::time::{Duration, Instant};

use longhaul::engine::{Entry, Seq};
use longhaul::store::JobRef;
use longhaul_aws::connections::Asked;
use serde_json::{Value, json};

use crate::far_end::{FarEnd, Mood, text};
use crate::ground::order;
use crate::stream::{Stream, nothing_again};
use crate::watchers::{append, positions, shown};

async fn job_of(far: &FarEnd, tenant: &str) -> JobRef {
    far.ground.submit(order(tenant, "ten", Value::Null)).await
}

async fn subscribe(far: &FarEnd, connection: &str, job: &JobRef, after: u64) {
    let message = json!({ "action": "subscribe", "job": job.job, "after": after });
    assert_eq!(far.say(connection, &message.to_string()).await, json!({ "statusCode": 200 }));
}

/// One that is gone is removed and not tried again; one that is forbidden, malformed or deaf costs the others nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d01_one_subscriber_that_is_gone_harms_no_other() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = job_of(&far, "acme").await;
    for connection in ["1=", "2=", "3=", "4=", "5=", "6="] {
        far.come_in(connection, "acme").await;
        subscribe(&far, connection, &job, 0).await;
        far.told(connection);
    }
    far.set_mood("2=", Mood::Gone);
    far.set_mood("3=", Mood::Forbidden);
    far.set_mood("4=", Mood::Hangs);
    far.set_mood("6=", Mood::Malformed);
    let before = far.posts("2=");
    append(&far.ground, &job, 1, vec![shown(1)]).await;
    let begun = Instant::now();
    assert_eq!(far.invoke(stream.event().await).await, nothing_again());
    assert!(begun.elapsed() < Duration::from_secs(9), "bounded: {:?}", begun.elapsed());
    append(&far.ground, &job, 2, vec![shown(2)]).await;
    assert_eq!(far.invoke(stream.event().await).await, nothing_again());
    for connection in ["1=", "5="] {
        assert_eq!(positions(&far.told(connection)), [1, 2], "{connection}");
    }
    assert_eq!(far.posts("2="), before + 1, "a 410 is not tried again, and the next event is not sent there");
    let subscribers = far.ground.store.subscribers(job.job).await.unwrap();
    let mut left: Vec<&str> = subscribers.iter().map(|subscriber| subscriber.connection.as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, ["1=", "3=", "4=", "5="], "only it is removed, and the one whose id is none");
}

/// Nothing is posted to a connection before its own first message, so none is lost to an early 410.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d02_nothing_is_posted_before_the_clients_first_message() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = job_of(&far, "acme").await;
    far.set_mood("A=", Mood::Gone);
    append(&far.ground, &job, 1, vec![shown(1), shown(2)]).await;
    far.come_in("A=", "acme").await;
    append(&far.ground, &job, 3, vec![shown(3)]).await;
    assert_eq!(far.invoke(stream.event().await).await, nothing_again());
    assert_eq!(far.posts("A="), 0);
    far.clear_mood("A=");
    subscribe(&far, "A=", &job, 0).await;
    append(&far.ground, &job, 4, vec![shown(4)]).await;
    assert_eq!(far.invoke(stream.event().await).await, nothing_again());
    let mut seen = positions(&far.told("A="));
    seen.dedup();
    assert_eq!(seen, [1, 2, 3, 4]);
}

/// Whatever an event holds, a message stays within a frame, says that it is cut, and leaves no gap; the journal has all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d03_a_large_event_is_cut_and_said_to_be() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = job_of(&far, "acme").await;
    far.come_in("A=", "acme").await;
    subscribe(&far, "A=", &job, 0).await;
    far.told("A=");
    let texts = ["\"漢\"".repeat(43_667), "x".repeat(131_072), "x".repeat(131_073), "\u{1}".repeat(40_000)];
    for (at, text) in (1..).zip(&texts) {
        let Entry::Emitted { id, .. } = shown(at) else { unreachable!() };
        append(&far.ground, &job, at, vec![Entry::Emitted { id, data: json!(text) }]).await;
    }
    append(&far.ground, &job, 5, vec![Entry::Completed { output: json!("y".repeat(300_000)) }]).await;
    assert_eq!(far.invoke(stream.event().await).await, nothing_again());
    let told = far.told("A=");
    assert_eq!(positions(&told), [1, 2, 3, 4, 5]);
    assert!(told.iter().all(|message| message["event"]["data"]["truncated"] == json!(true)), "each says so");
    assert!(far.largest_post() <= 32 * 1024, "{} bytes", far.largest_post());
    let whole = far.ground.entries(&job).await;
    assert!(matches!(&whole[4], Entry::Completed { output } if output.as_str().unwrap().len() == 300_000));
    // A client's message that is too large is answered, and the conversation goes on.
    far.say("A=", &json!({ "action": "subscribe", "job": job.job, "pad": "x".repeat(40_000) }).to_string()).await;
    assert_eq!(far.told("A=")[0]["problem"]["type"], "urn:longhaul:problem:body-too-large");
    far.say("A=", r#"{"action":"ping"}"#).await;
    assert_eq!(far.told("A="), [json!({ "type": "pong" })]);
}

/// (b) and (d): a job that is not there yet, and another tenant's, get the same answer at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d04_no_subscription_waits_for_a_job_that_is_not_there() {
    let far = FarEnd::set_up().await;
    let foreign = job_of(&far, "other").await;
    let coming = order("acme", "ten", Value::Null);
    far.come_in("A=", "acme").await;
    let mut answers = Vec::new();
    for job in [foreign.job, coming.id] {
        far.say("A=", &json!({ "action": "subscribe", "job": job, "after": 0 }).to_string()).await;
        let told = far.told("A=");
        answers.push((told.len(), told[0]["problem"]["type"].clone(), told[0]["problem"]["status"].clone()));
        assert_eq!(far.ground.store.subscribers(job).await.unwrap(), []);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], (1, json!("urn:longhaul:problem:no-such-job"), json!(404)));
}

/// (c): events are written at the moment of the subscription. What comes by both ways is told apart by its position, and
/// none comes by neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d04_who_subscribes_in_the_middle_gets_all() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    for round in 0..12_u64 {
        let connection = format!("{round}=");
        far.come_in(&connection, "acme").await;
        let job = job_of(&far, "acme").await;
        let write = async {
            for at in 0..10 {
                append(&far.ground, &job, at * 5 + 1, (1..=5).map(|n| shown(at * 5 + n)).collect()).await;
            }
        };
        let come = async {
            tokio::time::sleep(Duration::from_millis(round)).await;
            subscribe(&far, &connection, &job, 0).await;
        };
        futures::join!(write, come);
        assert_eq!(far.invoke(stream.event().await).await, nothing_again());
        let mut seen = positions(&far.told(&connection));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (1..=50).collect::<Vec<u64>>(), "round {round}");
    }
}

/// No event and no subscription behind a token's time; with a new one and the cursor nothing is lost, and another
/// tenant's token inherits nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d07_a_token_that_expires_ends_its_connection() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = job_of(&far, "acme").await;
    let old = far.expired("old=", "acme").await;
    far.ground.store.ask(&old, &job, Asked::to_hear(Seq(0), 0)).await.unwrap();
    append(&far.ground, &job, 1, vec![shown(1)]).await;
    assert_eq!(far.invoke(stream.event().await).await, nothing_again());
    let told = far.told("old=");
    assert_eq!(positions(&told), [] as [u64; 0], "{told:?}");
    subscribe(&far, "old=", &job, 0).await;
    assert_eq!(far.told("old=")[0]["problem"]["type"], "urn:longhaul:problem:not-authenticated");
    assert_eq!(far.ground.store.subscribers(job.job).await.unwrap(), []);
    far.come_in("new=", "acme").await;
    subscribe(&far, "new=", &job, 0).await;
    assert_eq!(positions(&far.told("new=")), [1]);
    far.come_in("other=", "other").await;
    subscribe(&far, "other=", &job, 0).await;
    assert_eq!(far.told("other=")[0]["problem"]["type"], "urn:longhaul:problem:no-such-job");
}

/// (a) A connection that has vanished without a word is found out by the first post. (d) Word that an id has gone which is
/// another's by now removes nothing of its.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d08_a_late_disconnect_removes_only_its_own() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = job_of(&far, "other").await;
    for _ in 0..2 {
        // The id was another's before, at another time.
        assert_eq!(far.gone("X=", 1_795_953_000_000).await, json!({ "statusCode": 200 }));
        far.come_in("X=", "other").await;
        subscribe(&far, "X=", &job, 0).await;
        far.told("X=");
        assert_eq!(far.gone("X=", 1_795_953_000_000).await, json!({ "statusCode": 200 }));
        assert_eq!(far.ground.store.subscribers(job.job).await.unwrap().len(), 1);
    }
    append(&far.ground, &job, 1, vec![shown(1)]).await;
    assert_eq!(far.invoke(stream.event().await).await, nothing_again());
    assert_eq!(positions(&far.told("X=")), [1]);
    far.set_mood("X=", Mood::Gone);
    append(&far.ground, &job, 2, vec![shown(2)]).await;
    assert_eq!(far.invoke(stream.event().await).await, nothing_again());
    assert_eq!(far.ground.store.connection("X=").await.unwrap(), None);
    assert_eq!(far.ground.store.subscribers(job.job).await.unwrap(), []);
}

/// Two writers' batches are pushed by two invocations, the second first, and one of them twice. By position every reader
/// has the same list as who asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d09_order_and_doubles_are_told_by_position() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = job_of(&far, "acme").await;
    far.come_in("A=", "acme").await;
    subscribe(&far, "A=", &job, 0).await;
    far.told("A=");
    append(&far.ground, &job, 1, (1..=8).map(shown).collect()).await;
    let first = stream.event().await;
    append(&far.ground, &job, 9, vec![shown(9), Entry::Completed { output: json!(1) }]).await;
    let second = stream.event().await;
    for event in [second.clone(), first, second] {
        assert_eq!(far.invoke(event).await, nothing_again());
    }
    let told = far.told("A=");
    let mut contents = std::collections::BTreeMap::new();
    for message in &told {
        let event = &message["event"];
        let known = contents.insert(event["sequence"].as_str().unwrap().to_owned(), event.clone());
        assert!(known.is_none_or(|known| known == *event), "a position has one content");
    }
    assert_eq!(contents.len(), 10);
    let (_, last) = contents.last_key_value().unwrap();
    assert_eq!(last["type"], "longhaul.AgentJobCompleted", "the end has the highest number");
}

/// A tenant has as many connections as it may; the next is told why, and when to come again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_has_no_more_connections_than_it_may() {
    let far = FarEnd::set_up().await;
    let limits = json!({ "tenants": { "few": { "connections": 2 } } }).to_string();
    let function = far.function_with(&[("LONGHAUL_TENANT_LIMITS", limits)]).await;
    let come = async |connection: &str, tenant: &str| {
        let token = far.token(tenant, Duration::from_secs(600));
        let event = far.handshake(connection, json!({ "Authorization": format!("Bearer {token}") }), Value::Null);
        function.handle(text(&event), crate::ground::deadline_in(Duration::from_secs(30))).await.unwrap()
    };
    for connection in ["1=", "2="] {
        assert_eq!(come(connection, "few").await, json!({ "statusCode": 200 }));
    }
    let refused = come("3=", "few").await;
    assert_eq!((&refused["statusCode"], &refused["headers"]["retry-after"]), (&json!(429), &json!("30")));
    let problem: Value = serde_json::from_str(refused["body"].as_str().unwrap()).unwrap();
    assert_eq!((&problem["limit"], &problem["value"]), (&json!("connections"), &json!(2)));
    assert_eq!(come("4=", "acme").await, json!({ "statusCode": 200 }), "others are not concerned");
    far.go("1=").await;
    assert_eq!(come("3=", "few").await, json!({ "statusCode": 200 }));
}
