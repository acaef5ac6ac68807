//! Jobs under load: many at once, one at a time, many that wait, and one that is long.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use super::measure::Measure;
use super::model::ModelServer;
use super::subject::Subject;
use super::watcher::Watcher;
use super::{BenchError, BenchOptions};

/// Steps of a job of the usual size, and bytes of each.
const STEPS: u32 = 10;
const BYTES: u64 = 700;
/// Jobs at saturation, and how many of them are open at once.
const MANY: usize = 200;
const MANY_AT_ONCE: usize = 64;
/// Jobs that run one after the other, and those before them that warm up.
const SERIAL: usize = 60;
const SERIAL_WARM_UP: usize = 10;
/// Jobs that wait at once, what each of their steps waits, and the time that all together need at least.
const WAITING: usize = 500;
const WAITING_DELAY: Duration = Duration::from_millis(200);
const WAITING_IDEAL_S: f64 = 2.0;
/// Steps of the long job, bytes of each, and how many of the first and of the last are compared.
const LONG_STEPS: u32 = 500;
const LONG_BYTES: u64 = 1_750;
const LONG_SHARE: usize = 50;
/// How often memory is looked at.
const MEMORY_LOOK: Duration = Duration::from_millis(300);
/// How long a job of this many steps may take to ask all its questions.
const LONG_PATIENCE: Duration = Duration::from_secs(240);

const MIB: f64 = 1_048_576.0;

/// A stack, its model and its watcher.
struct Ground {
    model: ModelServer,
    subject: Subject,
    watcher: Watcher,
}

impl Ground {
    async fn new(options: &BenchOptions) -> Result<Self, BenchError> {
        let model = ModelServer::start().await?;
        model.answer_with(BYTES);
        let subject = Subject::start(options, &model).await?;
        let watcher = Watcher::connect(&subject).await?;
        Ok(Self { model, subject, watcher })
    }

    /// One job from its submission to its end; how long the submission took.
    async fn job(&self) -> Result<Duration, BenchError> {
        let (job, took) = self.subject.submit(STEPS, BYTES).await?;
        self.watcher.completed(job).await?;
        Ok(took)
    }

    /// So many jobs, with at most so many open at once; how long each submission took.
    async fn jobs(&self, count: usize, at_once: usize) -> Result<Vec<Duration>, BenchError> {
        stream::iter(0..count).map(|_| self.job()).buffer_unordered(at_once).try_collect().await
    }
}

/// Jobs and steps a second, and processor time a step, with a model that answers at once.
pub(super) async fn saturation(options: &BenchOptions) -> Result<Vec<Measure>, BenchError> {
    let ground = Ground::new(options).await?;
    ground.jobs(MANY_AT_ONCE, MANY_AT_ONCE).await?;
    let steps = f64::from(STEPS) * MANY as f64;
    let (mut rates, mut processor, mut submits) = (Vec::new(), Vec::new(), Vec::new());
    ground.watcher.lags();
    for _ in 0..options.repeat {
        let (before, began) = (ground.subject.processor_time(), Instant::now());
        submits.extend(ground.jobs(MANY, MANY_AT_ONCE).await?);
        rates.push(steps / began.elapsed().as_secs_f64());
        processor.push((ground.subject.processor_time().saturating_sub(before)).as_secs_f64() * 1_000.0 / steps);
    }
    let jobs: Vec<f64> = rates.iter().map(|rate| rate / f64::from(STEPS)).collect();
    Ok(vec![
        Measure::of_runs("steps_per_second", "1/s", &rates).with("jobs", MANY).with("at_once", MANY_AT_ONCE),
        Measure::of_runs("jobs_per_second", "1/s", &jobs),
        Measure::of_runs("processor_per_step", "ms", &processor),
        Measure::of_times("submit_under_load", &submits),
        Measure::of_times("append_to_client_under_load", &ground.watcher.lags()),
    ])
}

/// The time from one step to the next, of a whole job and of a submission, one job at a time.
pub(super) async fn serial(options: &BenchOptions) -> Result<Vec<Measure>, BenchError> {
    let ground = Ground::new(options).await?;
    ground.jobs(SERIAL_WARM_UP, 1).await?;
    ground.watcher.lags();
    let (mut submits, mut steps, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SERIAL {
        let began = Instant::now();
        let (job, took) = ground.subject.submit(STEPS, BYTES).await?;
        ground.watcher.completed(job).await?;
        whole.push(began.elapsed() / STEPS);
        submits.push(took);
        steps.extend(intervals(&ground.model.asked(job)));
    }
    Ok(vec![
        Measure::of_times("step_interval", &steps).at_most("p50", 1.6, 1.0).at_most("p99", 6.5, 4.0),
        Measure::of_times("job_time_per_step", &whole),
        Measure::of_times("submit", &submits).at_most("p50", 2.0, 1.5).at_most("p99", 4.2, 4.0),
        Measure::of_times("append_to_client", &ground.watcher.lags())
            .at_most("p50", 50.0, 10.0)
            .at_most("p99", 250.0, 50.0),
    ])
}

/// The times between one question and the next.
fn intervals(asked: &[(String, Instant)]) -> Vec<Duration> {
    asked.iter().zip(asked.iter().skip(1)).map(|((_, one), (_, next))| next.duration_since(*one)).collect()
}

/// Many jobs whose steps wait for a slow model.
pub(super) async fn waiting(options: &BenchOptions) -> Result<Vec<Measure>, BenchError> {
    let ground = Ground::new(options).await?;
    ground.jobs(MANY_AT_ONCE, MANY_AT_ONCE).await?;
    ground.model.answer_after(WAITING_DELAY);
    let ground = Arc::new(ground);
    let over = CancellationToken::new();
    let watching = tokio::spawn(watch_memory(Arc::clone(&ground), over.clone()));
    let mut times = Vec::new();
    for _ in 0..options.repeat {
        let began = Instant::now();
        ground.jobs(WAITING, WAITING).await?;
        times.push(began.elapsed().as_secs_f64());
    }
    over.cancel();
    let peak = watching.await.unwrap_or_default();
    Ok(vec![
        Measure::of_runs("waiting_jobs_total", "s", &times)
            .with("jobs", WAITING)
            .with("step_ms", 200)
            .with("ideal", WAITING_IDEAL_S)
            .at_most("median", 3.3, 2.6),
        Measure::new("peak_memory", "MiB")
            .with("functions", peak.functions as f64 / MIB)
            .with("stack", peak.stack as f64 / MIB)
            .with("function_processes", peak.processes)
            .at_most("functions", 150.0, 60.0),
    ])
}

/// The most that was seen.
#[derive(Debug, Clone, Copy, Default)]
struct Peak {
    stack: u64,
    functions: u64,
    processes: usize,
}

async fn watch_memory(ground: Arc<Ground>, over: CancellationToken) -> Peak {
    let mut peak = Peak::default();
    let mut looks = interval(MEMORY_LOOK);
    while !over.is_cancelled() {
        looks.tick().await;
        let (stack, functions) = ground.subject.memory();
        peak.stack = peak.stack.max(stack);
        peak.functions = peak.functions.max(functions);
        peak.processes = peak.processes.max(ground.subject.processes().len().saturating_sub(1));
    }
    peak
}

/// One job of many steps.
pub(super) async fn long(options: &BenchOptions) -> Result<Vec<Measure>, BenchError> {
    let ground = Ground::new(options).await?;
    ground.jobs(SERIAL_WARM_UP, 1).await?;
    ground.model.answer_with(LONG_BYTES);
    let (mut first, mut last, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.repeat {
        let before = ground.subject.disk();
        let (job, _) = ground.subject.submit(LONG_STEPS, LONG_BYTES).await?;
        let asked = ground.model.asked_times(job, LONG_STEPS as usize, LONG_PATIENCE).await?;
        ground.watcher.completed(job).await?;
        let times = intervals(&asked);
        let mean = |times: &[Duration]| times.iter().sum::<Duration>().as_secs_f64() * 1_000.0 / times.len() as f64;
        first.push(mean(times.get(..LONG_SHARE).unwrap_or_default()));
        last.push(mean(times.get(times.len().saturating_sub(LONG_SHARE)..).unwrap_or_default()));
        bytes.push((ground.subject.disk().saturating_sub(before)) as f64 / f64::from(LONG_STEPS) / 1_024.0);
    }
    let ratios: Vec<f64> = last.iter().zip(&first).map(|(last, first)| last / first).collect();
    Ok(vec![
        Measure::of_runs("long_job_last_over_first", "ratio", &ratios)
            .with("steps", LONG_STEPS)
            .with("compared", LONG_SHARE)
            .at_most("median", 1.1, 1.05),
        Measure::of_runs("long_job_step", "ms", &first).of("first 50"),
        Measure::of_runs("long_job_step", "ms", &last).of("last 50"),
        Measure::of_runs("disk_per_step", "KiB", &bytes).at_most("median", 24.0, 12.0),
    ])
}
