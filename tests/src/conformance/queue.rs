//! Continuations and dead letters.

use std::time::Duration;

use longhaul::store::{Continuation, Store};
use tokio::time::Instant;

use crate::sample::{failure, job, reference, session};
use crate::stage::Stage;

/// Both kinds, whole.
pub async fn continuations_come_as_they_were_sent<S: Stage>(stage: &S) {
    let store = stage.store();
    assert!(stage.is_queue_silent().await);
    let jobs = || vec![reference(&job()), reference(&job())];
    let sent = [
        Continuation::job(reference(&job())),
        Continuation::watchdog(session("session-1"), jobs()),
        Continuation::watchdog(session("session-2"), Vec::new()),
    ];
    for continuation in &sent {
        store.send(continuation, Duration::ZERO).await.unwrap();
        assert_eq!(stage.next_message().await, *continuation);
    }
    assert!(stage.is_queue_silent().await, "each came once");
}

/// Not a moment before; parts of a second count as a whole one at most.
pub async fn a_delay_is_kept<S: Stage>(stage: &S) {
    let store = stage.store();
    let continuation = Continuation::job(reference(&job()));
    let sent = Instant::now();
    store.send(&continuation, Duration::from_millis(900)).await.unwrap();
    assert!(stage.is_queue_silent().await);
    assert_eq!(stage.next_message().await, continuation);
    assert!(sent.elapsed() >= Duration::from_millis(900), "it came after {:?}", sent.elapsed());
    assert!(stage.is_queue_silent().await);
}

/// All that its reader needs to find the job.
pub async fn a_dead_letter_names_its_job_and_failure<S: Stage>(stage: &S) {
    let store = stage.store();
    let job = job();
    store.dead_letter(&job, &failure()).await.unwrap();
    assert_eq!(stage.next_dead_letter().await, (reference(&job), failure()));
    assert!(stage.is_queue_silent().await, "it is no continuation by itself");
}
