//! Submissions: what they cost, what is refused, and that one key is one job.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use http::Method;
use longhaul::engine::JobId;
use serde_json::{Value, json};

use crate::world::{Answer, World};
use crate::{claimed, completed, research, step};

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
    let cases: Vec<Value> = serde_json::from_str(include_str!("../faults/E01/requests.json")).unwrap();
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
    let jobs: BTreeSet<JobId> = answers.iter().map(Answer::job).collect();
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
