//! The soak itself: load, kills, the wait for rest, the audit, the verdict.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use longhaul::Clock;
use longhaul_engine::{JobId, JobState, TenantId, limits};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::audit::{Expected, Finding, JobBooks};
use super::books::{Books, BooksError};
use super::growth::Size;
use super::load::{Load, LoadError};
use super::recovery::{Kill, stood_still};
use super::verdict::{Course, Evidence, SoakVerdict};
use crate::stack::{IssuerError, Stack, StackError, StackOptions};

/// How long the stack may take to come to rest after the last submission, beside the time that it takes for the jobs
/// that are open by then: a lost message is found by the sweeper within a minute, an orphaned lease within five.
const REST_PATIENCE: Duration = Duration::from_secs(600);
/// Submissions under way at once.
const SUBMISSIONS_AT_ONCE: usize = 16;
/// Jobs that are kept open for each worker process when the machine decides about the rate: one full batch. With more,
/// a job that lost its worker would wait for its turn behind others, and its recovery would say how long the queue is.
const OPEN_PER_WORKER: usize = 10;
/// How often progress is told, and how often it is looked at which jobs are open.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);
const OPEN_EVERY: Duration = Duration::from_millis(250);
/// How often the embedded stack sweeps, and how often AWS does.
const SWEEP_PROMPT: Duration = Duration::from_secs(5);
const SWEEP_LIFELIKE: Duration = Duration::from_secs(60);
/// The token's lifetime: longer than any soak.
const TOKEN_LIFETIME: Duration = Duration::from_secs(48 * 3_600);

/// How many jobs are submitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// So many a second.
    PerSecond(f64),
    /// As many as the machine completes.
    Max,
}

/// What a soak does.
#[derive(Debug, Clone)]
pub struct SoakOptions {
    /// How long jobs are submitted and processes are killed.
    pub duration: Duration,
    /// How many jobs are submitted.
    pub rate: Rate,
    /// How often a process is killed; none: never.
    pub kill_every: Option<Duration>,
    /// Decides which processes are killed.
    pub seed: u64,
    /// Steps of each job.
    pub steps: u32,
    /// Bytes that each step records.
    pub bytes: u32,
    /// The tenant that submits.
    pub tenant: TenantId,
    /// The stack.
    pub stack: StackOptions,
    /// Ends the load before its time. What was submitted by then is waited for and judged.
    pub enough: CancellationToken,
}

/// Why a soak came to no verdict.
#[derive(Debug, thiserror::Error)]
pub enum SoakError {
    /// The stack.
    #[error("the stack does not start")]
    Stack(#[from] StackError),
    /// Its token.
    #[error("no token can be made")]
    Token(#[from] IssuerError),
    /// Its books.
    #[error("the stack's books cannot be read")]
    Books(#[from] BooksError),
}

/// How it stands while it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Duration,
    /// Jobs that were accepted.
    pub accepted: u64,
    /// Of those, jobs that have not ended.
    pub open: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Whether the load is over and the rest is waited for.
    pub draining: bool,
}

/// What the tasks of a running soak share.
struct Field {
    stack: Stack,
    books: Books,
    accepted: Mutex<BTreeMap<JobId, Expected>>,
    refused: Mutex<Vec<LoadError>>,
    kills: Mutex<Vec<Kill>>,
    /// Jobs that have ended, as last seen.
    ended: AtomicU64,
}

/// Runs a soak. `tell` is shown how it stands every few seconds.
///
/// # Errors
/// [`SoakError`] when there is no stack to judge. What goes wrong in the stack is in the verdict.
pub async fn run(options: SoakOptions, tell: impl Fn(Progress)) -> Result<SoakVerdict, SoakError> {
    let data = options.stack.data.clone();
    let stack = Stack::start(options.stack.clone()).await?;
    let token = stack.issuer().mint(options.tenant.as_str(), "soak", TOKEN_LIFETIME)?;
    let books = Books::open(stack.addresses()).await?;
    let input = json!({"steps": options.steps, "bytes": options.bytes});
    let load = Load::new(&stack.addresses().api, &token, options.tenant.clone(), "agent-10", &input);
    let field = Arc::new(Field {
        stack,
        books,
        accepted: Mutex::default(),
        refused: Mutex::default(),
        kills: Mutex::default(),
        ended: AtomicU64::new(0),
    });
    let before = Size::now(data.clone()).await;
    let started = Instant::now();
    let over = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_open(Arc::clone(&field), over.clone()));
    if let Some(every) = options.kill_every {
        tasks.spawn(kill(Arc::clone(&field), every, options.seed, over.clone()));
    }
    let submitting = tokio::spawn(submit(Arc::clone(&field), load, options.clone()));
    let mut ticks = interval(PROGRESS_EVERY);
    let mut end = Box::pin(submitting);
    loop {
        tokio::select! {
            _ = &mut end => break,
            _ = ticks.tick() => tell(field.progress(started.elapsed(), false).await),
        }
    }
    over.cancel();
    while tasks.join_next().await.is_some() {}
    let load_time = started.elapsed();
    let rested = rest(&field, started, &tell).await?;
    let after = Size::now(data).await;
    let drain_time = started.elapsed().saturating_sub(load_time);
    let judged = field.judge(&options, rested, Course { load_time, drain_time, before, after }).await;
    if let Some(field) = Arc::into_inner(field) {
        field.stack.shutdown().await;
    }
    judged
}

/// Waits until everything has ended and the queue is empty.
async fn rest(field: &Field, started: Instant, tell: &impl Fn(Progress)) -> Result<bool, SoakError> {
    let mut ticks = interval(PROGRESS_EVERY);
    let mut resting = Box::pin(field.books.at_rest(REST_PATIENCE));
    loop {
        tokio::select! {
            rested = &mut resting => return Ok(rested?),
            _ = ticks.tick() => {
                field.look().await;
                tell(field.progress(started.elapsed(), true).await);
            }
        }
    }
}

/// Keeps count of the jobs that have ended.
async fn watch_open(field: Arc<Field>, over: CancellationToken) {
    while !over.is_cancelled() {
        field.look().await;
        tokio::time::sleep(OPEN_EVERY).await;
    }
}

/// Submits for as long as is asked, and ends when each submission has an answer.
async fn submit(field: Arc<Field>, load: Load, options: SoakOptions) {
    let until = Instant::now() + options.duration;
    let pause = match options.rate {
        Rate::PerSecond(rate) => Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX),
        Rate::Max => OPEN_EVERY,
    };
    let open_max = (options.stack.workers * OPEN_PER_WORKER) as u64;
    let mut ticks = interval(pause.max(Duration::from_micros(100)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut under_way = JoinSet::new();
    let mut number = 0_u64;
    // A name of its own for each soak on a folder that is kept: its keys must not find the jobs of the last one.
    let name = uuid::Uuid::new_v4().simple().to_string();
    loop {
        // Between submissions that are far apart the time runs out, too.
        tokio::select! {
            biased;
            () = options.enough.cancelled() => break,
            () = sleep_until(until) => break,
            _ = ticks.tick() => {}
        }
        let wanted = match options.rate {
            Rate::PerSecond(_) => 1,
            Rate::Max => {
                while under_way.try_join_next().is_some() {}
                open_max.saturating_sub(field.open().await + under_way.len() as u64)
            }
        };
        for _ in 0..wanted {
            number += 1;
            if under_way.len() >= SUBMISSIONS_AT_ONCE {
                under_way.join_next().await;
            }
            under_way.spawn(one(Arc::clone(&field), load.clone(), format!("{name}-{number}"), options.steps));
        }
    }
    while under_way.join_next().await.is_some() {}
}

async fn one(field: Arc<Field>, load: Load, key: String, steps: u32) {
    match load.submit(&key).await {
        Ok(job) => {
            field.accepted.lock().await.insert(job, Expected::Completed { steps: u64::from(steps) });
        }
        Err(error) => field.refused.lock().await.push(error),
    }
}

/// Kills a process every so often, one that is working if any is.
async fn kill(field: Arc<Field>, every: Duration, seed: u64, over: CancellationToken) {
    let mut chance = seed;
    loop {
        tokio::select! {
            () = over.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let mut processes = field.stack.processes();
        // Where something is under way a kill has something to break; idle processes are spared while there are others.
        if processes.iter().any(|process| !process.request_ids.is_empty()) {
            processes.retain(|process| !process.request_ids.is_empty());
        }
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let which = usize::try_from(chance >> 33).unwrap_or_default().checked_rem(processes.len());
        let Some(victim) = which.and_then(|which| processes.get(which)) else { continue };
        let Some(pid) = i32::try_from(victim.pid).ok().and_then(Pid::from_raw) else { continue };
        let at = Clock::of_machine().now();
        if kill_process(pid, Signal::KILL).is_ok() {
            let sessions = victim.request_ids.iter().filter_map(|id| id.parse().ok()).collect();
            field.kills.lock().await.push(Kill { at, function: victim.function.clone(), sessions });
        }
    }
}

impl Field {
    async fn progress(&self, elapsed: Duration, draining: bool) -> Progress {
        let accepted = self.accepted.lock().await.len() as u64;
        let kills = self.kills.lock().await.len() as u64;
        Progress { elapsed, accepted, open: self.open().await, kills, draining }
    }

    /// Looks how many jobs have ended. A look takes a while on a busy machine; what is accepted meanwhile is open.
    async fn look(&self) {
        let accepted = self.accepted.lock().await.len() as u64;
        if let Ok(open) = self.books.open_jobs().await {
            self.ended.fetch_max(accepted.saturating_sub(open.len() as u64), Ordering::Relaxed);
        }
    }

    /// Jobs that were accepted and have not been seen to end.
    async fn open(&self) -> u64 {
        (self.accepted.lock().await.len() as u64).saturating_sub(self.ended.load(Ordering::Relaxed))
    }

    /// Audits everything and sums it up.
    async fn judge(&self, options: &SoakOptions, rested: bool, course: Course) -> Result<SoakVerdict, SoakError> {
        let accepted = self.accepted.lock().await;
        let kills = self.kills.lock().await;
        let refused = self.refused.lock().await;
        let (mut completed, mut failed) = (0, 0);
        let mut standstills = Vec::new();
        let look = |books: &JobBooks| {
            match books.item.as_ref().map(|item| &item.progress.state) {
                Some(JobState::Completed) => completed += 1,
                Some(JobState::Failed) => failed += 1,
                Some(
                    JobState::Pending
                    | JobState::Processing { .. }
                    | JobState::Waiting { .. }
                    | JobState::Blocked { .. }
                    | JobState::Cancelled,
                )
                | None => {}
            }
            standstills.extend(stood_still(&kills, &books.journal));
        };
        let mut audited = self.books.audit(&options.tenant, &accepted, look).await?;
        audited.findings.extend(refused.iter().map(|error| Finding::Left { what: error.to_string() }));
        if !rested {
            audited.findings.push(Finding::Left { what: format!("not at rest after {REST_PATIENCE:?}") });
        }
        let sweep = if options.stack.lifelike { SWEEP_LIFELIKE } else { SWEEP_PROMPT };
        let evidence = Evidence {
            seed: options.seed,
            refused: refused.len() as u64,
            completed,
            failed,
            kills: &kills,
            standstills,
            recovery_bound: Duration::from_millis(limits::SESSION_SILENCE_MAX_MS) + sweep,
            course,
        };
        Ok(evidence.verdict(audited))
    }
}
