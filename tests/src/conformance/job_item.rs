//! The job item: conditional writes, and wakes.

use longhaul::outside::fresh_nonce;
use longhaul::store::{JobRef, Store, StoreError, Submit, Woken, Write};
use longhaul_engine::job::{JobWrite, Lease, Mismatch, Progress, Totals, Usage};
use longhaul_engine::{Epoch, Job, JobState, Seq, StepKey};

use crate::sample::{claim, job, later, reference, session, tenant, write};
use crate::stage::Stage;

/// One of each state, with every field that can be there.
#[must_use]
pub fn every_state() -> Vec<JobState> {
    vec![
        JobState::Pending,
        JobState::Processing { lease: Lease { session: session("session-1"), nonce: fresh_nonce() } },
        JobState::Waiting { until: None, seen: Seq(4) },
        JobState::Waiting { until: Some(later(3_600)), seen: Seq(5) },
        JobState::Blocked {
            mismatch: Mismatch {
                step: Some(StepKey::at("", 3)),
                recorded: "step think".to_owned(),
                attempted: "effect \"publish\"".to_owned(),
            },
        },
        JobState::Blocked { mismatch: Mismatch { step: None, recorded: String::new(), attempted: String::new() } },
        JobState::Completed,
        JobState::Failed,
        JobState::Cancelled,
    ]
}

async fn submitted<S: Store>(store: &S) -> Job {
    let job = job();
    assert_eq!(store.submit(&job).await.unwrap(), Submit::Created);
    job
}

async fn stored<S: Store>(store: &S, job: &Job) -> Job {
    store.job(&reference(job)).await.unwrap().expect("the job")
}

/// The job after a write that must go through.
async fn after<S: Store>(store: &S, job: &Job, write: &JobWrite) -> Job {
    let outcome = store.write_job(&reference(job), write).await.unwrap();
    assert_eq!(outcome, Write::Written { wakes: job.wakes });
    let expected = Job { progress: write.progress.clone(), last_write: write.nonce, ..job.clone() };
    let found = stored(store, job).await;
    assert_eq!(Job { sweeps: expected.sweeps, ..found.clone() }, expected);
    found
}

/// From each state to each other nothing of the one before is left.
pub async fn each_state_comes_back<S: Stage>(stage: &S) {
    let store = stage.store();
    for from in every_state() {
        let mut job = submitted(&store).await;
        for to in every_state() {
            for state in [from.clone(), to] {
                let due = (!state.is_terminal()).then(|| later(60));
                let mut write = write(&job, state, due);
                write.progress = Progress {
                    epoch: Epoch(u64::MAX),
                    attempts: 0,
                    tail: Seq(17),
                    totals: Totals { usage: Usage { input_tokens: 1, ..Usage::default() }, steps: 2 },
                    updated_at: later(5),
                    ..write.progress
                };
                job = after(&store, &job, &write).await;
            }
        }
    }
}

/// The refusal brings the job as it stands.
pub async fn a_write_is_refused_when_another_was_first<S: Stage>(stage: &S) {
    let store = stage.store();
    let read = submitted(&store).await;
    let first = claim(&read, "session-1");
    let now = after(&store, &read, &first.write).await;

    let second = claim(&read, "session-2");
    let outcome = store.write_job(&reference(&read), &second.write).await.unwrap();
    assert_eq!(outcome, Write::Refused(Box::new(now.clone())));
    assert_eq!(stored(&store, &read).await, now);
}

/// A repeated write is told that it went through, by its mark: also when the job was woken meanwhile. Once somebody else
/// has written, the echo is refused like any other.
pub async fn a_write_knows_its_own_echo<S: Stage>(stage: &S) {
    let store = stage.store();
    let read = submitted(&store).await;
    let job = reference(&read);
    let claim = claim(&read, "session-1");
    let claimed = after(&store, &read, &claim.write).await;
    assert_eq!(store.write_job(&job, &claim.write).await.unwrap(), Write::Written { wakes: 0 });
    assert_eq!(stored(&store, &read).await, claimed, "nothing changed");

    store.wake(&job, later(1)).await.unwrap();
    assert_eq!(store.write_job(&job, &claim.write).await.unwrap(), Write::Written { wakes: 1 });

    let released =
        after(&store, &stored(&store, &read).await, &write(&claimed, JobState::Pending, Some(later(60)))).await;
    let outcome = store.write_job(&job, &claim.write).await.unwrap();
    assert_eq!(outcome, Write::Refused(Box::new(released)));
}

/// A write that names the wakes does not pass over a signal; one that does not name them learns how many there are.
pub async fn a_write_is_refused_when_a_signal_came<S: Stage>(stage: &S) {
    let store = stage.store();
    let read = submitted(&store).await;
    let job = reference(&read);
    store.wake(&job, later(1)).await.unwrap();
    let now = stored(&store, &read).await;

    let mut wait = write(&read, JobState::Waiting { until: None, seen: Seq(2) }, Some(later(60)));
    wait.wakes = Some(read.wakes);
    assert_eq!(store.write_job(&job, &wait).await.unwrap(), Write::Refused(Box::new(now)));
    wait.wakes = Some(1);
    assert_eq!(store.write_job(&job, &wait).await.unwrap(), Write::Written { wakes: 1 });

    // The mark is compared as well as the count.
    let mut stale = write(&read, JobState::Completed, None);
    stale.wakes = Some(1);
    assert!(matches!(store.write_job(&job, &stale).await.unwrap(), Write::Refused(_)));
    // The count is told to whom does not ask.
    let next = write(&stored(&store, &read).await, JobState::Pending, Some(later(60)));
    assert_eq!(store.write_job(&job, &next).await.unwrap(), Write::Written { wakes: 1 });
}

/// The sweeper's distance grows until somebody looks after the job.
pub async fn a_claim_resets_the_sweeps_and_nothing_else_does<S: Stage>(stage: &S) {
    let store = stage.store();
    let mut read = submitted(&store).await;
    let job = reference(&read);
    let due = read.progress.due.unwrap();
    assert!(store.move_due(&job, due, later(100)).await.unwrap());
    assert!(store.move_due(&job, later(100), later(200)).await.unwrap());
    read = stored(&store, &read).await;
    assert_eq!(read.sweeps, 2);

    for state in every_state() {
        let due = (!state.is_terminal()).then(|| later(200));
        read = after(&store, &read, &write(&read, state, due)).await;
        assert_eq!(read.sweeps, 2, "{:?}", read.progress.state);
    }
    read = after(&store, &read, &write(&read, JobState::Pending, Some(later(200)))).await;
    read = after(&store, &read, &claim(&read, "session-1").write).await;
    assert_eq!(read.sweeps, 0);
}

/// A write makes no item, and none of another tenant's job.
pub async fn a_write_needs_the_item_and_its_owner<S: Stage>(stage: &S) {
    let store = stage.store();
    let unknown = job();
    let write_unknown = write(&unknown, JobState::Completed, None);
    let error = store.write_job(&reference(&unknown), &write_unknown).await.unwrap_err();
    assert!(matches!(error, StoreError::Missing { job } if job == unknown.order.id), "{error}");
    assert_eq!(store.job(&reference(&unknown)).await.unwrap(), None);

    let known = submitted(&store).await;
    let foreign = JobRef { tenant: tenant("other"), job: known.order.id };
    let error = store.write_job(&foreign, &write(&known, JobState::Completed, None)).await.unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    assert_eq!(stored(&store, &known).await, known);
}

/// A signal's count goes up whatever the job does, and nothing else of it changes unless it waits.
pub async fn a_wake_counts_in_every_state<S: Stage>(stage: &S) {
    let store = stage.store();
    let mut job = submitted(&store).await;
    for state in every_state() {
        if matches!(state, JobState::Waiting { .. }) {
            continue;
        }
        let due = (!state.is_terminal()).then(|| later(60));
        job = after(&store, &job, &write(&job, state, due)).await;
        let expected = if job.progress.state.is_terminal() { Woken::Ended } else { Woken::Open };
        assert_eq!(store.wake(&reference(&job), later(1)).await.unwrap(), expected, "{:?}", job.progress.state);
        let woken = stored(&store, &job).await;
        assert_eq!(woken, Job { wakes: job.wakes + 1, ..job });
        job = woken;
    }
}

/// WAITING becomes PENDING and due now; the mark stays, so that a claim decided on the waiting job still fits.
pub async fn a_wake_calls_a_waiting_job_up<S: Stage>(stage: &S) {
    let store = stage.store();
    for until in [None, Some(later(3_600))] {
        let read = submitted(&store).await;
        let job = reference(&read);
        let waiting = write(&read, JobState::Waiting { until, seen: Seq(3) }, Some(later(7_200)));
        let waiting = after(&store, &read, &waiting).await;
        assert_eq!(store.wake(&job, later(9)).await.unwrap(), Woken::Open);
        let woken = stored(&store, &read).await;
        assert_eq!(woken.wakes, 1);
        assert_eq!(woken.last_write, waiting.last_write);
        let expected = Progress {
            state: JobState::Pending,
            due: Some(later(9)),
            updated_at: later(9),
            ..waiting.progress.clone()
        };
        assert_eq!(woken.progress, expected);
        let shard = Job::due_shard(job.job);
        assert!(store.due(shard, later(9), 1_000).await.unwrap().contains(&job), "it is due");
        assert_eq!(
            store.write_job(&job, &claim(&waiting, "session-1").write).await.unwrap(),
            Write::Written { wakes: 1 }
        );
    }
}

/// A wake makes no item, and none of another tenant's job.
pub async fn a_wake_needs_the_item_and_its_owner<S: Stage>(stage: &S) {
    let store = stage.store();
    let unknown = job();
    assert!(matches!(store.wake(&reference(&unknown), later(1)).await, Err(StoreError::Missing { .. })));
    assert_eq!(store.job(&reference(&unknown)).await.unwrap(), None);

    let mut known = submitted(&store).await;
    let foreign = JobRef { tenant: tenant("other"), job: known.order.id };
    for state in every_state() {
        let due = (!state.is_terminal()).then(|| later(60));
        known = after(&store, &known, &write(&known, state, due)).await;
        assert!(matches!(store.wake(&foreign, later(1)).await, Err(StoreError::Missing { .. })));
        assert_eq!(stored(&store, &known).await, known);
    }
}
