//! Jobs through their life as callers see it: submitted, watched, signalled, ended, replayed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod world;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use http::Method;
use longhaul::engine::entry::{StepId, WaitFor};
use longhaul::engine::{Entry, Epoch, ErrorClass, Failure, JobId, StepKey, StepKind, Timestamp, Usage};
use longhaul::store::{JobRef, Store};
use serde_json::{Value, json};
use world::{World, read};

fn research(topic: &str) -> Value {
    json!({ "agent": "research", "input": { "topic": topic } })
}

fn claimed() -> Entry {
    Entry::Claimed { epoch: Epoch(1), session: "session-1".parse().unwrap(), takeover: false }
}

fn step(position: u64) -> Entry {
    Entry::StepCompleted {
        id: StepId { key: StepKey::at("", position), name: "plan".into(), kind: StepKind::Step, branch: None },
        attempt: 1,
        started_at: Timestamp::from_millis(1_769_846_399_000),
        output: json!({ "n": position }),
        usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
        look: false,
    }
}

fn waiting() -> Entry {
    Entry::Waiting {
        id: StepId { key: StepKey::at("", 9), name: "approval".into(), kind: StepKind::Signal, branch: None },
        on: WaitFor::Signal { signal: "approval".parse().unwrap() },
        until: None,
    }
}

fn failed() -> Entry {
    let failure = Failure::new(ErrorClass::Refused, "the model refused");
    Entry::Failed { failure: Failure { step: Some(StepKey::at("", 1)), ..failure } }
}

fn completed() -> Entry {
    Entry::Completed { output: json!({ "report": "…" }) }
}

async fn submitted(world: &World, tenant: &str) -> JobId {
    let answer = world.by(tenant).post("/v1/jobs", &research("how queues make agents reliable")).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer.job()
}

#[tokio::test]
async fn a_submission_costs_one_write_and_one_message() {
    let world = World::new().await;
    let answer = world.by("tn_a").post("/v1/jobs", &research("queues")).await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.header("location"), format!("/v1/jobs/{}", answer.job()));
    assert_eq!(answer.body["status"], "PENDING");
    assert_eq!(answer.body["agent"], "research@1");
    assert_eq!(answer.body["submitted_by"], "user-of-tn_a");
    assert_eq!((world.count("PutItem"), world.count("SendMessage")), (1, 1));
    // Beside it, once in some seconds, a look whether the tenant's data is being erased.
    assert_eq!((world.count("GetItem"), world.calls()), (1, 3));
    assert_eq!(world.by("tn_a").post("/v1/jobs", &research("more queues")).await.status, 202);
    assert_eq!((world.count("PutItem"), world.count("SendMessage"), world.count("GetItem")), (2, 2, 1));
    // C06: there at once.
    let got = world.by("tn_a").get(answer.header("location")).await;
    assert_eq!((got.status.as_u16(), &got.body["input"]["topic"]), (200, &json!("queues")));
}

/// B09: whatever the input, the message is small; what is too large is refused before anything is stored.
#[tokio::test]
async fn b09_large_inputs() {
    let world = World::new().await;
    let rules = |count: usize| {
        let rules: Vec<String> = (0..count).map(|_| "漢\"\n".repeat(600)).collect();
        json!({ "agent": "compliance", "input": { "document": "d.pdf", "rules": rules } })
    };
    let fits = rules(190);
    let answer = world.by("tn_a").post("/v1/jobs", &fits).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let got = world.by("tn_a").get(answer.header("location")).await;
    assert_eq!(got.body["input"], fits["input"]);
    {
        let shelves = world.shelves.lock().unwrap();
        assert!(shelves.messages.iter().all(|message| message.len() <= 4_096));
        assert_eq!(shelves.objects.len(), 1);
    }
    let writes = world.count("PutItem");
    let answer =
        world.by("tn_a").post("/v1/jobs", &json!({ "agent": "agent-10", "input": "漢".repeat(400_000) })).await;
    assert_eq!(answer.status, 413);
    assert_eq!((world.count("PutItem"), world.messages()), (writes, 1));
}

/// E01: one key, one job.
#[tokio::test]
async fn e01_idempotency_keys() {
    let world = World::new().await;
    let cases: Vec<Value> = serde_json::from_str(include_str!("faults/E01/requests.json")).unwrap();
    // The stand-in `prompt` of the cases is our research agent's topic.
    let ours = |body: &Value| research(body["prompt"].as_str().unwrap());
    let mut first = None;
    for case in &cases {
        let caller = world.by("tn_a").with("idempotency-key", case["headers"]["Idempotency-Key"].as_str().unwrap());
        let body = match case["raw"].as_str() {
            Some(raw) => {
                let body = ours(&serde_json::from_str(raw).unwrap());
                // The same value in another spelling.
                format!("{{ \"input\" : {} ,\n \"agent\" : \"research\" }}", body["input"])
            }
            None => ours(&case["body"]).to_string(),
        };
        let answer = caller.send(Method::POST, "/v1/jobs", body.into_bytes()).await;
        let n = case["n"].as_u64().unwrap();
        let wanted = match n {
            1 | 3 | 7 => (202, ""),
            2 | 4 => (422, "idempotency-key-reused"),
            5 => (400, "invalid-parameter"),
            6 => (400, "invalid-input"),
            other => panic!("a case that is not known: {other}"),
        };
        assert_eq!((answer.status.as_u16(), answer.problem()), wanted, "{n}: {}", answer.text);
        match n {
            1 => first = Some(answer.job()),
            3 => assert_eq!(Some(answer.job()), first),
            7 => assert_ne!(Some(answer.job()), first),
            _ => {}
        }
    }
    // Another tenant's key is another key.
    let other = world.by("tn_b").with("idempotency-key", "k-77").post("/v1/jobs", &research("sum B")).await;
    assert_eq!(other.status, 202);
    assert_ne!(Some(other.job()), first);
    // The job and its result again, once it has ended.
    world.drive("tn_a", first.unwrap(), vec![claimed(), completed()]).await;
    let again = world.by("tn_a").with("idempotency-key", "k-77").post("/v1/jobs", &research("sum A")).await;
    assert_eq!((again.status.as_u16(), &again.body["result"]), (200, &json!({ "report": "…" })));
}

#[tokio::test]
async fn e01_many_at_once_are_one_job() {
    let world = World::new().await;
    let caller = world.by("tn_a").with("idempotency-key", "k-99");
    let body = research("sum A");
    let answers = futures::future::join_all((0..50).map(|_| caller.post("/v1/jobs", &body))).await;
    assert!(answers.iter().all(|answer| answer.status == 202));
    let jobs: BTreeSet<JobId> = answers.iter().map(world::Answer::job).collect();
    assert_eq!(jobs.len(), 1);
    assert_eq!(world.by("tn_a").get("/v1/jobs").await.body["jobs"].as_array().unwrap().len(), 1);
}

/// Two bodies under one key at the same moment: one of them is the job, and the other is told so, however they cross.
#[tokio::test]
async fn e01_other_bodies_at_once() {
    let world = World::new().await;
    let caller = world.by("tn_a").with("idempotency-key", "k-crossed");
    let bodies = [research("sum A"), research("sum B")];
    let answers = futures::future::join_all((0..50).map(|n| caller.post("/v1/jobs", &bodies[n % 2]))).await;
    let (taken, refused): (Vec<_>, Vec<_>) = answers.iter().enumerate().partition(|(_, answer)| answer.status == 202);
    assert_eq!((taken.len(), refused.len()), (25, 25));
    let sides: BTreeSet<usize> = taken.iter().map(|(n, _)| n % 2).collect();
    assert_eq!(sides.len(), 1, "one body's callers are the ones who are told the job");
    for (_, answer) in refused {
        assert_eq!((answer.status.as_u16(), answer.problem()), (422, "idempotency-key-reused"), "{}", answer.text);
    }
    assert_eq!(world.by("tn_a").get("/v1/jobs").await.body["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_submission_may_wait_for_the_end() {
    let world = World::new().await;
    let begun = Instant::now();
    let caller = world.by("tn_a").with("prefer", "wait=20").with("idempotency-key", "k");
    let driven = async {
        let job = JobId::of_key(&"tn_a".parse().unwrap(), "k");
        while world.count("SendMessage") == 0 {
            tokio::task::yield_now().await;
        }
        world.drive("tn_a", job, vec![claimed(), step(0)]).await;
        world.drive("tn_a", job, vec![completed()]).await;
    };
    let body = research("queues");
    let (answer, ()) = tokio::join!(caller.post("/v1/jobs", &body), driven);
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.body["status"], "COMPLETED");
    assert_eq!(answer.body["result"], json!({ "report": "…" }));
    assert_eq!(answer.body["usage"]["input_tokens"], 10);
    assert_eq!(answer.header("preference-applied"), "wait=20");
    assert!(begun.elapsed() < Duration::from_secs(10));
    // Not ended in time: accepted, with its address.
    let answer = world.by("tn_a").with("prefer", "wait=1").post("/v1/jobs", &body).await;
    assert_eq!((answer.status.as_u16(), answer.header("preference-applied")), (202, "wait=1"));
    assert!(!answer.header("location").is_empty());
}

#[tokio::test]
async fn events_are_read_on_from_anywhere_and_waited_for() {
    let world = World::new().await;
    let job = submitted(&world, "tn_a").await;
    let path = format!("/v1/jobs/{job}/events");
    let caller = world.by("tn_a");
    let none = caller.get(&path).await;
    assert_eq!(none.body, json!({ "events": [], "next": 0, "ended": false }));
    // A reader waits, then the first batch comes.
    let waiting_path = format!("{path}?after=0&wait=20");
    let (first, ()) =
        tokio::join!(caller.get(&waiting_path), world.drive("tn_a", job, vec![claimed(), step(0), step(1)]));
    assert_eq!(first.body["next"], 3);
    world.drive("tn_a", job, vec![step(2), completed()]).await;
    // From every position the rest, once each and in order (D04).
    for after in 0..=5_u64 {
        let page = caller.get(&format!("{path}?after={after}&wait=20")).await;
        let seen: Vec<&str> =
            page.body["events"].as_array().unwrap().iter().map(|event| event["sequence"].as_str().unwrap()).collect();
        let wanted: Vec<String> = (after + 1..=5).map(|seq| format!("{seq:010}")).collect();
        assert_eq!(seen, wanted, "after {after}");
        assert_eq!((&page.body["next"], &page.body["ended"]), (&json!(5), &json!(true)), "after {after}");
    }
    let last = &caller.get(&format!("{path}?after=4")).await.body["events"][0];
    assert_eq!(last["type"], "longhaul.AgentJobCompleted");
    assert_eq!(last["data"]["result"], json!({ "report": "…" }));
    // A reader ahead of an ended journal is told that nothing follows.
    assert_eq!(caller.get(&format!("{path}?after=99&wait=20")).await.body["ended"], true);
    // The journal has the same positions.
    let journal = caller.get(&format!("/v1/jobs/{job}/journal?after=1&limit=2")).await;
    let seqs: Vec<&Value> = journal.body["entries"].as_array().unwrap().iter().map(|entry| &entry["seq"]).collect();
    assert_eq!((seqs, &journal.body["next"]), (vec![&json!(2), &json!(3)], &json!(3)));
}

#[tokio::test]
async fn a_wait_for_events_ends_in_time() {
    let world = World::new().await;
    let job = submitted(&world, "tn_a").await;
    let begun = Instant::now();
    let answer = world.by("tn_a").get(&format!("/v1/jobs/{job}/events?wait=1")).await;
    assert_eq!(answer.body, json!({ "events": [], "next": 0, "ended": false }));
    assert!(begun.elapsed() >= Duration::from_secs(1) && begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_waiting_job_takes_a_signal_once() {
    let world = World::new().await;
    let job = submitted(&world, "tn_a").await;
    world.drive("tn_a", job, vec![claimed(), waiting()]).await;
    let caller = world.by("tn_a");
    let shown = caller.get(&format!("/v1/jobs/{job}")).await;
    assert_eq!(
        (&shown.body["status"], &shown.body["waiting"]),
        (&json!("WAITING"), &json!({ "signals": ["approval"] }))
    );
    let path = format!("/v1/jobs/{job}/signals/approval");
    let body = json!({ "payload": { "decision": "approved" } });
    let keyed = caller.clone().with("idempotency-key", "click-1");
    let sent = world.messages();
    let first = keyed.post(&path, &body).await;
    assert_eq!((first.status.as_u16(), &first.body), (202, &json!({ "job": job, "seq": 3 })));
    let again = keyed.post(&path, &body).await;
    assert_eq!((again.status.as_u16(), &again.body), (202, &json!({ "job": job })));
    // Without a key each is its own; a body is not needed.
    assert_eq!(caller.send(Method::POST, &path, vec![]).await.body["seq"], 4);
    assert!(world.messages() > sent);
    assert_eq!(caller.get(&format!("/v1/jobs/{job}")).await.body["status"], "PENDING");
    let events = caller.get(&format!("/v1/jobs/{job}/events?after=2")).await;
    assert_eq!(
        events.body["events"][0]["data"],
        json!({
            "signal": "approval", "by": "user-of-tn_a", "payload": { "decision": "approved" },
        })
    );
}

/// One key is one request, for what is sent to a job as for a submission: another body under it is refused, and
/// nothing of it is written.
#[tokio::test]
async fn a_key_that_comes_back_with_another_body_is_refused() {
    let world = World::new().await;
    let caller = world.by("tn_a").with("idempotency-key", "click-1");
    let job = submitted(&world, "tn_a").await;
    world.drive("tn_a", job, vec![claimed(), waiting()]).await;
    let payload = |decision: &str| json!({ "payload": { "decision": decision, "n": 1 } });
    // The first row of a group is taken in; the spelling of the second is another, its meaning the same.
    let table: Vec<(&str, Vec<(Value, u16)>)> = vec![
        (
            "signals/approval",
            vec![
                (payload("approved"), 202),
                (json!({ "payload": { "n": 1, "decision": "approved" } }), 202),
                (payload("rejected"), 422),
                (json!({}), 422),
            ],
        ),
        // Another signal under the same key.
        ("signals/refusal", vec![(payload("approved"), 422)]),
        // The same key may stand for a cancel as well.
        ("cancel", vec![(json!({}), 202), (json!({ "reason": null }), 202), (json!({ "reason": "late" }), 422)]),
    ];
    for (tail, rows) in table {
        for (body, wanted) in rows {
            let answer = caller.post(&format!("/v1/jobs/{job}/{tail}"), &body).await;
            assert_eq!(answer.status.as_u16(), wanted, "{tail} {body}: {}", answer.text);
            assert_eq!(answer.problem(), if wanted == 422 { "idempotency-key-reused" } else { "" });
        }
    }
    // Somebody else of the same tenant presses the same button: the same request.
    let colleague = world.anybody().with("authorization", &format!("Bearer {}", world.token("tn_a", "jobs:write")));
    let path = format!("/v1/jobs/{job}/signals/approval");
    let again = colleague.with("idempotency-key", "click-1").post(&path, &payload("approved")).await;
    assert_eq!((again.status.as_u16(), &again.body), (202, &json!({ "job": job })));
    let journal = caller.get(&format!("/v1/jobs/{job}/journal")).await;
    assert_eq!(kinds(&journal.body), ["claimed", "waiting", "signalled", "cancel_requested"]);

    world.drive("tn_a", job, vec![failed()]).await;
    let replay = format!("/v1/jobs/{job}/replay");
    let edited = |topic: &str| json!({ "edit": { "input": { "topic": topic } } });
    for (body, wanted) in [(edited("queues"), 202), (edited("queues"), 202), (edited("leases"), 422), (json!({}), 422)]
    {
        assert_eq!(caller.post(&replay, &body).await.status.as_u16(), wanted, "{body}");
    }
}

fn kinds(journal: &Value) -> Vec<&str> {
    let entries = journal["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["entry"]["type"].as_str().unwrap()).collect()
}

/// A page costs what it shows, not what follows; together the pages are the journal.
#[tokio::test]
async fn a_long_journal_is_read_part_by_part() {
    let world = World::new().await;
    let caller = world.by("tn_a");
    let job = submitted(&world, "tn_a").await;
    world.drive("tn_a", job, vec![claimed()]).await;
    // Batches of eight, so that pages begin and end inside of them.
    let last = 1 + 60 * 8 + 1;
    for first in (0..480).step_by(8) {
        world.drive("tn_a", job, (first..first + 8).map(step).collect()).await;
    }
    world.drive("tn_a", job, vec![completed()]).await;
    for (path, list, place) in [("events", "events", "sequence"), ("journal?limit=7", "entries", "seq")] {
        let (mut seen, mut after, mut pages) = (Vec::new(), 0_u64, 0);
        loop {
            let separator = if path.contains('?') { '&' } else { '?' };
            let page = caller.get(&format!("/v1/jobs/{job}/{path}{separator}after={after}")).await;
            let shown = page.body[list].as_array().unwrap();
            seen.extend(shown.iter().map(|entry| match &entry[place] {
                Value::String(text) => text.parse::<u64>().unwrap(),
                number => number.as_u64().unwrap(),
            }));
            pages += 1;
            let over = page.body["ended"] == true || (list == "entries" && page.body["next"].is_null());
            assert_eq!(over, seen.last() == Some(&last), "{path} after {after}");
            if over {
                break;
            }
            after = page.body["next"].as_u64().unwrap();
        }
        assert_eq!(seen, (1..=last).collect::<Vec<_>>(), "{path}");
        assert_eq!(pages, if list == "events" { 4 } else { 69 });
    }
    // Behind every position that a journal can have, there is nothing.
    for after in [last, last + 1, 9_999_999_998, 9_999_999_999, 10_000_000_000, 99_999_999_999, u64::MAX] {
        let journal = caller.get(&format!("/v1/jobs/{job}/journal?after={after}")).await;
        assert_eq!(journal.body, json!({ "job": job, "entries": [] }), "{after}");
        let events = caller.get(&format!("/v1/jobs/{job}/events?after={after}&wait=1")).await;
        assert_eq!(events.body, json!({ "events": [], "next": after, "ended": true }), "{after}");
    }
}

/// A cursor that nobody gave out is refused; read over, it would show the first page for ever.
#[tokio::test]
async fn a_cursor_that_nobody_gave_out_is_refused() {
    let world = World::new().await;
    let caller = world.by("tn_a");
    for _ in 0..3 {
        let job = submitted(&world, "tn_a").await;
        world.drive("tn_a", job, vec![claimed(), failed()]).await;
    }
    for list in ["/v1/jobs", "/v1/dead-letters"] {
        let page = caller.get(&format!("{list}?limit=1")).await;
        let next = page.body["next"].as_str().unwrap();
        let (mark, inner) = next.split_once('.').unwrap();
        let flipped: String = inner.chars().rev().collect();
        for cursor in [
            format!("{mark}."),
            format!("{mark}.{flipped}"),
            format!("{mark}.{inner}A"),
            inner.to_owned(),
            format!("{mark}.{mark}"),
            format!("{next}.{next}"),
            "x".repeat(4_000),
        ] {
            let answer = caller.get(&format!("{list}?limit=1&cursor={cursor}")).await;
            assert_eq!((answer.problem(), answer.field()), ("invalid-parameter", "cursor"), "{cursor}");
        }
        assert_eq!(caller.get(&format!("{list}?limit=1&cursor={next}")).await.status, 200);
    }
}

/// B11: what has ended takes nothing in; what failed goes on once, with what was changed.
#[tokio::test]
async fn b11_ends_and_replays() {
    let world = World::new().await;
    let caller = world.by("tn_a");
    let (done, dead, running) =
        (submitted(&world, "tn_a").await, submitted(&world, "tn_a").await, submitted(&world, "tn_a").await);
    world.drive("tn_a", done, vec![claimed(), completed()]).await;
    world.drive("tn_a", dead, vec![claimed(), step(0), failed()]).await;
    world.drive("tn_a", running, vec![claimed(), step(0)]).await;
    let post = async |job: JobId, tail: &str, body: Value| {
        let answer = caller.post(&format!("/v1/jobs/{job}/{tail}"), &body).await;
        (
            answer.status.as_u16(),
            answer.problem().to_owned(),
            answer.body["job_status"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let problem = |status: u16, name: &str, job: &str| (status, name.to_owned(), job.to_owned());
    assert_eq!(post(done, "cancel", json!({})).await, problem(409, "job-ended", "COMPLETED"));
    assert_eq!(post(dead, "signals/x", json!({})).await, problem(409, "job-ended", "FAILED"));
    assert_eq!(post(done, "replay", json!({})).await, problem(409, "not-replayable", "COMPLETED"));
    assert_eq!(post(running, "replay", json!({})).await, problem(409, "not-replayable", "PENDING"));
    assert_eq!(post(running, "cancel", json!({ "reason": "late" })).await, problem(202, "", ""));
    let letters = caller.get("/v1/dead-letters").await;
    assert_eq!(letters.body["dead_letters"].as_array().unwrap().len(), 1, "{}", letters.text);
    assert_eq!(letters.body["dead_letters"][0]["id"], json!(dead));
    assert_eq!(letters.body["dead_letters"][0]["failure"]["message"], "the model refused");
    assert_eq!(
        post(dead, "replay", json!({ "edit": { "input": { "topic": 7 } } })).await,
        problem(400, "invalid-input", "")
    );
    for (edit, status, field) in [
        (json!({ "instructions": "" }), 400, "/edit/instructions"),
        (json!({ "model": "" }), 400, "/edit/model"),
        (json!({ "mood": "kind" }), 400, "/edit"),
    ] {
        let answer = caller.post(&format!("/v1/jobs/{dead}/replay"), &json!({ "edit": edit })).await;
        assert_eq!(answer.status.as_u16(), status, "{edit}: {}", answer.text);
        assert!(answer.field().starts_with(field), "{edit}: {}", answer.text);
    }
    // Two at the same moment under one key are one replay.
    let keyed = caller.clone().with("idempotency-key", "click");
    let (path, body) =
        (format!("/v1/jobs/{dead}/replay"), json!({ "edit": { "input": { "topic": "edited" }, "model": "m" } }));
    let (one, two) = tokio::join!(keyed.post(&path, &body), keyed.post(&path, &body));
    assert_eq!((one.status.as_u16(), two.status.as_u16()), (202, 202));
    let journal = caller.get(&format!("/v1/jobs/{dead}/journal")).await;
    assert_eq!(kinds(&journal.body), ["claimed", "step_completed", "failed", "replayed"]);
    assert_eq!(journal.body["entries"][3]["entry"]["by"], "user-of-tn_a");
    let shown = caller.get(&format!("/v1/jobs/{dead}")).await;
    assert_eq!((&shown.body["status"], &shown.body["input"]), (&json!("PENDING"), &json!({ "topic": "edited" })));
    assert_eq!(shown.body["model"], "m");
    assert_eq!(caller.get("/v1/dead-letters").await.body["dead_letters"], json!([]));
}

#[tokio::test]
async fn lists_are_filtered_and_come_in_pages() {
    let world = World::new().await;
    let caller = world.by("tn_a");
    let mut jobs = Vec::new();
    for n in 0..5 {
        let body = json!({ "agent": "agent-10", "labels": { "n": n.to_string(), "all": "yes" } });
        jobs.push(caller.post("/v1/jobs", &body).await.job());
    }
    jobs.push(submitted(&world, "tn_a").await);
    world.drive("tn_a", jobs[0], vec![claimed(), completed()]).await;
    let foreign = [submitted(&world, "tn_b").await, submitted(&world, "tn_b").await];
    for job in &jobs {
        // What the stream's consumer does.
        let reference = JobRef { tenant: "tn_a".parse().unwrap(), job: *job };
        world.store.put_places(&world.store.job(&reference).await.unwrap().unwrap().order).await.unwrap();
    }
    for (query, wanted) in [
        ("", jobs.iter().rev().copied().collect::<Vec<_>>()),
        ("?agent=research", vec![jobs[5]]),
        ("?status=COMPLETED", vec![jobs[0]]),
        ("?status=completed&agent=agent-10", vec![jobs[0]]),
        ("?label=n%3D3", vec![jobs[3]]),
        ("?label=n=3&label=n=4", vec![]),
        ("?agent=none", vec![]),
        ("?since=2020-01-01T00:00:00Z&agent=research", vec![jobs[5]]),
        ("?until=2020-01-01T00:00:00Z", vec![]),
        ("?since=2999-01-01T00:00:00Z&label=all=yes", vec![]),
    ] {
        let answer = caller.get(&format!("/v1/jobs{query}")).await;
        if query.matches("label").count() > 1 {
            assert_eq!(answer.status, 400);
            continue;
        }
        // Submissions of one millisecond are listed in the order of their ids.
        let mut found: Vec<JobId> = answer.body["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["id"].as_str().unwrap().parse().unwrap())
            .collect();
        let mut wanted = wanted;
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{query}");
    }
    let (mut path, mut seen) = ("/v1/jobs?limit=2&label=all=yes".to_owned(), BTreeSet::new());
    loop {
        let page = caller.get(&path).await;
        for job in page.body["jobs"].as_array().unwrap() {
            assert!(seen.insert(job["id"].as_str().unwrap().to_owned()), "a job comes twice");
        }
        let Some(next) = page.body["next"].as_str() else { break };
        path = format!("/v1/jobs?limit=2&label=all=yes&cursor={next}");
        // A cursor of another list, or of another tenant, is refused (E11).
        let elsewhere = caller.get(&format!("/v1/jobs?limit=2&cursor={next}")).await;
        assert_eq!((elsewhere.problem(), elsewhere.field()), ("invalid-parameter", "cursor"));
        assert_eq!(world.by("tn_b").get(&path).await.status, 400);
        // Nor does one that is forged, with the mark of one tenant before the place of another: whose list it is says the
        // token alone.
        let own = world.by("tn_b").get("/v1/jobs?limit=1").await.body["next"].as_str().unwrap().to_owned();
        let forged = format!("{}.{}", own.split_once('.').unwrap().0, next.split_once('.').unwrap().1);
        let shown = world.by("tn_b").get(&format!("/v1/jobs?limit=1&cursor={forged}")).await;
        assert_eq!(shown.status, 200, "{}", shown.text);
        for job in shown.body["jobs"].as_array().unwrap() {
            assert!(foreign.contains(&job["id"].as_str().unwrap().parse().unwrap()));
        }
    }
    assert_eq!(seen.len(), 5);
    for (query, parameter) in [
        ("since=yesterday", "since"),
        ("until=", "until"),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "until"),
    ] {
        let answer = caller.get(&format!("/v1/jobs?{query}")).await;
        assert_eq!((answer.problem(), answer.field()), ("invalid-parameter", parameter), "{query}");
    }
}

/// E11: another tenant's job is answered as one that does not exist, and nothing about it changes.
#[tokio::test]
async fn e11_foreign_jobs() {
    let world = World::new().await;
    let job = submitted(&world, "tn_a").await;
    world.drive("tn_a", job, vec![claimed(), step(0), failed()]).await;
    let absent = JobId::from_uuid(uuid::Uuid::now_v7());
    let (writes, sent) = (world.count("PutItem") + world.count("UpdateItem"), world.messages());
    let stranger = world.by("tn_b");
    for (method, tail) in [
        (Method::GET, ""),
        (Method::GET, "/events"),
        (Method::GET, "/events?after=0&wait=20"),
        (Method::GET, "/journal"),
        (Method::POST, "/cancel"),
        (Method::POST, "/signals/approval"),
        (Method::POST, "/replay"),
    ] {
        let mut answers = Vec::new();
        for id in [job, absent] {
            let answer = stranger.send(method.clone(), &format!("/v1/jobs/{id}{tail}"), vec![]).await;
            assert_eq!((answer.status.as_u16(), answer.problem()), (404, "no-such-job"), "{method} {tail}");
            let text = answer.text.replace(&id.to_string(), "ID").replace(answer.header("x-request-id"), "R");
            answers.push(text);
        }
        assert_eq!(answers[0], answers[1], "{method} {tail}");
    }
    // Ids inside bodies choose nothing: no field of a submission names another job, and an agent is the tenant's own.
    for (body, field) in [
        (json!({ "agent": "agent-10", "parent_job_id": job }), "/parent_job_id"),
        (json!({ "agent": "agent-10", "parent": job }), "/parent"),
        (json!({ "agent": "agent-10", "config": { "job_id": job, "run_id": job } }), "/config"),
        (json!({ "agent": "agent-10", "id": job }), "/id"),
        (json!({ "agent": "agent-10", "tenant": "tn_a" }), "/tenant"),
        (json!({ "agent": "agent-10", "agent_id": "agent of tn_a" }), "/agent_id"),
    ] {
        let answer = stranger.post("/v1/jobs", &body).await;
        assert_eq!((answer.problem(), answer.field()), ("invalid-field", field), "{}", answer.text);
    }
    assert_eq!(stranger.get("/v1/jobs").await.body["jobs"], json!([]));
    assert_eq!(stranger.get("/v1/dead-letters").await.body["dead_letters"], json!([]));
    assert_eq!(world.count("PutItem") + world.count("UpdateItem"), writes);
    assert_eq!(world.messages(), sent);
}

/// E07 and the way through Lambda: events of an HTTP API become requests, base64 and stages included.
#[tokio::test]
async fn e07_bodies_of_lambda_events() {
    use tower::ServiceExt;
    let world = World::new().await;
    let token = world.token("tn_a", "jobs:write");
    let event = |body: Value, base64: bool, headers: Value| {
        let mut all =
            json!({ "authorization": format!("Bearer {token}"), "content-type": "application/json", "host": "h.test" });
        all.as_object_mut().unwrap().extend(headers.as_object().cloned().unwrap_or_default());
        json!({
            "version": "2.0", "routeKey": "ANY /{proxy+}", "rawPath": "/v1/jobs", "rawQueryString": "",
            "headers": all, "body": body, "isBase64Encoded": base64,
            "requestContext": {
                "accountId": "1", "apiId": "a", "domainName": "h.test", "domainPrefix": "h", "requestId": "gateway-1",
                "routeKey": "ANY /{proxy+}", "stage": "$default", "time": "", "timeEpoch": 0,
                "http": { "method": "POST", "path": "/v1/jobs", "protocol": "HTTP/1.1", "sourceIp": "::1", "userAgent": "" },
            },
        })
    };
    let send = async |event: Value| {
        // As the runtime does it: the event, what looks at it first, the library's request.
        let payload = serde_json::from_value(event).unwrap();
        let event = longhaul_api::readable(lambda_http::LambdaEvent::new(payload, lambda_http::Context::default()));
        let request = lambda_http::Request::from(event.payload);
        read(world.router.clone().oneshot(request).await.unwrap()).await
    };
    let plain = send(event(json!(research("café").to_string()), false, json!({}))).await;
    assert_eq!((plain.status.as_u16(), plain.header("x-request-id")), (202, "gateway-1"), "{}", plain.text);
    let cases: Vec<Value> = serde_json::from_str(include_str!("faults/E07/events.json")).unwrap();
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let answer = send(event(case["body"].clone(), case["isBase64Encoded"] == true, case["headers"].clone())).await;
        let status = answer.status.as_u16();
        match case["expect"].as_u64() {
            // The stand-in `prompt` of the cases is no field of ours: it was read, and refused by name.
            Some(202) => assert_eq!(answer.field(), "/prompt", "{name}: {}", answer.text),
            Some(wanted) => assert_eq!(u64::from(status), wanted, "{name}: {}", answer.text),
            None => assert!(case["expect"].as_str().unwrap().contains(&status.to_string()), "{name}: {status}"),
        }
    }
    // The same with a body that would have been taken.
    let broken = send(event(json!(research("café").to_string()), true, json!({}))).await;
    assert_eq!((broken.status.as_u16(), broken.problem()), (400, "invalid-json"), "{}", broken.text);
    // Limits are those of the decoded bytes.
    let large = "A".repeat(1_500_000);
    assert_eq!(send(event(json!(large), true, json!({}))).await.status, 413);
}

#[tokio::test]
async fn what_everybody_may_see() {
    let world = World::new().await;
    assert_eq!(world.anybody().get("/healthz").await.body, json!({ "status": "ok" }));
    let described = world.anybody().get("/openapi.json").await;
    let whole = serde_json::to_value(longhaul_api::openapi()).unwrap();
    assert_eq!(described.body, whole);
    let agents = world.by("tn_a").get("/v1/agents").await;
    let names: Vec<&str> =
        agents.body["agents"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["agent-10", "compliance", "research"]);
}

/// The description, by golden file: a change of it is a change of the public interface.
#[test]
fn the_description() {
    insta::assert_json_snapshot!("openapi", longhaul_api::openapi());
}

/// How long a tenant's jobs are kept is the tenant's own, never under a day, and counts for jobs that end from then on.
#[tokio::test]
async fn a_tenant_settles_how_long_its_jobs_are_kept() {
    let world = World::new().await;
    let path = "/v1/tenant/settings";
    let caller = world.by("tn_a");
    assert_eq!(caller.get(path).await.body, json!({ "job_kept_days": 30 }));
    for (body, field) in [
        (json!({ "job_kept_days": 0 }), "/job_kept_days"),
        (json!({ "job_kept_days": 3_661 }), "/job_kept_days"),
        (json!({ "job_kept_days": "7" }), "/job_kept_days"),
        (json!({ "job_kept_hours": 7 }), "/job_kept_hours"),
        (json!({}), ""),
    ] {
        let answer = caller.send(Method::PUT, path, body.to_string().into_bytes()).await;
        assert_eq!((answer.problem(), answer.field()), ("invalid-field", field), "{}", answer.text);
    }
    let token = world.token("tn_a", "jobs:read jobs:write jobs:operate agents:write");
    let refused = world.anybody().with("authorization", &format!("Bearer {token}"));
    let week = json!({ "job_kept_days": 7 });
    assert_eq!(refused.send(Method::PUT, path, week.to_string().into_bytes()).await.problem(), "not-allowed");

    let expiry_of = async |tenant: &str| {
        let job = submitted(&world, tenant).await;
        world.drive(tenant, job, vec![claimed(), completed()]).await;
        let key = serde_json::json!({ "PK": { "S": format!("JOB#{job}") }, "SK": { "S": "JOB" } });
        let item = world.raw_item(&key).await;
        let seconds = |name: &str| item["Item"][name]["N"].as_str().unwrap().parse::<u64>().unwrap();
        (seconds("expires_at") - seconds("updated_at") / 1_000) / (24 * 3_600)
    };
    assert_eq!(expiry_of("tn_a").await, 30);
    let settled = caller.send(Method::PUT, path, week.to_string().into_bytes()).await;
    assert_eq!((settled.status.as_u16(), &settled.body), (200, &week));
    assert_eq!(caller.get(path).await.body, week);
    assert_eq!(expiry_of("tn_a").await, 7);
    assert_eq!(expiry_of("tn_b").await, 30, "another tenant's are its own");
    assert_eq!(world.by("tn_b").get(path).await.body, json!({ "job_kept_days": 30 }));
}
