//! Jobs and entries whose shapes are looked at.

use std::collections::BTreeMap;

use longhaul_engine::budget::Budget;
use longhaul_engine::entry::{Branch, Edit, StepId, WaitEnd, WaitFor};
use longhaul_engine::ids::Nonce;
use longhaul_engine::job::{JobState, Order, Parent};
use longhaul_engine::{
    AgentRef, Batch, Entry, Epoch, ErrorClass, Failure, Job, JobId, Journal, Seq, StepKey, StepKind, Timestamp, Usage,
};
use longhaul_wire::jobs::JobView;
use serde_json::json;
use uuid::Uuid;

const START_MS: u64 = 1_769_846_400_000;

pub(crate) fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(START_MS + ms)
}

pub(crate) fn job_id() -> JobId {
    "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f".parse().unwrap()
}

pub(crate) fn step(position: u64, name: &str, kind: StepKind) -> StepId {
    StepId { key: StepKey::at("", position), name: name.into(), kind, branch: None }
}

pub(crate) fn failure() -> Failure {
    Failure {
        class: ErrorClass::Timeout,
        message: "POST /v1/chat/completions gave no answer within 120 s".into(),
        causes: vec!["operation timed out".into()],
        step: Some(StepKey::at("", 1)),
        partial: None,
        sent: None,
    }
}

/// One of each kind, in an order that a journal may have.
pub(crate) fn entries() -> Vec<Entry> {
    let branch = StepId {
        key: StepKey::at(&StepKey::at("", 3).branch_scope(1), 0),
        name: "read".into(),
        kind: StepKind::Step,
        branch: Some(Branch { index: 1, of: 4 }),
    };
    let usage = Usage { input_tokens: 120, output_tokens: 45, cached_tokens: 100, ..Usage::default() };
    let read = |id| Entry::StepCompleted {
        id,
        attempt: 1,
        started_at: at(100),
        output: json!({ "notes": ["a", "b"] }),
        usage,
        look: false,
    };
    let by = || "user-1".to_owned();
    vec![
        Entry::Claimed { epoch: Epoch(1), session: "session-1".parse().unwrap(), takeover: false, beside: 0 },
        read(step(0, "plan", StepKind::Step)),
        read(branch),
        Entry::StepStarted { id: step(1, "publish", StepKind::EffectOnce) },
        Entry::AttemptFailed {
            id: step(1, "publish", StepKind::EffectOnce),
            attempt: 1,
            started_at: at(200),
            failure: failure(),
            retry_at: at(10_200),
            usage: Usage::default(),
        },
        Entry::StepFailed {
            id: step(1, "publish", StepKind::EffectOnce),
            attempt: 2,
            started_at: at(10_200),
            failure: failure(),
            usage: Usage::default(),
        },
        Entry::Emitted { id: step(2, "progress", StepKind::Emit), data: json!({ "done": 3, "of": 10 }) },
        Entry::Waiting {
            id: step(4, "approval", StepKind::Signal),
            on: WaitFor::Signal { signal: "approval".parse().unwrap() },
            until: Some(at(60_000)),
        },
        Entry::Signalled {
            signal: "approval".parse().unwrap(),
            key: "key-1".parse().unwrap(),
            payload: json!({ "decision": "approved" }),
            by: by(),
        },
        Entry::WaitEnded { id: step(4, "approval", StepKind::Signal), end: WaitEnd::Signal { signal_seq: Seq(9) } },
        Entry::CancelRequested { key: "key-2".parse().unwrap(), by: by(), reason: Some("wrong topic".into()) },
        Entry::Failed { failure: failure() },
        Entry::Replayed {
            key: "key-3".parse().unwrap(),
            by: by(),
            from: Some(Seq(4)),
            edit: Edit {
                input: Some(json!({ "topic": "queues" })),
                budget: Some(Budget { tokens: Some(1_000), ..Budget::default() }),
                model: Some("small".into()),
                instructions: Some("Be brief.".into()),
            },
        },
        Entry::Forked { job: JobId::from_uuid(Uuid::from_u128(2)), at: Seq(5), kept: 3 },
        Entry::Cancelled { by: by(), reason: None },
        Entry::Completed { output: json!({ "report": "…" }) },
    ]
}

pub(crate) fn batch(first: u64, entries: Vec<Entry>) -> Batch {
    Batch::new(Seq(first), Nonce::from_uuid(Uuid::from_u128(7)), at(500), entries)
}

pub(crate) fn job(state: JobState) -> Job {
    let order = Order {
        tenant: "acme".parse().unwrap(),
        id: job_id(),
        agent: AgentRef { name: "research".parse().unwrap(), version: 1 },
        input: json!({ "topic": "how queues make agents reliable" }),
        budget: Budget { tokens: Some(200_000), wall_seconds: Some(3_600), ..Budget::default() },
        webhook: Some("https://example.com/hook".into()),
        webhook_events: Vec::new(),
        labels: BTreeMap::from([("team".into(), "search".into())]),
        parent: Some(Parent { job: JobId::from_uuid(Uuid::from_u128(1)), step: StepKey::at("", 2), depth: 1 }),
        origin: Default::default(),
        thread: None,
        overrides: Default::default(),
        priority: Default::default(),
        traceparent: None,
        submitted_at: at(0),
        submitted_by: "user-1".into(),
    };
    let mut job = Job::accepted(order, Nonce::from_uuid(Uuid::from_u128(2)));
    job.progress.state = state;
    job
}

pub(crate) fn view(state: JobState, entries: Vec<Entry>) -> JobView {
    let journal = match entries.is_empty() {
        true => Journal::default(),
        false => Journal::read([batch(1, entries)]).unwrap(),
    };
    JobView::of_journal(&job(state), &journal)
}
