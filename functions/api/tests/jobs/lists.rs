//! Lists of jobs, page by page.

use std::collections::BTreeSet;

use longhaul::engine::JobId;
use longhaul::store::{JobRef, Store};
use serde_json::json;

use crate::world::World;
use crate::{claimed, completed, failed, submitted};

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

/// Lists take an agent as they show it, with its version, or by its name alone.
#[tokio::test]
async fn an_agent_is_named_with_its_version_or_without() {
    let world = World::new().await;
    let caller = world.by("tn_a");
    let body = json!({ "agent": "agent-10", "labels": { "n": "3" } });
    let jobs = [submitted(&world, "tn_a").await, caller.post("/v1/jobs", &body).await.job()];
    for job in jobs {
        let reference = JobRef { tenant: "tn_a".parse().unwrap(), job };
        world.store.put_places(&world.store.job(&reference).await.unwrap().unwrap().order).await.unwrap();
    }
    for (query, wanted) in [
        ("agent=research", Some(jobs[0])),
        ("agent=research@1", Some(jobs[0])),
        ("agent=agent-10@1&status=PENDING", Some(jobs[1])),
        ("agent=agent-10@1&label=n%3D3", Some(jobs[1])),
        ("agent=agent-10@2&label=n%3D3", None),
        ("agent=research@2", None),
        ("agent=research@01", None),
        ("agent=research@", None),
    ] {
        let answer = caller.get(&format!("/v1/jobs?{query}")).await;
        let found: Vec<String> =
            answer.body["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(found, wanted.iter().map(JobId::to_string).collect::<Vec<_>>(), "{query}");
    }
}
