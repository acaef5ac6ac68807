//! Jobs, entries and journals to decide about.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul_engine::budget::Budget;
use longhaul_engine::entry::{Batch, Edit, Entry, StepId};
use longhaul_engine::ids::{Epoch, JobId, Nonce, Seq, SessionId, StepKey};
use longhaul_engine::job::{Job, JobState, Order, Usage};
use longhaul_engine::{ErrorClass, Failure, Journal, StepKind, Timestamp};
use serde_json::json;
use uuid::Uuid;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub(crate) fn after(millis: u64) -> Timestamp {
    NOW.plus(Duration::from_millis(millis))
}

pub(crate) fn nonce(number: u128) -> Nonce {
    Nonce::from_uuid(Uuid::from_u128(number))
}

pub(crate) fn session(name: &str) -> SessionId {
    name.parse().unwrap()
}

pub(crate) fn job(state: JobState, due: Option<Timestamp>) -> Job {
    let order = Order {
        tenant: "acme".parse().unwrap(),
        id: JobId::from_uuid(Uuid::from_u128(7)),
        agent: longhaul_engine::AgentRef { name: "research".parse().unwrap(), version: 1 },
        input: json!({"topic": "queues"}),
        budget: Budget::default(),
        webhook: None,
        webhook_events: Vec::new(),
        labels: BTreeMap::new(),
        parent: None,
        origin: Default::default(),
        thread: None,
        overrides: Default::default(),
        priority: Default::default(),
        traceparent: None,
        submitted_at: NOW,
        submitted_by: "ada".to_owned(),
    };
    let mut job = Job::accepted(order, nonce(1));
    job.progress.state = state;
    job.progress.epoch = Epoch(4);
    job.progress.due = due;
    job
}

pub(crate) fn step(key: &str) -> StepId {
    let (scope, position) = key.rsplit_once(|c: char| !c.is_ascii_digit()).map_or(("", key), |_| {
        let at = key.rfind(|c: char| !c.is_ascii_digit()).unwrap() + 1;
        key.split_at(at)
    });
    StepId {
        key: StepKey::at(scope, position.parse().unwrap()),
        name: format!("step {key}"),
        kind: StepKind::Step,
        branch: None,
    }
}

pub(crate) fn claimed(epoch: u64, takeover: bool) -> Entry {
    Entry::Claimed { epoch: Epoch(epoch), session: session("s"), takeover, beside: 0 }
}

pub(crate) fn done(key: &str) -> Entry {
    Entry::StepCompleted {
        id: step(key),
        attempt: 1,
        started_at: NOW,
        output: json!(key),
        usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
        look: false,
    }
}

pub(crate) fn failed(key: &str) -> Entry {
    let failure = Failure::new(ErrorClass::Invalid, "no");
    Entry::StepFailed { id: step(key), attempt: 1, started_at: NOW, failure, usage: Usage::default() }
}

pub(crate) fn cancel() -> Entry {
    Entry::CancelRequested { key: "c".parse().unwrap(), by: "ada".to_owned(), reason: None }
}

pub(crate) fn signal(name: &str) -> Entry {
    let key = format!("key-{name}").parse().unwrap();
    Entry::Signalled { signal: name.parse().unwrap(), key, payload: json!(name), by: "ada".to_owned() }
}

pub(crate) fn completed() -> Entry {
    Entry::Completed { output: json!("done") }
}

pub(crate) fn job_failed() -> Entry {
    Entry::Failed { failure: Failure::new(ErrorClass::Invalid, "no") }
}

pub(crate) fn replayed(from: Option<u64>) -> Entry {
    let edit = Edit { input: Some(json!({"topic": "edited"})), budget: None, ..Edit::default() };
    Entry::Replayed { key: "r".parse().unwrap(), by: "ada".to_owned(), from: from.map(Seq), edit }
}

/// A journal of one entry a batch; entry `n` is marked with nonce `100 + n`.
pub(crate) fn batches(entries: Vec<Entry>) -> Vec<Batch> {
    (1_u64..)
        .zip(entries)
        .map(|(at, entry)| Batch::new(Seq(at), nonce(100 + u128::from(at)), NOW, vec![entry]))
        .collect()
}

pub(crate) fn journal(entries: Vec<Entry>) -> Journal {
    Journal::read(batches(entries)).unwrap()
}
