//! The job item: how a [`Job`] stands in the table, and the update that changes its moving part.
//!
//! What never changes is JSON text in `order`, what moves is an attribute each, so that an update names only what it
//! changes, conditions can look at it, and a person can read it in the console.

use std::mem;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul::store::StoreError;
use longhaul_engine::job::{JobWrite, Lease, Order, Progress};
use longhaul_engine::{Epoch, Job, JobId, JobState, Seq, TenantId, limits};
use serde_json::Value;

use super::attributes::{Item, Reader, json_text, mark, number, text, time};
use super::keys::{dead_shard, found_by_status, job_key, live_shard};
use super::table::{DUE_AT, DUE_SHARD, EXPIRY_ATTRIBUTE, FOUND_BY, LISTED, TENANT};

/// Where a job's input is.
pub(crate) enum StoredInput {
    /// In the item, as JSON text.
    Inline(String),
    /// In the bucket, under this key.
    Referenced(String),
}

/// An attribute of the moving part: its name, and its value or none where it is to be removed.
type Moving = (&'static str, Option<AttributeValue>);

/// How long a job is kept behind its end where its tenant has settled nothing else.
pub(crate) const KEPT_USUALLY: Duration = Duration::from_secs(limits::JOB_KEPT_DEFAULT_SECONDS);

/// Digits of the time in the sort value of the index of a tenant's jobs: milliseconds for 30,000 years.
pub(crate) const LISTED_DIGITS: usize = 15;

/// The sort value of the index of a tenant's jobs: the time in front, so that the newest come last.
pub(crate) fn listed(order: &Order) -> String {
    format!("{:0LISTED_DIGITS$}#{}", order.submitted_at.as_millis(), order.id)
}

/// The item of a job whose input is stored as `input` says.
pub(crate) fn encode(job: &Job, input: StoredInput) -> Result<Item, StoreError> {
    let mut order = job.order.clone();
    order.input = Value::Null;
    let mut item = job_key(job.order.id);
    item.extend([
        ("v".to_owned(), number(u64::from(job.order.version()))),
        (TENANT.to_owned(), text(job.order.tenant.as_str())),
        (LISTED.to_owned(), text(listed(&job.order))),
        ("order".to_owned(), text(json_text(&order)?)),
        ("wakes".to_owned(), number(job.wakes)),
        ("sweeps".to_owned(), number(u64::from(job.sweeps))),
        ("last_write".to_owned(), mark(job.last_write)),
    ]);
    match input {
        StoredInput::Inline(json) => item.insert("input".to_owned(), text(json)),
        StoredInput::Referenced(key) => item.insert("input_ref".to_owned(), text(key)),
    };
    let moving = moving(&job.order.tenant, job.order.id, &job.progress, KEPT_USUALLY)?;
    item.extend(moving.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    Ok(item)
}

/// The moving part of the item, every attribute of it named.
fn moving(tenant: &TenantId, id: JobId, progress: &Progress, kept: Duration) -> Result<Vec<Moving>, StoreError> {
    let (session, lease) = match &progress.state {
        JobState::Processing { lease } => (Some(text(lease.session.as_str())), Some(mark(lease.nonce))),
        JobState::Pending
        | JobState::Waiting { .. }
        | JobState::Blocked { .. }
        | JobState::Completed
        | JobState::Failed
        | JobState::Cancelled => (None, None),
    };
    let (until, seen) = match &progress.state {
        JobState::Waiting { until, seen } => (until.map(time), Some(number(seen.0))),
        JobState::Pending
        | JobState::Processing { .. }
        | JobState::Blocked { .. }
        | JobState::Completed
        | JobState::Failed
        | JobState::Cancelled => (None, None),
    };
    let mismatch = match &progress.state {
        JobState::Blocked { mismatch } => Some(text(json_text(mismatch)?)),
        JobState::Pending
        | JobState::Processing { .. }
        | JobState::Waiting { .. }
        | JobState::Completed
        | JobState::Failed
        | JobState::Cancelled => None,
    };
    // A failed job stays in the index, among its tenant's dead letters, by the time of its failure.
    let (shard, due) = match (&progress.state, progress.due) {
        (JobState::Failed, _) => (Some(text(dead_shard(tenant))), Some(time(progress.updated_at))),
        (_, Some(due)) => (Some(text(live_shard(Job::due_shard(id)))), Some(time(due))),
        (_, None) => (None, None),
    };
    let expires = progress.state.is_terminal().then(|| number(progress.updated_at.plus(kept).as_seconds()));
    Ok(vec![
        ("status", Some(text(progress.state.status().as_str()))),
        (FOUND_BY, Some(text(found_by_status(tenant, progress.state.status())))),
        ("lease_session", session),
        ("lease_nonce", lease),
        ("wait_until", until),
        ("wait_seen", seen),
        ("mismatch", mismatch),
        ("epoch", Some(number(progress.epoch.0))),
        ("attempts", Some(number(u64::from(progress.attempts)))),
        ("tail", Some(number(progress.tail.0))),
        ("totals", Some(text(json_text(&progress.totals)?))),
        ("updated_at", Some(time(progress.updated_at))),
        (DUE_SHARD, shard),
        (DUE_AT, due),
        (EXPIRY_ATTRIBUTE, expires),
    ])
}

/// An update as DynamoDB wants it.
pub(crate) struct Update {
    /// The update expression. Each attribute `x` is named `#x` and its value `:x`.
    pub(crate) expression: String,
    /// Names in it.
    pub(crate) names: Vec<(String, String)>,
    /// Values in it.
    pub(crate) values: Vec<(String, AttributeValue)>,
}

/// The update that makes a [`JobWrite`] of a job that is `kept` for so long should it end with it.
pub(crate) fn update(tenant: &TenantId, id: JobId, write: &JobWrite, kept: Duration) -> Result<Update, StoreError> {
    let mut parts = moving(tenant, id, &write.progress, kept)?;
    parts.push(("last_write", Some(mark(write.nonce))));
    // Claims alone write attempts: somebody looks after the job again.
    if write.progress.attempts > 0 && matches!(write.progress.state, JobState::Processing { .. }) {
        parts.push(("sweeps", Some(number(0))));
    }
    let (mut set, mut remove) = (Vec::new(), Vec::new());
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (name, value) in parts {
        names.push((format!("#{name}"), name.to_owned()));
        match value {
            Some(value) => {
                set.push(format!("#{name} = :{name}"));
                values.push((format!(":{name}"), value));
            }
            None => remove.push(format!("#{name}")),
        }
    }
    let mut expression = format!("SET {}", set.join(", "));
    if !remove.is_empty() {
        expression = format!("{expression} REMOVE {}", remove.join(", "));
    }
    Ok(Update { expression, names, values })
}

/// A job as its item tells it; its input may still be in the bucket.
pub(crate) struct Decoded {
    /// The job; its input is null while `input_ref` names it.
    pub(crate) job: Job,
    /// The key of its input in the bucket.
    pub(crate) input_ref: Option<String>,
}

/// Reads a job item.
pub(crate) fn decode(item: &Item) -> Result<Decoded, StoreError> {
    let reader = Reader::new(item, "a job item")?;
    let mut order: Order = reader.json("order")?;
    let what = format!("the item of job {}", order.id);
    let reader = Reader::new(item, &what)?;
    let input_ref = if reader.has("input_ref") {
        Some(reader.text("input_ref")?.to_owned())
    } else {
        if reader.has("input") {
            let _null = mem::replace(&mut order.input, reader.json("input")?);
        }
        None
    };
    let state = decode_state(reader)?;
    // The due time of a failed job is its place among the dead letters.
    let due = if matches!(state, JobState::Failed) { None } else { reader.optional_time(DUE_AT)? };
    let progress = Progress {
        state,
        epoch: Epoch(reader.number("epoch")?),
        attempts: reader.small_number("attempts")?,
        due,
        tail: Seq(reader.number("tail")?),
        totals: reader.json("totals")?,
        updated_at: reader.time("updated_at")?,
    };
    let job = Job {
        order,
        progress,
        wakes: reader.number("wakes")?,
        sweeps: reader.small_number("sweeps")?,
        last_write: reader.mark("last_write")?,
    };
    Ok(Decoded { job, input_ref })
}

fn decode_state(reader: Reader<'_>) -> Result<JobState, StoreError> {
    match reader.text("status")? {
        "PENDING" => Ok(JobState::Pending),
        "PROCESSING" => Ok(JobState::Processing {
            lease: Lease { session: reader.id("lease_session")?, nonce: reader.mark("lease_nonce")? },
        }),
        "WAITING" => {
            Ok(JobState::Waiting { until: reader.optional_time("wait_until")?, seen: Seq(reader.number("wait_seen")?) })
        }
        "BLOCKED" => Ok(JobState::Blocked { mismatch: reader.json("mismatch")? }),
        "COMPLETED" => Ok(JobState::Completed),
        "FAILED" => Ok(JobState::Failed),
        "CANCELLED" => Ok(JobState::Cancelled),
        other => Err(reader.corrupt("status", format_args!("no such status: {other}"))),
    }
}
