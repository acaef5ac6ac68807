//! The due index, due times, and sessions.

use longhaul::store::{JobRef, Store};
use longhaul_engine::{Job, JobState, Seq, limits};

use crate::sample::{job, later, reference, session, tenant, write};
use crate::stage::Stage;

async fn due_at<S: Store>(store: &S, seconds: u64) -> Job {
    let mut job = job();
    job.progress.due = Some(later(seconds));
    store.submit(&job).await.unwrap();
    job
}

/// All jobs that are due up to `seconds`, over all shards.
async fn all_due<S: Store>(store: &S, seconds: u64) -> Vec<JobRef> {
    let mut all = Vec::new();
    for shard in 0..limits::DUE_SHARDS {
        let jobs = store.due(shard, later(seconds), 1_000).await.unwrap();
        assert!(jobs.iter().all(|job| Job::due_shard(job.job) == shard), "each in its own shard");
        all.extend(jobs);
    }
    all
}

/// Earliest first, the time itself included, no more than asked for.
pub async fn due_jobs_are_listed_by_shard_time_and_number<S: Stage>(stage: &S) {
    let store = stage.store();
    let mut jobs = Vec::new();
    for seconds in [50, 10, 40, 20, 30, 60, 70, 80, 90, 100, 110, 120] {
        jobs.push((seconds, reference(&due_at(&store, seconds).await)));
    }
    jobs.sort();
    for shard in 0..limits::DUE_SHARDS {
        let here: Vec<_> = jobs.iter().filter(|(_, job)| Job::due_shard(job.job) == shard).collect();
        for until in [0, 9, 10, 50, 55, 120] {
            for jobs_max in [1, 2, 1_000] {
                let expected: Vec<JobRef> = here
                    .iter()
                    .filter(|(seconds, _)| *seconds <= until)
                    .take(jobs_max)
                    .map(|(_, job)| job.clone())
                    .collect();
                let found = store.due(shard, later(until), jobs_max).await.unwrap();
                assert_eq!(found, expected, "shard {shard}, until {until}, at most {jobs_max}");
            }
        }
    }
}

/// What has ended needs no looking after: not even a failed job, though it is found elsewhere.
pub async fn a_job_leaves_the_list_when_it_ends_and_comes_back_when_it_is_reopened<S: Stage>(stage: &S) {
    let store = stage.store();
    for state in [JobState::Completed, JobState::Failed, JobState::Cancelled] {
        let mut read = due_at(&store, 10).await;
        let job = reference(&read);
        assert!(all_due(&store, 10).await.contains(&job));
        for (state, due) in [(state, None), (JobState::Pending, Some(later(20)))] {
            let write = write(&read, state, due);
            store.write_job(&job, &write).await.unwrap();
            read = store.job(&job).await.unwrap().unwrap();
            assert_eq!(read.progress.due, due);
            assert_eq!(all_due(&store, 1_000_000).await.contains(&job), due.is_some(), "{:?}", read.progress.state);
        }
    }
}

/// Of two sweepers that saw the same time one moves it; the same move again does no harm.
pub async fn a_due_time_moves_once<S: Stage>(stage: &S) {
    let store = stage.store();
    let read = due_at(&store, 10).await;
    let job = reference(&read);
    assert!(store.move_due(&job, later(10), later(70)).await.unwrap());
    assert!(store.move_due(&job, later(10), later(70)).await.unwrap(), "its own echo");
    assert!(!store.move_due(&job, later(10), later(80)).await.unwrap(), "another sweeper, later");
    let moved = store.job(&job).await.unwrap().unwrap();
    assert_eq!((moved.progress.due, moved.sweeps), (Some(later(70)), 1));
    assert_eq!(moved.last_write, read.last_write, "a claim decided before still fits");
    assert!(!all_due(&store, 69).await.contains(&job));
    assert!(all_due(&store, 70).await.contains(&job));

    let foreign = JobRef { tenant: tenant("other"), job: job.job };
    assert!(!store.move_due(&foreign, later(70), later(80)).await.unwrap());
    assert!(!store.move_due(&reference(&self::job()), later(70), later(80)).await.unwrap(), "no such job");

    // The time of a failure is no due time, though a store may keep both in one place.
    let mut failed = write(&moved, JobState::Failed, None);
    failed.progress.updated_at = later(75);
    failed.progress.tail = Seq(2);
    store.write_job(&job, &failed).await.unwrap();
    assert!(!store.move_due(&job, later(75), later(90)).await.unwrap());
    assert!(!store.move_due(&job, later(90), later(75)).await.unwrap());
    assert_eq!(store.job(&job).await.unwrap().unwrap().progress.due, None);
}

/// A session is known from its first heartbeat to its end.
pub async fn sessions_beat_and_end<S: Stage>(stage: &S) {
    let store = stage.store();
    let (one, other) = (session("session-1"), session("session-2"));
    assert_eq!(store.last_beat(&one).await.unwrap(), None);
    store.end_session(&one).await.unwrap();
    for seconds in [1, 6, 11] {
        store.beat(&one, later(seconds)).await.unwrap();
        assert_eq!(store.last_beat(&one).await.unwrap(), Some(later(seconds)));
    }
    store.beat(&other, later(3)).await.unwrap();
    store.end_session(&one).await.unwrap();
    assert_eq!(store.last_beat(&one).await.unwrap(), None);
    assert_eq!(store.last_beat(&other).await.unwrap(), Some(later(3)));
}
