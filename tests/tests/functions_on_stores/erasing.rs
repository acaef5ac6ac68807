//! Erasures: of a tenant nothing is left but the record, of others everything, whatever dies in between.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use longhaul::engine::erasure::{Erased, Stage};
use longhaul::engine::thread::{OnBusy, Thread};
use longhaul::engine::{Batch, Delivery, Entry, Erasure, ErasureId, JobState, Seq, TenantId};
use longhaul::outside::{self, fresh_nonce};
use longhaul::store::{JobRef, Store, StoreError};
use longhaul_aws::AwsStore;
use longhaul_aws::connections::{Asked, Connection};
use longhaul_aws::dynamo::{NewDefinition, TenantSettings};
use longhaul_sweeper::Eraser;
use longhaul_worker::Worker;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::agents::Bench;
use crate::far_end::{FarEnd, Mood};
use crate::ground::{Ground, now, order};
use crate::worker::{invoke, nothing_stays};

const LONG: Duration = Duration::from_secs(60);

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

/// The jobs of a tenant that has one of everything.
struct Jobs {
    done: JobRef,
    failed: JobRef,
    waiting: JobRef,
}

fn worker(ground: &Ground) -> (Worker<AwsStore>, Bench) {
    let bench = Bench::default();
    bench.broken.set(true);
    (Worker::new(ground.store.clone(), bench.registry()), bench)
}

/// Has a worker, on whose bench "fragile" fails, handle every message that is there. Those that had been sent with a delay come
/// in between others on a slow machine, so it looks again until there is none.
pub(crate) async fn work(ground: &Ground) {
    let (worker, _bench) = worker(ground);
    loop {
        let visible = ground.depth().await.visible;
        if visible == 0 {
            return;
        }
        let event = ground.batch(visible).await;
        assert_eq!(invoke(&worker, &event, LONG).await, nothing_stays());
    }
}

/// Gives a tenant one of everything: a job that is done, with a payload in the bucket and a delivery, one that has
/// failed, one that waits for a person, a watcher, an agent, settings, a book.
async fn everything_of(ground: &Ground, name: &str) -> Jobs {
    let (store, tenant) = (&ground.store, tenant(name));
    let large = json!({ "text": Uuid::new_v4().to_string().repeat(400), "tenant": name });
    let mut asked = order(name, "ten", large);
    asked.webhook = Some("https://example.com/hook".to_owned());
    asked.labels = BTreeMap::from([("of".to_owned(), name.to_owned())]);
    let done = ground.submit(asked.clone()).await;
    let failed = ground.submit(order(name, "fragile", json!(name))).await;
    let waiting = ground.submit(order(name, "waits", json!(name))).await;
    work(ground).await;
    assert_eq!(ground.state(&done).await, JobState::Completed);
    assert_eq!(ground.state(&failed).await, JobState::Failed);
    assert!(matches!(ground.state(&waiting).await, JobState::Waiting { .. }));

    store.put_places(&asked).await.unwrap();
    let delivery = Delivery::ordered(Seq(3), "longhaul.AgentJobCompleted".to_owned(), now());
    assert!(store.order_delivery(&done, &delivery).await.unwrap());
    let connection = Connection {
        id: format!("of-{name}="),
        tenant: tenant.clone(),
        subject: "ada".to_owned(),
        token_expires_at: now().plus(LONG),
        connected_at: now(),
        opened: None,
    };
    store.put_connection(&connection).await.unwrap();
    store.ask(&connection, &waiting, Asked::to_hear(Seq(0), 0)).await.unwrap();
    let agent = NewDefinition {
        name: "clerk".parse().unwrap(),
        digest: "d".to_owned(),
        definition: json!({ "of": name }).to_string(),
        by: "ada".to_owned(),
    };
    store.save_definition(&tenant, &agent, now(), |_| json!({ "of": name }).to_string()).await.unwrap();
    store.put_tenant_settings(&tenant, TenantSettings { job_kept_days: 7 }, "ada", now()).await.unwrap();
    store.charge(&tenant, 3, store.config().tenant_limits.of(&tenant), true, now()).await.unwrap();
    Jobs { done, failed, waiting }
}

async fn begin(ground: &Ground, name: &str) -> Erasure {
    let id = ErasureId::from_uuid(Uuid::now_v7());
    let asked = Erasure::asked(id, tenant(name), "ada".to_owned(), now());
    ground.store.begin_erasure(&asked).await.unwrap()
}

/// Sweeps, and works, until these erasures are done.
async fn finish(ground: &Ground, store: &AwsStore, erasures: &[Erasure]) {
    let tenants: Vec<TenantId> = erasures.iter().map(|erasure| erasure.tenant.clone()).collect();
    for _ in 0..12 {
        // What a sweep that died had in hand comes back after a minute; the test does not wait for it.
        ground.stores.sqs.sqs.release_in_flight(&ground.stores.sqs.dead_letters).await.unwrap();
        let swept = Eraser::new(store, LONG).sweep_of(&tenants).await;
        assert_eq!(swept.failed, 0);
        work(ground).await;
        let mut left = 0;
        for tenant in &tenants {
            left += usize::from(ground.store.erasure_under_way(tenant).await.unwrap().is_some());
        }
        if left == 0 {
            return;
        }
    }
    panic!("the erasures come to no end");
}

/// A store whose erasures do not rest.
async fn restless(ground: &Ground) -> AwsStore {
    ground.store_with(&[("LONGHAUL_ERASURE_REST_SECONDS", "0".to_owned())]).await
}

/// Items that name a tenant, but for the records of its erasures.
fn of<'a>(items: &'a [Value], name: &str) -> Vec<&'a Value> {
    let record = |item: &Value| item["SK"]["S"].as_str().unwrap().starts_with("ERASURE#");
    items.iter().filter(|item| item.to_string().contains(name) && !record(item)).collect()
}

async fn letters(ground: &Ground) -> u64 {
    let sqs = &ground.stores.sqs;
    sqs.sqs.release_in_flight(&sqs.dead_letters).await.unwrap();
    u64::try_from(sqs.sqs.depth(&sqs.dead_letters).await.unwrap().visible).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_tenant_nothing_is_left_but_the_record() {
    let ground = Ground::lay().await;
    let kept = everything_of(&ground, "keeper").await;
    let before = ground.items().await;
    let objects = ground.objects().len();
    let jobs = everything_of(&ground, "leaver").await;
    let imported = {
        let mut order = order("leaver", "ten", json!({}));
        order.origin = longhaul::engine::job::Origin::Imported(longhaul::engine::job::Imported { at: now() });
        ground.submit(order).await
    };
    assert_eq!(letters(&ground).await, 2);
    let store = restless(&ground).await;

    let erasure = begin(&ground, "leaver").await;
    assert_eq!(begin(&ground, "leaver").await, erasure, "there is one at a time");
    assert_eq!(ground.store.due_erasures(now()).await.unwrap(), [tenant("leaver")]);
    let swept = Eraser::new(&store, LONG).sweep().await;
    assert_eq!((swept.due, swept.done, swept.failed), (1, 0, 0));
    let under_way = ground.store.erasure(&tenant("leaver"), erasure.id).await.unwrap().unwrap();
    assert_eq!((under_way.stage, under_way.open), (Stage::Jobs, 1), "one job waits for its worker to end it");
    assert_eq!(ground.store.job(&jobs.done).await.unwrap(), None);
    assert_eq!(ground.store.job(&imported).await.unwrap(), None, "nobody would ever end it");
    assert!(ground.store.job(&jobs.waiting).await.unwrap().is_some());
    work(&ground).await;
    let entries = ground.entries(&jobs.waiting).await;
    assert!(matches!(entries.last(), Some(Entry::Cancelled { by, .. }) if by == "ada"), "{entries:?}");

    finish(&ground, &store, std::slice::from_ref(&erasure)).await;
    let after = ground.items().await;
    assert_eq!(of(&after, "leaver"), Vec::<&Value>::new());
    for job in [&jobs.done, &jobs.failed, &jobs.waiting, &imported] {
        let id = job.job.to_string();
        assert!(after.iter().all(|item| !item.to_string().contains(&id)), "{id}");
    }
    // Others have lost nothing, and the record is what came.
    let records: Vec<&Value> = after.iter().filter(|item| !before.contains(item)).collect();
    assert_eq!(records.len(), 1, "{records:#?}");
    assert!(before.iter().all(|item| after.contains(item)));
    assert_eq!((ground.objects().len(), letters(&ground).await), (objects, 1));
    assert_eq!(ground.state(&kept.failed).await, JobState::Failed);
    let record = ground.store.erasure(&tenant("leaver"), erasure.id).await.unwrap().unwrap();
    assert!(matches!(record.stage, Stage::Done { .. }));
    let Erased { jobs, items, objects, letters } = record.erased;
    assert!(jobs == 4 && items > 20 && objects >= 1 && letters == 1, "{:?}", record.erased);
    assert_eq!(ground.store.erasures(&tenant("leaver")).await.unwrap(), [record]);
    assert_eq!(ground.store.due_erasures(now()).await.unwrap(), []);
}

/// Open connections are closed, and those that cannot be are told nothing more and hold up nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_a_tenant_are_closed_and_of_others_stay_open() {
    let far = FarEnd::set_up().await;
    let moods = [("gone=", Mood::Gone), ("hangs=", Mood::Hangs), ("forbidden=", Mood::Forbidden)];
    for (connection, mood) in moods {
        far.set_mood(connection, mood);
    }
    for connection in ["open=", "gone=", "hangs=", "forbidden="] {
        far.come_in(connection, "leaver").await;
    }
    far.come_in("keeper=", "keeper").await;
    let ground = &far.ground;
    let gateway = ("LONGHAUL_PUSH_ENDPOINT", format!("{}/live", far.base));
    let store = ground.store_with(&[("LONGHAUL_ERASURE_REST_SECONDS", "0".to_owned()), gateway]).await;
    let erasure = begin(ground, "leaver").await;
    finish(ground, &store, std::slice::from_ref(&erasure)).await;
    assert_eq!(far.closed(), ["forbidden=", "gone=", "hangs=", "open="]);
    assert_eq!(of(&ground.items().await, "leaver"), Vec::<&Value>::new());
    assert!(ground.store.connection("keeper=").await.unwrap().is_some());
}

/// Who comes while the data goes is not let in and leaves nothing, whoever has listed the connections by then; who was in
/// already subscribes to nothing. Others notice nothing, and afterwards the tenant may come again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_connects_or_subscribes_while_the_data_goes() {
    let far = FarEnd::set_up().await;
    let ground = &far.ground;
    let job = ground.submit(order("leaver", "waits", json!({}))).await;
    let others = ground.submit(order("keeper", "ten", json!({}))).await;
    let subscribe = |job: &JobRef| json!({ "action": "subscribe", "job": job.job, "after": 0 }).to_string();
    far.come_in("early=", "leaver").await;
    far.come_in("keeper=", "keeper").await;
    let erasure = begin(ground, "leaver").await;

    let bearer = json!({ "Authorization": format!("Bearer {}", far.token("leaver", LONG)) });
    let refused = far.connect("late=", bearer.clone(), Value::Null).await;
    let problem: Value = serde_json::from_str(refused["body"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&refused["statusCode"], &problem["type"]),
        (&json!(409), &json!("urn:longhaul:problem:tenant-erasing"))
    );
    assert_eq!(problem["erasure"], erasure.id.to_string());
    assert_eq!(ground.store.connection("late=").await.unwrap(), None);
    assert_eq!(ground.store.tenant_connections(&tenant("leaver")).await.unwrap(), ["early="]);

    far.say("early=", &subscribe(&job)).await;
    let told = far.told("early=");
    assert_eq!((told.len(), &told[0]["problem"]["type"]), (1, &problem["type"]), "{told:?}");
    assert_eq!((&told[0]["job"], ground.store.subscribers(job.job).await.unwrap()), (&json!(job.job), Vec::new()));
    far.say("keeper=", &subscribe(&others)).await;
    assert_eq!(far.told("keeper=").last().unwrap()["type"], "subscribed");

    let gateway = ("LONGHAUL_PUSH_ENDPOINT", format!("{}/live", far.base));
    let store = ground.store_with(&[("LONGHAUL_ERASURE_REST_SECONDS", "0".to_owned()), gateway]).await;
    finish(ground, &store, std::slice::from_ref(&erasure)).await;
    assert_eq!(far.closed(), ["early="]);
    assert_eq!(of(&ground.items().await, "leaver"), Vec::<&Value>::new());
    assert_eq!(far.connect("again=", bearer, Value::Null).await, json!({ "statusCode": 200 }));
}

/// A connection is held up at each of its calls in turn while an erasure begins and is swept: it is refused, or it was found
/// and closed. On one thread, so that no call is answered before the connection has let go of it.
#[tokio::test]
async fn a_connection_that_meets_an_erasure_is_refused_or_closed() {
    let far = FarEnd::set_up().await;
    let ground = &far.ground;
    let gateway = ("LONGHAUL_PUSH_ENDPOINT", format!("{}/live", far.base));
    let store = ground.store_with(&[("LONGHAUL_ERASURE_REST_SECONDS", "3600".to_owned()), gateway]).await;
    let (mut refused, mut closed) = (0, 0);
    for polls in 0.. {
        let (name, connection) = (format!("leaver-{polls}."), format!("{polls}="));
        let bearer = json!({ "Authorization": format!("Bearer {}", far.token(&name, LONG)) });
        let mut coming = pin!(far.connect(&connection, bearer, Value::Null));
        let mut left = polls;
        let at_once = std::future::poll_fn(|context| match coming.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => {
                left -= 1;
                Poll::Pending
            }
        })
        .await;
        begin(ground, &name).await;
        assert_eq!(Eraser::new(&store, LONG).sweep_of(&[tenant(&name)]).await.failed, 0);
        let whole = at_once.is_some();
        let answer = match at_once {
            Some(answer) => answer,
            None => coming.await,
        };
        if answer == json!({ "statusCode": 200 }) {
            assert!(far.closed().contains(&connection), "let in at poll {polls}, and stays open");
            closed += 1;
        } else {
            assert_eq!(answer["statusCode"], 409, "{answer}");
            refused += 1;
        }
        assert_eq!(ground.store.connection(&connection).await.unwrap(), None, "at poll {polls}");
        assert_eq!(ground.store.tenant_connections(&tenant(&name)).await.unwrap(), Vec::<String>::new());
        if whole {
            break;
        }
    }
    println!("{refused} were refused, and {closed} closed");
    assert!(refused > 2 && closed > 0, "{refused} were refused, and {closed} closed");
}

/// A job that nobody can read, and so nobody would ever end, goes with the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_cannot_be_read_holds_up_no_erasure() {
    let ground = Ground::lay().await;
    for agent in ["waits", "ten"] {
        let job = ground.submit(order("leaver", agent, json!({}))).await;
        work(&ground).await;
        ground.spoil(&job).await;
    }
    let erasure = begin(&ground, "leaver").await;
    finish(&ground, &restless(&ground).await, std::slice::from_ref(&erasure)).await;
    assert_eq!(of(&ground.items().await, "leaver"), Vec::<&Value>::new());
}

/// Jobs of a thread: the one whose turn it is, and one that waits for it in the line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_goes_with_its_jobs() {
    let ground = Ground::lay().await;
    for _ in 0..2 {
        let mut asked = order("leaver", "waits", json!({}));
        asked.thread = Some(Thread { id: "talk".parse().unwrap(), on_busy: OnBusy::Enqueue });
        ground.submit(asked).await;
        work(&ground).await;
    }
    assert!(of(&ground.items().await, "leaver").iter().any(|item| item["SK"]["S"] == "THREAD#talk"));
    let erasure = begin(&ground, "leaver").await;
    finish(&ground, &restless(&ground).await, std::slice::from_ref(&erasure)).await;
    assert_eq!(of(&ground.items().await, "leaver"), Vec::<&Value>::new());
    let record = ground.store.erasure(&tenant("leaver"), erasure.id).await.unwrap().unwrap();
    assert_eq!(record.erased.jobs, 2);
}

/// Those who had read a job before it went: what they write is refused, or goes with the second look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_writers_leave_nothing() {
    let ground = Ground::lay().await;
    let jobs = everything_of(&ground, "leaver").await;
    let read = ground.job(&jobs.failed).await;
    let erasure = begin(&ground, "leaver").await;
    let store = ground.store_with(&[("LONGHAUL_ERASURE_REST_SECONDS", "1".to_owned())]).await;
    let tenants = [tenant("leaver")];
    Eraser::new(&store, LONG).sweep_of(&tenants).await;
    work(&ground).await;
    Eraser::new(&store, LONG).sweep_of(&tenants).await;
    let under_way = store.erasure_under_way(&tenants[0]).await.unwrap().unwrap().erasure;
    assert!(matches!(under_way.stage, Stage::Waiting { .. }), "{under_way:?}");

    // A worker that was paused, a person who replays, the stream's reader.
    let batch = Batch::new(Seq(1), fresh_nonce(), now(), vec![Entry::Completed { output: json!("late") }]);
    store.append(&jobs.done, &batch).await.unwrap();
    assert!(matches!(store.wake(&jobs.done, now()).await, Err(StoreError::Missing { .. })));
    let write = longhaul::engine::job::JobWrite {
        nonce: fresh_nonce(),
        last_write: read.last_write,
        wakes: None,
        progress: read.progress.clone(),
    };
    assert!(matches!(store.write_job(&jobs.failed, &write).await, Err(StoreError::Missing { .. })));
    let key = "late".parse().unwrap();
    let replayed = outside::replay(&store, &jobs.failed, key, "ada".to_owned(), None, Default::default(), now()).await;
    assert!(matches!(replayed, Err(outside::OutsideError::NoJob)));
    store.put_places(&read.order).await.unwrap();
    store.note_ends(&tenants[0], 1).await.unwrap();
    let order = order("leaver", "ten", json!("let in by a process that did not know"));
    let late = ground.submit(order).await;
    assert!(!of(&ground.items().await, "leaver").is_empty());

    tokio::time::sleep(Duration::from_millis(1_100)).await;
    finish(&ground, &restless(&ground).await, std::slice::from_ref(&erasure)).await;
    let left = ground.items().await;
    assert_eq!(of(&left, "leaver"), Vec::<&Value>::new());
    assert!(left.iter().all(|item| !item.to_string().contains(&jobs.done.job.to_string())));
    assert!(left.iter().all(|item| !item.to_string().contains(&late.job.to_string())));
    assert_eq!(ground.objects(), Vec::<String>::new());
}

/// Drives an erasure until it has begun so many calls, and drops it there, as a sweep that dies. False: it had ended.
async fn dies_at(store: &AwsStore, tenant: &TenantId, calls: u64) -> bool {
    let made = || store.counts().values().sum::<u64>();
    let limit = made() + calls;
    let eraser = Eraser::new(store, LONG);
    let tenants = [tenant.clone()];
    let mut driving = pin!(eraser.sweep_of(&tenants));
    std::future::poll_fn(|context| match driving.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(false),
        Poll::Pending if made() >= limit => Poll::Ready(true),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// A sweep dies at each of its calls in turn, in the first look and in the second; the next ones finish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_that_dies_at_any_call_is_followed_by_one_that_finishes() {
    let ground = Ground::lay().await;
    everything_of(&ground, "keeper").await;
    let before = ground.items().await;
    let objects = ground.objects().len();
    let store = restless(&ground).await;
    let mut erasures = Vec::new();
    let (mut calls, mut deaths) = (1, 0);
    loop {
        let name = format!("leaver-{calls}.");
        everything_of(&ground, &name).await;
        let erasure = begin(&ground, &name).await;
        // The job that waits is asked to end by one sweep, and gone with the next.
        let first = dies_at(&store, &erasure.tenant, calls).await;
        work(&ground).await;
        let second = dies_at(&store, &erasure.tenant, calls).await;
        let third = dies_at(&store, &erasure.tenant, calls).await;
        deaths += u32::from(first) + u32::from(second) + u32::from(third);
        erasures.push(erasure);
        if !(first || second || third) {
            break;
        }
        calls += 1;
    }
    println!("{deaths} sweeps died, at up to {calls} calls");
    assert!(deaths > 60, "{deaths} deaths at {calls} calls");
    finish(&ground, &store, &erasures).await;
    let after = ground.items().await;
    for erasure in &erasures {
        assert_eq!(of(&after, erasure.tenant.as_str()), Vec::<&Value>::new());
        assert_eq!(ground.store.erasures(&erasure.tenant).await.unwrap().len(), 1);
    }
    assert!(before.iter().all(|item| after.contains(item)));
    assert_eq!(after.len(), before.len() + erasures.len());
    assert_eq!((ground.objects().len(), letters(&ground).await), (objects, 1));
}
