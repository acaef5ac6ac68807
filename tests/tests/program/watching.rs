//! People who watch: everything, in order, whenever they came.

use futures::{SinkExt, StreamExt};
use longhaul_tests::program::{PATIENCE, Stack};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

/// Subscribes as any WebSocket client would and reads until the job's end; events by position, as they came.
async fn watch(url: String, token: String, job: String) -> Vec<(u64, Value)> {
    let (mut socket, _) = connect_async(format!("{url}?token={token}")).await.unwrap();
    let subscribe = json!({"action": "subscribe", "job": job, "after": 0});
    socket.send(Message::text(subscribe.to_string())).await.unwrap();
    let mut seen = Vec::new();
    let mut last = None;
    while last.is_none_or(|last| (seen.len() as u64) < last) {
        let message = tokio::time::timeout(PATIENCE, socket.next()).await.expect("an event").unwrap().unwrap();
        let Message::Text(text) = message else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        if message["type"] != "event" {
            continue;
        }
        let event = message["event"].clone();
        let sequence: u64 = event["sequence"].as_str().unwrap().parse().unwrap();
        if event["type"] == "longhaul.AgentJobCompleted" {
            last = Some(sequence);
        }
        // A delivery may come twice.
        if !seen.iter().any(|(known, _)| *known == sequence) {
            seen.push((sequence, event));
        }
    }
    seen.sort_by_key(|(sequence, _)| *sequence);
    seen
}

#[test]
fn an_early_and_a_late_subscriber_see_the_same() {
    let stack = Stack::up(&["--think-ms", "300"]);
    let id = stack.submit("agent-10", &json!({"steps": 8}));
    let (url, token) = (stack.address("websocket"), stack.token("local"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let early = runtime.spawn(watch(url.clone(), token.clone(), id.clone()));
    longhaul_tests::program::wait_for("half of the steps", || {
        longhaul_tests::program::entries(&stack.show(&id), "step_completed").len() >= 4
    });
    let late = runtime.spawn(watch(url.clone(), token.clone(), id.clone()));
    let (early, late) = runtime.block_on(async { (early.await.unwrap(), late.await.unwrap()) });
    assert_eq!(early, late);
    let behind = runtime.block_on(watch(url, token, id.clone()));
    assert_eq!(early, behind, "also for one who comes when all is over");
    let positions: Vec<u64> = early.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(positions, (1..=10).collect::<Vec<u64>>(), "claimed, eight steps, completed");
}

/// A position that is behind the job's end, or in the middle of what has happened: the command says what there is and ends.
#[test]
fn who_asks_from_a_late_position_is_let_go() {
    let stack = Stack::up(&["--think-ms", "300"]);
    let id = stack.submit("agent-10", &json!({"steps": 6}));
    let ahead = stack.json(&["watch", &id, "--after", "999", "--json"]);
    assert_eq!((&ahead["id"], &ahead["status"]), (&json!(id), &json!("COMPLETED")), "{ahead}");
    for (after, shown) in [("999", false), ("8", false), ("3", true)] {
        let output = stack.run(&["watch", &id, "--after", after]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("step 5") == shown && !said.contains("step 2"), "after {after}: {said}");
    }
}

#[test]
fn a_streamed_answer_is_seen_while_it_grows() {
    let stack = Stack::up(&["--think-ms", "1500", "--tokens-per-second", "60"]);
    let id = stack.submit("agent-10", &json!({"steps": 1}));
    let (url, token) = (stack.address("websocket"), stack.token("local"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (heard, outcome) = runtime.block_on(listen(&url, &token, &id));
    assert!(heard.len() > 1, "in pieces: {heard:?}");
    let mut end = 0;
    let mut joined = String::new();
    for delta in &heard {
        assert_eq!((&delta["epoch"], &delta["attempt"], &delta["name"]), (&json!(1), &json!(1), &json!("step 1")));
        assert_eq!(delta["offset"], end, "each piece stands behind the one before");
        let text = delta["text"].as_str().unwrap();
        end += text.chars().count();
        joined.push_str(text);
    }
    let output = outcome["data"]["output"]["text"].as_str().unwrap();
    assert!(output.starts_with(&joined) || joined.starts_with(output), "{joined:?} is what {output:?} became of");
    assert_eq!(outcome["subject"], heard[0]["step"]);
}

/// What a job's only step says, and the event of its outcome.
async fn listen(url: &str, token: &str, job: &str) -> (Vec<Value>, Value) {
    let (mut socket, _) = connect_async(format!("{url}?token={token}")).await.unwrap();
    let subscribe = json!({"action": "subscribe", "job": job, "after": 0});
    socket.send(Message::text(subscribe.to_string())).await.unwrap();
    let mut heard = Vec::new();
    loop {
        let message = tokio::time::timeout(PATIENCE, socket.next()).await.expect("a message").unwrap().unwrap();
        let Message::Text(text) = message else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        match message["type"].as_str() {
            Some("delta") => heard.push(message["delta"].clone()),
            Some("event") if message["event"]["type"] == "longhaul.AgentStepCompleted" => {
                return (heard, message["event"].clone());
            }
            _ => {}
        }
    }
}

/// Reads a stream of events as it comes: each event with the time at which it was there.
async fn read_stream(url: &str, token: &str, last: Option<u64>) -> Vec<(u64, std::time::Instant)> {
    let mut request = reqwest::Client::new().get(url).bearer_auth(token).header("accept", "text/event-stream");
    if let Some(last) = last {
        request = request.header("last-event-id", last.to_string());
    }
    let mut response = request.send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap()),
        (200, "text/event-stream")
    );
    let (mut text, mut seen) = (String::new(), Vec::new());
    while let Some(piece) = tokio::time::timeout(PATIENCE, response.chunk()).await.expect("a piece").unwrap() {
        text.push_str(std::str::from_utf8(&piece).unwrap());
        while let Some((block, rest)) = text.split_once("\n\n") {
            if let Some(id) = block.lines().find_map(|line| line.strip_prefix("id: ")) {
                seen.push((id.parse().unwrap(), std::time::Instant::now()));
            }
            text = rest.to_owned();
        }
    }
    seen
}

/// Through gateway, Runtime API and function, the pieces of a stream come as they are written and not at its end.
#[test]
fn a_stream_of_events_comes_piece_by_piece() {
    let stack = Stack::up(&["--think-ms", "400"]);
    let id = stack.submit("agent-10", &json!({"steps": 6}));
    let url = format!("{}/v1/jobs/{id}/events", stack.address("api"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seen = runtime.block_on(read_stream(&url, &stack.token("local"), None));
    let positions: Vec<u64> = seen.iter().map(|(position, _)| *position).collect();
    assert_eq!(positions, (1..=8).collect::<Vec<u64>>(), "claimed, six steps, completed; and then the stream ends");
    let took = seen[7].1 - seen[1].1;
    assert!(took > std::time::Duration::from_millis(1_200), "five steps of 400 ms lie between: {took:?}");
    let resumed = runtime.block_on(read_stream(&url, &stack.token("local"), Some(5)));
    assert_eq!(resumed.iter().map(|(position, _)| *position).collect::<Vec<u64>>(), [6, 7, 8]);
}
