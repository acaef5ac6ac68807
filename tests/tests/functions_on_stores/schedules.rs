//! Schedules fire: one job a time, however many sweepers look and wherever they die; what goes wrong is seen.

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use longhaul::engine::erasure::Stage;
use longhaul::engine::{Erasure, ErasureId, JobId, TenantId, Timestamp};
use longhaul::outside::fresh_nonce;
use longhaul::store::{JobRef, Store};
use longhaul_aws::AwsStore;
use longhaul_aws::dynamo::Schedule;
use longhaul_sweeper::{Eraser, Fired, fire};
use longhaul_wire::schedules::{FiringView, ScheduleRequest};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::ground::{Ground, now};

const MINUTE: Duration = Duration::from_secs(60);
const NONE: Fired = Fired { submitted: 0, refused: 0, failed: 0 };
const ONE: Fired = Fired { submitted: 1, ..NONE };

/// 2026-11-30, 09:00 UTC.
const NINE: Timestamp = Timestamp::from_millis(1_796_029_200_000);

fn acme() -> TenantId {
    "acme".parse().unwrap()
}

/// Saves a schedule of every hour that is due at nine.
async fn save(ground: &Ground, name: &str, job: &Value) -> Schedule {
    let mut whole = json!({ "agent": "ten@1" });
    whole.as_object_mut().unwrap().extend(job.as_object().unwrap().clone());
    let request: ScheduleRequest = serde_json::from_value(json!({ "cron": "0 * * * *", "job": whole })).unwrap();
    let schedule = Schedule {
        tenant: acme(),
        name: name.parse().unwrap(),
        request: serde_json::to_string(&request).unwrap(),
        next: Some(NINE),
        again: None,
        last: None,
        changed_at: NINE,
        changed_by: "ada".to_owned(),
        mark: fresh_nonce(),
    };
    assert!(ground.store.write_schedule(&schedule, None).await.unwrap());
    schedule
}

async fn stands(ground: &Ground, schedule: &Schedule) -> Schedule {
    ground.store.schedule(&schedule.tenant, &schedule.name).await.unwrap().unwrap()
}

async fn last(ground: &Ground, schedule: &Schedule) -> FiringView {
    serde_json::from_str(&stands(ground, schedule).await.last.expect("a firing")).unwrap()
}

/// All jobs of the tenant.
async fn jobs(ground: &Ground) -> BTreeSet<JobId> {
    let (jobs, next) = ground.store.tenant_jobs(&acme(), None, 100).await.unwrap();
    assert!(next.is_none());
    jobs.into_iter().collect()
}

fn of(schedule: &Schedule, time: Timestamp) -> JobId {
    JobId::of_schedule(&schedule.tenant, &schedule.name, time)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_that_has_come_submits_one_job() {
    let ground = Ground::lay().await;
    let input = json!({ "text": "large ".repeat(2_000) });
    let schedule = save(&ground, "hourly", &json!({ "input": input, "labels": { "by": "clock" } })).await;
    assert_eq!(fire(&ground.store, Timestamp::from_millis(NINE.as_millis() - 1)).await.unwrap(), NONE);
    let looked = NINE.plus(MINUTE / 2);
    assert_eq!(fire(&ground.store, looked).await.unwrap(), ONE);
    assert_eq!(jobs(&ground).await, BTreeSet::from([of(&schedule, NINE)]));
    let job = ground.job(&JobRef { tenant: acme(), job: of(&schedule, NINE) }).await;
    assert_eq!((job.order.input, job.order.submitted_by.as_str()), (input, "schedule:hourly"));
    assert_eq!((job.order.submitted_at, ground.depth().await.visible), (looked, 1), "and a worker is called");

    let after = stands(&ground, &schedule).await;
    assert_eq!((after.next, after.again), (Some(NINE.plus(60 * MINUTE)), None));
    assert_eq!(last(&ground, &schedule).await, FiringView::new(NINE, looked, Ok(of(&schedule, NINE))));
    assert_eq!(fire(&ground.store, looked).await.unwrap(), NONE, "and not again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweepers_at_the_same_time_submit_one_job() {
    let ground = Ground::lay().await;
    let mut schedules = Vec::new();
    for number in 0..5 {
        schedules.push(save(&ground, &format!("s{number}"), &json!({})).await);
    }
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(ground.store_with(&[]).await);
    }
    // Each has its own clock, and so its own moment of submission.
    let looks = others.iter().zip(1..).map(|(store, late)| fire(store, NINE.plus(Duration::from_secs(late))));
    for fired in futures::future::join_all(looks).await {
        assert_eq!(fired.unwrap().failed, 0);
    }
    assert_eq!(jobs(&ground).await, schedules.iter().map(|schedule| of(schedule, NINE)).collect());
    for schedule in &schedules {
        assert_eq!(stands(&ground, schedule).await.next, Some(NINE.plus(60 * MINUTE)));
        assert_eq!(last(&ground, schedule).await.job, Some(of(schedule, NINE)));
    }
}

/// A sweeper dies at each of its calls in turn; the next one finishes, and there is one job. On one thread, so that no call
/// is answered before the look has let go of it.
#[tokio::test]
async fn a_sweeper_that_dies_submits_no_second_job() {
    let ground = Ground::lay().await;
    for polls in 1.. {
        let schedule = save(&ground, &format!("dies-at-{polls}"), &json!({ "thread": format!("t{polls}") })).await;
        let whole = {
            let mut look = pin!(fire(&ground.store, NINE));
            let mut left = polls;
            std::future::poll_fn(|context| match look.as_mut().poll(context) {
                Poll::Ready(fired) => Poll::Ready(Some(fired)),
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => {
                    left -= 1;
                    Poll::Pending
                }
            })
            .await
        };
        let next = fire(&ground.store, NINE.plus(MINUTE)).await.unwrap();
        assert_eq!(next.failed, 0);
        assert!(jobs(&ground).await.contains(&of(&schedule, NINE)));
        assert_eq!(jobs(&ground).await.len(), polls, "one each");
        assert_eq!(last(&ground, &schedule).await.job, Some(of(&schedule, NINE)));
        if whole.is_some() {
            assert!(polls > 4, "it died in the middle before: {polls}");
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_night_without_sweepers_fires_once() {
    let ground = Ground::lay().await;
    let schedule = save(&ground, "hourly", &json!({})).await;
    let morning = NINE.plus(21 * 60 * MINUTE);
    assert_eq!(fire(&ground.store, morning.plus(MINUTE)).await.unwrap(), ONE);
    assert_eq!(jobs(&ground).await, BTreeSet::from([of(&schedule, morning)]), "as the latest");
    assert_eq!(stands(&ground, &schedule).await.next, Some(morning.plus(60 * MINUTE)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_thread_says_what_happens_while_the_last_job_runs() {
    let ground = Ground::lay().await;
    let job = |on_busy: &str| json!({ "thread": on_busy, "on_busy": on_busy });
    let rejects = save(&ground, "rejects", &job("reject")).await;
    let waits = save(&ground, "waits", &job("enqueue")).await;
    assert_eq!(fire(&ground.store, NINE).await.unwrap(), Fired { submitted: 2, ..NONE });
    let ten = NINE.plus(60 * MINUTE);
    assert_eq!(fire(&ground.store, ten).await.unwrap(), Fired { submitted: 1, refused: 1, failed: 0 });
    let refused = last(&ground, &rejects).await;
    assert_eq!(refused.job, None);
    let why = refused.error.unwrap();
    assert!(why.contains(&of(&rejects, NINE).to_string()), "{why}");
    assert_eq!(stands(&ground, &rejects).await.next, Some(ten.plus(60 * MINUTE)), "the next time is another one");
    assert_eq!(last(&ground, &waits).await.job, Some(of(&waits, ten)));
    assert_eq!(jobs(&ground).await.len(), 3);
}

/// A firing is held to its tenant's limits like a caller, and comes when there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_firing_waits_for_room() {
    let ground = Ground::lay().await;
    let limits = json!({ "submissions_per_second": 1, "submissions_burst": 1 }).to_string();
    let store = ground.store_with(&[("LONGHAUL_TENANT_LIMITS", limits)]).await;
    let first = save(&ground, "first", &json!({})).await;
    assert_eq!(fire(&store, NINE).await.unwrap(), ONE);
    let second = save(&ground, "second", &json!({})).await;
    assert_eq!(fire(&store, NINE).await.unwrap(), Fired { refused: 1, ..NONE });
    let why = last(&ground, &second).await.error.unwrap();
    assert!(why.contains("`submissions_per_second` of 1") && why.contains("tried again"), "{why}");
    let waits = stands(&ground, &second).await;
    assert_eq!((waits.next, waits.again), (Some(NINE), Some(NINE.plus(MINUTE))));
    // Until then it is in nobody's way.
    assert_eq!(fire(&store, NINE.plus(MINUTE / 2)).await.unwrap(), NONE);
    assert_eq!(fire(&store, NINE.plus(MINUTE)).await.unwrap(), ONE);
    assert_eq!(jobs(&ground).await, BTreeSet::from([of(&first, NINE), of(&second, NINE)]));
    let used = store.used(&acme(), NINE.plus(MINUTE)).await.unwrap();
    assert_eq!(used.open, 2, "both are in the book");
}

/// What its owner writes while it fires holds, and the firing is told all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_its_owner_says_meanwhile_holds() {
    let ground = Ground::lay().await;
    let schedule = save(&ground, "hourly", &json!({})).await;
    let owner = ground.store_with(&[]).await;
    let mut paused = None;
    let fired = {
        let mut look = pin!(fire(&ground.store, NINE));
        loop {
            tokio::select! {
                biased;
                // As soon as the job stands, its owner comes in between.
                () = pause_once_submitted(&owner, &schedule, &mut paused), if paused.is_none() => {}
                fired = look.as_mut() => break fired.unwrap(),
            }
        }
    };
    assert_eq!(fired, ONE);
    if paused.is_none() {
        pause_once_submitted(&owner, &schedule, &mut paused).await;
    }
    let after = stands(&ground, &schedule).await;
    assert_eq!((after.next, after.changed_by.as_str()), (None, "owner"));
    assert_eq!(last(&ground, &schedule).await.job, Some(of(&schedule, NINE)));
    // One that is removed meanwhile is not made anew.
    assert!(ground.store.remove_schedule(&acme(), &schedule.name).await.unwrap().is_some());
    assert_eq!(fire(&ground.store, NINE.plus(120 * MINUTE)).await.unwrap(), NONE);
}

async fn pause_once_submitted(owner: &AwsStore, schedule: &Schedule, paused: &mut Option<()>) {
    let job = JobRef { tenant: acme(), job: of(schedule, NINE) };
    while owner.job(&job).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let found = owner.schedule(&acme(), &schedule.name).await.unwrap().unwrap();
    let by_owner = Schedule { next: None, changed_by: "owner".to_owned(), mark: fresh_nonce(), ..found.clone() };
    if owner.write_schedule(&by_owner, Some(found.mark)).await.unwrap() {
        *paused = Some(());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_cannot_be_read_holds_up_no_other() {
    let ground = Ground::lay().await;
    let spoiled = save(&ground, "a-first", &json!({})).await;
    let written = Schedule { request: "{}".to_owned(), mark: fresh_nonce(), ..spoiled.clone() };
    assert!(ground.store.write_schedule(&written, Some(spoiled.mark)).await.unwrap());
    let other = save(&ground, "b-second", &json!({})).await;
    assert_eq!(fire(&ground.store, NINE).await.unwrap(), Fired { submitted: 1, refused: 1, failed: 0 });
    assert_eq!(jobs(&ground).await, BTreeSet::from([of(&other, NINE)]));
    // A later version may have given what it lacks another form: it waits for that one, and says so.
    let told = last(&ground, &spoiled).await;
    assert!(told.error.as_deref().is_some_and(|error| error.contains("cannot be read by this version")), "{told:?}");
    assert_eq!(stands(&ground, &spoiled).await.request, "{}");
    assert_eq!(fire(&ground.store, NINE.plus(MINUTE)).await.unwrap(), NONE);
    assert!(fire(&ground.deaf_store().await, NINE).await.is_err());
}

/// What a later version has added to one keeps it from nothing; one whose very item cannot be read is met again behind the
/// others, removed like any, and said to be there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_later_version_saved_fires_or_waits_for_it() {
    let ground = Ground::lay().await;
    let more = save(&ground, "more", &json!({})).await;
    let mut request: Value = serde_json::from_str(&more.request).unwrap();
    request["holidays"] = json!("DE-BE");
    request["job"]["room"] = json!("quiet");
    let written = Schedule { request: request.to_string(), mark: fresh_nonce(), ..more.clone() };
    assert!(ground.store.write_schedule(&written, Some(more.mark)).await.unwrap());
    let newer = save(&ground, "a-newer", &json!({})).await;
    let spoilt = save(&ground, "b-spoilt", &json!({})).await;
    ground.change(("TENANT#acme", "SCHEDULE#a-newer"), "v", json!({ "N": "99" })).await;
    ground.change(("TENANT#acme", "SCHEDULE#b-spoilt"), "last_write", json!({ "N": "7" })).await;

    assert_eq!(fire(&ground.store, NINE).await.unwrap(), Fired { submitted: 1, refused: 0, failed: 2 });
    assert_eq!(jobs(&ground).await, BTreeSet::from([of(&more, NINE)]));
    assert_eq!(stands(&ground, &more).await.request, request.to_string(), "nothing of it is lost");
    // Behind whatever is due by then, and there every minute for whoever runs this to see.
    assert_eq!(fire(&ground.store, NINE.plus(MINUTE / 2)).await.unwrap(), NONE);
    assert_eq!(fire(&ground.store, NINE.plus(MINUTE)).await.unwrap(), Fired { failed: 2, ..NONE });
    let due = ground.store.due_schedules(NINE.plus(2 * MINUTE), 10).await.unwrap();
    assert_eq!(due.len(), 2, "{due:?}");

    let listed = ground.store.schedules(&acme()).await.unwrap();
    let names: Vec<_> =
        listed.into_iter().map(|one| one.map_or_else(|one| one.name, |one| one.name.to_string())).collect();
    assert_eq!(names, ["a-newer", "b-spoilt", "more"]);
    for schedule in [&newer, &spoilt] {
        let removed = ground.store.remove_schedule(&acme(), &schedule.name).await.unwrap();
        assert!(removed.is_some_and(|removed| removed.is_err()));
        ground.store.set_schedule_aside(&acme(), &schedule.name, NINE.plus(3 * MINUTE)).await.unwrap();
        assert_eq!(ground.store.schedule(&acme(), &schedule.name).await.unwrap(), None, "setting aside makes nothing");
    }
    assert_eq!(fire(&ground.store, NINE.plus(2 * MINUTE)).await.unwrap(), NONE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_go_with_their_tenant() {
    let ground = Ground::lay().await;
    let schedule = save(&ground, "hourly", &json!({})).await;
    let id = ErasureId::from_uuid(Uuid::now_v7());
    ground.store.begin_erasure(&Erasure::asked(id, acme(), "ada".to_owned(), now())).await.unwrap();
    assert_eq!(fire(&ground.store, NINE).await.unwrap(), Fired { refused: 1, ..NONE });
    assert_eq!(Eraser::new(&ground.store, MINUTE).sweep_of(&[acme()]).await.failed, 0);
    let erasure = ground.store.erasure_under_way(&acme()).await.unwrap();
    assert!(erasure.is_none_or(|stored| stored.erasure.stage != Stage::Jobs));
    assert_eq!(ground.store.schedule(&acme(), &schedule.name).await.unwrap(), None);
    assert_eq!(fire(&ground.store, NINE.plus(120 * MINUTE)).await.unwrap(), NONE);
    assert!(jobs(&ground).await.is_empty());
}
