//! A worker stands still for longer than its lease, as a frozen sandbox does, and then goes on as if nothing had been.

use std::fs;

use longhaul::store::JobRef;
use longhaul_engine::Entry;
use longhaul_local::soak::books::Books;
use longhaul_tests::program::wait_for;

use crate::field::{Field, signal};

/// Jobs that the stopped workers hold.
const JOBS: usize = 3;

/// Entries of a kind in each of the jobs.
fn counts(field: &Field, books: &Books, jobs: &[JobRef], such: fn(&Entry) -> bool) -> Vec<usize> {
    jobs.iter()
        .map(|job| {
            let journal = field.ask(books.of_job(job, Default::default())).unwrap().journal;
            journal.iter().flat_map(|batch| &batch.entries).filter(|entry| such(entry)).count()
        })
        .collect()
}

#[test]
fn a_worker_that_wakes_behind_another_claim_does_nothing_more() {
    // Steps take 1.5 s and jobs 24 s, so that the woken worker wakes in the midst of the other's work.
    let mut field = Field::up(&["--think-ms", "1500", "--workers", "8"]);
    let log = field.stack.data().join("logs/worker.log");
    let mut stopped = 0;
    let addresses = field.addresses();
    field.load(JOBS, 16, |stack, _over| {
        // This thread's own eyes: the load has the field.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let books = runtime.block_on(Books::open(&addresses)).unwrap();
        let open = || runtime.block_on(books.open_jobs()).unwrap();
        wait_for("all jobs", || open().len() == JOBS);
        let jobs = open();
        let count = |such: fn(&Entry) -> bool| -> Vec<usize> {
            let of = |job: &JobRef| runtime.block_on(books.of_job(job, Default::default())).unwrap().journal;
            let matching = |job| of(job).iter().flat_map(|batch| &batch.entries).filter(|entry| such(entry)).count();
            jobs.iter().map(matching).collect()
        };
        let claimed = |entry: &Entry| matches!(entry, Entry::Claimed { .. });
        wait_for("a step of each job", || {
            count(|entry| matches!(entry, Entry::StepCompleted { .. })).iter().all(|steps| *steps >= 1)
        });
        let workers = stack.processes("worker");
        for pid in &workers {
            assert!(signal(*pid, "STOP"));
        }
        stopped = workers.len();
        // By nothing but time: the stack sees no death, the sessions are silent, the watchdog comes.
        wait_for("other workers to claim all jobs", || count(claimed).iter().all(|claims| *claims >= 2));
        for pid in &workers {
            assert!(signal(*pid, "CONT"));
        }
    });
    let books = field.books();
    let jobs: Vec<JobRef> =
        field.accepted.keys().map(|job| JobRef { tenant: "local".parse().unwrap(), job: *job }).collect();
    // Each woken worker has met the claim of the other and has said so.
    let fenced = || fs::read_to_string(&log).unwrap_or_default().matches("claimed by another session").count();
    wait_for("the woken workers to stop", || fenced() >= JOBS);
    let verdict = field.audit();
    println!("{stopped} workers stopped, {} effects asked for again", verdict.asked_again);
    let claims = counts(&field, &books, &jobs, |entry| matches!(entry, Entry::Claimed { .. }));
    assert_eq!(claims, vec![2; JOBS], "one takeover each: nobody fought over the jobs");
    assert!(verdict.asked_again <= JOBS as u64, "a fenced worker runs one effect more, never two");
    // No outcome behind the second claim is the first worker's: all began after it.
    for job in &jobs {
        let journal = field.ask(books.of_job(job, Default::default())).unwrap().journal;
        let mut last_claim = None;
        for batch in &journal {
            for entry in &batch.entries {
                match entry {
                    Entry::Claimed { .. } => last_claim = Some(batch.written_at),
                    Entry::StepCompleted { id, started_at, .. } => {
                        assert!(Some(*started_at) >= last_claim, "{}: step {} is the fenced worker's", job.job, id.key);
                    }
                    _ => {}
                }
            }
        }
    }
}
