//! Events and journals as they are read.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::World;
use crate::{claimed, completed, step, submitted};

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

pub(crate) fn kinds(journal: &Value) -> Vec<&str> {
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
