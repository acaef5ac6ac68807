//! What is sent to a job: signals, cancels, replays.

use http::Method;
use longhaul::engine::job::{Imported, Order, Origin};
use longhaul::engine::{Job, JobId, Timestamp};
use longhaul::store::{JobRef, Store, Submit};
use serde_json::{Value, json};

use crate::reading::kinds;
use crate::world::World;
use crate::{claimed, completed, failed, step, submitted, waiting};

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

/// Two people press replay at once, with different changes: whose changes are not made is told so.
#[tokio::test]
async fn replays_at_once_with_different_changes_are_one_replay() {
    let world = World::new().await;
    let caller = world.by("tn_a");
    for round in 0..5 {
        let job = submitted(&world, "tn_a").await;
        world.drive("tn_a", job, vec![claimed(), step(0), failed()]).await;
        let path = format!("/v1/jobs/{job}/replay");
        let body = |n: u64| json!({ "edit": { "instructions": format!("Attempt {n}.") } });
        let asked = (0..3).map(|n| {
            let (caller, path) = (&caller, &path);
            async move { caller.post(path, &body(n)).await }
        });
        let answers = futures::future::join_all(asked).await;
        let taken: Vec<usize> = (0..3).filter(|n| answers[*n].status == 202).collect();
        assert_eq!(taken.len(), 1, "round {round}");
        for (n, answer) in answers.iter().enumerate().filter(|(n, _)| *n != taken[0]) {
            assert_eq!((answer.status.as_u16(), answer.problem()), (409, "not-replayable"), "{n}: {}", answer.text);
        }
        let journal = caller.get(&format!("/v1/jobs/{job}/journal")).await;
        assert_eq!(kinds(&journal.body), ["claimed", "step_completed", "failed", "replayed"], "round {round}");
        let made = &journal.body["entries"][3]["entry"]["edit"]["instructions"];
        assert_eq!(made, &json!(format!("Attempt {}.", taken[0])), "round {round}");
    }
}

/// A position that the journal does not have is refused by name, and nothing is opened.
#[tokio::test]
async fn a_replay_names_a_position_that_is_there() {
    let world = World::new().await;
    let caller = world.by("tn_a");
    let job = submitted(&world, "tn_a").await;
    world.drive("tn_a", job, vec![claimed(), step(0), failed()]).await;
    let path = format!("/v1/jobs/{job}/replay");
    for from in [5, 99_999, u64::MAX] {
        let answer = caller.post(&path, &json!({ "from": from })).await;
        assert_eq!((answer.problem(), answer.field()), ("invalid-field", "/from"), "{from}: {}", answer.text);
    }
    assert_eq!(caller.get(&format!("/v1/jobs/{job}")).await.body["status"], "FAILED");
    assert_eq!(caller.post(&path, &json!({ "from": 2 })).await.status, 202);
}

/// A job as `longhaul jobs import` leaves it.
async fn imported(world: &World) -> JobId {
    let like = JobRef { tenant: "tn_a".parse().unwrap(), job: submitted(world, "tn_a").await };
    let order = world.store.job(&like).await.unwrap().unwrap().order;
    let origin = Origin::Imported(Imported { at: Timestamp::from_millis(1) });
    let order = Order { id: JobId::from_uuid(uuid::Uuid::now_v7()), origin, ..order };
    let job = Job::accepted(order, longhaul::outside::fresh_nonce());
    assert!(matches!(world.store.submit(&job).await.unwrap(), Submit::Created));
    job.order.id
}

/// Nobody would go on with it: opened again, it would be neither open nor over for ever.
#[tokio::test]
async fn an_imported_job_is_opened_again_for_who_drives_it_and_for_nobody_else() {
    let world = World::new().await;
    let caller = world.by("tn_a");
    for entries in [vec![claimed(), failed()], vec![claimed(), completed()], vec![claimed(), step(0)]] {
        let job = imported(&world).await;
        world.drive("tn_a", job, entries).await;
        let path = format!("/v1/jobs/{job}/replay");
        let (before, sent) = (caller.get(&format!("/v1/jobs/{job}")).await.body, world.messages());
        for body in [json!({}), json!({ "from": 1 }), json!({ "edit": { "model": "m" } }), json!({ "by_hand": false })]
        {
            let answer = caller.post(&path, &body).await;
            assert_eq!((answer.status.as_u16(), answer.problem()), (409, "imported"), "{body}: {}", answer.text);
        }
        assert_eq!(caller.get(&format!("/v1/jobs/{job}")).await.body, before);
        assert_eq!(world.messages(), sent);
        assert_eq!(caller.post(&path, &json!({ "from": 1, "by_hand": true })).await.status, 202);
    }
}
