//! Server-sent events of a job, through the real router: what comes, in which order, and when it ends.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod world;

use std::time::{Duration, Instant};

use axum::body::{Body, BodyDataStream};
use futures::StreamExt;
use http::{Request, StatusCode};
use longhaul::engine::entry::StepId;
use longhaul::engine::{Entry, Epoch, JobId, StepKey, StepKind};
use serde_json::{Value, json};
use tower::ServiceExt;
use world::World;

const PATIENCE: Duration = Duration::from_secs(20);

/// A reader as any `EventSource` is one.
struct Reader {
    body: BodyDataStream,
    text: String,
}

impl Reader {
    /// Opens a stream; the status when it is none.
    async fn open(world: &World, token: &str, job: JobId, last: Option<&str>) -> Result<Self, StatusCode> {
        let mut request = Request::get(format!("/v1/jobs/{job}/events"))
            .header("accept", "text/event-stream")
            .header("authorization", format!("Bearer {token}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = world.streams.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        if response.status() != StatusCode::OK {
            return Err(response.status());
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store, no-transform");
        Ok(Self { body: response.into_body().into_data_stream(), text: String::new() })
    }

    /// The next event with its id; none when the stream has ended.
    async fn next(&mut self) -> Option<(u64, Value)> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                if let (Some(id), Some(data)) = (field("id:"), field("data:")) {
                    return Some((id.parse().unwrap(), serde_json::from_str(data).unwrap()));
                }
                continue;
            }
            let piece =
                tokio::time::timeout(PATIENCE, self.body.next()).await.expect("the stream says something or ends")?;
            self.text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
        }
    }

    /// All ids to the end.
    async fn rest(mut self) -> Vec<u64> {
        let mut ids = Vec::new();
        while let Some((id, event)) = self.next().await {
            assert_eq!(event["sequence"], json!(format!("{id:010}")));
            ids.push(id);
        }
        ids
    }
}

fn shown(n: u64) -> Entry {
    let id = StepId { key: StepKey::at("", n), name: "show".to_owned(), kind: StepKind::Emit, branch: None };
    Entry::Emitted { id, data: json!(n) }
}

fn claimed() -> Entry {
    Entry::Claimed { epoch: Epoch(1), session: "session-1".parse().unwrap(), takeover: false, beside: 0 }
}

fn completed() -> Entry {
    Entry::Completed { output: json!({ "report": "…" }) }
}

async fn submitted(world: &World) -> JobId {
    let body = json!({ "agent": "research", "input": { "topic": "how queues make agents reliable" } });
    let answer = world.by("acme").post("/v1/jobs", &body).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer.job()
}

fn token(world: &World) -> String {
    world.token("acme", "jobs:read")
}

/// (a) All events, the end among them, and then the stream's end; resumed behind it, nothing that makes a reader wait.
#[tokio::test]
async fn d04_a_job_that_is_over_is_told_whole_and_ends() {
    let world = World::new().await;
    let job = submitted(&world).await;
    world.drive("acme", job, vec![claimed(), shown(2), shown(3), completed()]).await;
    for (last, wanted) in [(None, vec![1, 2, 3, 4]), (Some(""), vec![1, 2, 3, 4]), (Some("2"), vec![3, 4])] {
        assert_eq!(Reader::open(&world, &token(&world), job, last).await.unwrap().rest().await, wanted, "{last:?}");
    }
    for last in ["4", "9"] {
        assert_eq!(Reader::open(&world, &token(&world), job, Some(last)).await.err(), Some(StatusCode::NO_CONTENT));
    }
    assert_eq!(Reader::open(&world, &token(&world), job, Some("x")).await.err(), Some(StatusCode::BAD_REQUEST));
}

/// (b) and (d) The same answer at once for a job that is not there and for another tenant's.
#[tokio::test]
async fn d04_no_stream_hangs_on_a_job_that_is_not_there() {
    let world = World::new().await;
    let job = submitted(&world).await;
    let nobody = JobId::from_uuid(uuid::Uuid::now_v7());
    let begun = Instant::now();
    assert_eq!(Reader::open(&world, &token(&world), nobody, None).await.err(), Some(StatusCode::NOT_FOUND));
    let other = world.token("other", "jobs:read");
    assert_eq!(Reader::open(&world, &other, job, None).await.err(), Some(StatusCode::NOT_FOUND));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

/// (c) Readers that come at the moment at which events are written: each gets all of them, once, in order.
#[tokio::test]
async fn d04_who_comes_in_the_middle_misses_nothing() {
    let world = World::new().await;
    for round in 0..20 {
        let job = submitted(&world).await;
        let write = async {
            for n in 0..10 {
                world.drive("acme", job, (0..5).map(|m| shown(n * 5 + m)).collect()).await;
            }
            world.drive("acme", job, vec![completed()]).await;
        };
        let read = async {
            tokio::time::sleep(Duration::from_millis(round * 2)).await;
            Reader::open(&world, &token(&world), job, None).await.unwrap().rest().await
        };
        let ((), ids) = futures::join!(write, read);
        assert_eq!(ids, (1..=51).collect::<Vec<u64>>(), "round {round}");
    }
}

/// Nothing is pushed to a stream, so nothing can be dropped on the way: it looks for itself, whenever it was attached.
#[tokio::test]
async fn d10_the_last_burst_reaches_every_reader() {
    let world = World::new().await;
    let job = submitted(&world).await;
    world.drive("acme", job, vec![claimed(), shown(2)]).await;
    let mut readers = Vec::new();
    for at in 0..10 {
        readers.push(Reader::open(&world, &token(&world), job, Some(&(at % 3).to_string())).await.unwrap());
    }
    world.drive("acme", job, vec![shown(3), shown(4), completed()]).await;
    for (at, reader) in (0..).zip(readers) {
        assert_eq!(reader.rest().await, ((at % 3 + 1)..=5).collect::<Vec<u64>>());
    }
}

/// The stream ends with the token, and with a new one goes on where it was.
#[tokio::test]
async fn d07_a_stream_ends_with_its_token() {
    let world = World::new().await;
    let job = submitted(&world).await;
    world.drive("acme", job, vec![claimed(), shown(2)]).await;
    let short = world.token_for("acme", "jobs:read", 2);
    let begun = Instant::now();
    let ids = Reader::open(&world, &short, job, None).await.unwrap().rest().await;
    assert_eq!(ids, [1, 2]);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    world.drive("acme", job, vec![shown(3), completed()]).await;
    assert_eq!(Reader::open(&world, &token(&world), job, Some("2")).await.unwrap().rest().await, [3, 4]);
    let without = world.token("acme", "jobs:write");
    assert_eq!(Reader::open(&world, &without, job, None).await.err(), Some(StatusCode::FORBIDDEN));
}

/// A job that is opened again is over for nobody who has seen that, though its item, which is brought in line behind the
/// journal, may still say so.
#[tokio::test]
async fn a_job_that_was_just_opened_again_ends_no_reader() {
    let world = World::new().await;
    let job = submitted(&world).await;
    let cancelled = Entry::Cancelled { by: "ada".to_owned(), reason: None };
    let (key, by) = ("r1".parse().unwrap(), "ada".to_owned());
    let replayed = Entry::Replayed { key, by, from: None, edit: longhaul::engine::entry::Edit::default() };
    world.drive("acme", job, vec![claimed(), cancelled]).await;
    world.drive("acme", job, vec![replayed]).await;
    let reference = longhaul::store::JobRef { tenant: "acme".parse().unwrap(), job };
    let item = longhaul::store::Store::job(&world.store, &reference).await.unwrap().unwrap();
    assert!(item.progress.state.is_terminal(), "the item is behind the journal here");
    let list = world.by("acme").get(&format!("/v1/jobs/{job}/events?after=3")).await;
    assert_eq!((&list.body["events"], &list.body["ended"]), (&json!([]), &json!(false)));
    let reader = Reader::open(&world, &token(&world), job, Some("3")).await.unwrap();
    world.drive("acme", job, vec![shown(4), completed()]).await;
    assert_eq!(reader.rest().await, [4, 5]);
    // Who is ahead of the journal is told by the item.
    let list = world.by("acme").get(&format!("/v1/jobs/{job}/events?after=9")).await;
    assert_eq!(list.body["ended"], json!(true));
}

/// A reader who knows of more events than there are is not kept for ever: the stream ends with the job, and where the journal
/// comes up to him it goes on.
#[tokio::test]
async fn who_is_ahead_of_the_journal_is_let_go_at_its_end() {
    let world = World::new().await;
    let job = submitted(&world).await;
    world.drive("acme", job, vec![claimed(), shown(2)]).await;
    let far = Reader::open(&world, &token(&world), job, Some("100")).await.unwrap();
    let near = Reader::open(&world, &token(&world), job, Some("3")).await.unwrap();
    let amid = Reader::open(&world, &token(&world), job, Some("4")).await.unwrap();
    world.drive("acme", job, vec![shown(3)]).await;
    world.drive("acme", job, vec![shown(4), completed()]).await;
    assert_eq!(far.rest().await, [0_u64; 0]);
    assert_eq!(near.rest().await, [4, 5]);
    assert_eq!(amid.rest().await, [5], "in the middle of a batch");
}

/// The address that gives whole answers says where the stream is, and the one that streams does nothing else.
#[tokio::test]
async fn a_stream_is_given_where_it_can_be() {
    let world = World::new().await;
    let job = submitted(&world).await;
    let path = format!("/v1/jobs/{job}/events");
    let refused = world.by("acme").with("accept", "text/event-stream").get(&path).await;
    assert_eq!((refused.status, refused.problem()), (StatusCode::NOT_ACCEPTABLE, "no-stream-here"));
    assert_eq!(refused.body["streams"], json!(world::STREAMS));
    assert!(refused.body["detail"].as_str().unwrap().contains(world::STREAMS), "{}", refused.text);
    // Nothing is told to who may not look, not even that.
    let without = world.anybody().with("accept", "text/event-stream").get(&path).await;
    assert_eq!(without.status, StatusCode::UNAUTHORIZED);
    let settings = world.anybody().get("/console/settings.json").await;
    assert_eq!(settings.body["events"], json!(world::STREAMS));
    let ask = async |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("authorization", format!("Bearer {}", token(&world)));
        let request = request.header("content-type", "application/json").body(Body::from("{}")).unwrap();
        world::read(world.streams.clone().oneshot(request).await.unwrap()).await
    };
    let page = ask("GET", &format!("{path}?after=0")).await;
    assert_eq!((page.status, &page.body["events"]), (StatusCode::OK, &json!([])));
    for (method, path) in [
        ("POST", "/v1/jobs".to_owned()),
        ("GET", format!("/v1/jobs/{job}")),
        ("POST", format!("/v1/jobs/{job}/cancel")),
        ("GET", "/console/settings.json".to_owned()),
        ("GET", "/v1/jobs".to_owned()),
    ] {
        assert_eq!(ask(method, &path).await.problem(), "unknown-route", "{method} {path}");
    }
}

/// A batch is written whole, so what several writers wrote comes in the order of its positions, none twice.
#[tokio::test]
async fn d09_events_of_a_stream_are_in_order_and_once() {
    let world = World::new().await;
    let job = submitted(&world).await;
    let reader = Reader::open(&world, &token(&world), job, None).await.unwrap();
    for part in 0..4 {
        world.drive("acme", job, (0..16).map(|n| shown(part * 16 + n)).collect()).await;
    }
    world.drive("acme", job, vec![completed()]).await;
    let ids = reader.rest().await;
    let list = world.by("acme").get(&format!("/v1/jobs/{job}/events")).await;
    let listed: Vec<u64> = list.body["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["sequence"].as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(ids, listed);
    assert_eq!(ids.last(), Some(&65), "the end has the highest number");
}
