//! Events on their way to the address that a job's caller named: signed, tried again, logged, and stopped.

use std::time::Duration;

use longhaul::engine::delivery::{Outcome, WhyFailed};
use longhaul::engine::{Delivery, DeliveryState, Entry, Seq, Timestamp};
use longhaul::store::JobRef;
use longhaul_websocket::WebSocket;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::far_end::{Call, FarEnd, SECRET, SECRET_NEXT, text};
use crate::ground::{deadline_in, now, order};
use crate::stream::{Stream, nothing_again};
use crate::watchers::{append, shown};

/// Submits a job that names this address and wants these events.
async fn submit(far: &FarEnd, tenant: &str, address: &str, events: &[&str]) -> JobRef {
    let mut asked = order(tenant, "ten", Value::Null);
    asked.webhook = Some(address.to_owned());
    asked.webhook_events = events.iter().map(|&event| event.to_owned()).collect();
    far.ground.submit(asked).await
}

/// Ends a job of this tenant that names this address, hands the stream over, and makes what is due.
async fn end_a_job(far: &FarEnd, tenant: &str, address: &str) -> JobRef {
    let mut stream = Stream::of(far);
    let job = submit(far, tenant, address, &[]).await;
    append(&far.ground, &job, 1, vec![shown(1), Entry::Completed { output: json!({ "answer": 42 }) }]).await;
    assert_eq!(far.invoke(stream.event().await).await, nothing_again());
    make_due(far).await;
    job
}

fn hook(far: &FarEnd) -> String {
    format!("{}/hooks/end", far.base)
}

/// The next message of the queue of deliveries, as Lambda hands it over; none when none is due.
async fn due(far: &FarEnd) -> Option<Value> {
    let (sqs, queue) = (&far.ground.stores.sqs.sqs, &far.ground.stores.sqs.webhooks);
    if sqs.depth(queue).await.unwrap().visible == 0 {
        return None;
    }
    let record = far.ground.record_from(queue).await.unwrap();
    Some(json!({ "Records": [record] }))
}

/// Has the function handle all messages that are due.
async fn make_due(far: &FarEnd) {
    while let Some(event) = due(far).await {
        assert_eq!(far.invoke(event).await, json!({ "batchItemFailures": [] }));
    }
}

async fn delivery(far: &FarEnd, job: &JobRef, seq: u64) -> Delivery {
    far.ground.store.delivery(job, Seq(seq)).await.unwrap().expect("the delivery").delivery
}

/// Lets the time of a delivery's next try come, and sends for it.
async fn let_time_pass(far: &FarEnd, job: &JobRef, seq: u64) {
    let stored = far.ground.store.delivery(job, Seq(seq)).await.unwrap().unwrap();
    let due = DeliveryState::Pending { due: Timestamp::from_millis(1) };
    let delivery = Delivery { state: due, ..stored.delivery };
    far.ground.store.write_delivery(job, &delivery, stored.seen).await.unwrap().expect("nobody else writes");
    far.ground.store.send_delivery(job, Seq(seq), Duration::ZERO).await.unwrap();
    make_due(far).await;
}

fn header<'a>(call: &'a Call, name: &str) -> &'a str {
    call.headers[name].to_str().unwrap()
}

fn verified(call: &Call, secret: &str) -> bool {
    Webhook::new(secret).unwrap().verify(&call.bytes, &call.headers).is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_reported_as_a_signed_cloud_event() {
    let far = FarEnd::set_up().await;
    let job = end_a_job(&far, "acme", &hook(&far)).await;
    let calls = far.take("end");
    assert_eq!(calls.len(), 1, "the end alone is reported");
    assert_eq!(calls[0].content_type, "application/cloudevents+json; charset=utf-8");
    let event = &calls[0].body;
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["type"], "longhaul.AgentJobCompleted");
    assert_eq!(event["id"], json!(format!("{}/2", job.job)));
    assert_eq!(event["data"]["result"], json!({ "answer": 42 }));
    assert_eq!(header(&calls[0], "webhook-id"), format!("evt_{}_2", job.job.as_uuid().simple()));
    assert!(verified(&calls[0], SECRET) && !verified(&calls[0], SECRET_NEXT));
    let delivery = delivery(&far, &job, 2).await;
    assert!(matches!(delivery.state, DeliveryState::Delivered { .. }), "{delivery:?}");
    assert_eq!((delivery.tries, delivery.tried.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chosen_events_are_reported_and_no_others() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = submit(&far, "acme", &hook(&far), &["longhaul.AgentProgress"]).await;
    append(&far.ground, &job, 1, vec![shown(1), shown(2)]).await;
    append(&far.ground, &job, 3, vec![shown(3), Entry::Completed { output: json!(null) }]).await;
    let event = stream.event().await;
    assert_eq!(far.invoke(event.clone()).await, nothing_again());
    // The stream may come again: nothing is ordered twice, and what is delivered stays so.
    assert_eq!(far.invoke(event).await, nothing_again());
    make_due(&far).await;
    let mut sequences: Vec<String> =
        far.take("end").iter().map(|call| call.body["sequence"].as_str().unwrap().to_owned()).collect();
    sequences.sort();
    assert_eq!(sequences, ["0000000001", "0000000002", "0000000003"]);
    let page = far.ground.store.deliveries(&job, Seq(1), 1).await.unwrap();
    assert_eq!((page.deliveries[0].seq, page.more), (Seq(2), true));
    let page = far.ground.store.deliveries(&job, Seq(2), 1).await.unwrap();
    assert_eq!((page.deliveries[0].seq, page.more), (Seq(3), false));
    let other = JobRef { tenant: "other".parse().unwrap(), job: job.job };
    assert_eq!(far.ground.store.deliveries(&other, Seq(0), 9).await.unwrap().deliveries, []);
    assert_eq!(far.ground.store.delivery(&other, Seq(1)).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_secrets_sign_while_one_is_rotated() {
    let far = FarEnd::set_up().await;
    end_a_job(&far, "rotating", &hook(&far)).await;
    let calls = far.take("end");
    assert_eq!(header(&calls[0], "webhook-signature").split(' ').count(), 2);
    assert!(verified(&calls[0], SECRET) && verified(&calls[0], SECRET_NEXT));
}

/// A secret may still be made within the day; without one nothing leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_unsigned() {
    let far = FarEnd::set_up().await;
    let job = end_a_job(&far, "without-secrets", &hook(&far)).await;
    assert_eq!(far.take("end"), []);
    let delivery = delivery(&far, &job, 2).await;
    assert!(matches!(delivery.state, DeliveryState::Pending { .. }), "{delivery:?}");
    assert!(matches!(delivery.tried[0].outcome, Outcome::NotSent { .. }), "{delivery:?}");
}

/// Each try carries the same id and is signed anew; the distance grows or is what the receiver asks for; the log has all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_tried_again_over_invocations() {
    let far = FarEnd::set_up().await;
    far.webhook_asks(&[(500, None), (429, Some(120)), (302, None), (404, None), (204, None)]);
    let job = end_a_job(&far, "acme", &hook(&far)).await;
    let mut last = String::new();
    for (tries, least, most) in [(1, 4, 7), (2, 119, 145), (3, 299, 361), (4, 1_799, 2_161)] {
        let calls = far.take("end");
        assert_eq!(calls.len(), 1, "one call for try {tries}");
        assert!(verified(&calls[0], SECRET));
        assert_eq!(header(&calls[0], "webhook-id"), format!("evt_{}_2", job.job.as_uuid().simple()));
        last = header(&calls[0], "webhook-timestamp").to_owned();
        let delivery = delivery(&far, &job, 2).await;
        let DeliveryState::Pending { due } = delivery.state else { panic!("{delivery:?}") };
        let wait = now().until(due).as_secs();
        assert!((least..=most).contains(&wait), "after try {tries}: {wait} s");
        assert_eq!((delivery.tries, delivery.tried.len()), (tries, tries as usize));
        let_time_pass(&far, &job, 2).await;
    }
    let calls = far.take("end");
    assert!(header(&calls[0], "webhook-timestamp") >= last.as_str());
    assert_eq!(far.take("elsewhere"), [], "redirects are not followed");
    let delivery = delivery(&far, &job, 2).await;
    assert!(matches!(delivery.state, DeliveryState::Delivered { .. }), "{delivery:?}");
    let statuses: Vec<u16> = delivery
        .tried
        .iter()
        .map(|made| match &made.outcome {
            Outcome::Answered { status, excerpt } => {
                let length = excerpt.as_ref().map_or(0, |text| text.chars().count());
                assert!(length <= 256 && excerpt.as_ref().is_none_or(|text| !text.contains('\u{7}')), "{excerpt:?}");
                *status
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(statuses, [500, 429, 302, 404, 204]);
}

/// 410 is the end of it, also for later events of the job, until a person orders one again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_wants_no_more_is_left_alone() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    far.webhook_answers(&[410]);
    let job = submit(&far, "acme", &hook(&far), &["longhaul.AgentProgress"]).await;
    for first in [1, 2] {
        append(&far.ground, &job, first, vec![shown(first)]).await;
        assert_eq!(far.invoke(stream.event().await).await, nothing_again());
        make_due(&far).await;
    }
    assert_eq!(far.take("end").len(), 1);
    for seq in [1, 2] {
        let delivery = delivery(&far, &job, seq).await;
        assert!(matches!(delivery.state, DeliveryState::Failed { why: WhyFailed::Gone, .. }), "{delivery:?}");
    }
    far.ground.store.set_webhook_gone(&job, false, now()).await.unwrap();
    let stored = far.ground.store.delivery(&job, Seq(2)).await.unwrap().unwrap();
    let again = stored.delivery.ordered_again(now());
    far.ground.store.write_delivery(&job, &again, stored.seen).await.unwrap().unwrap();
    far.ground.store.send_delivery(&job, Seq(2), Duration::ZERO).await.unwrap();
    make_due(&far).await;
    assert_eq!(far.take("end").len(), 1);
}

/// The queue may bring a message twice, at the same time, and long after: one call all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_comes_again_delivers_nothing_again() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = submit(&far, "acme", &hook(&far), &[]).await;
    append(&far.ground, &job, 1, vec![shown(1), Entry::Completed { output: json!(1) }]).await;
    assert_eq!(far.invoke(stream.event().await).await, nothing_again());
    let event = due(&far).await.expect("a message");
    futures::join!(far.invoke(event.clone()), far.invoke(event.clone()), far.invoke(event.clone()));
    far.invoke(event.clone()).await;
    make_due(&far).await;
    assert_eq!(far.take("end").len(), 1);
    // What no version ever wrote is passed over; what a newer one wrote is left for it.
    let mut odd = event.clone();
    odd["Records"][0]["body"] = json!("hello");
    assert_eq!(far.invoke(odd).await, json!({ "batchItemFailures": [] }));
    let mut newer = event.clone();
    let body = json!({ "v": 99, "tenant": "acme", "job": job.job, "seq": 2 });
    newer["Records"][0]["body"] = json!(body.to_string());
    let id = &event["Records"][0]["messageId"];
    assert_eq!(far.invoke(newer).await, json!({ "batchItemFailures": [{ "itemIdentifier": id }] }));
}

/// A table that does not answer keeps the message in the queue, and the order in the stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_answer_loses_no_delivery() {
    let far = FarEnd::set_up().await;
    let mut stream = Stream::of(&far);
    let job = submit(&far, "acme", &hook(&far), &[]).await;
    append(&far.ground, &job, 1, vec![Entry::Completed { output: json!(1) }]).await;
    let news = stream.event().await;
    let deaf = far.deaf_function().await;
    let deadline = || deadline_in(Duration::from_secs(30));
    let answer = deaf.handle(text(&news), deadline()).await.unwrap();
    assert_eq!(answer["batchItemFailures"].as_array().unwrap().len(), 1);
    assert_eq!(far.invoke(news).await, nothing_again());
    let event = due(&far).await.expect("a message");
    let answer = deaf.handle(text(&event), deadline()).await.unwrap();
    assert_eq!(answer["batchItemFailures"][0]["itemIdentifier"], event["Records"][0]["messageId"]);
    assert_eq!(far.take("end"), []);
    far.invoke(event).await;
    assert_eq!(far.take("end").len(), 1);
}

/// The webhook rows of the case: no connection, a failure that is final, and nothing of the target in the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e09_a_webhook_reaches_nothing_inside() {
    let far = FarEnd::set_up().await;
    // As on AWS: not even this very machine, where the Lambda runtime listens.
    let function: WebSocket = far.function_with(&[("LONGHAUL_WEBHOOK_LOOPBACK", String::new())]).await;
    let port = far.base.rsplit_once(':').unwrap().1.to_owned();
    let mut addresses: Vec<String> = [
        "http://127.0.0.1",
        "https://127.0.0.1",
        "https://localhost",
        "https://[::1]",
        "https://[::ffff:127.0.0.1]",
        "https://2130706433",
        "https://0x7f000001",
        "https://0177.0.0.1",
        "https://127.1",
        "https://0.0.0.0",
        "https://user@127.0.0.1",
    ]
    .map(|host| format!("{host}:{port}/hooks/end"))
    .to_vec();
    addresses.extend(
        ["https://169.254.169.254/latest/meta-data", "https://hooks.internal/end", "no address"].map(str::to_owned),
    );
    for address in addresses {
        let mut stream = Stream::of(&far);
        let job = submit(&far, "acme", &address, &[]).await;
        append(&far.ground, &job, 1, vec![Entry::Completed { output: json!(1) }]).await;
        assert_eq!(far.invoke(stream.event().await).await, nothing_again());
        while let Some(event) = due(&far).await {
            function.handle(text(&event), deadline_in(Duration::from_secs(30))).await.unwrap();
        }
        let delivery = delivery(&far, &job, 1).await;
        assert!(
            matches!(delivery.state, DeliveryState::Failed { why: WhyFailed::AddressRefused, .. }),
            "{address}: {delivery:?}"
        );
        assert_eq!(far.take("end"), [], "{address}");
    }
}
