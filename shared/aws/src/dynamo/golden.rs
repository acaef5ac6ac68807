//! The stored shapes, held by files: what stands in tables and queues today must be readable by every later version.
//!
//! `LONGHAUL_WRITE_GOLDEN=1` writes the files anew; a file that changes is a change of the protocol.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic: that is how it fails"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use longhaul::store::{Continuation, JobRef, ThreadRef};
use longhaul_engine::budget::Budget;
use longhaul_engine::entry::{Branch, Edit, StepId, StepKind, WaitEnd, WaitFor};
use longhaul_engine::erasure::{Erased, Stage};
use longhaul_engine::fork::Fork;
use longhaul_engine::job::{
    Imported, Lease, Mismatch, Order, Origin, Overrides, Parent, Priority, Progress, Totals, Usage,
};
use longhaul_engine::thread::{Line, LineWrite, OnBusy, Place, Thread};
use longhaul_engine::{
    AgentRef, Batch, Entry, Epoch, Erasure, ErasureId, ErrorClass, Failure, Job, JobId, JobState, Nonce, Seq,
    SessionId, StepKey, Timestamp,
};
use longhaul_wire::schedules::ScheduleRequest;
use serde_json::{Value, json};
use uuid::Uuid;

use super::attributes::Item;
use super::batch_item::{self, StoredEntries};
use super::job_item::{self, StoredInput};
use super::{definitions, erasures, schedules, sessions, table_definition, tenants, threads};
use crate::connections::{
    Asked, Connection, Subscriber, Wish, connection_item, read_asked, read_connection, read_subscriber,
    subscription_of_connection, subscription_of_job,
};
use crate::sqs::{DeadLetter, Incoming, continuation_body, dead_letter_body};

const NOW: Timestamp = Timestamp::from_millis(1_795_953_600_000);
const LATER: Timestamp = Timestamp::from_millis(1_795_953_660_000);

/// Compares `shape` with its file.
fn holds(name: &str, shape: &Value) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.json"));
    if std::env::var_os("LONGHAUL_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{shape:#}\n")).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let golden: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(*shape, golden, "{name} has another shape than {}", path.display());
}

/// An item as DynamoDB's JSON, attributes in order.
fn shape(item: &Item) -> Value {
    let item: serde_dynamo::Item = item.clone().into();
    let sorted: BTreeMap<_, _> = item.iter().collect();
    serde_json::to_value(sorted).unwrap()
}

/// An item out of its file, as the stream of the table brings it.
fn item(name: &str) -> Item {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.json"));
    let item: serde_dynamo::Item = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    item.into()
}

fn nonce(number: u128) -> Nonce {
    Nonce::from_uuid(Uuid::from_u128(number))
}

fn session() -> SessionId {
    "0b7e4c1a-session-1".parse().unwrap()
}

fn id() -> JobId {
    JobId::from_uuid(Uuid::from_u128(0x0190_b6a2_7d3c_7c4e_9b1f_0a2b_3c4d_5e6f))
}

fn reference() -> JobRef {
    JobRef { tenant: "acme".parse().unwrap(), job: id() }
}

fn failure() -> Failure {
    Failure {
        class: ErrorClass::Refused,
        message: "the model refused".to_owned(),
        causes: vec!["policy".to_owned()],
        step: Some(StepKey::at("", 2)),
        partial: None,
        sent: None,
    }
}

fn job(state: JobState, due: Option<Timestamp>) -> Job {
    let order = Order {
        tenant: "acme".parse().unwrap(),
        id: id(),
        agent: AgentRef { name: "research".parse().unwrap(), version: 3 },
        input: json!({"topic": "queues", "weight": 0.1}),
        budget: Budget { tokens: Some(100_000), wall_seconds: Some(3_600), ..Budget::default() },
        webhook: Some("https://acme.example/hook".to_owned()),
        webhook_events: Vec::new(),
        labels: BTreeMap::from([("team".to_owned(), "blue".to_owned())]),
        parent: Some(Parent { job: JobId::from_uuid(Uuid::from_u128(1)), step: StepKey::at("", 4), depth: 0 }),
        origin: Default::default(),
        thread: None,
        overrides: Default::default(),
        priority: Default::default(),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
        submitted_at: NOW,
        submitted_by: "ada".to_owned(),
    };
    let progress = Progress {
        state,
        epoch: Epoch(2),
        attempts: 1,
        due,
        tail: Seq(7),
        totals: Totals { usage: Usage { input_tokens: 11, output_tokens: 13, ..Usage::default() }, steps: 4 },
        updated_at: LATER,
    };
    Job { order, progress, wakes: 5, sweeps: 6, last_write: nonce(8) }
}

#[test]
fn a_job_in_each_state() {
    let due = Some(Timestamp::from_millis(1_795_953_900_000));
    let mismatch = Mismatch {
        step: Some(StepKey::at("", 3)),
        recorded: "step think".to_owned(),
        attempted: "effect publish".to_owned(),
    };
    for (name, state, due) in [
        ("job-pending", JobState::Pending, due),
        ("job-processing", JobState::Processing { lease: Lease { session: session(), nonce: nonce(8) } }, due),
        ("job-waiting", JobState::Waiting { until: None, seen: Seq(7) }, due),
        ("job-waiting-until", JobState::Waiting { until: Some(LATER), seen: Seq(7) }, due),
        ("job-blocked", JobState::Blocked { mismatch }, due),
        ("job-completed", JobState::Completed, None),
        ("job-failed", JobState::Failed, None),
        ("job-cancelled", JobState::Cancelled, None),
    ] {
        let job = job(state, due);
        let input = StoredInput::Inline(job.order.input.to_string());
        holds(name, &shape(&job_item::encode(&job, input).unwrap()));
        let decoded = job_item::decode(&item(name)).unwrap();
        assert_eq!((decoded.job, decoded.input_ref), (job, None), "{name}");
    }
}

/// Such items carry version 2, since a program of version 1 would drive them as if they had just been submitted.
#[test]
fn a_job_that_was_not_submitted() {
    let fork = Fork { job: JobId::from_uuid(Uuid::from_u128(2)), at: Seq(5), without_failures: true };
    let overrides = Overrides { model: Some("small".to_owned()), instructions: Some("Be brief.".to_owned()) };
    for (name, origin, overrides) in [
        ("job-forked", Origin::Forked(fork), overrides),
        ("job-imported", Origin::Imported(Imported { at: NOW }), Overrides::default()),
    ] {
        let mut job = job(JobState::Pending, None);
        job.order.origin = origin;
        job.order.overrides = overrides;
        let input = StoredInput::Inline(job.order.input.to_string());
        holds(name, &shape(&job_item::encode(&job, input).unwrap()));
        assert_eq!(item(name)["v"], aws_sdk_dynamodb::types::AttributeValue::N("2".to_owned()));
        assert_eq!(job_item::decode(&item(name)).unwrap().job, job, "{name}");
    }
}

/// Such an item carries version 3, since a program that knows no threads would drive it beside the others.
#[test]
fn a_job_of_a_thread_and_its_line() {
    let mut job = job(JobState::Pending, Some(LATER));
    job.order.thread = Some(Thread { id: "conversation-17".parse().unwrap(), on_busy: OnBusy::Interrupt });
    let input = StoredInput::Inline(job.order.input.to_string());
    holds("job-of-thread", &shape(&job_item::encode(&job, input).unwrap()));
    assert_eq!(item("job-of-thread")["v"], aws_sdk_dynamodb::types::AttributeValue::N("3".to_owned()));
    assert_eq!(job_item::decode(&item("job-of-thread")).unwrap().job, job);

    let thread = ThreadRef { tenant: "acme".parse().unwrap(), thread: "conversation-17".parse().unwrap() };
    let places = vec![Place::of_new(id()), Place { job: JobId::from_uuid(Uuid::from_u128(2)), replays: 1 }];
    for (name, places) in [("thread-line", places), ("thread-line-empty", Vec::new())] {
        let write = LineWrite { nonce: nonce(9), at: LATER, mark: None, places: places.clone() };
        holds(name, &shape(&threads::encode(&thread, &write).unwrap()));
        assert_eq!(threads::decode(&item(name)).unwrap(), Line { places, mark: Some(nonce(9)) });
    }
}

#[test]
fn a_tenants_settings() {
    let settings = tenants::TenantSettings { job_kept_days: 7 };
    holds("tenant-settings", &shape(&tenants::encode(&"acme".parse().unwrap(), settings, "ada", NOW)));
    assert_eq!(tenants::decode(&item("tenant-settings")).unwrap(), settings);
}

#[test]
fn an_erasure() {
    let erased = Erased { jobs: 2, items: 9, objects: 1, letters: 1 };
    let id = ErasureId::from_uuid(Uuid::from_u128(7));
    let asked = Erasure::asked(id, "acme".parse().unwrap(), "ada".to_owned(), NOW);
    let erasure = Erasure { stage: Stage::Waiting { until: LATER }, open: 0, erased, ..asked };
    holds("erasure", &shape(&erasures::encode(&erasure, nonce(9)).unwrap()));
    assert_eq!(erasures::decode(&item("erasure")).unwrap(), erasures::StoredErasure { erasure, seen: nonce(9) });
}

#[test]
fn schedules_that_wait_and_that_rest() {
    let waits = schedules::Schedule {
        tenant: "acme".parse().unwrap(),
        name: "nightly".parse().unwrap(),
        request: r#"{"cron":"0 7 * * *","time_zone":"UTC","job":{"agent":"research@1","input":{}}}"#.to_owned(),
        next: Some(NOW),
        again: Some(LATER),
        last: Some(r#"{"time":"2026-11-30T07:00:00Z","at":"2026-11-30T07:00:20Z","error":"no room"}"#.to_owned()),
        changed_at: NOW,
        changed_by: "ada".to_owned(),
        mark: nonce(9),
    };
    let fresh = schedules::Schedule { again: None, last: None, ..waits.clone() };
    let rests = schedules::Schedule { next: None, ..fresh.clone() };
    for (name, schedule) in [("schedule", fresh), ("schedule-waits-for-room", waits), ("schedule-paused", rests)] {
        holds(name, &shape(&schedules::encode(&schedule)));
        assert_eq!(schedules::decode(&item(name)).unwrap(), schedule);
        assert!(ScheduleRequest::stored(&schedule.request).is_ok(), "{name}");
    }
}

/// One that a later version has saved, with attributes and fields that nobody knows yet.
#[test]
fn a_schedule_of_a_later_version() {
    let later = schedules::decode(&item("schedule-of-a-later-version")).unwrap();
    let now = schedules::decode(&item("schedule")).unwrap();
    assert_eq!(schedules::Schedule { request: now.request.clone(), ..later.clone() }, now);
    let read = |schedule: &schedules::Schedule| ScheduleRequest::stored(&schedule.request).unwrap();
    assert_eq!(read(&later), read(&now));
}

#[test]
fn a_job_with_a_large_input() {
    let mut job = job(JobState::Pending, Some(LATER));
    let key = crate::claim_check::input_key(id(), job.last_write);
    holds("job-large-input", &shape(&job_item::encode(&job, StoredInput::Referenced(key.clone())).unwrap()));
    let decoded = job_item::decode(&item("job-large-input")).unwrap();
    job.order.input = Value::Null;
    assert_eq!((decoded.job, decoded.input_ref), (job, Some(key)));
}

fn step() -> StepId {
    StepId {
        key: StepKey::at("1[3].", 0),
        name: "read".to_owned(),
        kind: StepKind::Effect,
        branch: Some(Branch { index: 3, of: 10 }),
    }
}

/// One of each entry, with the name of its file. The match has no `_`: a new kind of entry needs its file.
fn entries() -> Vec<(&'static str, Entry)> {
    let waiting = |on, until| Entry::Waiting { id: step(), on, until };
    let replayed = Edit { input: Some(json!({"topic": "other"})), budget: Some(Budget::default()), ..Edit::default() };
    let usage =
        Usage { input_tokens: 11, output_tokens: 13, cached_tokens: 7, reasoning_tokens: 5, ..Usage::default() };
    let all = vec![
        Entry::Claimed { epoch: Epoch(2), session: session(), takeover: true, beside: 0 },
        Entry::Claimed { epoch: Epoch(2), session: session(), takeover: true, beside: 341 },
        Entry::StepStarted { id: step() },
        Entry::StepCompleted {
            id: step(),
            attempt: 2,
            started_at: NOW,
            output: json!({"text": "Größe"}),
            usage,
            look: false,
        },
        Entry::AttemptFailed {
            id: step(),
            attempt: 1,
            started_at: NOW,
            failure: failure(),
            retry_at: LATER,
            usage: Usage::default(),
        },
        Entry::StepFailed { id: step(), attempt: 3, started_at: NOW, failure: failure(), usage: Usage::default() },
        waiting(WaitFor::Signal { signal: "approval".parse().unwrap() }, None),
        Entry::WaitEnded { id: step(), end: WaitEnd::Signal { signal_seq: Seq(6) } },
        Entry::Emitted { id: step(), data: json!({"percent": 40}) },
        Entry::Signalled {
            signal: "approval".parse().unwrap(),
            key: "key-1".parse().unwrap(),
            payload: json!({"approved": true}),
            by: "ada".to_owned(),
        },
        Entry::CancelRequested {
            key: "key-2".parse().unwrap(),
            by: "ada".to_owned(),
            reason: Some("enough".to_owned()),
        },
        Entry::Completed { output: json!({"report": "…"}) },
        Entry::Failed { failure: failure() },
        Entry::Cancelled { by: "ada".to_owned(), reason: Some("enough".to_owned()) },
        Entry::Replayed { key: "key-3".parse().unwrap(), by: "ada".to_owned(), from: Some(Seq(3)), edit: replayed },
        Entry::Forked { job: JobId::from_uuid(Uuid::from_u128(2)), at: Seq(5), kept: 3 },
    ];
    all.into_iter().map(|entry| (file_of(&entry), entry)).collect()
}

const fn file_of(entry: &Entry) -> &'static str {
    match entry {
        Entry::Claimed { beside: 0, .. } => "batch-claimed",
        Entry::Claimed { .. } => "batch-claimed-beside",
        Entry::StepStarted { .. } => "batch-step-started",
        Entry::StepCompleted { .. } => "batch-step-completed",
        Entry::AttemptFailed { .. } => "batch-attempt-failed",
        Entry::StepFailed { .. } => "batch-step-failed",
        Entry::Waiting { .. } => "batch-waiting",
        Entry::WaitEnded { .. } => "batch-wait-ended",
        Entry::Emitted { .. } => "batch-emitted",
        Entry::Signalled { .. } => "batch-signalled",
        Entry::CancelRequested { .. } => "batch-cancel-requested",
        Entry::Completed { .. } => "batch-completed",
        Entry::Failed { .. } => "batch-failed",
        Entry::Cancelled { .. } => "batch-cancelled",
        Entry::Replayed { .. } => "batch-replayed",
        Entry::Forked { .. } => "batch-forked",
    }
}

#[test]
fn a_batch_of_each_entry() {
    for (name, entry) in entries() {
        let batch = Batch::new(Seq(7), nonce(9), NOW, vec![entry]);
        let stored = batch_item::place(&reference(), &batch).unwrap();
        holds(name, &shape(&batch_item::encode(&reference(), &batch, stored)));
        let decoded = batch_item::decode(&item(name)).unwrap();
        assert_eq!((decoded.job, decoded.next, decoded.entries_ref), (reference(), Seq(8), None), "{name}");
        assert_eq!(decoded.batch, batch, "{name}");
    }
}

#[test]
fn waits_for_time_and_children() {
    for (name, on, until) in [
        ("batch-waiting-time", WaitFor::Time, Some(LATER)),
        (
            "batch-waiting-child",
            WaitFor::Child { child: JobId::from_uuid(Uuid::from_u128(1)), budget: Budget::default() },
            Some(LATER),
        ),
    ] {
        let batch = Batch::new(Seq(7), nonce(9), NOW, vec![Entry::Waiting { id: step(), on, until }]);
        let stored = batch_item::place(&reference(), &batch).unwrap();
        holds(name, &shape(&batch_item::encode(&reference(), &batch, stored)));
        assert_eq!(batch_item::decode(&item(name)).unwrap().batch, batch);
    }
}

fn large_batch(bytes: usize) -> Batch {
    let output = json!("a step at a time ".repeat(bytes / 17));
    let entry =
        Entry::StepCompleted { id: step(), attempt: 1, started_at: NOW, output, usage: Usage::default(), look: false };
    Batch::new(Seq(7), nonce(9), NOW, vec![entry.clone(), entry])
}

/// Two compressors may pack the same text differently; what counts is that the file can be unpacked.
#[test]
fn a_packed_batch() {
    let batch = large_batch(3_000);
    let stored = batch_item::place(&reference(), &batch).unwrap();
    assert!(matches!(stored, StoredEntries::Packed(_)), "{stored:?}");
    let mut ours = batch_item::encode(&reference(), &batch, stored);
    if std::env::var_os("LONGHAUL_WRITE_GOLDEN").is_some() {
        holds("batch-packed", &shape(&ours));
    }
    let golden = item("batch-packed");
    assert_eq!(batch_item::decode(&golden).unwrap().batch, batch);
    ours.insert("entries_z".to_owned(), golden["entries_z"].clone());
    assert_eq!(shape(&ours), shape(&golden));
}

#[test]
fn a_batch_in_the_bucket() {
    let mut batch = large_batch(100);
    let key = crate::claim_check::batch_key(id(), batch.at, batch.nonce);
    let stored = StoredEntries::Referenced { key: key.clone(), packed: Vec::new() };
    holds("batch-referenced", &shape(&batch_item::encode(&reference(), &batch, stored)));
    let decoded = batch_item::decode(&item("batch-referenced")).unwrap();
    batch.entries.clear();
    assert_eq!((decoded.batch, decoded.next, decoded.entries_ref), (batch, Seq(9), Some(key)));
}

#[test]
fn a_session() {
    holds("session", &shape(&sessions::encode(&session(), NOW)));
    assert_eq!(sessions::decode(&item("session")).unwrap(), NOW);
}

#[test]
fn a_connection_and_its_subscription() {
    let connection = Connection {
        id: "L0SM9cOFvHcCIhw=".to_owned(),
        tenant: "acme".parse().unwrap(),
        subject: "ada".to_owned(),
        token_expires_at: LATER,
        connected_at: NOW,
        opened: None,
    };
    holds("connection", &shape(&connection_item(&connection)));
    assert_eq!(read_connection(&connection.id, &item("connection")).unwrap(), connection);

    let together = Wish { after: Seq(4), together: true };
    for (name, asked) in [
        ("subscription-asked", Asked::to_hear(Seq(4), 1_795_950_000_001)),
        ("subscription-asked-together", Asked::to_hear(together, 1_795_950_000_002)),
        ("subscription-asked-no-more", Asked::no_more(1_795_950_000_003)),
    ] {
        holds(name, &shape(&subscription_of_connection(&connection, reference().job, asked)));
        assert_eq!(read_asked(&item(name)).unwrap(), asked);
    }
    // As it was stored before messages had their times.
    assert_eq!(read_asked(&item("subscription-of-connection")).unwrap(), Asked::no_more(0));

    let of_job = subscription_of_job(&connection, &reference(), Seq(4).into());
    holds("subscription-of-job", &shape(&of_job));
    let subscriber = Subscriber {
        connection: connection.id.clone(),
        tenant: "acme".parse().unwrap(),
        after: Seq(4),
        token_expires_at: LATER,
        together: false,
    };
    assert_eq!(read_subscriber(&item("subscription-of-job")).unwrap(), subscriber);
    holds("subscription-of-job-together", &shape(&subscription_of_job(&connection, &reference(), together)));
    let taking_together = Subscriber { together: true, ..subscriber };
    assert_eq!(read_subscriber(&item("subscription-of-job-together")).unwrap(), taking_together);
}

#[test]
fn messages() {
    let other = JobRef { tenant: "other".parse().unwrap(), job: JobId::from_uuid(Uuid::from_u128(1)) };
    for (name, continuation) in [
        ("message-continuation", Continuation::job(reference())),
        ("message-watchdog", Continuation::watchdog(session(), vec![reference(), other])),
    ] {
        let body = continuation_body(&continuation).unwrap();
        holds(name, &serde_json::from_str(&body).unwrap());
        assert_eq!(Incoming::parse(&body).unwrap(), Incoming { continuation, redriven: None });
    }

    let dead_letter = DeadLetter {
        replay_key: "redrive-1".parse().unwrap(),
        agent: AgentRef { name: "research".parse().unwrap(), version: 3 },
        failure: failure(),
        failed_at: LATER,
    };
    let mut interactive = job(JobState::Pending, Some(LATER));
    interactive.order.priority = Priority::Interactive;
    let input = StoredInput::Inline(interactive.order.input.to_string());
    holds("job-interactive", &shape(&job_item::encode(&interactive, input).unwrap()));
    assert_eq!(job_item::decode(&item("job-interactive")).unwrap().job, interactive);
    let body = continuation_body(&Continuation::of(&interactive.order)).unwrap();
    holds("message-interactive", &serde_json::from_str(&body).unwrap());

    let body = dead_letter_body(&job(JobState::Failed, None), dead_letter.clone()).unwrap();
    holds("message-dead-letter", &serde_json::from_str(&body).unwrap());
    let expected = Incoming { continuation: Continuation::job(reference()), redriven: Some(dead_letter) };
    assert_eq!(Incoming::parse(&body).unwrap(), expected);
    // A worker that knows nothing of the story still sees a continuation.
    assert_eq!(serde_json::from_str::<Continuation>(&body).unwrap(), expected.continuation);
}

#[test]
fn the_table() {
    holds("table", &table_definition("longhaul"));
}

#[test]
fn a_version_of_an_agent() {
    let saved = definitions::SavedDefinition {
        agent: AgentRef { name: "triage".parse().unwrap(), version: 3 },
        digest: "ab".repeat(32),
        card: r#"{"name":"triage"}"#.to_owned(),
        definition: r#"{"name":"triage","instructions":"Sort."}"#.to_owned(),
        created_at: NOW,
        created_by: "ada".to_owned(),
    };
    holds("definition", &shape(&definitions::encode(&"acme".parse().unwrap(), &saved)));
    assert_eq!(definitions::decode(&item("definition")).unwrap(), saved);
}
