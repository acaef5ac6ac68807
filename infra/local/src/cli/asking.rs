//! A job's events where no WebSocket gets through: as a stream (server-sent events) where the deployment has one, else
//! asked for, each question waiting for its answer.

use std::collections::VecDeque;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use longhaul_engine::JobId;
use longhaul_wire::Event;
use tokio::time::sleep;

use super::CliError;
use super::client::{Client, Opened};

/// How long before a job that has ended is asked about again: a replay may open it.
const ENDED_WAIT: Duration = Duration::from_secs(2);
/// First and longest wait before a question that came to nothing is put again.
const AGAIN_FIRST: Duration = Duration::from_millis(500);
const AGAIN_LONGEST: Duration = Duration::from_secs(10);
/// Failures in a row after which the deployment is taken for gone.
const FAILURES_MAX: u32 = 10;

/// The data of a stream's events.
pub(super) type Streamed = BoxStream<'static, String>;

/// A job's events, from a position on.
pub(super) struct Asking {
    client: Client,
    job: JobId,
    last: u64,
    ready: VecDeque<Event>,
    /// Where a stream is to be asked for; none where none is given.
    streams: Option<String>,
    stream: Option<Streamed>,
    /// Whether the last stream ended without a word: one question comes before the next, which waits.
    fruitless: bool,
    failures: u32,
}

impl Asking {
    pub(super) fn new(client: Client, job: JobId, after: u64) -> Self {
        // The API itself may stream; where it does not, it says who does.
        let streams = Some(client.url().to_owned());
        Self { client, job, last: after, ready: VecDeque::new(), streams, stream: None, fruitless: false, failures: 0 }
    }

    /// The next event.
    pub(super) async fn next(&mut self) -> Result<Event, CliError> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                if event.sequence.0 > self.last {
                    self.last = event.sequence.0;
                    self.failures = 0;
                    return Ok(event);
                }
            }
            match self.more().await {
                Ok(()) => {}
                Err(error) if is_said_again(&error) => return Err(error),
                Err(error) => {
                    self.failures = self.failures.saturating_add(1);
                    if self.failures >= FAILURES_MAX {
                        return Err(error);
                    }
                    let doubled = AGAIN_FIRST.saturating_mul(1 << self.failures.min(8));
                    sleep(doubled.min(AGAIN_LONGEST)).await;
                }
            }
        }
    }

    /// Waits for something, and takes it.
    async fn more(&mut self) -> Result<(), CliError> {
        if let Some(stream) = &mut self.stream {
            match stream.next().await {
                Some(data) => {
                    (self.fruitless, self.failures) = (false, 0);
                    match serde_json::from_str(&data) {
                        Ok(event) => self.ready.push_back(event),
                        // Pages say what is wrong with it.
                        Err(_) => (self.stream, self.streams) = (None, None),
                    }
                }
                // It has ended, with its job or after a while.
                None => self.stream = None,
            }
            return Ok(());
        }
        let fruitless = std::mem::take(&mut self.fruitless);
        if let Some(at) = self.streams.clone().filter(|_| !fruitless) {
            let opened = match self.client.open_events(&at, self.job, self.last).await {
                // Who lets the API through may not let another address through.
                Err(_) if at != self.client.url() => Opened::Elsewhere(None),
                opened => opened?,
            };
            match opened {
                Opened::Stream(stream) => {
                    (self.stream, self.fruitless) = (Some(stream), true);
                    return Ok(());
                }
                Opened::Nothing => {
                    sleep(ENDED_WAIT).await;
                    return Ok(());
                }
                // Asked once: an address that was named and names another leads nowhere.
                Opened::Elsewhere(there) => {
                    self.streams = there.filter(|there| *there != at && at == self.client.url())
                }
                Opened::Busy => {}
            }
        }
        let page = self.client.events(self.job, self.last).await?;
        self.failures = 0;
        if page.ended && page.events.is_empty() {
            sleep(ENDED_WAIT).await;
        }
        self.ready.extend(page.events);
        Ok(())
    }
}

/// Whether what was refused is refused again, unlike what has no room now or is broken for a moment.
fn is_said_again(error: &CliError) -> bool {
    match error {
        CliError::Refused { problem, .. } => problem.status < 500 && problem.status != 429,
        error => matches!(error, CliError::NotLoggedIn { .. } | CliError::Login { .. }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

    use std::sync::{Arc, Mutex};

    use axum::extract::{Request, State};
    use axum::http::{StatusCode, header};
    use axum::response::{IntoResponse, Response};
    use axum::{Json, Router};
    use longhaul_engine::{Batch, Entry, Nonce, Seq, Timestamp};
    use serde_json::json;

    use super::*;
    use crate::cli::deployment::Tokens;

    const JOB: &str = "0192f0c1-0000-7000-8000-000000000001";

    /// How a deployment gives its events.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Gives {
        Stream,
        /// At another address.
        StreamElsewhere,
        /// At another address, which the network does not let through.
        StreamNowhere,
        /// As a stream of what this program does not know, and when it is asked.
        Riddles,
        /// When it is asked; the first answer is that there is no room.
        AnswersLate,
        /// When it is asked.
        Answers,
    }

    #[derive(Clone)]
    struct Deployment {
        gives: Gives,
        elsewhere: String,
        /// What it was asked: as a stream or not, and behind which position.
        asked: Arc<Mutex<Vec<String>>>,
    }

    fn event(position: u64) -> Event {
        let key = format!("k{position}").parse().unwrap();
        let entry = Entry::CancelRequested { key, by: "ada".to_owned(), reason: None };
        let (nonce, at) = (Nonce::from_uuid(uuid::Uuid::nil()), Timestamp::from_millis(1_769_846_400_000));
        Event::of_batch(JOB.parse().unwrap(), &Batch::new(Seq(position), nonce, at, vec![entry])).remove(0)
    }

    /// A stream is cut behind each event.
    fn stream_behind(after: u64) -> Response {
        let text = format!("retry: 1\n: hello\n\nid: {0}\ndata: {1}\n\n", after + 1, json!(event(after + 1)));
        ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response()
    }

    async fn answer(State(it): State<Deployment>, request: Request) -> Response {
        let of_header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        if of_header("accept").as_deref() == Some("text/event-stream") {
            let after = of_header("last-event-id").map_or(0, |last| last.parse().unwrap());
            it.asked.lock().unwrap().push(format!("stream {after}"));
            return match it.gives {
                Gives::Stream => stream_behind(after),
                Gives::Riddles => ([(header::CONTENT_TYPE, "text/event-stream")], "data: {}\n\n").into_response(),
                Gives::StreamElsewhere | Gives::StreamNowhere | Gives::Answers | Gives::AnswersLate => {
                    let mut problem = json!({"type": "urn:longhaul:problem:no-stream-here", "title": "x", "status": 406, "detail": "x"});
                    match it.gives {
                        Gives::StreamElsewhere => problem["streams"] = json!(it.elsewhere),
                        // Nobody listens there: it is the port of discarded words.
                        Gives::StreamNowhere => problem["streams"] = json!("http://127.0.0.1:9"),
                        _ => {}
                    }
                    (StatusCode::NOT_ACCEPTABLE, Json(problem)).into_response()
                }
            };
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let after: u64 = query.strip_prefix("after=").unwrap().split('&').next().unwrap().parse().unwrap();
        let is_first = {
            let mut asked = it.asked.lock().unwrap();
            asked.push(format!("page {after}"));
            asked.iter().filter(|asked| asked.starts_with("page")).count() == 1
        };
        if it.gives == Gives::AnswersLate && is_first {
            let problem = json!({"type": "urn:longhaul:problem:throttled", "title": "x", "status": 429, "detail": "x"});
            return (StatusCode::TOO_MANY_REQUESTS, Json(problem)).into_response();
        }
        Json(json!({"events": [event(after + 1)], "next": after + 1, "ended": false})).into_response()
    }

    async fn serve(gives: Gives, elsewhere: &str) -> (String, Arc<Mutex<Vec<String>>>) {
        let deployment = Deployment { gives, elsewhere: elsewhere.to_owned(), asked: Arc::default() };
        let asked = Arc::clone(&deployment.asked);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new().fallback(answer).with_state(deployment);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (url, asked)
    }

    #[tokio::test]
    async fn events_come_once_and_in_order_however_they_are_given() {
        for (gives, there, here) in [
            (Gives::Stream, &[][..], &["stream 0", "stream 1", "stream 2"][..]),
            (Gives::StreamElsewhere, &["stream 1", "stream 2"], &["stream 0", "page 0"]),
            (Gives::StreamNowhere, &[], &["stream 0", "page 0", "page 1", "page 2"]),
            (Gives::Riddles, &[], &["stream 0", "page 0", "page 1", "page 2"]),
            (Gives::Answers, &[], &["stream 0", "page 0", "page 1", "page 2"]),
            (Gives::AnswersLate, &[], &["stream 0", "page 0", "page 0", "page 1", "page 2"]),
        ] {
            let (streams, asked_there) = serve(Gives::Stream, "").await;
            let (api, asked_here) = serve(gives, &streams).await;
            let client = Client::new(&api, Tokens::Given("t".to_owned()));
            let mut asking = Asking::new(client, JOB.parse().unwrap(), 0);
            for position in 1..=3 {
                assert_eq!(asking.next().await.unwrap().sequence.0, position, "{gives:?}");
            }
            assert_eq!(*asked_here.lock().unwrap(), here, "{gives:?}");
            assert_eq!(*asked_there.lock().unwrap(), there, "{gives:?}");
        }
    }
}
