//! What the table's stream brings: pushed to every watcher, in order, whatever the others do.

use std::time::Duration;

use longhaul::engine::{Entry, Seq};
use longhaul::store::JobRef;
use longhaul_aws::connections::Asked;
use longhaul_aws::dynamo::JobFilter;
use longhaul_local::stores::dynamodb::StreamReader;
use longhaul_websocket::EventError;
use serde_json::{Value, json};

use crate::far_end::{FarEnd, Mood, text};
use crate::ground::{PATIENCE, deadline_in, order};
use crate::watchers::{append, positions, shown};

/// The stream of a table, handed over in batches of any size.
pub(crate) struct Stream(StreamReader);

impl Stream {
    pub(crate) fn of(far: &FarEnd) -> Self {
        Self(far.ground.stores.dynamodb.stream_reader("test").unwrap())
    }

    /// All records that have come by now, as the event by which Lambda hands them over: unfiltered, so that the
    /// function meets jobs, sessions and subscriptions among them.
    pub(crate) async fn event(&mut self) -> Value {
        let mut records = Vec::new();
        let mut wait = PATIENCE;
        loop {
            let more = self.0.next_batch(1_000, wait).await.unwrap();
            let Some(last) = more.last() else { return json!({ "Records": records }) };
            self.0.commit(&last.sequence_number()).await.unwrap();
            records.extend(more.iter().map(|record| serde_json::from_str::<Value>(&record.json("us-east-1")).unwrap()));
            wait = Duration::ZERO;
        }
    }
}

pub(crate) fn nothing_again() -> Value {
    json!({ "batchItemFailures": [] })
}

async fn subscribe(far: &FarEnd, connection: &str, job: &JobRef, after: u64) {
    let connection = far.ground.store.connection(connection).await.unwrap().expect("the connection");
    far.ground.store.ask(&connection, job, Asked::to_hear(Seq(after), 0)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_gets_every_event_in_order() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    let other = far.ground.submit(order("acme", "ten", Value::Null)).await;
    for connection in ["A=", "B=", "C="] {
        far.come_in(connection, "acme").await;
    }
    subscribe(&far, "A=", &job, 0).await;
    subscribe(&far, "A=", &other, 0).await;
    subscribe(&far, "B=", &job, 4).await;
    for first in [1, 3, 5] {
        append(&far.ground, &job, first, vec![shown(first), shown(first + 1)]).await;
        append(&far.ground, &other, first, vec![shown(first), shown(first + 1)]).await;
    }

    assert_eq!(far.invoke(stream.event().await).await, nothing_again());

    let told = far.told("A=");
    for job in [&job, &other] {
        let source = json!(format!("/v1/jobs/{}", job.job));
        let of_job: Vec<Value> = told.iter().filter(|message| message["event"]["source"] == source).cloned().collect();
        assert_eq!(positions(&of_job), [1, 2, 3, 4, 5, 6]);
    }
    assert_eq!(told.len(), 12);
    assert_eq!(positions(&far.told("B=")), [5, 6], "it has seen the rest");
    assert_eq!(far.told("C="), Vec::<Value>::new(), "it has not asked");
}

/// A job is found by its agent and labels as soon as the stream has brought it, once however often it is brought; and what
/// is brought late, behind the job's end of time, leaves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_job_is_made_findable() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let mut wanted = order("acme", "ten", Value::Null);
    wanted.labels.insert("team".to_owned(), "red".to_owned());
    let job = far.ground.submit(wanted).await;
    let filters = [
        JobFilter { agent: Some("ten".to_owned()), ..JobFilter::default() },
        JobFilter { label: Some(("team".to_owned(), "red".to_owned())), ..JobFilter::default() },
    ];
    let found = async |filter: &JobFilter| {
        let page = far.ground.store.list_jobs(&job.tenant, filter, None, 10).await.unwrap();
        page.jobs.iter().map(|job| job.id).collect::<Vec<_>>()
    };
    for filter in &filters {
        assert_eq!(found(filter).await, [], "nothing has been brought");
    }
    let event = stream.event().await;
    for _ in 0..2 {
        assert_eq!(far.invoke(event.clone()).await, nothing_again());
        for filter in &filters {
            assert_eq!(found(filter).await, [job.job]);
        }
    }
}

/// One watcher that is gone, slow or without right costs the others nothing and never fails the batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_watcher_keeps_the_others_waiting() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    for connection in ["gone=", "busy=", "full=", "broken=", "well="] {
        far.come_in(connection, "acme").await;
        subscribe(&far, connection, &job, 0).await;
    }
    let expired = far.expired("expired=", "acme").await;
    far.ground.store.ask(&expired, &job, Asked::to_hear(Seq(0), 0)).await.unwrap();
    far.set_mood("gone=", Mood::Gone);
    far.set_mood("busy=", Mood::Full(2));
    far.set_mood("full=", Mood::Full(u32::MAX));
    far.set_mood("broken=", Mood::Broken);
    append(&far.ground, &job, 1, vec![shown(1), shown(2)]).await;

    assert_eq!(far.invoke(stream.event().await).await, nothing_again());

    assert_eq!(positions(&far.told("well=")), [1, 2]);
    assert_eq!(positions(&far.told("busy=")), [1, 2], "after two tries that were throttled");
    let told = far.told("expired=");
    assert_eq!(told.len(), 1, "{told:?}");
    insta::assert_json_snapshot!("websocket_tells_that_a_token_has_expired", told[0]);
    let subscribers = far.ground.store.subscribers(job.job).await.unwrap();
    let mut left: Vec<&str> = subscribers.iter().map(|subscriber| subscriber.connection.as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, ["broken=", "busy=", "full=", "well="]);
    assert_eq!(far.closed(), ["expired="], "the others have their right still");
}

/// The connection's item is long past its time and still there, as DynamoDB leaves it for days: it gets no event, and its
/// subscription goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c05_a_connection_past_its_time_gets_no_event() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    let expired = far.expired("conn-old=", "acme").await;
    far.ground.store.ask(&expired, &job, Asked::to_hear(Seq(0), 0)).await.unwrap();
    append(&far.ground, &job, 1, vec![shown(1)]).await;
    assert_eq!(far.invoke(stream.event().await).await, nothing_again());
    let told = far.told("conn-old=");
    assert!(told.iter().all(|message| message["type"] == "problem"), "{told:?}");
    assert_eq!(far.ground.store.subscribers(job.job).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_cannot_be_read_is_passed_over() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    far.come_in("A=", "acme").await;
    subscribe(&far, "A=", &job, 0).await;
    append(&far.ground, &job, 1, vec![shown(1)]).await;
    append(&far.ground, &job, 2, vec![shown(2)]).await;
    append(&far.ground, &job, 3, vec![shown(3)]).await;
    let mut event = stream.event().await;
    let mut batches: Vec<&mut Value> = event["Records"].as_array_mut().unwrap().iter_mut().collect();
    batches.retain(|record| record["dynamodb"]["Keys"]["SK"]["S"].as_str().unwrap().starts_with("J#"));
    batches[0]["dynamodb"]["NewImage"]["v"] = json!({ "N": "99" });
    batches[1]["dynamodb"]["NewImage"]["entries"] = json!({ "S": "[{\"type\":\"torn" });

    assert_eq!(far.invoke(event).await, nothing_again());

    assert_eq!(positions(&far.told("A=")), [3]);
}

/// A large batch lies in the bucket and comes from there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_batch_is_fetched() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    far.come_in("A=", "acme").await;
    subscribe(&far, "A=", &job, 0).await;
    // Random text, which does not compress to the size that stays in the table.
    let text: String = (0..8_000).map(|_| uuid::Uuid::new_v4().simple().to_string()).collect();
    append(&far.ground, &job, 1, vec![Entry::Completed { output: json!(text) }]).await;
    let event = stream.event().await;
    assert!(event.to_string().contains("entries_ref"), "it stays in the table");

    assert_eq!(far.invoke(event).await, nothing_again());

    let told = far.told("A=");
    assert_eq!(positions(&told), [1]);
    assert_eq!(told[0]["event"]["data"]["truncated"], json!(true));
}

/// When the store fails, the stream comes again from the first record that was not dealt with: here the new job's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_answer_has_the_stream_come_again() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = far.ground.submit(order("acme", "ten", Value::Null)).await;
    append(&far.ground, &job, 1, vec![shown(1)]).await;
    append(&far.ground, &job, 2, vec![shown(2)]).await;
    let event = stream.event().await;
    let first =
        event["Records"].as_array().unwrap().iter().find(|record| record["dynamodb"]["Keys"]["SK"]["S"] == "JOB");
    let number = first.unwrap()["dynamodb"]["SequenceNumber"].clone();

    let answer = far.deaf_function().await.handle(text(&event), deadline_in(Duration::from_secs(30))).await.unwrap();

    assert_eq!(answer, json!({ "batchItemFailures": [{ "itemIdentifier": number }] }));
}

/// A job whose item has expired takes the rest of it along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_an_expired_job_is_cleared_away() {
    use longhaul::store::Store;
    let far = FarEnd::set_up().await;
    let job = JobRef { tenant: "acme".parse().unwrap(), job: uuid_job() };
    append(&far.ground, &job, 1, vec![shown(1)]).await;
    let removed = json!({ "Records": [{
        "eventID": "1", "eventName": "REMOVE", "eventVersion": "1.1", "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1", "userIdentity": { "type": "Service", "principalId": "dynamodb.amazonaws.com" },
        "dynamodb": {
            "ApproximateCreationDateTime": 1_795_953_600.0,
            "Keys": { "PK": { "S": format!("JOB#{}", job.job) }, "SK": { "S": "JOB" } },
            "SequenceNumber": "4421584500000000017450439091", "SizeBytes": 59, "StreamViewType": "NEW_IMAGE"
        }
    }]});
    assert_eq!(far.invoke(removed).await, nothing_again());
    assert_eq!(far.ground.store.journal(job.job, Seq::FIRST).await.unwrap(), []);
}

fn uuid_job() -> longhaul::engine::JobId {
    longhaul::engine::JobId::from_uuid(uuid::Uuid::now_v7())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_neither_side_is_an_error() {
    let far = FarEnd::set_up().await;
    let deadline = deadline_in(Duration::from_secs(30));
    for event in [json!({}), json!([]), json!("hello"), Value::Null] {
        let error = far.function.handle(text(&event), deadline).await.unwrap_err();
        assert!(matches!(error, EventError::UnknownShape), "{error}");
    }
    for event in [json!({ "Records": [{ "body": "of a queue" }] }), json!({ "requestContext": 7 })] {
        let error = far.function.handle(text(&event), deadline).await.unwrap_err();
        assert!(matches!(error, EventError::Malformed { .. }), "{error}");
    }
}
