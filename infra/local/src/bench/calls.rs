//! Store and queue calls of a job and of a step, by function and kind, as the servers of the embedded stack count them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::measure::Measure;
use super::model::ModelServer;
use super::subject::Subject;
use super::watcher::Watcher;
use super::{BenchError, BenchOptions};

const STEPS: u32 = 10;
const BYTES: u64 = 700;
/// Jobs that are counted, one after the other so that none shares an invocation.
const JOBS: usize = 20;
/// Of the worker's calls those that write nothing.
const READS: [&str; 4] =
    ["worker dynamodb:GetItem", "worker dynamodb:Query", "worker dynamodb:BatchGetItem", "worker s3:GetObject"];

/// Calls by function and action.
type Calls = BTreeMap<String, f64>;

/// What the stack tells of a right that was used.
#[derive(Deserialize)]
struct Used {
    by: String,
    action: String,
    calls: u64,
}

/// Calls of one job of ten steps; and of one step, which is what a job of twice as many calls more often.
pub(super) async fn calls(options: &BenchOptions) -> Result<Vec<Measure>, BenchError> {
    let model = ModelServer::start().await?;
    let subject = Subject::start(options, &model).await?;
    let watcher = Watcher::connect(&subject).await?;
    let jobs_of = async |steps: u32| -> Result<Calls, BenchError> {
        let before = counts(&subject).await?;
        for _ in 0..JOBS {
            let (job, _) = subject.submit(steps, BYTES).await?;
            watcher.completed(job).await?;
        }
        let mut calls = counts(&subject).await?;
        for (name, count) in &mut calls {
            *count = (*count - before.get(name).copied().unwrap_or_default()) / JOBS as f64;
        }
        Ok(calls)
    };
    jobs_of(1).await?;
    let (once, twice) = (jobs_of(STEPS).await?, jobs_of(2 * STEPS).await?);
    let mut of_job = Measure::new("calls_per_job", "1").with("steps", STEPS).with("jobs", JOBS);
    let (mut all, mut writes) = (0.0, 0.0);
    for (name, calls) in &once {
        if *calls > 0.0 {
            of_job = of_job.with(name, calls);
        }
        if name.starts_with("worker ") {
            let of_one = (twice.get(name).copied().unwrap_or_default() - calls) / f64::from(STEPS);
            all += of_one;
            writes += if READS.contains(&name.as_str()) { 0.0 } else { of_one };
        }
    }
    // A heartbeat may fall into one of the two, so that a twentieth more is none of a step's.
    let of_step = Measure::new("worker_calls_per_step", "1").with("all", all).with("writes", writes);
    Ok(vec![of_job, of_step.at_most("writes", 1.05, 1.05).at_most("all", 1.05, 1.05)])
}

/// How often each function used each of its rights so far.
async fn counts(subject: &Subject) -> Result<Calls, BenchError> {
    let told: Vec<Used> = subject.http().get(&subject.addresses.calls).send().await?.json().await?;
    let mut calls = Calls::new();
    for Used { by, action, calls: count } in told {
        let function = by.rsplit('-').next().unwrap_or_default();
        *calls.entry(format!("{function} {action}")).or_default() += count as f64;
    }
    Ok(calls)
}
