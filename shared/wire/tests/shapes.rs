//! The wire shapes, held by golden files: a change of one of them is a change of the public interface.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod ground;

use std::time::Duration;

use longhaul_engine::budget::Budget;
use longhaul_engine::entry::{Edit, WaitFor};
use longhaul_engine::erasure::{Erased, Stage};
use longhaul_engine::fork::{self, Fork};
use longhaul_engine::ids::Nonce;
use longhaul_engine::job::{JobState, Mismatch, Status};
use longhaul_engine::{Batch, Entry, Erasure, ErasureId, JobId, Journal, Seq, StepKey, StepKind, Usage};
use longhaul_wire::erasures::{ErasureList, ErasureView};
use longhaul_wire::events::{EventList, EventType};
use longhaul_wire::jobs::{DeadLetterList, JobList, JobSummary, JobView, Links, TakenIn};
use longhaul_wire::journal::JournalView;
use longhaul_wire::problem::{Fault, Violation};
use longhaul_wire::schedules::{FiringView, ScheduleList, ScheduleRequest, ScheduleView, UnreadableSchedule};
use longhaul_wire::socket::{ClientMessage, DeltaBody, ServerMessage};
use longhaul_wire::{Event, Problem, Scope, agents, limits};
use serde_json::{Value, json};
use uuid::Uuid;

use ground::{at, batch, entries, failure, job, job_id, step, view};

/// What a fork shows of the steps that it keeps, in as many batches as they take: none lasts longer than the fork has been
/// there.
#[test]
fn events_of_what_a_fork_keeps() {
    let day = 24 * 3_600 * 1_000;
    let done = (0..20).map(|position| Entry::StepCompleted {
        id: step(position, "read", StepKind::Step),
        attempt: 1,
        started_at: at(100),
        output: json!(position),
        usage: Usage { input_tokens: 120, ..Usage::default() },
        look: false,
    });
    let done: Vec<Entry> = done.collect();
    let source: Vec<Batch> =
        (1_u64..).step_by(10).zip(done.chunks(10)).map(|(at, of)| batch(at, of.to_vec())).collect();
    let fork = Fork { job: JobId::from_uuid(Uuid::from_u128(2)), at: Seq(21), without_failures: false };
    let kept = fork::kept(&source, &fork).unwrap();
    let (mut journal, mut events) = (Journal::default(), Vec::new());
    while let Some(entries) = fork::next_entries(&kept, &fork, &journal) {
        let now = at(day + events.len() as u64);
        let batch = Batch::new(journal.next(), Nonce::from_uuid(Uuid::from_u128(7)), now, fork::begun_at(entries, now));
        events.extend(Event::of_batch(job_id(), &batch));
        journal.take_in(batch).unwrap();
    }
    assert_eq!(events.len(), 21, "{events:?}");
    let (steps, seal) = events.split_at(20);
    for event in steps {
        assert_eq!((&event.data["duration_ms"], &event.data["started_at"]), (&json!(0), &json!(event.time)));
    }
    insta::assert_json_snapshot!("fork_events", [&steps[0], &steps[19], &seal[0]]);
}

#[test]
fn events_of_every_entry() {
    let events = Event::of_batch(job_id(), &batch(1, entries()));
    let seen: Vec<EventType> = events.iter().map(|event| event.kind).collect();
    assert!(EventType::ALL.iter().all(|kind| seen.contains(kind)), "an event has no golden form: {seen:?}");
    for event in &events {
        let text = serde_json::to_string(event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), *event);
        let ends = matches!(
            event.kind,
            EventType::AgentJobCompleted | EventType::AgentJobFailed | EventType::AgentJobCancelled
        );
        assert_eq!(event.is_end(), ends);
    }
    insta::assert_json_snapshot!("events", events);
}

#[test]
fn jobs_in_every_state() {
    let waiting = vec![
        Entry::Waiting {
            id: step(0, "approval", StepKind::Signal),
            on: WaitFor::Signal { signal: "approval".parse().unwrap() },
            until: Some(at(60_000)),
        },
        Entry::Waiting {
            id: step(1, "child", StepKind::Child),
            on: WaitFor::Child {
                child: JobId::from_uuid(Uuid::from_u128(3)),
                budget: longhaul_engine::budget::Budget::default(),
            },
            until: None,
        },
        Entry::Waiting { id: step(2, "nap", StepKind::Sleep), on: WaitFor::Time, until: Some(at(5_000)) },
        Entry::AttemptFailed {
            id: step(3, "call", StepKind::Step),
            attempt: 1,
            started_at: at(0),
            failure: failure(),
            retry_at: at(10_000),
            usage: Usage::default(),
        },
    ];
    let mismatch =
        Mismatch { step: Some(StepKey::at("", 1)), recorded: "step `plan`".into(), attempted: "step `draft`".into() };
    let done = Entry::Completed { output: json!({ "report": "…" }) };
    let views = [
        view(JobState::Pending, vec![]),
        view(JobState::Waiting { until: Some(at(1)), seen: Seq(5) }, waiting),
        view(JobState::Blocked { mismatch }, vec![]),
        view(JobState::Failed, vec![Entry::Failed { failure: failure() }]),
        view(JobState::Cancelled, vec![Entry::Cancelled { by: "user-1".into(), reason: Some("late".into()) }]),
        // The item is behind: the journal counts.
        view(JobState::Waiting { until: None, seen: Seq(1) }, vec![done]),
        view(
            JobState::Failed,
            vec![
                Entry::Failed { failure: failure() },
                Entry::Replayed {
                    key: "key".parse().unwrap(),
                    by: "user-1".into(),
                    from: None,
                    edit: Edit { input: Some(json!("new")), budget: Some(Budget::default()), ..Edit::default() },
                },
                Entry::Completed { output: json!(1) },
            ],
        ),
    ];
    for view in &views {
        let text = serde_json::to_string(view).unwrap();
        assert_eq!(serde_json::from_str::<JobView>(&text).unwrap(), *view);
        assert_eq!(view.is_over(), matches!(view.status, Status::Completed | Status::Failed | Status::Cancelled));
    }
    insta::assert_json_snapshot!("jobs", views);
}

#[test]
fn lists_and_answers() {
    let dead =
        JobView::of_item(&job(JobState::Failed)).ended(longhaul_engine::journal::Ending::Failed { failure: failure() });
    let whole = view(JobState::Pending, vec![]);
    let summary = JobSummary {
        thread: None,
        id: whole.id,
        agent: whole.agent.clone(),
        status: whole.status,
        submitted_at: whole.submitted_at.clone(),
        updated_at: whole.updated_at.clone(),
        submitted_by: whole.submitted_by.clone(),
        labels: whole.labels.clone(),
        usage: whole.usage,
        steps: whole.steps,
        links: Links::of(whole.id),
    };
    insta::assert_json_snapshot!(
        "lists",
        json!({
            "jobs": JobList { jobs: vec![summary], next: Some("abc".into()) },
            "dead_letters": DeadLetterList { dead_letters: vec![dead], next: None },
            "taken_in": TakenIn { job: job_id(), seq: Some(7) },
            "events": EventList { events: vec![], next: 12, ended: true },
        })
    );
}

#[test]
fn journals() {
    insta::assert_json_snapshot!("journal", JournalView::page(job_id(), &[batch(1, entries())], 0, 100));
}

#[test]
fn a_journal_comes_in_pages_without_gap_or_double() {
    let large = |n: u64| Entry::Completed { output: json!("x".repeat(usize::try_from(n).unwrap())) };
    let batches = [
        batch(1, vec![large(10), large(10), large(10)]),
        batch(4, vec![large(3_000_000), large(3_000_000)]),
        batch(6, vec![large(5_000_000), large(1)]),
    ];
    for page_max in [1, 2, 100] {
        let (mut after, mut seen, mut cut) = (0, Vec::new(), Vec::new());
        loop {
            let page = JournalView::page(job_id(), &batches, after, page_max);
            assert!(serde_json::to_vec(&page).unwrap().len() < limits::JOURNAL_PAGE_BYTES_MAX + 1_000);
            seen.extend(page.entries.iter().map(|entry| entry.seq.0));
            cut.extend(page.entries.iter().filter(|entry| entry.truncated).map(|entry| entry.seq.0));
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7], "pages of {page_max}");
        assert_eq!(cut, [6]);
    }
}

#[test]
fn socket_messages() {
    let event = Event::of_entry(job_id(), Seq(3), at(1), &Entry::Completed { output: json!(1) });
    let messages = [
        ServerMessage::event(event.clone()),
        ServerMessage::Events { events: vec![event] },
        ServerMessage::delta(DeltaBody {
            job: job_id(),
            epoch: 2,
            step: StepKey::at("", 3),
            name: "draft".to_owned(),
            attempt: 1,
            offset: 120,
            text: "and so".to_owned(),
        }),
        ServerMessage::Subscribed { job: job_id(), after: 3 },
        ServerMessage::Unsubscribed { job: job_id() },
        ServerMessage::Pong,
        ServerMessage::problem(Some(job_id()), &Problem::NoSuchJob { job: job_id().to_string() }, Some("r-1")),
    ];
    insta::assert_json_snapshot!("socket", messages);
    for (text, wanted) in [
        (
            format!(r#"{{"action":"subscribe","job":"{}"}}"#, job_id()),
            Ok(ClientMessage::Subscribe { job: job_id(), after: 0, together: false }),
        ),
        (
            format!(r#"{{"action":"subscribe","job":"{}","after":7}}"#, job_id()),
            Ok(ClientMessage::Subscribe { job: job_id(), after: 7, together: false }),
        ),
        (
            format!(r#"{{"action":"subscribe","job":"{}","together":true}}"#, job_id()),
            Ok(ClientMessage::Subscribe { job: job_id(), after: 0, together: true }),
        ),
        (
            format!(r#"{{"action":"unsubscribe","job":"{}"}}"#, job_id()),
            Ok(ClientMessage::Unsubscribe { job: job_id() }),
        ),
        (r#"{"action":"ping"}"#.into(), Ok(ClientMessage::Ping)),
        ("".into(), Err("invalid-json")),
        ("[1]".into(), Err("invalid-field")),
        (r#"{"action":"dance"}"#.into(), Err("invalid-field")),
        (r#"{"action":"subscribe"}"#.into(), Err("invalid-field")),
        (r#"{"action":"subscribe","job":"../x"}"#.into(), Err("no-such-job")),
        (r#"{"action":"subscribe","job":7}"#.into(), Err("invalid-field")),
        (r#"{"action":"ping","more":1}"#.into(), Err("invalid-field")),
        (format!(r#"{{"action":"ping"{}}}"#, " ".repeat(5_000)), Err("body-too-large")),
    ] {
        let found = ClientMessage::parse(&text).map_err(|problem| problem.name());
        assert_eq!(found, wanted, "{text}");
    }
}

fn problems() -> Vec<Problem> {
    vec![
        Problem::NotAuthenticated,
        Problem::NotAllowed { scope: Scope::Operate },
        Problem::UnknownRoute { path: "/v1/jops".into() },
        Problem::MethodNotAllowed { method: "PUT".into() },
        Problem::NoSuchJob { job: "x".repeat(500) },
        Problem::NoSuchAgent { agent: "triage@9".to_owned() },
        Problem::InvalidDefinition {
            faults: vec![Fault {
                line: 6,
                field: "/models/0/modle".to_owned(),
                detail: "is no field of a model".to_owned(),
                help: "did you mean `model`?".to_owned(),
            }],
        },
        Problem::InvalidJson { line: 3, column: 7, detail: "expected `,` or `}`".into() },
        Problem::field("/budget/tokens", "must be u64"),
        Problem::parameter("wait", "must be a number of seconds"),
        Problem::InvalidInput {
            agent: "research@1".into(),
            violations: vec![Violation { field: "/input/topic".into(), detail: "is too short".into() }],
        },
        Problem::UnknownAgent { agent: "reserch".into(), known: vec!["research@1".into(), "compliance@1".into()] },
        Problem::UnsupportedMediaType { sent: "text/plain".into(), taken: "application/json" },
        Problem::BodyTooLarge { bytes_max: 1_048_576 },
        Problem::KeyReused,
        Problem::JobEnded { status: Some(Status::Failed) },
        Problem::JobEnded { status: None },
        Problem::NotReplayable { status: Some(Status::Waiting) },
        Problem::Imported,
        Problem::NoSuchErasure { erasure: "7".into() },
        Problem::NoSuchSchedule { schedule: "nightly".into() },
        Problem::TenantErasing { erasure: ErasureId::from_uuid(Uuid::from_u128(7)) },
        Problem::Unavailable { retry_after: Duration::from_secs(2) },
        Problem::Internal,
    ]
}

#[test]
fn problems_of_every_kind() {
    let bodies: Vec<Value> = problems()
        .iter()
        .map(|problem| serde_json::to_value(problem.body(Some("/v1/jobs"), Some("r-1"))).unwrap())
        .collect();
    for body in &bodies {
        assert!((400..=599).contains(&body["status"].as_u64().unwrap()));
        assert!(body["detail"].as_str().unwrap().len() < 400, "{body}");
    }
    insta::assert_json_snapshot!("problems", bodies);
}

#[test]
fn shipped_agents() {
    let cards = agents::shipped().unwrap();
    insta::assert_json_snapshot!("agents", cards);
    let mut two = cards.clone();
    two.push(agents::AgentCard { version: 2, ..cards[0].clone() });
    for (text, wanted) in [
        ("research", Some(2)),
        ("research@1", Some(1)),
        ("research@2", Some(2)),
        ("compliance", Some(1)),
        ("research@3", None),
        ("research@01", None),
        ("research@+1", None),
        ("research@", None),
        ("@1", None),
        ("Research", None),
        ("", None),
    ] {
        assert_eq!(agents::find(&two, text).ok().map(|card| card.version), wanted, "{text}");
    }
}

#[test]
fn a_schedule_before_and_behind_firings() {
    let text = r#"{"cron": "0 7 * * MON-FRI", "job": {"agent": "research@1", "input": {"topic": "queues"}, "thread": "daily"}}"#;
    let schedule: ScheduleRequest = serde_json::from_str(text).unwrap();
    assert_eq!((schedule.time_zone.as_str(), schedule.paused), ("UTC", false), "what is not said");
    let fresh = ScheduleView {
        name: "nightly".to_owned(),
        schedule: schedule.clone(),
        next_at: Some(longhaul_wire::text::rfc3339(at(60_000))),
        last: None,
        changed_at: longhaul_wire::text::rfc3339(at(0)),
        changed_by: "ada".to_owned(),
    };
    let fired = ScheduleView { last: Some(FiringView::new(at(0), at(5), Ok(job_id()))), ..fresh.clone() };
    let refused = FiringView::new(at(0), at(5), Err("job 7 of the thread has not ended".to_owned()));
    let paused = ScheduleRequest { paused: true, time_zone: "Europe/Berlin".to_owned(), ..schedule };
    let paused = ScheduleView { schedule: paused, next_at: None, last: Some(refused), ..fresh.clone() };
    let unreadable =
        UnreadableSchedule { name: "weekly".to_owned(), detail: "the schedule weekly cannot be read: no".to_owned() };
    let list = ScheduleList { schedules: vec![fresh, fired, paused], unreadable: vec![unreadable] };
    let text = serde_json::to_string(&list).unwrap();
    assert_eq!(serde_json::from_str::<ScheduleList>(&text).unwrap(), list);
    insta::assert_json_snapshot!("schedules", list);
    let whole = ScheduleList { unreadable: Vec::new(), ..list };
    assert_eq!(serde_json::to_value(&whole).unwrap().get("unreadable"), None, "as it was before there was one");
}

/// What a later version adds is passed over in what is stored and shown, and refused from whoever asks.
#[test]
fn a_schedule_that_a_later_version_has_saved() {
    let known = json!({
        "cron": "0 7 * * *", "time_zone": "Europe/Berlin", "paused": true,
        "job": {
            "agent": "research@1", "input": {"topic": "queues"}, "budget": {"tokens": 7}, "webhook": "https://example.com/",
            "webhook_events": ["longhaul.AgentJobFailed"], "labels": {"by": "clock"}, "thread": "daily", "on_busy": "reject",
            "priority": "interactive"
        }
    });
    let request: ScheduleRequest = serde_json::from_value(known.clone()).unwrap();
    assert_eq!(ScheduleRequest::stored(&known.to_string()).unwrap(), request, "nothing known is lost");
    assert_eq!(ScheduleRequest::stored(&serde_json::to_string(&request).unwrap()).unwrap(), request);
    for place in ["", "/job"] {
        let mut later = known.clone();
        later.pointer_mut(place).unwrap()["holidays"] = json!({"of": "DE-BE"});
        assert_eq!(ScheduleRequest::stored(&later.to_string()).unwrap(), request, "{later}");
        assert!(serde_json::from_value::<ScheduleRequest>(later.clone()).is_err(), "{later}");
        let view =
            json!({ "name": "nightly", "schedule": later, "changed_at": "x", "changed_by": "ada", "colour": "red" });
        let list = json!({ "schedules": [view], "next": null });
        let list: ScheduleList = serde_json::from_value(list).unwrap();
        assert_eq!(list.schedules[0].schedule, request);
    }
    for (place, value) in [
        ("/cron", Value::Null),
        ("/job/budget/joules", json!(7)),
        ("/job/priority", json!("urgent")),
        ("/job/webhook_events", json!(["longhaul.AgentJobYawned"])),
    ] {
        let mut later = known.clone();
        let (parent, name) = place.rsplit_once('/').unwrap();
        later.pointer_mut(parent).unwrap()[name] = value;
        assert!(ScheduleRequest::stored(&later.to_string()).is_err(), "{later}");
    }
    assert!(ScheduleRequest::stored(&format!("{known} 7")).is_err(), "what follows is spoilt");
}

#[test]
fn an_erasure_in_each_stage() {
    let id = ErasureId::from_uuid(Uuid::from_u128(7));
    let asked = Erasure::asked(id, "acme".parse().unwrap(), "ada".to_owned(), at(0));
    let erased = Erased { jobs: 2, items: 9, objects: 1, letters: 1 };
    let stages = [Stage::Jobs, Stage::Rest, Stage::Waiting { until: at(9) }, Stage::Again, Stage::Done { at: at(9) }];
    let erasures = stages.map(|stage| ErasureView::of(&Erasure { stage, open: 3, erased, ..asked.clone() }));
    insta::assert_json_snapshot!("erasures", ErasureList { erasures: erasures.to_vec() });
}
