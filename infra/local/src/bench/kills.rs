//! A worker killed in the middle of a step: how long until its job's next question, and which steps were asked again.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::measure::Measure;
use super::model::ModelServer;
use super::subject::Subject;
use super::watcher::Watcher;
use super::{BenchError, BenchOptions};

const STEPS: u32 = 10;
const BYTES: u64 = 700;
/// The step in whose middle the worker dies, what a step takes, and what has passed of it by then.
const KILLED_AT: usize = 5;
const STEP: Duration = Duration::from_millis(200);
const INTO: Duration = Duration::from_millis(100);
/// How long the next question may take when nobody restarts anything: lease, watchdog and a sweep.
const PATIENCE: Duration = Duration::from_secs(120);

/// As the embedded stack does it, which sees a process die; and on AWS's terms, where nobody does.
pub(super) async fn kills(options: &BenchOptions) -> Result<Vec<Measure>, BenchError> {
    let prompt = recovery(options, &[], options.repeat).await?;
    let lifelike = recovery(options, &["--as-aws"], 1).await?;
    Ok(vec![
        prompt.measure("worker_killed_to_next_step").at_most("median", 2.0, 0.7),
        lifelike.measure("worker_killed_to_next_step_as_aws").at_most("median", 30.0, 10.0),
    ])
}

struct Recovery {
    seconds: Vec<f64>,
    asked_again: BTreeMap<String, usize>,
}

impl Recovery {
    fn measure(&self, metric: &'static str) -> Measure {
        Measure::of_runs(metric, "s", &self.seconds).with("steps_asked_again", &self.asked_again)
    }
}

async fn recovery(options: &BenchOptions, arguments: &[&str], runs: usize) -> Result<Recovery, BenchError> {
    let model = ModelServer::start().await?;
    model.answer_after(STEP);
    let subject = Subject::start_with(options, &model, arguments).await?;
    let watcher = Watcher::connect(&subject).await?;
    let mut recovery = Recovery { seconds: Vec::new(), asked_again: BTreeMap::new() };
    for _ in 0..runs {
        let (job, _) = subject.submit(STEPS, BYTES).await?;
        model.asked_times(job, KILLED_AT, PATIENCE).await?;
        sleep(INTO).await;
        subject.kill("worker");
        let killed_at = Instant::now();
        let asked = model.asked_times(job, KILLED_AT + 1, PATIENCE).await?;
        if let Some((_, at)) = asked.get(KILLED_AT) {
            recovery.seconds.push(at.saturating_duration_since(killed_at).as_secs_f64());
        }
        watcher.completed(job).await?;
        let mut times = BTreeMap::<String, usize>::new();
        for (step, _) in model.asked(job) {
            *times.entry(step).or_default() += 1;
        }
        for (step, times) in times.into_iter().filter(|(_, times)| *times > 1) {
            *recovery.asked_again.entry(step).or_default() += times - 1;
        }
    }
    Ok(recovery)
}
