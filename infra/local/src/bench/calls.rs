//! Store and queue calls a job, by kind, as the servers of the embedded stack count them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::measure::Measure;
use super::model::ModelServer;
use super::subject::Subject;
use super::watcher::Watcher;
use super::{BenchError, BenchOptions};

const STEPS: u32 = 10;
const BYTES: u64 = 700;
/// Jobs that are counted, one after the other so that none shares an invocation.
const JOBS: usize = 20;
/// A call number that no call has: the rules count and hit nothing.
const NEVER: u64 = u64::MAX;
/// What is counted: everything that a job can need.
const ACTIONS: [(&str, &str); 11] = [
    ("dynamodb", "PutItem"),
    ("dynamodb", "UpdateItem"),
    ("dynamodb", "TransactWriteItems"),
    ("dynamodb", "GetItem"),
    ("dynamodb", "Query"),
    ("dynamodb", "BatchGetItem"),
    ("dynamodb", "BatchWriteItem"),
    ("dynamodb", "DeleteItem"),
    ("sqs", "SendMessage"),
    ("sqs", "SendMessageBatch"),
    ("sqs", "ChangeMessageVisibility"),
];

/// Calls of one job of ten steps, by kind.
pub(super) async fn calls(options: &BenchOptions) -> Result<Vec<Measure>, BenchError> {
    let model = ModelServer::start().await?;
    let rules: Vec<Value> = ACTIONS
        .iter()
        .map(|(service, action)| json!({"service": service, "action": action, "fault": "throttled", "every": NEVER}))
        .collect();
    let plan = json!({"rules": rules}).to_string();
    let subject = Subject::start_with(options, &model, &["--faults", &plan]).await?;
    let watcher = Watcher::connect(&subject).await?;
    let one = async || -> Result<(), BenchError> {
        let (job, _) = subject.submit(STEPS, BYTES).await?;
        watcher.completed(job).await
    };
    one().await?;
    let before = counts(&subject).await?;
    for _ in 0..JOBS {
        one().await?;
    }
    let mut measure = Measure::new("calls_per_job", "1").with("steps", STEPS).with("jobs", JOBS);
    for (name, count) in counts(&subject).await? {
        let calls = count.saturating_sub(before.get(&name).copied().unwrap_or_default());
        if calls > 0 {
            measure = measure.with(&name, calls as f64 / JOBS as f64);
        }
    }
    Ok(vec![measure])
}

/// How often each action was called so far.
async fn counts(subject: &Subject) -> Result<BTreeMap<String, u64>, BenchError> {
    let url = subject.addresses.faults.as_deref().unwrap_or_default();
    let told: Vec<Value> = subject.http().get(url).send().await?.json().await?;
    let calls = told.iter().map(|rule| rule.get("calls").and_then(Value::as_u64).unwrap_or_default());
    Ok(ACTIONS.iter().map(|(service, action)| format!("{service}:{action}")).zip(calls).collect())
}
