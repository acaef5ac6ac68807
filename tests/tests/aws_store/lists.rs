//! Lists of jobs.

use std::collections::BTreeMap;

use longhaul::outside::fresh_nonce;
use longhaul::store::Store;
use longhaul_aws::AwsStore;
use longhaul_aws::dynamo::{Cursor, JobFilter, JobPage};
use longhaul_engine::job::Status;
use longhaul_engine::thread::{OnBusy, Thread};
use longhaul_engine::{Job, JobId, JobState};
use longhaul_tests::sample;
use longhaul_tests::sample::{NOW, later, outcomes, reference, tenant, write};
use longhaul_tests::stage::Stage;

use crate::{cost, set_up, submitted};

fn ids(page: &JobPage) -> Vec<JobId> {
    page.jobs.iter().map(|job| job.id).collect()
}

/// All pages of a list, `jobs_max` at a time.
async fn all_pages(store: &AwsStore, owner: &str, filter: &JobFilter, jobs_max: usize) -> Vec<JobId> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = store
            .list_jobs(&tenant(owner), filter, cursor.as_deref().and_then(Cursor::of_jobs), jobs_max)
            .await
            .unwrap();
        assert!(page.jobs.len() <= jobs_max);
        all.extend(ids(&page));
        cursor = page.next;
        if cursor.is_none() {
            return all;
        }
    }
}

#[tokio::test]
async fn a_tenants_jobs_are_listed_newest_first_in_pages() {
    let stage = set_up().await;
    let store = stage.store();
    let mut jobs = Vec::new();
    for seconds in 0..7 {
        jobs.push(
            submitted(&store, "acme", seconds, |job| {
                if seconds % 2 == 0 {
                    job.order.agent.name = "compliance".parse().unwrap();
                    job.order.labels = BTreeMap::from([("team".to_owned(), "red".to_owned())]);
                }
                if seconds % 3 == 0 {
                    job.order.thread = Some(Thread { id: "talk".parse().unwrap(), on_busy: OnBusy::Enqueue });
                }
            })
            .await,
        );
    }
    let foreign = submitted(&store, "other", 3, |_| {}).await;
    let ended = write(&jobs[6], JobState::Completed, None);
    store.write_job(&reference(&jobs[6]), &ended).await.unwrap();
    jobs.reverse();
    // A journal stands in the same partitions and must not show.
    store.append(&reference(&jobs[0]), &outcomes(1, 1)).await.unwrap();

    let every = |keep: fn(usize) -> bool| -> Vec<JobId> {
        jobs.iter().enumerate().filter(|(place, _)| keep(*place)).map(|(_, job)| job.order.id).collect()
    };
    let label = |value: &str| Some(("team".to_owned(), value.to_owned()));
    let none = JobFilter::default;
    for (filter, expected) in [
        (none(), every(|_| true)),
        (JobFilter { agent: Some("compliance".to_owned()), ..none() }, every(|place| place % 2 == 0)),
        (JobFilter { agent: Some("compliance".to_owned()), version: Some(1), ..none() }, every(|place| place % 2 == 0)),
        (JobFilter { agent: Some("compliance".to_owned()), version: Some(2), ..none() }, Vec::new()),
        (JobFilter { label: label("blue"), ..none() }, every(|place| place % 2 == 1)),
        (JobFilter { label: label("green"), ..none() }, Vec::new()),
        (JobFilter { status: Some(Status::Completed), ..none() }, every(|place| place == 0)),
        (JobFilter { status: Some(Status::Pending), label: label("red"), ..none() }, every(|p| p % 2 == 0 && p > 0)),
        (JobFilter { status: Some(Status::Pending), ..none() }, every(|place| place > 0)),
        (JobFilter { status: Some(Status::Failed), ..none() }, Vec::new()),
        (
            JobFilter { status: Some(Status::Completed), agent: Some("compliance".to_owned()), ..none() },
            every(|place| place == 0),
        ),
        (JobFilter { since: Some(later(4)), ..none() }, every(|place| place <= 2)),
        (JobFilter { until: Some(later(4)), ..none() }, every(|place| place > 2)),
        (JobFilter { since: Some(later(2)), until: Some(later(5)), ..none() }, every(|place| (2..=4).contains(&place))),
        (JobFilter { since: Some(later(3)), until: Some(later(3)), ..none() }, Vec::new()),
        (
            JobFilter { label: label("red"), since: Some(later(1)), until: Some(later(6)), ..none() },
            every(|p| p == 2 || p == 4),
        ),
        (JobFilter { thread: Some("talk".to_owned()), ..none() }, every(|place| place % 3 == 0)),
        (JobFilter { thread: Some("talk".to_owned()), label: label("red"), ..none() }, every(|place| place % 6 == 0)),
        (JobFilter { thread: Some("tal".to_owned()), ..none() }, Vec::new()),
        (JobFilter { thread: Some("t".repeat(5_000)), ..none() }, Vec::new()),
        (JobFilter { label: Some(("t".repeat(5_000), "x".to_owned())), ..none() }, Vec::new()),
    ] {
        for jobs_max in [1, 2, 3, 7, 100] {
            assert_eq!(all_pages(&store, "acme", &filter, jobs_max).await, expected, "{filter:?} by {jobs_max}");
        }
    }
    assert_eq!(all_pages(&store, "other", &none(), 10).await, [foreign.order.id]);
    assert_eq!(all_pages(&store, "nobody", &none(), 10).await, []);

    // A cursor of one tenant shows nothing of another.
    let page = store.list_jobs(&tenant("acme"), &none(), None, 2).await.unwrap();
    let page =
        store.list_jobs(&tenant("other"), &none(), page.next.as_deref().and_then(Cursor::of_jobs), 10).await.unwrap();
    assert!(ids(&page).iter().all(|id| *id == foreign.order.id));
    let page = store.list_jobs(&tenant("acme"), &none(), None, 1).await.unwrap();
    assert_eq!(ids(&page), [jobs[0].order.id]);
    assert_eq!(page.jobs[0].status, Status::Completed);
}

/// What no other test looks at: labels whose names and values run into each other, a job that is opened again, and one
/// that is gone before it was made findable.
#[tokio::test]
async fn a_job_is_found_by_what_it_is_and_not_by_what_it_was() {
    let stage = set_up().await;
    let store = stage.store();
    let labelled = |name: &str, value: &str| JobFilter {
        label: Some((name.to_owned(), value.to_owned())),
        ..JobFilter::default()
    };
    let with = |name: &'static str, value: &'static str| {
        move |job: &mut Job| job.order.labels = BTreeMap::from([(name.to_owned(), value.to_owned())])
    };
    let one = submitted(&store, "acme", 0, with("a=b", "c")).await;
    let two = submitted(&store, "acme", 1, with("a", "b=c")).await;
    assert_eq!(all_pages(&store, "acme", &labelled("a=b", "c"), 5).await, [one.order.id]);
    assert_eq!(all_pages(&store, "acme", &labelled("a", "b=c"), 5).await, [two.order.id]);

    let by_status = |status| JobFilter { status: Some(status), ..JobFilter::default() };
    store.write_job(&reference(&one), &write(&one, JobState::Failed, None)).await.unwrap();
    assert_eq!(all_pages(&store, "acme", &by_status(Status::Failed), 5).await, [one.order.id]);
    let failed = store.job(&reference(&one)).await.unwrap().unwrap();
    store.write_job(&reference(&one), &write(&failed, JobState::Pending, Some(NOW))).await.unwrap();
    assert_eq!(all_pages(&store, "acme", &by_status(Status::Failed), 5).await, []);
    assert_eq!(all_pages(&store, "acme", &by_status(Status::Pending), 5).await, [two.order.id, one.order.id]);

    let gone = Job::accepted(sample::order_of("acme"), fresh_nonce());
    store.put_places(&gone.order).await.unwrap();
    store.clients().counts().take();
    store.forget(gone.order.id).await.unwrap();
    cost(&store, "nothing is left to remove", &[("GetItem", 1), ("ListObjectsV2", 1), ("Query", 2)]);
}

/// One answer costs a bounded number of calls, however many jobs there are that it does not show.
#[tokio::test]
async fn a_list_looks_at_a_bounded_number_of_jobs() {
    let stage = set_up().await;
    let store = stage.store();
    for seconds in 0..1_050 {
        submitted(&store, "acme", seconds, |_| {}).await;
    }
    let blocked = JobFilter { status: Some(Status::Blocked), ..JobFilter::default() };
    store.clients().counts().take();
    let page = store.list_jobs(&tenant("acme"), &blocked, None, 1).await.unwrap();
    cost(&store, "a list that finds nothing", &[("BatchGetItem", 10), ("Query", 10)]);
    assert!(page.jobs.is_empty());
    let next = page.next.as_deref().and_then(Cursor::of_jobs);
    assert!(next.is_some(), "and says where to go on");
    let page = store.list_jobs(&tenant("acme"), &blocked, next, 1).await.unwrap();
    assert_eq!((page.jobs.len(), page.next), (0, None));
    store.clients().counts().take();
    let page = store.list_jobs(&tenant("acme"), &JobFilter::default(), None, 20).await.unwrap();
    assert_eq!(page.jobs.len(), 20);
    cost(&store, "a list that finds at once", &[("BatchGetItem", 1), ("Query", 1)]);
}

#[tokio::test]
async fn failed_jobs_are_listed_until_they_are_replayed() {
    let stage = set_up().await;
    let store = stage.store();
    let mut failed = Vec::new();
    for seconds in [30, 10, 20] {
        let read = submitted(&store, "acme", 0, |_| {}).await;
        let mut write = write(&read, JobState::Failed, None);
        write.progress.updated_at = later(seconds);
        store.write_job(&reference(&read), &write).await.unwrap();
        failed.push((seconds, read));
    }
    submitted(&store, "acme", 0, |_| {}).await;
    failed.sort_by_key(|(seconds, _)| std::cmp::Reverse(*seconds));
    let expected: Vec<JobId> = failed.iter().map(|(_, job)| job.order.id).collect();

    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page =
            store.dead_letters(&tenant("acme"), cursor.as_deref().and_then(Cursor::of_dead_letters), 1).await.unwrap();
        found.extend(ids(&page));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, expected);
    assert_eq!(ids(&store.dead_letters(&tenant("other"), None, 10).await.unwrap()), []);

    let reopened = reference(&failed[1].1);
    let stored = store.job(&reopened).await.unwrap().unwrap();
    store.write_job(&reopened, &write(&stored, JobState::Pending, Some(later(60)))).await.unwrap();
    assert_eq!(ids(&store.dead_letters(&tenant("acme"), None, 10).await.unwrap()), [expected[0], expected[2]]);
}
