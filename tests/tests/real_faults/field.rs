//! A stack under load, somebody who harms it, and the auditor.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use longhaul::store::JobRef;
use longhaul_engine::{Batch, Entry, JobId, JobState, TenantId};
use longhaul_local::soak::audit::{Expected, Finding, JobBooks};
use longhaul_local::soak::books::{Books, BooksError, Verdict};
use longhaul_local::soak::load::Load;
use longhaul_local::stack::Addresses;
use longhaul_tests::program::Stack;
use serde_json::{Value, json};

/// How long a load may take from its first submission to its last job's end: what a message may need that was lost more
/// than once, and for each job what the debug build needs on two cores that others use as well.
const LOAD_PATIENCE: Duration = Duration::from_secs(600);
const JOB_PATIENCE: Duration = Duration::from_secs(8);
/// How long the queue may take to run empty after that: watchdogs come 25 s after their invocation, and what was lost in
/// flight comes back when its visibility ends.
const REST_PATIENCE: Duration = Duration::from_secs(300);
/// Submissions under way at once.
const SUBMISSIONS_AT_ONCE: usize = 4;
/// How often the open jobs are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Steps of each job; each asks the model once and records a kilobyte.
const STEPS: u64 = 10;

/// The seed of this run.
pub(crate) fn seed() -> u64 {
    std::env::var("LONGHAUL_SEED").ok().map_or(1, |seed| seed.parse().expect("LONGHAUL_SEED is a number"))
}

/// How many jobs a load has: as many as the run was told, or as few as fit into `make test`.
pub(crate) fn jobs(few: usize) -> usize {
    std::env::var("LONGHAUL_LOAD_JOBS").ok().map_or(few, |jobs| jobs.parse().expect("LONGHAUL_LOAD_JOBS is a number"))
}

/// A stack, and what it has accepted.
pub(crate) struct Field {
    pub(crate) stack: Stack,
    runtime: tokio::runtime::Runtime,
    pub(crate) accepted: BTreeMap<JobId, Expected>,
}

impl Field {
    /// Starts a stack whose model answers at once.
    pub(crate) fn up(arguments: &[&str]) -> Self {
        Self {
            stack: Stack::up(arguments),
            runtime: tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(),
            accepted: BTreeMap::new(),
        }
    }

    pub(crate) fn addresses(&self) -> Addresses {
        serde_json::from_slice(&fs::read(self.stack.data().join("stack.json")).unwrap()).unwrap()
    }

    pub(crate) fn books(&self) -> Books {
        self.runtime.block_on(Books::open(&self.addresses())).unwrap()
    }

    /// Asks the stack's books something.
    pub(crate) fn ask<T>(&self, question: impl Future<Output = T>) -> T {
        self.runtime.block_on(question)
    }

    /// Submits jobs while `harm` is done in another thread, until all have ended. The harm goes on until then.
    pub(crate) fn load(&mut self, count: usize, steps: u64, harm: impl FnOnce(&Stack, &AtomicBool) + Send) {
        let tenant: TenantId = "local".parse().unwrap();
        let input = json!({"steps": steps, "bytes": 1024});
        let (url, token) = (self.stack.address("api"), self.stack.token("local"));
        let load = Load::new(&url, &token, tenant, "agent-10", &input);
        let books = self.books();
        let over = Arc::new(AtomicBool::new(false));
        let began = Instant::now();
        let patience = LOAD_PATIENCE + JOB_PATIENCE * u32::try_from(count).unwrap();
        let accepted = std::thread::scope(|scope| {
            let (stack, harmed) = (&self.stack, Arc::clone(&over));
            scope.spawn(move || harm(stack, &harmed));
            // Also when this thread panics: the other must not harm for ever.
            let _stop = StopHarm(Arc::clone(&over));
            let submitted = stream::iter(0..count).map(|number| {
                let load = load.clone();
                async move { load.submit(&format!("job-{number}")).await }
            });
            self.runtime.block_on(async {
                let accepted: Vec<_> = submitted.buffer_unordered(SUBMISSIONS_AT_ONCE).collect().await;
                while !none_open(&books).await {
                    assert!(began.elapsed() < patience, "jobs are open after {patience:?}, seed {}", seed());
                    tokio::time::sleep(LOOK).await;
                }
                accepted
            })
        });
        for job in accepted {
            let job = job.unwrap_or_else(|error| panic!("not accepted: {error}, seed {}", seed()));
            self.accepted.insert(job, Expected::Completed { steps });
        }
        println!("{count} jobs ended after {:?}", began.elapsed());
    }

    /// The same with jobs of the usual size.
    pub(crate) fn usual_load(&mut self, count: usize, harm: impl FnOnce(&Stack, &AtomicBool) + Send) {
        self.load(count, STEPS, harm);
    }

    /// Ends the storm. What the queue has given up meanwhile goes back, as a person would send it: where half of all deletions
    /// fail and a third of all receives come again, one message in some thousand is received ten times though it went well each
    /// time. A job that failed is none of that: sent back, its letter would open it again and hide it from the audit behind.
    pub(crate) fn calm(&self) {
        self.plan(&json!({}));
        let books = self.books();
        let tenant: TenantId = "local".parse().unwrap();
        let given_up = self.ask(async {
            assert!(books.at_rest(REST_PATIENCE).await.unwrap(), "not at rest: {:?}", books.queue().await);
            for job in self.accepted.keys() {
                let of_job =
                    books.of_job(&JobRef { tenant: tenant.clone(), job: *job }, BTreeMap::new()).await.unwrap();
                let state = of_job.item.as_ref().map(|item| &item.progress.state);
                assert_eq!(
                    state,
                    Some(&JobState::Completed),
                    "seed {}: {job} in the storm\n{}",
                    seed(),
                    story(&of_job)
                );
            }
            books.redrive().await.unwrap()
        });
        println!("{given_up} messages were given up by the queue, and sent back");
        let few = 1 + self.accepted.len() / 100;
        assert!(given_up <= few as u64, "seed {}: {given_up} messages given up are more than chance", seed());
    }

    /// Waits for rest, audits everything, and fails with whatever is wrong.
    #[track_caller]
    pub(crate) fn audit(&self) -> Verdict {
        let books = self.books();
        let tenant: TenantId = "local".parse().unwrap();
        let verdict = self.ask(async {
            let rested = books.at_rest(REST_PATIENCE).await.unwrap();
            assert!(rested, "not at rest: {:?}, open {:?}", books.queue().await, books.open_jobs().await);
            let mut journals = BTreeMap::new();
            let verdict =
                books.audit(&tenant, &self.accepted, |job| drop(journals.insert(job.job, story(job)))).await.unwrap();
            for (job, journal) in journals {
                let named = |finding: &&Finding| finding.to_string().contains(&job.to_string());
                if let Some(finding) = verdict.findings.iter().find(named) {
                    println!("{finding}\n{journal}");
                }
            }
            verdict
        });
        println!("{} findings: {verdict:?}", verdict.findings.len());
        assert!(verdict.findings.is_empty(), "seed {}: {:#?}", seed(), verdict.findings);
        let steps: u64 = self
            .accepted
            .values()
            .map(|expected| match expected {
                Expected::Completed { steps } => *steps,
                Expected::Failed => 0,
            })
            .sum();
        assert_eq!((verdict.jobs, verdict.steps), (self.accepted.len() as u64, steps));
        assert_eq!(verdict.asked, verdict.steps + verdict.asked_again, "each effect once, and each repetition known");
        // And what the API tells people is what the books say.
        for job in self.accepted.keys().step_by(self.accepted.len().div_ceil(5)) {
            let shown = self.stack.show(&job.to_string());
            assert_eq!(shown["job"]["status"], "COMPLETED", "{shown}");
        }
        println!(
            "verified: real faults, {}: {} jobs, {} steps, {} takeovers, {} effects asked for again; violations: 0",
            std::panic::Location::caller().file().rsplit('/').next().unwrap_or_default().trim_end_matches(".rs"),
            verdict.jobs,
            verdict.steps,
            verdict.takeovers,
            verdict.asked_again
        );
        verdict
    }

    /// Has the stores follow a fault plan from now on.
    pub(crate) fn plan(&self, plan: &Value) {
        let url = self.addresses().faults.expect("a stack with --faults");
        let answer = self.ask(async { reqwest::Client::new().post(url).json(plan).send().await.unwrap() });
        assert_eq!(answer.status(), 200);
    }

    /// What has come of each rule of the plan.
    pub(crate) fn told(&self) -> Vec<Value> {
        let url = self.addresses().faults.expect("a stack with --faults");
        self.ask(async { reqwest::get(url).await.unwrap().json().await.unwrap() })
    }
}

/// A job's journal as a failed audit shows it: what was written when and by whom, without what steps brought.
fn story(books: &JobBooks) -> String {
    let line = |batch: &Batch| {
        let entries: Vec<String> = batch.entries.iter().map(what).collect();
        format!("  {} at {}: {}\n", batch.at.0, batch.written_at.as_millis(), entries.join(", "))
    };
    books.journal.iter().map(line).collect()
}

fn what(entry: &Entry) -> String {
    let said = serde_json::to_value(entry).unwrap();
    let shown = ["type", "key", "epoch", "session", "takeover", "beside", "attempt", "failure"];
    let named = shown.iter().filter_map(|name| Some(format!("{name} {}", said.get(name)?)));
    named.collect::<Vec<_>>().join(" ")
}

struct StopHarm(Arc<AtomicBool>);

impl Drop for StopHarm {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether no job is open. A store that is told to fail also fails the one who looks.
async fn none_open(books: &Books) -> bool {
    match books.open_jobs().await {
        Ok(open) => open.is_empty(),
        Err(BooksError::Store(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Chance by a seed.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number under `bound`.
    pub(crate) fn under(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Sends a signal to a process, if it is still there.
pub(crate) fn signal(pid: u32, name: &str) -> bool {
    let status = std::process::Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .stderr(std::process::Stdio::null())
        .status();
    status.unwrap().success()
}

/// Steps asked of the model before the first kill: by then workers hold jobs, and most jobs have steps to go.
const FIRST_KILL_AT_STEPS: usize = 10;

/// Kills processes of these functions until it is over: first every worker at one moment, so that whoever holds a job dies
/// whatever chance has in mind, then one process at random moments with up to `steps_max` steps of all jobs together
/// between two kills. How many. Paced by steps and not by seconds, since three deaths in a row without progress end a job by
/// contract, and a machine that is busy elsewhere makes no progress in any number of seconds.
pub(crate) fn kill_at_random(stack: &Stack, functions: &[&str], steps_max: usize, over: &AtomicBool) -> usize {
    let mut chance = Chance::new(seed());
    let (mut kills, mut next_at) = (0, FIRST_KILL_AT_STEPS);
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(if kills == 0 { 20 } else { 50 + chance.under(200) as u64 }));
        let asked: usize = stack.model_requests().values().sum();
        if asked < next_at {
            continue;
        }
        let killed = if kills == 0 {
            stack.processes("worker").into_iter().filter(|worker| signal(*worker, "KILL")).count()
        } else {
            let living = stack.processes(functions[chance.under(functions.len())]);
            usize::from(!living.is_empty() && signal(living[chance.under(living.len())], "KILL"))
        };
        if killed > 0 {
            kills += killed;
            next_at = asked + steps_max / 3 + chance.under(steps_max * 2 / 3);
        }
    }
    kills
}
