//! Many who watch at once, on a real stack: everybody gets every event, once sorted without a hole, and one who does not
//! read slows nobody. Prints how long it took from an append to the clients.
//!
//! `make test` runs a small crowd; `make verify-subscribers` runs 1,000 on one job and 500 jobs with one each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::{SinkExt, StreamExt};
use longhaul_tests::program::Stack;
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, client_async, connect_async};

/// Longest that a reader waits for the next message, on a machine that the crowd keeps busy.
const PATIENCE: Duration = Duration::from_secs(240);
/// Handshakes at once: a crowd comes within seconds, not within one round trip.
const HANDSHAKES_AT_ONCE: usize = 8;
/// Wait of a reader that the gateway has no time for, before it comes again: what the clients do, too.
const BUSY: Duration = Duration::from_millis(150);

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Milliseconds since the Unix epoch.
fn ms_of(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

/// What one reader has seen.
#[derive(Default)]
struct Seen {
    /// From append to arrival, in milliseconds, of what was appended while it was subscribed.
    late_ms: Vec<i64>,
    doubles: usize,
    out_of_order: usize,
}

/// Subscribes and reads until the job's end; every position must have come.
async fn read(
    mut socket: WebSocketStream<impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>,
    job: &str,
) -> Seen {
    let subscribe = json!({"action": "subscribe", "job": job, "after": 0});
    socket.send(Message::text(subscribe.to_string())).await.unwrap();
    let (mut seen, mut events) = (Seen::default(), BTreeMap::new());
    let (mut subscribed_at, mut last, mut highest) = (i64::MAX, None, 0);
    while last.is_none_or(|last| events.len() < last) {
        let message = tokio::time::timeout(PATIENCE, socket.next()).await.unwrap_or_else(|_| {
            panic!("{job}: nothing came any more behind {:?} of {last:?}", events.keys().next_back())
        });
        let Some(Ok(Message::Text(text))) = message else { panic!("{job}: the connection was lost: {message:?}") };
        let message: Value = serde_json::from_str(&text).unwrap();
        match message["type"].as_str() {
            Some("subscribed") => subscribed_at = now_ms(),
            Some("event") => {
                let event = &message["event"];
                let (arrived, appended) = (now_ms(), ms_of(event["time"].as_str().unwrap()));
                let position: usize = event["sequence"].as_str().unwrap().parse().unwrap();
                if appended > subscribed_at {
                    seen.late_ms.push(arrived - appended);
                }
                seen.out_of_order += usize::from(position < highest);
                highest = highest.max(position);
                if events.insert(position, ()).is_some() {
                    seen.doubles += 1;
                }
                if event["type"] == "longhaul.AgentJobCompleted" {
                    last = Some(position);
                }
            }
            Some("problem") => panic!("{job}: {message}"),
            Some(_) => {}
            // The gateway itself: it had no time for the message.
            None => {
                tokio::time::sleep(BUSY).await;
                socket.send(Message::text(subscribe.to_string())).await.unwrap();
            }
        }
    }
    assert!(events.keys().copied().eq(1..=last.unwrap()), "{job}: a hole: {events:?}");
    seen
}

/// Prints what a crowd has seen, and gives the median lateness.
fn summed(what: &str, crowd: Vec<Seen>) -> i64 {
    let readers = crowd.len();
    let mut late: Vec<i64> = crowd.iter().flat_map(|seen| seen.late_ms.iter().copied()).collect();
    let doubles: usize = crowd.iter().map(|seen| seen.doubles).sum();
    let out_of_order: usize = crowd.iter().map(|seen| seen.out_of_order).sum();
    late.sort_unstable();
    assert!(!late.is_empty(), "{what}: nothing was pushed while anybody was there");
    let at = |percent: usize| late[(late.len() * percent / 100).min(late.len() - 1)];
    println!(
        "{}",
        json!({
            "what": what, "readers": readers, "pushes": late.len(), "p50_ms": at(50), "p99_ms": at(99),
            "max_ms": at(100), "doubles": doubles, "out_of_order": out_of_order,
        })
    );
    at(50)
}

/// A reader that subscribes and then reads nothing, with next to no room for what is sent to it.
async fn stalled(url: &str, token: &str, job: &str) -> WebSocketStream<TcpStream> {
    let address = url.trim_start_matches("ws://").split('/').next().unwrap().parse().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let stream = socket.connect(address).await.unwrap();
    let (mut socket, _) = client_async(format!("{url}?token={token}"), stream).await.unwrap();
    let subscribe = json!({"action": "subscribe", "job": job, "after": 0});
    socket.send(Message::text(subscribe.to_string())).await.unwrap();
    socket
}

/// A connection, asked for again while the gateway is busy.
async fn connected(url: &str) -> WebSocketStream<MaybeTlsStream<TcpStream>> {
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        match connect_async(url).await {
            Ok((socket, _)) => return socket,
            Err(Error::Http(answer)) if answer.status() == 429 && Instant::now() < give_up_at => {
                tokio::time::sleep(BUSY).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Starts a reader for each job of the list, some handshakes at a time.
fn crowd(runtime: &tokio::runtime::Runtime, stack: &Stack, jobs: Vec<String>) -> Vec<tokio::task::JoinHandle<Seen>> {
    let (url, token) = (stack.address("websocket"), stack.token("local"));
    let gate = Arc::new(Semaphore::new(HANDSHAKES_AT_ONCE));
    let one = |job: String| {
        let (url, gate) = (format!("{url}?token={token}"), Arc::clone(&gate));
        runtime.spawn(async move {
            let turn = gate.acquire_owned().await.unwrap();
            let socket = connected(&url).await;
            drop(turn);
            read(socket, &job).await
        })
    };
    jobs.into_iter().map(one).collect()
}

/// A job with so many readers, and one more who sleeps when `asleep`; how late half of the pushes were.
fn crowd_on_one_job(what: &str, readers: usize, input: &Value, think_ms: &str, asleep: bool) -> i64 {
    let stack = Stack::up(&["--think-ms", think_ms]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let job = stack.submit("agent-10", input);
    let sleeper = asleep.then(|| runtime.block_on(stalled(&stack.address("websocket"), &stack.token("local"), &job)));
    let crowd = crowd(&runtime, &stack, vec![job; readers]);
    let seen = runtime.block_on(async { futures::future::join_all(crowd).await });
    drop(sleeper);
    summed(what, seen.into_iter().map(Result::unwrap).collect())
}

#[test]
fn a_crowd_on_one_job() {
    let readers = number("LONGHAUL_SUBSCRIBERS", 40);
    let steps = 10 + readers / 25;
    crowd_on_one_job("one job", readers, &json!({"steps": steps}), "700", false);
}

/// More is sent than the gateway keeps for a client and the kernel for a socket, so that pushes to the sleeper are
/// refused for the second half of the job. A sender that waited for it would be late for the others at every push.
#[test]
fn one_who_does_not_read_slows_nobody() {
    let input = json!({"steps": 160, "bytes": 7_000});
    let median = crowd_on_one_job("beside a sleeper", 4, &input, "40", true);
    assert!(median < 2_500, "half of the pushes were late by {median} ms or more");
}

#[test]
fn many_jobs_with_a_reader_each() {
    let jobs = number("LONGHAUL_WATCHED_JOBS", 25);
    let stack = Stack::up(&["--think-ms", "1000"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (url, token) = (format!("{}/v1/jobs", stack.address("api")), stack.token("local"));
    let http = reqwest::Client::new();
    let ids: Vec<String> = runtime.block_on(async {
        let body = json!({"agent": "agent-10", "input": {"steps": 4 + jobs / 50}});
        let submitted = (0..jobs).map(|_| async {
            let answer = http.post(&url).bearer_auth(&token).json(&body).send().await.unwrap();
            let job: Value = answer.json().await.unwrap();
            job["id"].as_str().unwrap_or_else(|| panic!("{job}")).to_owned()
        });
        futures::stream::iter(submitted).buffer_unordered(16).collect().await
    });
    let crowd = crowd(&runtime, &stack, ids);
    let seen = runtime.block_on(async { futures::future::join_all(crowd).await });
    summed("a job each", seen.into_iter().map(Result::unwrap).collect());
}
