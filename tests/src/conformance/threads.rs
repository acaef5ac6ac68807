//! A thread's line is written by one at a time, and a job of a thread is stored with its place or not at all.

use longhaul::outside::fresh_nonce;
use longhaul::store::{InLine, LineWritten, Store, Submit, ThreadRef};
use longhaul_engine::Job;
use longhaul_engine::thread::{Line, LineWrite, OnBusy, Place, Thread};
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::sample::{NOW, job_of, reference, tenant};
use crate::stage::Stage;

/// How many race.
const RACERS: usize = 8;

/// A thread nobody has heard of before.
fn thread() -> ThreadRef {
    ThreadRef { tenant: tenant("acme"), thread: Uuid::new_v4().to_string().parse().unwrap() }
}

/// A job of it.
fn job_in(thread: &ThreadRef) -> Job {
    let mut job = job_of("acme");
    job.order.thread = Some(Thread { id: thread.thread.clone(), on_busy: OnBusy::Enqueue });
    job
}

/// What puts a job behind those of a line.
fn behind(line: &Line, job: &Job) -> LineWrite {
    let mut places = line.places.clone();
    places.push(Place::of_new(job.order.id));
    LineWrite { nonce: fresh_nonce(), at: NOW, mark: line.mark, places }
}

fn stored(write: &LineWrite) -> Line {
    Line { places: write.places.clone(), mark: Some(write.nonce) }
}

/// Both are there, or neither; and the job is like any other.
pub async fn a_job_and_its_place_are_stored_together<S: Stage>(stage: &S) {
    let (store, thread) = (stage.store(), thread());
    assert_eq!(store.line(&thread).await.unwrap(), Line::default());
    let (first, second) = (job_in(&thread), job_in(&thread));
    let write = behind(&Line::default(), &first);
    assert_eq!(store.submit_in_line(&first, &thread, &write).await.unwrap(), InLine::Submit(Submit::Created));
    assert_eq!(store.line(&thread).await.unwrap(), stored(&write));
    assert_eq!(store.job(&reference(&first)).await.unwrap(), Some(first.clone()));

    // Behind a line as it was.
    let late = behind(&Line::default(), &second);
    assert_eq!(store.submit_in_line(&second, &thread, &late).await.unwrap(), InLine::Refused(stored(&write)));
    assert_eq!(store.job(&reference(&second)).await.unwrap(), None);
    let mut later = behind(&stored(&write), &second);
    later.mark = Some(fresh_nonce());
    assert_eq!(store.submit_in_line(&second, &thread, &later).await.unwrap(), InLine::Refused(stored(&write)));

    // A job that is there already: its own echo, or another submission under its id.
    let echo = store.submit_in_line(&first, &thread, &write).await.unwrap();
    assert_eq!(echo, InLine::Submit(Submit::Exists(Box::new(first.clone()))));
    let mut other = first.clone();
    other.order.input = json!("something else");
    let again = store.submit_in_line(&other, &thread, &behind(&stored(&write), &other)).await.unwrap();
    assert_eq!(again, InLine::Submit(Submit::Exists(Box::new(first))));
    assert_eq!(store.line(&thread).await.unwrap(), stored(&write), "no place is taken for it");
}

/// Also when it is empty, and it is another tenant's line under the same id.
pub async fn a_line_is_written_as_it_was_read<S: Stage>(stage: &S) {
    let (store, thread) = (stage.store(), thread());
    let job = job_in(&thread);
    let first = behind(&Line::default(), &job);
    assert_eq!(store.write_line(&thread, &first).await.unwrap(), LineWritten::Written);
    assert_eq!(store.write_line(&thread, &first).await.unwrap(), LineWritten::Written, "its own echo");
    let foreign = ThreadRef { tenant: tenant("other"), ..thread.clone() };
    assert_eq!(store.line(&foreign).await.unwrap(), Line::default());

    let empty = LineWrite { nonce: fresh_nonce(), at: NOW, mark: Some(first.nonce), places: Vec::new() };
    assert_eq!(store.write_line(&thread, &empty).await.unwrap(), LineWritten::Written);
    assert_eq!(store.line(&thread).await.unwrap().places, []);
    for mark in [None, Some(first.nonce)] {
        let late = LineWrite { mark, ..behind(&Line::default(), &job) };
        assert_eq!(store.write_line(&thread, &late).await.unwrap(), LineWritten::Refused(stored(&empty)));
    }
}

/// Each has a place in the end, and each place was told to one.
pub async fn many_submissions_take_a_place_each<S: Stage>(stage: &S) {
    let thread = thread();
    let mut racers = JoinSet::new();
    for _ in 0..RACERS {
        let (store, thread) = (stage.store(), thread.clone());
        racers.spawn(async move {
            let job = job_in(&thread);
            let mut line = store.line(&thread).await.unwrap();
            loop {
                match store.submit_in_line(&job, &thread, &behind(&line, &job)).await.unwrap() {
                    InLine::Submit(Submit::Created) => return job.order.id,
                    InLine::Submit(Submit::Exists(_)) => panic!("nobody else has its id"),
                    InLine::Refused(found) => line = found,
                }
            }
        });
    }
    let mut jobs = racers.join_all().await;
    let mut places: Vec<_> = stage.store().line(&thread).await.unwrap().places.iter().map(|place| place.job).collect();
    jobs.sort();
    places.sort();
    assert_eq!(places, jobs);
}
