//! What stands already is not written over, and a write that went through is known again: the second call of whatever is
//! written where nothing stands, over what was read, or behind a first try that came to nothing. And a read goes on to its
//! last page, however little DynamoDB hands out at a time.

use axum::http::StatusCode;
use longhaul::engine::{Batch, Delivery, Erasure, ErasureId, JobState, Seq};
use longhaul::outside::{self, fresh_nonce};
use longhaul::store::{Append, InLine, JobRef, Store, Submit, ThreadRef};
use longhaul_aws::AwsStore;
use longhaul_aws::connections::Asked;
use longhaul_aws::dynamo::{Schedule, Standing};
use longhaul_engine::thread::{LineWrite, Place};
use longhaul_tests::sample;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::front::{Fate, Front, error_body};
use crate::ground::{Ground, PATIENCE, now, order};
use crate::table_faults::{connection, fronted};

/// What is written where nothing stands.
#[derive(Debug, Clone, Copy)]
enum First {
    Erasure,
    Delivery,
    Schedule,
}

/// Writes it, or another one in its place; whether it counts as the one that stands there.
async fn write_first(store: &AwsStore, what: First, number: u32, job: &JobRef) -> bool {
    match what {
        First::Erasure => {
            let id = ErasureId::from_uuid(Uuid::now_v7());
            let erasure = Erasure::asked(id, job.tenant.clone(), format!("subject {number}"), now());
            store.begin_erasure(&erasure).await.unwrap().id == id
        }
        First::Delivery => {
            let delivery = Delivery::ordered(Seq(7), format!("event {number}"), now());
            store.order_delivery(job, &delivery).await.unwrap()
        }
        First::Schedule => {
            let schedule = Schedule {
                tenant: job.tenant.clone(),
                name: "daily".parse().unwrap(),
                request: format!("request {number}"),
                next: None,
                again: None,
                last: None,
                changed_at: now(),
                changed_by: "ada".to_owned(),
                mark: fresh_nonce(),
            };
            store.write_schedule(&schedule, None).await.unwrap()
        }
    }
}

/// What stands there, by the number of whoever wrote it.
async fn stands(store: &AwsStore, what: First, job: &JobRef) -> String {
    match what {
        First::Erasure => store.erasure_under_way(&job.tenant).await.unwrap().unwrap().erasure.requested_by,
        First::Delivery => store.delivery(job, Seq(7)).await.unwrap().unwrap().delivery.event,
        First::Schedule => store.schedule(&job.tenant, &"daily".parse().unwrap()).await.unwrap().unwrap().request,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_its_place_stays_and_is_known_again() {
    let (ground, front, store) = fronted().await;
    for what in [First::Erasure, First::Delivery, First::Schedule] {
        let job = ground.submit(order("acme", "ten", Value::Null)).await;
        drop(front.take());
        // It is done, but the answer is lost, and the SDK asks again.
        front.fail("PutItem", 1, lost);
        assert!(write_first(&store, what, 1, &job).await, "{what:?}: its own write is no other's");
        assert_eq!(front.tries("PutItem"), 2, "{what:?}: asked again");
        assert!(!write_first(&store, what, 2, &job).await, "{what:?}: the second is told of the first");
        assert!(stands(&store, what, &job).await.ends_with(" 1"), "{what:?}: the first stands");
    }
}

fn lost() -> Fate {
    Fate::DoneThen(StatusCode::INTERNAL_SERVER_ERROR, error_body("InternalServerError"))
}

/// The tries behind the first are made in another way, on the same condition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_try_of_an_append_writes_over_nothing() {
    let (ground, front, store) = fronted().await;
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    let stands = Batch { nonce: fresh_nonce(), ..sample::outcomes(1, 1) };
    assert_eq!(ground.store.append(&job, &stands).await.unwrap(), Append::Written);
    front.fail("PutItem", 1, || Fate::error(StatusCode::BAD_REQUEST, "ProvisionedThroughputExceededException"));
    let other = Batch { nonce: fresh_nonce(), ..sample::outcomes(1, 2) };
    assert_eq!(store.append(&job, &other).await.unwrap(), Append::Conflict(Box::new(stands.clone())));
    assert_eq!(front.tries("PutItem"), 2);
    assert_eq!(ground.store.journal(job.job, Seq::FIRST).await.unwrap(), [stands]);
}

/// Another transaction had one of the two items in hand: this one is no answer, and is made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_that_meets_another_transaction_is_made_again() {
    let (ground, front, store) = fronted().await;
    let conflict = || {
        let reason = |code: &str| json!({ "Code": code });
        let mut body = error_body("TransactionCanceledException");
        body["CancellationReasons"] = json!([reason("None"), reason("TransactionConflict")]);
        Fate::Instead(StatusCode::BAD_REQUEST, body)
    };
    front.fail("TransactWriteItems", 2, conflict);
    let job = longhaul::engine::Job::accepted(order("acme", "ten", Value::Null), fresh_nonce());
    let thread = ThreadRef { tenant: "acme".parse().unwrap(), thread: "talk".parse().unwrap() };
    let places = vec![Place::of_new(job.order.id)];
    let write = LineWrite { nonce: fresh_nonce(), mark: None, places: places.clone(), at: now() };
    let submitted = store.submit_in_line(&job, &thread, &write).await.unwrap();
    assert_eq!(submitted, InLine::Submit(Submit::Created));
    assert_eq!(ground.store.line(&thread).await.unwrap().places, places);
}

/// A job that was opened again since an erasure looked at it is not removed, and neither is another tenant's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_removed_as_it_was_seen() {
    let ground = Ground::lay().await;
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    let Standing::Open { seen } = ground.store.standing(&job).await.unwrap() else { panic!("it has not ended") };
    let foreign = JobRef { tenant: "other".parse().unwrap(), job: job.job };
    assert!(!ground.store.remove_job(&foreign, seen).await.unwrap());
    assert!(!ground.store.remove_job(&job, fresh_nonce()).await.unwrap());
    assert_eq!(ground.state(&job).await, JobState::Pending, "it is there");
    assert!(ground.store.remove_job(&job, seen).await.unwrap());
    assert!(ground.store.remove_job(&job, seen).await.unwrap(), "it is gone, whoever did it");
    assert_eq!(ground.store.standing(&job).await.unwrap(), Standing::Gone);
}

/// Of an erasure that is done its record stays, also when all data is erased again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_erasure_leaves_the_record_of_an_earlier_one() {
    let ground = Ground::lay().await;
    let asked =
        || Erasure::asked(ErasureId::from_uuid(Uuid::now_v7()), "acme".parse().unwrap(), "ada".to_owned(), now());
    let (earlier, later) = (asked(), asked());
    ground.store.begin_erasure(&earlier).await.unwrap();
    ground.store.end_erasure(&earlier).await.unwrap();
    ground.store.begin_erasure(&later).await.unwrap();
    ground.store.clear_tenant(&later.tenant).await.unwrap();
    let known: Vec<ErasureId> =
        ground.store.erasures(&later.tenant).await.unwrap().iter().map(|erasure| erasure.id).collect();
    assert_eq!(known, [later.id, earlier.id]);
}

/// Who looks through the dead letters for a tenant's hands those of others back at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_others_are_there_as_before() {
    let ground = Ground::lay().await;
    for tenant in ["leaver", "keeper"] {
        let job = ground.submit(order(tenant, "ten", Value::Null)).await;
        ground.store.dead_letter(&ground.job(&job).await, &sample::failure()).await.unwrap();
    }
    let until = std::time::Instant::now() + PATIENCE;
    let leaver = "leaver".parse().unwrap();
    let (removed, _) = ground.store.remove_dead_letters(&[leaver].into(), until).await.unwrap();
    assert_eq!(removed.into_values().collect::<Vec<_>>(), [1]);
    let letter =
        ground.record_from(&ground.stores.sqs.dead_letters).await.expect("in sight, long before it would be by itself");
    assert!(letter["body"].as_str().unwrap().contains("keeper"), "{letter}");
}

/// A connection that closes while it subscribes takes the subscription along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_of_a_connection_that_has_closed_meanwhile_does_not_stay() {
    let (ground, front, store) = fronted().await;
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    let watcher = connection("A=");
    // What the connection has asked for is gone at the second look.
    front.fail("GetItem", 1, || Fate::Instead(StatusCode::OK, json!({})));
    assert_eq!(store.ask(&watcher, &job, Asked::to_hear(Seq(0), 0)).await.unwrap(), None);
    assert_eq!(ground.store.subscribers(job.job).await.unwrap(), []);
}

/// Pages of one item.
fn in_small_pages(front: &Front) {
    front.plan(|operation, asked| {
        (operation == "Query" && asked["Limit"] != 1).then(|| {
            let mut asked = asked.clone();
            asked["Limit"] = json!(1);
            Fate::Asked(asked)
        })
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_read_is_read_to_its_last_page() {
    let (ground, front, store) = fronted().await;
    in_small_pages(&front);
    let job = ground.submit(order("acme", "ten", Value::Null)).await;
    for at in 1..=5 {
        let batch = Batch { nonce: fresh_nonce(), ..sample::outcomes(at, 1) };
        assert_eq!(ground.store.append(&job, &batch).await.unwrap(), Append::Written);
    }
    assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap().len(), 5);

    let mut due = Vec::new();
    for _ in 0..3 {
        let mut order = order("acme", "ten", Value::Null);
        order.id = longhaul::engine::JobId::from_uuid(Uuid::from_u128(order.id.as_uuid().as_u128() & !0xff));
        let shard = longhaul::engine::Job::due_shard(order.id);
        due.push((shard, outside::submit(&ground.store, order).await.unwrap().job));
    }
    let latest = now().plus(std::time::Duration::from_secs(3_600));
    let found = store.due(due[0].0, latest, 100).await.unwrap();
    assert!(due.iter().all(|(_, job)| found.iter().any(|found| found.job == job.order.id)), "{found:?}");

    let watchers = ["A=", "B=", "C="].map(connection);
    for watcher in &watchers {
        ground.store.put_connection(watcher).await.unwrap();
        ground.store.ask(watcher, &job, Asked::to_hear(Seq(0), 0)).await.unwrap();
    }
    assert_eq!(store.subscribers(job.job).await.unwrap().len(), watchers.len());
    assert_eq!(store.tenant_connections(&job.tenant).await.unwrap().len(), watchers.len());

    let Standing::Open { seen } = ground.store.standing(&job).await.unwrap() else { panic!("it has not ended") };
    assert!(ground.store.remove_job(&job, seen).await.unwrap());
    assert!(store.forget(job.job).await.unwrap());
    assert_eq!(ground.store.journal(job.job, Seq::FIRST).await.unwrap(), []);
    assert_eq!(ground.store.subscribers(job.job).await.unwrap(), []);
}
