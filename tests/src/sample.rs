//! Jobs, batches and writes to play scenarios with.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::outside::fresh_nonce;
use longhaul::store::JobRef;
use longhaul_engine::claim::{Claim, ClaimDecision, Holder, News, decide};
use longhaul_engine::entry::{StepId, StepKind};
use longhaul_engine::ids::{Nonce, SessionId, SignalName, TenantId};
use longhaul_engine::job::{JobWrite, Order, Progress, Usage};
use longhaul_engine::{
    AgentRef, Batch, Entry, ErrorClass, Failure, Job, JobId, JobState, Seq, SignalKey, StepKey, Timestamp,
};
use serde_json::{Value, json};
use uuid::Uuid;

/// The time at which all scenarios begin: 2026-11-29T12:00:00Z.
pub const NOW: Timestamp = Timestamp::from_millis(1_795_953_600_000);

/// A time after [`NOW`].
#[must_use]
pub fn later(seconds: u64) -> Timestamp {
    NOW.plus(Duration::from_secs(seconds))
}

/// A tenant.
#[must_use]
pub fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

/// A session.
#[must_use]
pub fn session(name: &str) -> SessionId {
    name.parse().unwrap()
}

/// A job nobody has heard of before, for this tenant.
#[must_use]
pub fn order_of(owner: &str) -> Order {
    Order {
        tenant: tenant(owner),
        id: JobId::from_uuid(Uuid::new_v4()),
        agent: AgentRef { name: "research".parse().unwrap(), version: 1 },
        // Numbers that a careless store would change.
        input: json!({"topic": "queues", "weight": 0.1, "tiny": 1e-200, "big": u64::MAX, "text": "Größe ✓\u{0}"}),
        budget: Default::default(),
        webhook: None,
        webhook_events: Vec::new(),
        labels: BTreeMap::from([("team".to_owned(), "blue".to_owned())]),
        parent: None,
        origin: Default::default(),
        thread: None,
        overrides: Default::default(),
        priority: Default::default(),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
        submitted_at: NOW,
        submitted_by: "ada".to_owned(),
    }
}

/// A job nobody has heard of before, as it is first stored.
#[must_use]
pub fn job() -> Job {
    job_of("acme")
}

/// The same, of this tenant.
#[must_use]
pub fn job_of(owner: &str) -> Job {
    Job::accepted(order_of(owner), fresh_nonce())
}

/// A job's name.
#[must_use]
pub fn reference(job: &Job) -> JobRef {
    JobRef { tenant: job.order.tenant.clone(), job: job.order.id }
}

/// A step's outcome.
#[must_use]
pub fn outcome(position: u64, output: Value) -> Entry {
    Entry::StepCompleted {
        id: StepId { key: StepKey::at("", position), name: "think".to_owned(), kind: StepKind::Step, branch: None },
        attempt: 1,
        started_at: NOW,
        output,
        usage: Usage { input_tokens: 3, output_tokens: 5, ..Usage::default() },
        look: false,
    }
}

/// A signal.
#[must_use]
pub fn signal(key: &str) -> Entry {
    let signal: SignalName = "approval".parse().unwrap();
    let key: SignalKey = key.parse().unwrap();
    Entry::Signalled { signal, key, payload: json!({"approved": true}), by: "ada".to_owned() }
}

/// A batch at a position.
#[must_use]
pub fn batch(at: u64, entries: Vec<Entry>) -> Batch {
    Batch::new(Seq(at), fresh_nonce(), NOW, entries)
}

/// A batch of so many outcomes.
#[must_use]
pub fn outcomes(at: u64, count: u64) -> Batch {
    batch(at, (at..at + count).map(|position| outcome(position, json!({"position": position}))).collect())
}

/// The claim that a session makes of a job that it has just read and that nobody holds.
#[must_use]
pub fn claim(job: &Job, by: &str) -> Claim {
    match decide(job, &session(by), Holder::Dead, News::Something, fresh_nonce(), NOW) {
        ClaimDecision::Claim(claim) => *claim,
        other => panic!("no claim was decided but {other:?}"),
    }
}

/// A write of a job that puts it into `state`, expecting what was read.
#[must_use]
pub fn write(job: &Job, state: JobState, due: Option<Timestamp>) -> JobWrite {
    JobWrite {
        nonce: fresh_nonce(),
        last_write: job.last_write,
        wakes: None,
        progress: Progress { state, due, attempts: 0, updated_at: NOW, ..job.progress.clone() },
    }
}

/// A failure with everything in it.
#[must_use]
pub fn failure() -> Failure {
    Failure {
        class: ErrorClass::Refused,
        message: "the model refused".to_owned(),
        causes: vec!["policy".to_owned()],
        step: Some(StepKey::at("", 2)),
        partial: None,
        sent: None,
    }
}

/// A nonce that is the same at every run.
#[must_use]
pub const fn nonce(number: u128) -> Nonce {
    Nonce::from_uuid(Uuid::from_u128(number))
}

/// Text that does not compress: hexadecimal digits of a small generator (Marsaglia's xorshift).
#[must_use]
pub fn noise(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("{state:016x}"));
    }
    text.truncate(bytes);
    text
}
